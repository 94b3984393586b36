"""A cohort's rows split over Ray workers: one huge run on many cores or machines, with the numbers of one process.

Rows travel in pieces, heaviest first, each to the next worker that is free, and their updates travel back. A piece
never cuts a chunk that an engine computes together, so the arithmetic of a row does not depend on the number of
workers. Samples and networks are sent once and lie in shared memory, which workers of one machine read in place.
A worker that is lost is replaced and its pieces are trained again.
"""

import atexit
import os
import warnings
from collections import Counter, deque
from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ... import machine
from ...errors import BadInput, FedcellError
from ...machine import cores
from ...types import Ints
from ..architecture import Architecture
from ..memory import keep_freed_memory
from ..samples import Samples
from ..work import rows_of
from . import batched
from .common import Job
from .dispatch import train_with
from .gpu.cuda_graphs import Replays

PIECES = 4  # of each worker, so that all end at about the same time
PIECE_BYTES = 64 << 20  # of updates, so that little shared memory is needed
AHEAD = 2  # pieces that a worker has in hand: it need not wait for the next one
TRIES = 3  # of a piece whose workers are lost
START_S = 120.0  # for the workers to start


def check(shards: int, device: torch.device) -> None:
    """Refuse shards where they cannot work."""
    machine.require_ray(f"train.shards = {shards}")
    if device.type != "cpu":
        raise BadInput(f"train.shards = {shards} splits rows over CPUs, but models are on a GPU: set train.device=cpu")


def train(job: Job, engine: str, shards: int) -> None:
    """Fill `job.out` with what every row's training moved; the result does not depend on `shards`."""
    _crew(shards).train(job, engine)


