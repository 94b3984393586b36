"""The engine `ray`: runs side by side on the nodes of a Ray cluster, as the engine `local` does them on one machine.

A worker is an actor with a process of its own (`host`). A run whose worker is lost resumes from its last
checkpoint on the next worker that is free. Run folders are written where the runs are done, so all nodes must see them.
"""

import secrets
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, NamedTuple

from ..errors import BadInput, FedcellError
from ..machine import STORE_BYTES, connect, cores, count_cpus, shares
from ..record import Progress
from ..record.files import explained
from ..version import __version__
from .host import Host, Node
from .local import Said, Tell, event, next_outcome
from .placement import share_of_gpu
from .runner import LOST, OUTCOME
from .task import Orders, RunEnd, SweepRun

TRIES = 3  # of a run whose workers are lost; of a worker that does not start
LOOK_S = 0.5  # between two looks whether a worker has started
TELL_S = 20.0  # between two notices that none has


class _Sweep(NamedTuple):
    """What all worker threads (`_Hand`) of a sweep share."""

    orders: Orders
    token: Path  # file in the folder of the sweep, for nodes to prove that they see it
    threads: int
    resources: dict[str, float]  # of one worker
    waiting: "deque[SweepRun]"
    said: Said
    lost: "Counter[str]"  # workers, by name of the run
    begun: Event  # a worker has started


def run(
    tasks: Sequence[SweepRun], orders: Orders, workers: int, tell: Tell, address: str | None = None
) -> Generator[RunEnd]:
    """Do all tasks, pass their progress to `tell`, and yield the outcome of each as it ends.

    Args:
        tasks: the runs.
        orders: what they have in common.
        workers: actors side by side; 0: one per CPU of the cluster.
        tell: called with a task and its progress.
        address: of a cluster to join, see `connect`.
    """
    leave = connect(address, cores(), STORE_BYTES)
    try:
        with _token(Path(orders.folder)) as token:
            yield from _run(tasks, orders, min(workers or count_cpus(), len(tasks)), tell, token)
    finally:
        leave()


def _run(tasks: Sequence[SweepRun], orders: Orders, workers: int, tell: Tell, token: Path) -> Generator[RunEnd]:
    cpus, gpus = shares(workers)
    resources = {"num_cpus": cpus, "num_gpus": share_of_gpu(tasks, gpus)}
    sweep = _Sweep(orders, token, max(int(cpus), 1), resources, deque(tasks), SimpleQueue(), Counter(), begun=Event())
    crew = [_Hand(sweep) for _ in range(workers)]
    try:
        for _ in tasks:
            yield next_outcome(sweep.said, tell)
    finally:
        sweep.waiting.clear()
        for hand in crew:
            hand.stop()
        for hand in crew:
            hand.join()


@contextmanager
def _token(folder: Path) -> Iterator[Path]:
    """Make a file in the folder of the sweep that nodes read to prove that they see it; remove it at the end."""
    path = folder / f"seen-{secrets.token_hex(4)}.tmp"  # a new name: no node has it in a cache
    with explained(folder, "then start again (nothing was simulated yet)"):
        for left in folder.glob("seen-*.tmp"):  # by a sweep that was killed
            left.unlink()
        path.write_text(secrets.token_hex(8))
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


class _Hand:
    """A thread that feeds tasks to an actor of its own, and starts another if that is lost."""

    def __init__(self, sweep: _Sweep) -> None:
        self.sweep = sweep
        self.host: Any = None
        self.ending: Any = None
        self.stopped = False
        self.failures = 0
        self.thread = Thread(target=self._feed, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Let the present run save and end."""
        self.stopped = True
        if self.host is not None:
            self.ending = self.host.stop.remote()

    def join(self) -> None:
        """Wait for the end, then dismiss the actor; a second Ctrl-C dismisses it at once."""
        import ray

        try:
            if self.ending is not None:
                ray.wait([self.ending])
            self.thread.join()
        finally:
            if self.host is not None:
                ray.kill(self.host)

    def _feed(self) -> None:
        try:
            while self.sweep.waiting and not self.stopped:
                if not self._engage() or self.stopped:
                    continue
                try:
                    task = self.sweep.waiting.popleft()
                except IndexError:
                    return
                self._do(task)
        except FedcellError as error:
            self.sweep.said.put((None, error))
        except Exception as error:  # told, never waited for
            self.sweep.said.put((None, FedcellError(f"Ray failed ({type(error).__name__}: {error}): see its logs")))

    def _engage(self) -> bool:
        """Start an actor unless there is one, and wait for it while tasks wait; return whether it is ready."""
        import ray
        from ray.exceptions import RayError

        if self.host is not None:
            return True
        place = str(Path.cwd())
        actor: Any = ray.remote(Host).options(max_concurrency=2, **self.sweep.resources)
        host = actor.remote(self.sweep.threads, place)
        answer = host.ready.remote(str(self.sweep.token))
        tell_s = time.monotonic() + TELL_S
        while not ray.wait([answer], timeout=LOOK_S)[0]:
            if self.stopped or not self.sweep.waiting:
                ray.kill(host)
                return False
            if time.monotonic() > tell_s and not self.sweep.begun.is_set():
                tell_s = time.monotonic() + TELL_S
                self._note("no worker yet: the cluster starts slowly, or other work holds its CPUs")
        try:
            self._check(ray.get(answer))
        except RayError as error:
            self.failures += 1
            if self.failures == TRIES:
                raise FedcellError(f"Ray starts no worker ({_first_line(error)}): see its logs") from None
            return False
        self.host, self.failures = host, 0
        self.sweep.begun.set()
        return True

    def _check(self, node: Node) -> None:
        """Refuse a node whose results would be lost or made by other code."""
        if node.token != self.sweep.token.read_text():
            folder = Path(self.sweep.orders.folder).resolve()
            raise BadInput(f"node {node.name} does not see {folder}: sweep in a folder that all nodes of Ray share")
        if node.version != __version__:
            raise BadInput(f"node {node.name} has fedcell {node.version}, not {__version__}: install the same on all")

    def _do(self, task: SweepRun) -> None:
        """Hand a task to the actor and pass on its messages."""
        import ray
        from ray.exceptions import RayError

        play = self.host.play.options(num_returns="streaming")
        try:
            for reference in play.remote(task._asdict(), self.sweep.orders._asdict()):
                message = ray.get(reference)
                if message[0] == LOST:
                    self._lose(task, message[1]["message"])
                    return
                self.sweep.said.put((task, event(task, message)))
                if message[0] == OUTCOME:
                    return
            raise FedcellError(f"{task.name}: its worker said no outcome")  # a broken contract of ours
        except RayError as error:
            self.host = None
            self._lose(task, f"its Ray worker was lost ({_first_line(error)})")

    def _lose(self, task: SweepRun, why: str) -> None:
        """Put a run whose worker was lost back into the queue; after `TRIES` losses it has failed."""
        self.sweep.lost[task.name] += 1
        times = self.sweep.lost[task.name]
        if self.stopped or times >= TRIES:
            self.sweep.said.put((task, RunEnd(task, 1, f"{why}; lost {times} times")))
            return
        self.sweep.waiting.appendleft(task)
        self._note(f"{why}; it resumes from its last checkpoint", task)

    def _note(self, text: str, task: SweepRun | None = None) -> None:
        try:
            about = task or self.sweep.waiting[0]
        except IndexError:
            return
        self.sweep.said.put((about, Progress(about.label, 0, 0, note=text)))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")
