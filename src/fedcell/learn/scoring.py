"""Evaluation: the scores of a learner's network for samples, batch by batch.

On a CPU every core evaluates batches of its own, small enough for its caches, with single-threaded kernels. If a batch
size occurs often, its batches are evaluated by a list of kernels instead of the module (`engines/cpu/forward.py`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..machine import cores, for_each, precision
from ..rng import SETUP, stream
from ..types import Ints
from . import streams
from .architecture import Architecture
from .engines.cpu.forward import Forward
from .evaluation import leaves_no_trace, mixed_batches, samples_at_once
from .memory import gpu_is_full
from .samples import Samples
from .settings import TrainConfig

AT_A_TIME = 8  # batches per core whose scores are kept at once
OFTEN = 4  # batches of one size in an evaluation, from which a list of kernels is worth making


class Scoring:
    """A private copy of a network for evaluation, and what is known about how to run it."""

    def __init__(
        self,
        architecture: Architecture,
        device: torch.device,
        settings: TrainConfig,
        seed: int,
        make_room: Callable[[], None],
    ) -> None:
        self.architecture, self.device, self.settings, self.seed = architecture, device, settings, seed
        self.module = architecture.replica(device).eval()
        self._make_room = make_room  # frees memory of a GPU that has none left
        self._at_once = 0  # samples that the network evaluates together; 0: not determined yet
        self._shared: bool | None = None  # whether threads share the network; None: not determined yet
        self._forward: Forward | None = None  # lists of kernels, once they were worth making

    def __call__(self, params: Tensor, own: Tensor | None, samples: Samples) -> Iterator[tuple[Ints, Tensor]]:
        """The numbers of the samples of every batch, and their scores `[n, ..., n_outputs]`.

        Args:
            params: the model, as `Architecture.load` takes it.
            own: the own row of a device, as `Architecture.load` takes it.
            samples: to evaluate.
        """
        self.architecture.load(self.module, params, own)
        if self.architecture.mixes_samples:  # scores of a sample depend on its batch
            yield from self._judged(params, own, samples, mixed_batches(len(samples), self.seed))
        elif samples.inputs is None:
            yield from self._judged(params, own, samples, self._cut(samples, np.arange(len(samples))))
        else:
            yield from self._each_once(params, own, samples, samples.inputs)

    def _each_once(
        self, params: Tensor, own: Tensor | None, samples: Samples, inputs: NDArray[np.integer]
    ) -> Iterator[tuple[Ints, Tensor]]:
        """Like `__call__` for samples whose inputs are known to repeat: evaluate each distinct input once."""
        _, first, place = np.unique(inputs, return_index=True, return_inverse=True)
        parts = self._judged(params, own, samples, self._cut(samples, first))
        scores = torch.cat([part for _, part in parts])
        for index in self._cut(samples, np.arange(len(samples))):
            yield index, scores[torch.from_numpy(place[index]).to(self.device)]

    def _judged(
        self, params: Tensor, own: Tensor | None, samples: Samples, batches: Sequence[Ints]
    ) -> Iterator[tuple[Ints, Tensor]]:
        at_a_time = self._at_a_time(samples)
        with self._quick(params, own, samples, batches):
            for first in range(0, len(batches), at_a_time):
                some = batches[first : first + at_a_time]
                yield from zip(some, self._of_each(samples, some), strict=True)

    @contextmanager
    def _quick(self, params: Tensor, own: Tensor | None, samples: Samples, batches: Sequence[Ints]) -> Iterator[None]:
        """Make lists of kernels for frequent batch sizes; decided in each evaluation anew, so that it repeats."""
        of_size = defaultdict[int, list[Ints]](list)
        for index in batches:
            of_size[len(index)].append(index)
        often = [some for some in of_size.values() if len(some) >= OFTEN]
        if often and self._shared:
            self._forward = self._forward or Forward(self.architecture)
            if self._forward.wins:
                self._forward.load(params, own)
                for first, other, *_ in often:
                    two = partial(self._two, samples, first, other)
                    self._forward.prepare(torch.Size([len(first), *samples.shape]), two)
        try:
            yield
        finally:
            if self._forward is not None:
                self._forward.rest()

    def _two(self, samples: Samples, first: Ints, other: Ints) -> tuple[Tensor, Tensor]:
        return samples.take(first)[0], samples.take(other)[0]

    def _cut(self, samples: Samples, numbers: Ints) -> list[Ints]:
        """Cut the numbers of samples into batches."""
        size = self._at_once = self._at_once or samples_at_once(self.module, samples.take(np.arange(1))[0])
        return [numbers[first : first + size] for first in range(0, len(numbers), size)]

    def _at_a_time(self, samples: Samples) -> int:
        if self._shared is None:
            self._shared = self.device.type == "cpu" and leaves_no_trace(self.module, samples.take(np.arange(1))[0])
        return AT_A_TIME * (self.settings.workers or cores()) if self._shared else 1

    def _of_each(self, samples: Samples, batches: Sequence[Ints]) -> list[Tensor]:
        if not self._shared:
            return [self._repeatable(samples, index) for index in batches]
        found = [samples.y] * len(batches)

        @torch.no_grad()
        def judge(number: int) -> None:
            found[number] = self._scores(samples, batches[number])

        for_each(judge, range(len(batches)), self.settings.workers)
        return found

    def _repeatable(self, samples: Samples, index: Ints) -> Tensor:
        """`_fitting`; if the network may draw random numbers, they depend on nothing but the seed and the batch."""
        draws = self.device.type == "cpu" or self.architecture.stochastic or not self.architecture.known
        with streams.lent(self.device, draws):
            if draws:
                streams.begin(int(stream(self.seed, SETUP, f"evaluation {index[0]}").integers(2**63)))
            return self._fitting(samples, index)

    def _fitting(self, samples: Samples, index: Ints) -> Tensor:
        """`_scores`, on half as many samples at a time if a GPU has no memory for more."""
        try:
            with precision(self.settings.tf32):
                return self._scores(samples, index)
        except RuntimeError as error:
            if self.architecture.mixes_samples or len(index) == 1 or not gpu_is_full(error):
                raise
            self._make_room()
            torch.cuda.empty_cache()
            self._at_once = -(-len(index) // 2)
            return torch.cat([self._fitting(samples, part) for part in np.array_split(index, 2)])

    def _scores(self, samples: Samples, index: Ints) -> Tensor:
        """The scores of the model for the samples at an index."""
        x = samples.take(index)[0]
        known = self._forward is not None and self._forward.knows(x)
        scores: Tensor = (self._forward if known else self.module)(x)  # type: ignore[misc]
        return scores
