"""The engine `local`: runs side by side in processes of this machine, which share out its cores."""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any

from ..errors import FedcellError
from ..machine import cores
from ..record import Progress
from ..record.rows import decode
from . import mps
from .placement import Places, gpu_bytes, needed_bytes, visible
from .runner import LOST, OUTCOME, Message, Runner
from .task import Orders, RunEnd, SweepRun, play

Tell = Callable[[SweepRun, Progress], None]
Said = SimpleQueue[tuple[SweepRun | None, Progress | RunEnd | FedcellError]]


def run(tasks: Sequence[SweepRun], orders: Orders, workers: int, tell: Tell) -> Generator[RunEnd]:
    """Do all tasks, pass their progress to `tell`, and yield the outcome of each as it ends.

    One worker is this very process, with all cores for one run at a time. Several have `cores / workers` threads each,
    are spread over the GPUs of the machine, and begin a run when its GPU has room for it. `FEDCELL_MPS=1` lets those of
    a GPU use it at the same time.
    """
    workers = min(workers or cores(), len(tasks))
    if workers == 1:
        for task in tasks:
            yield play(task, orders, partial(tell, task))
        return
    said: Said = SimpleQueue()
    waiting = deque(tasks)
    free, known = [free for free, _ in gpu_bytes()], dict[str, int]()
    places = Places(free, lambda task: needed_bytes(task, known))
    service = mps.start(len(free))
    crew = [
        _Worker(waiting, orders, max(cores() // workers, 1), said, places, number % max(len(free), 1), service)
        for number in range(workers)
    ]
    try:
        for _ in tasks:
            yield next_outcome(said, tell)
    finally:
        waiting.clear()
        try:
            for worker in crew:
                worker.stop()
            for worker in crew:
                worker.join()
        finally:  # after a second Ctrl-C, too
            service.quit()


def next_outcome(said: Said, tell: Tell) -> RunEnd:
    """Pass on progress until a run ends; an error that ends the whole sweep is raised."""
    while True:
        task, said_event = said.get()
        if isinstance(said_event, RunEnd):
            return said_event
        if isinstance(said_event, FedcellError):
            raise said_event
        assert task
        tell(task, said_event)


def event(task: SweepRun, message: Message) -> Progress | RunEnd:
    """Turn a message of a worker into the progress or the end of its task."""
    kind, values = message
    if kind in (OUTCOME, LOST):
        return RunEnd(task, **values)
    row = decode(values["row"].encode()) if values.get("row") else None
    return Progress(**values | {"row": row})


class _Worker:
    """A thread that feeds tasks to a process of its own, and starts another process when one dies."""

    def __init__(
        self,
        waiting: "deque[SweepRun]",
        orders: Orders,
        threads: int,
        said: "SimpleQueue[Any]",
        places: Places,
        gpu: int,
        service: mps.Service,
    ) -> None:
        self.waiting, self.orders, self.said = waiting, orders, said
        self.places, self.gpu = places, gpu
        self.runner = Runner(threads, gpu=visible(gpu) if places.free else "", service=service.environment)
        self.thread = Thread(target=self._feed, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Let the process save and end."""
        self.runner.stop()

    def join(self) -> None:
        """Wait for the end; a second Ctrl-C ends the process at once."""
        try:
            self.runner.wait()
            self.thread.join()
            self.runner.close()
        except KeyboardInterrupt:
            self.runner.kill()
            raise

    def _feed(self) -> None:
        while task := self.places.next_run(self.gpu, self.waiting, lambda: self.runner.stopped):
            try:
                for message in self.runner.play(task._asdict(), self.orders._asdict()):
                    self.said.put((task, event(task, message)))
            except Exception as error:  # such as a process that could not be started: told, never waited for
                self.said.put((task, RunEnd(task, 1, f"{type(error).__name__}: {error}")))
            finally:
                self.places.give_back(self.gpu, task)
