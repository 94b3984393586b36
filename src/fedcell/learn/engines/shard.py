"""A Ray worker that trains pieces of a cohort, and the data that is sent to it."""

import os
import warnings
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...machine import precision
from ..architecture import Architecture
from ..memory import keep_freed_memory
from ..samples import Samples
from ..work import Work
from .common import Job
from .dispatch import train_with
from .gpu.cuda_graphs import Replays


class Packed(NamedTuple):
    """Samples with tensors turned into arrays, which Ray shares without a copy."""

    kind: type[Samples]
    values: dict[str, Any]
    tensors: frozenset[str]  # names of the values that were tensors

    @staticmethod
    def of(samples: Samples) -> "Packed":
        """Pack samples: turn their tensors into arrays, and leave out what they compute themselves."""
        kind = type(samples)
        values = {n: v for n, v in vars(samples).items() if not isinstance(getattr(kind, n, None), cached_property)}
        tensors = frozenset(name for name, value in values.items() if isinstance(value, Tensor))
        return Packed(kind, {n: v.cpu().numpy() if n in tensors else v for n, v in values.items()}, tensors)

    def unpack(self, home: torch.device | str = "cpu") -> Samples:
        """The samples again; on a CPU they share memory with the arrays and must not be written to."""
        samples = self.kind.__new__(self.kind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the memory is read-only
            for name, value in self.values.items():
                setattr(samples, name, torch.from_numpy(value).to(home) if name in self.tensors else value)
        return samples


class GpuLimits(NamedTuple):
    """What a GPU may do for a run."""

    tf32: bool  # `train.tf32`
    gpu_bytes: float  # of a worker, from `train.gpu_gib`


class TrainedPiece(NamedTuple):
    """What a worker returns of its rows."""

    delta: NDArray[np.float32]  # [n_rows, n_params]
    tail: NDArray[np.float32] | None  # [n_rows, tail.n], running statistics
    by: tuple[str, ...]  # the engines that trained them, in words


def moved(work: Work, home: torch.device | str) -> Work:
    """Work with its tensors on a device."""

    def there(value: Any) -> Any:
        return value.to(home) if isinstance(value, Tensor) else value

    objective = work.objective
    if isinstance(objective, partial):
        named = {name: there(value) for name, value in objective.keywords.items()}
        objective = partial(objective.func, *map(there, objective.args), **named)
    return work._replace(mask=there(work.mask), shift=there(work.shift), objective=objective)


class Shard:
    """A Ray actor that trains pieces of a cohort.

    Args:
        threads: number of threads that it may use.
        home: kind of device on which it trains (cpu, cuda).
    """

    def __init__(self, threads: int, home: str = "cpu") -> None:
        self.threads, self.home = threads, home
        self.kept: dict[str, tuple[int, Any]] = {}  # by kind: number of what was sent last, and object made of it
        torch.set_num_threads(1)  # so that a piece of one row is trained like a piece of many
        keep_freed_memory()

    def pid(self) -> int:
        """The id of its process."""
        return os.getpid()

    def place(self) -> tuple[str, str]:
        """The id of its node, and the GPUs that Ray gave it."""
        import ray

        return ray.get_runtime_context().get_node_id(), os.environ.get("CUDA_VISIBLE_DEVICES", "")

    def train(
        self,
        job: Job,
        engine: str,
        numbers: tuple[int, int],
        architecture: Architecture,
        samples: Packed,
        points: NDArray[np.float32],
        limits: GpuLimits,
    ) -> TrainedPiece:
        """Train the rows of a job; return their updates and running statistics, and what trained them.

        The job comes without network and samples, which are sent once and identified by `numbers`.
        """
        network, replays = self._latest("network", numbers[0], lambda: (architecture, Replays(limits.gpu_bytes)))
        replays.trained_by.clear()
        here = self._latest("samples", numbers[1], lambda: samples.unpack(self.home))
        out = torch.empty(len(job.of_row), network.n_params, device=self.home)
        start = torch.from_numpy(np.array(points)).to(self.home)  # engines may write to it
        tail = None if job.tail is None else job.tail.clone().to(self.home)
        whole = job._replace(
            architecture=network,
            samples=here,
            points=start,
            out=out,
            replays=replays,
            tail=tail,
            work=moved(job.work, self.home),
        )
        with precision(limits.tf32):
            train_with(engine, whole, self.threads)
        return TrainedPiece(out.cpu().numpy(), None if tail is None else tail.cpu().numpy(), tuple(replays.trained_by))

    def _latest(self, kind: str, number: int, make: Any) -> Any:
        """The object of a kind with this number: the kept one, or a new one by `make`, which replaces it."""
        if self.kept.get(kind, (None,))[0] != number:
            self.kept.pop(kind, None)
            self.kept[kind] = number, make()
        return self.kept[kind][1]
