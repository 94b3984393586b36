"""Split the rows of a cohort over Ray workers: a huge run on many cores or machines, with the results of one process.

Rows are sent in pieces, heaviest first, each to the next free worker, which returns their updates. A piece never cuts
a chunk that an engine computes together, so the arithmetic of a row does not depend on the number of workers. Samples
and networks are sent once and stay in shared memory, which all workers of one machine read in place. If a worker is
lost, it is replaced and its pieces are trained again. If models are on a GPU, workers train on the GPUs of the cluster,
and each gets its share of them.
"""

import atexit
import warnings
from collections import Counter, deque
from collections.abc import Callable
from itertools import count
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from ... import machine
from ...errors import BadInput, FedcellError
from ...machine import cores
from ...types import Ints
from ..architecture import Architecture
from ..samples import Samples
from ..work import rows_of
from . import batched
from .common import Job
from .shard import GpuLimits, Packed, Shard, TrainedPiece, moved

PIECES = 4  # pieces per worker, so that all workers end at about the same time
PIECE_BYTES = 64 << 20  # most bytes of updates in a piece, so that little shared memory is needed
GPU_PIECE_BYTES = 1 << 30
AHEAD = 2  # pieces sent to a worker at a time, so that it need not wait for the next one
TRIES = 3  # how often a piece is tried whose workers are lost
DEVICE = {"cpu": "cpu", "cuda": "cuda"}  # where workers train, by the kind of device in their share
START_S = 120.0  # time for the workers to start


def check(shards: int) -> None:
    """Raise BadInput unless Ray is installed."""
    machine.require_ray(f"train.shards = {shards}")


def train(job: Job, engine: str, shards: int, tf32: bool) -> None:
    """Fill `job.out` with the update of every row; the result does not depend on `shards`."""
    _crew(shards, kind_of(job)).train(job, engine, tf32)


def kind_of(job: Job) -> str:
    """The kind of device on which workers must train a job."""
    return job.device.type