def cut(job: Job, engine: str, shards: int) -> list[Ints]:
    """The rows of every piece, heaviest first; chunks that an engine computes together stay together."""
    order = np.argsort(-job.work.steps, kind="stable")
    size = batched.rows_per_chunk(job.architecture) if engine == "batched" else 1
    chunks = [order[first : first + size] for first in range(0, len(order), size)]
    fitting = max(PIECE_BYTES // (4 * job.architecture.n_params * size), 1)
    n_pieces = max(min(PIECES * shards, len(chunks)), -(-len(chunks) // fitting))
    return [np.concatenate(chunks[first::n_pieces]) for first in range(n_pieces)]


class Packed(NamedTuple):
    """Samples with arrays for tensors, which Ray shares without a copy."""

    kind: type[Samples]
    values: dict[str, Any]
    tensors: frozenset[str]  # names of values that are tensors in fact

    @staticmethod
    def of(samples: Samples) -> "Packed":
        """Pack samples of the CPU."""
        values = vars(samples)
        tensors = frozenset(name for name, value in values.items() if isinstance(value, Tensor))
        return Packed(type(samples), {n: v.numpy() if n in tensors else v for n, v in values.items()}, tensors)

    def unpack(self) -> Samples:
        """The samples, in the same memory; they must not be written to."""
        samples = self.kind.__new__(self.kind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the memory is read-only
            for name, value in self.values.items():
                setattr(samples, name, torch.from_numpy(value) if name in self.tensors else value)
        return samples


class Shard:
    """An actor that trains pieces.

    Args:
        threads: that it may use.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._known: dict[str, tuple[Architecture, Replays]] = {}  # the network of the last piece, and what it left
        torch.set_num_threads(1)  # a piece of one row is trained as one of many is
        keep_freed_memory()

    def pid(self) -> int:
        """Of its process."""
        return os.getpid()

    def train(
        self, job: Job, engine: str, name: str, given: Architecture, samples: Packed, points: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Updates and statistics of the rows of a job that came without what is sent once; `name` is the network's."""
        if name not in self._known:
            self._known = {name: (given, Replays())}
        architecture, replays = self._known[name]
        out = torch.empty(len(job.of_row), architecture.n_params)
        start = torch.from_numpy(np.array(points))  # engines may write to it
        tail = None if job.tail is None else job.tail.clone()
        whole = job._replace(
            architecture=architecture, samples=samples.unpack(), points=start, out=out, replays=replays, tail=tail
        )
        train_with(engine, whole, self.threads)
        return out.numpy(), None if tail is None else tail.numpy()


class _Crew:
    """The workers of this process, and what they were sent."""

    def __init__(self, shards: int) -> None:
        import ray

        self.cpus = machine.shares(shards)[0]
        self.actors = [self._engage() for _ in range(shards)]
        self.sent: WeakKeyDictionary[Samples | Architecture, Any] = WeakKeyDictionary()
        started, _ = ray.wait([actor.pid.remote() for actor in self.actors], num_returns=shards, timeout=START_S)
        if len(started) < shards:
            raise FedcellError(
                f"train.shards = {shards} but only {len(started)} Ray workers started in {START_S:g} s: "
                "use fewer, or free CPUs of the cluster"
            )

    def train(self, job: Job, engine: str) -> None:
        import ray
        from ray.exceptions import RayActorError

        pieces = deque(cut(job, engine, len(self.actors)))
        send = self._sender(job, engine)
        rows_out = job.out.numpy()
        lost: Counter[int] = Counter()  # workers, by first row of the piece
        idle = deque(list(range(len(self.actors))) * AHEAD)
        busy: dict[Any, tuple[int, Any, Ints]] = {}
        while pieces or busy:
            while pieces and idle:
                number, rows = idle.popleft(), pieces.popleft()
                busy[send(self.actors[number], rows)] = number, self.actors[number], rows
            ((done,), _) = ray.wait(list(busy), num_returns=1)
            number, actor, rows = busy.pop(done)
            idle.append(number)
            try:
                rows_out[rows], tail = ray.get(done)
                if job.tail is not None:
                    job.tail.numpy()[rows] = tail
            except RayActorError:
                pieces.appendleft(rows)
                lost[int(rows[0])] += 1
                self._replace(number, actor, lost[int(rows[0])])

    def _sender(self, job: Job, engine: str) -> Callable[[Any, Ints], Any]:
        """A function that sends some rows of a job to an actor."""
        import ray

        network, samples = self._once(job.architecture), self._once(job.samples)
        points = job.points.numpy()
        few = len(points) < len(job.of_row)  # such as one for all: worth to be sent once
        shared = ray.put(points) if few else None
        whole: Any = job
        bare = whole._replace(architecture=None, samples=None, points=None, out=None, replays=None)

        def send(actor: Any, rows: Ints) -> Any:
            of_row = job.of_row[rows]
            used, place = np.unique(of_row, return_inverse=True)
            tail = None if job.tail is None else job.tail[torch.from_numpy(rows)]
            part = bare._replace(of_row=of_row if few else place, work=rows_of(job.work, rows), tail=tail)
            return actor.train.remote(part, engine, network.hex(), network, samples, shared if few else points[used])

        return send

    def _once(self, value: Samples | Architecture) -> Any:
        """A reference to what was sent, now or before."""
        import ray

        if value not in self.sent:
            self.sent[value] = ray.put(Packed.of(value) if isinstance(value, Samples) else value)
        return self.sent[value]

    def _engage(self) -> Any:
        import ray

        actor: Any = ray.remote(Shard).options(num_cpus=self.cpus)
        return actor.remote(max(int(self.cpus), 1))

    def _replace(self, number: int, actor: Any, times: int) -> None:
        if times == TRIES:
            raise FedcellError(
                f"a worker of train.shards was lost {times} times in one place: use fewer, or more memory"
            )
        with _lock:
            if self.actors[number] is actor:  # else another piece of the same worker told before
                self.actors[number] = self._engage()

    def dismiss(self) -> None:
        """End the workers."""
        import ray

        for actor in self.actors:
            ray.kill(actor)


_crews: dict[tuple[str, int], _Crew] = {}  # one at most, by connection and number of workers
_lock = Lock()  # methods may train several groups of rows at a time


def _crew(shards: int) -> _Crew:
    """The workers of this process, which stay between rounds."""
    with _lock:
        if not machine.connected():
            _crews.clear()
            atexit.register(machine.connect(None, cores()))
        import ray

        key = ray.get_runtime_context().get_job_id(), shards
        if key not in _crews:
            dismiss()
            _crews[key] = _Crew(shards)
        return _crews[key]


def dismiss() -> None:
    """End the workers of this process, so that others can have their CPUs."""
    import ray

    here = ray.get_runtime_context().get_job_id() if machine.connected() else ""
    for (connection, _), crew in _crews.items():
        if connection == here:
            crew.dismiss()
    _crews.clear()