def cut(job: Job, engine: str, shards: int, kind: str = "cpu") -> list[Ints]:
    """Cut the rows of a job into pieces, heaviest rows first; chunks that an engine computes together stay together.

    On GPUs there is one piece per worker, because a GPU is fast only with large cohorts.
    """
    order = np.argsort(-job.work.steps, kind="stable")
    size = batched.rows_per_chunk(job.architecture) if engine == "batched" and kind == "cpu" else 1
    chunks = [order[first : first + size] for first in range(0, len(order), size)]
    pieces, most_bytes = (PIECES, PIECE_BYTES) if kind == "cpu" else (1, GPU_PIECE_BYTES)
    fitting = max(most_bytes // (4 * job.architecture.n_params * size), 1)
    n_pieces = max(min(pieces * shards, len(chunks)), -(-len(chunks) // fitting))
    return [np.concatenate(chunks[first::n_pieces]) for first in range(n_pieces)]


class _Crew:
    """The workers of this process, and the data that was sent to them.

    Args:
        shards: number of workers.
        kind: kind of device on which they train; on `cuda` each gets its share of the GPUs of the cluster.
    """

    def __init__(self, shards: int, kind: str = "cpu") -> None:
        import ray

        self.cpus, gpus = machine.shares(shards)
        self.kind, self.gpus = kind, gpus if kind == "cuda" else 0.0
        if kind == "cuda" and not gpus:
            raise BadInput(f"train.shards = {shards} on GPUs, but the Ray cluster has none: set train.device=cpu")
        self.sent: WeakKeyDictionary[Samples | Architecture, tuple[int, Any]] = WeakKeyDictionary()
        self.numbers = count()
        self.actors: list[Any] = []
        self.starting: dict[int, Any] = {}  # first answers still expected from new workers, by number
        self.failures: Counter[int] = Counter()  # how often a worker died before it answered, by number
        for number in range(shards):
            self.actors.append(self._engage())
            self.starting[number] = self.actors[number].pid.remote()
        started, _ = ray.wait(list(self.starting.values()), num_returns=shards, timeout=START_S)
        if len(started) < shards:
            self.dismiss()
            raise FedcellError(
                f"train.shards = {shards} but only {len(started)} Ray workers started in {START_S:g} s: "
                "use fewer, or free CPUs of the cluster"
            )
        self.starting.clear()

    def train(self, job: Job, engine: str, tf32: bool) -> None:
        """Fill `job.out`. A lost worker is replaced; the others continue, even if no replacement ever starts."""
        import ray
        from ray.exceptions import RayActorError

        pieces = deque(cut(job, engine, len(self.actors), self.kind))
        send = self._sender(job, engine, tf32)
        lost: Counter[int] = Counter()  # number of workers lost, by the first row of their piece
        idle = deque([number for number in range(len(self.actors)) if number not in self.starting] * AHEAD)
        busy: dict[Any, tuple[int, Any, Ints]] = {}
        while pieces or busy:
            while pieces and idle:
                number = idle.popleft()
                if number not in self.starting:
                    rows = pieces.popleft()
                    busy[send(self.actors[number], rows)] = number, self.actors[number], rows
            waits = {ref: number for number, ref in self.starting.items()}
            ready, _ = ray.wait([*busy, *waits], num_returns=1, timeout=None if busy else START_S)
            if not ready:
                raise FedcellError(
                    f"no worker of train.shards is left, and none started in {START_S:g} s: use fewer, or more nodes"
                )
            if ready[0] in waits:
                number = waits[ready[0]]
                if self._started(number, ready[0]):
                    idle.extend([number] * AHEAD)
                continue
            number, actor, rows = busy.pop(ready[0])
            try:
                self._take(job, rows, ray.get(ready[0]))
                idle.append(number)
            except RayActorError:
                pieces.appendleft(rows)
                lost[int(rows[0])] += 1
                self._replace(number, actor, lost[int(rows[0])])

    def _take(self, job: Job, rows: Ints, trained: TrainedPiece) -> None:
        """Write the updates and statistics of a piece into its rows of the job, and note what trained them."""
        job.replays.trained_by.update(dict.fromkeys(trained.by))
        place = torch.from_numpy(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the memory is read-only
            job.out[place.to(job.device)] = torch.from_numpy(trained.delta).to(job.device)
            if job.tail is not None and trained.tail is not None:
                job.tail[place.to(job.device)] = torch.from_numpy(trained.tail).to(job.device)

    def _sender(self, job: Job, engine: str, tf32: bool) -> Callable[[Any, Ints], Any]:
        """A function that sends some rows of a job to an actor."""
        import ray

        (network_no, network), (samples_no, samples) = self._once(job.architecture), self._once(job.samples)
        points = job.points.cpu().numpy()
        limits = GpuLimits(tf32, job.replays.most_bytes * (self.gpus or 1))  # workers of one GPU share its memory
        few = len(points) < len(job.of_row)  # such as one for all: shared memory holds them once for all pieces
        shared = ray.put(points) if few else None
        whole: Any = job._replace(work=moved(job.work, "cpu"), tail=None if job.tail is None else job.tail.cpu())
        bare = whole._replace(architecture=None, samples=None, points=None, out=None, replays=None)

        def send(actor: Any, rows: Ints) -> Any:
            of_row = job.of_row[rows]
            used, place = np.unique(of_row, return_inverse=True)
            tail = None if whole.tail is None else whole.tail[torch.from_numpy(rows)]
            part = bare._replace(of_row=of_row if few else place, work=rows_of(whole.work, rows), tail=tail)
            numbers = network_no, samples_no
            given = shared if few else points[used]
            return actor.train.remote(part, engine, numbers, network, samples, given, limits)

        return send

    def _once(self, value: Samples | Architecture) -> tuple[int, Any]:
        """Send an object unless it was sent before; return its number and a reference to it."""
        import ray

        if value not in self.sent:
            packed = Packed.of(value) if isinstance(value, Samples) else value
            self.sent[value] = next(self.numbers), ray.put(packed)
        return self.sent[value]

    def _engage(self) -> Any:
        import ray

        actor: Any = ray.remote(Shard).options(num_cpus=self.cpus, num_gpus=self.gpus)
        return actor.remote(max(int(self.cpus), 1), DEVICE[self.kind])

    def _started(self, number: int, answer: Any) -> bool:
        """Whether a new worker has answered its first call; if it died instead, it is replaced."""
        import ray
        from ray.exceptions import RayActorError

        with _lock:
            if number not in self.starting or self.starting[number] is not answer:
                return number not in self.starting  # another thread saw the answer first
            del self.starting[number]
        try:
            ray.get(answer)
        except RayActorError:
            self.failures[number] += 1
            self._replace(number, self.actors[number], self.failures[number])
            return False
        self.failures[number] = 0
        return True

    def _replace(self, number: int, actor: Any, times: int) -> None:
        if times == TRIES:
            raise FedcellError(
                f"a worker of train.shards was lost {times} times in one place: use fewer, or more memory"
            )
        with _lock:
            if self.actors[number] is actor:  # else another piece of the same worker was lost first
                self.actors[number] = self._engage()
                self.starting[number] = self.actors[number].pid.remote()

    def dismiss(self) -> None:
        """End the workers."""
        import ray

        for actor in self.actors:
            ray.kill(actor)


_crews: dict[tuple[str, int, str], _Crew] = {}  # one at most, by connection, number of workers and kind of device
_lock = Lock()  # methods may train several groups of rows in threads


def _crew(shards: int, kind: str) -> _Crew:
    """The workers of this process, which stay between rounds."""
    with _lock:
        if not machine.connected():
            _crews.clear()
            atexit.register(machine.connect(None, cores()))
        import ray

        key = ray.get_runtime_context().get_job_id(), shards, kind
        if key not in _crews:
            dismiss()
            _crews[key] = _Crew(shards, kind)
        return _crews[key]


def dismiss() -> None:
    """End the workers of this process, so that others can have their CPUs."""
    import ray

    here = ray.get_runtime_context().get_job_id() if machine.connected() else ""
    for (connection, *_), crew in _crews.items():
        if connection == here:
            crew.dismiss()
    _crews.clear()
