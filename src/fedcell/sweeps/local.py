"""The engine `local`: runs side by side in processes of this machine, which share out its cores.

A worker is `python -m fedcell.sweeps.worker`. It reads one task per line from its stdin and writes progress and
outcomes to its stdout, all of it JSON. When its stdin ends, because this process closed it or died, a worker
saves a checkpoint and ends.
"""

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from ..learn.engines.pool import cores
from ..record import Progress
from ..record.rows import decode
from .task import Orders, Outcome, Task, play

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "FEDCELL_CORES")
Tell = Callable[[Task, Progress], None]


def run(tasks: Sequence[Task], orders: Orders, workers: int, tell: Tell) -> Generator[Outcome]:
    """Do all tasks, telling of their progress; an outcome for each as it ends.

    One worker is this very process, with all cores for one run at a time. Several have `cores / workers` threads each.
    """
    if workers == 1:
        for task in tasks:
            yield play(task, orders, partial(tell, task))
        return
    said: SimpleQueue[tuple[Task, Progress | Outcome]] = SimpleQueue()
    waiting = deque(tasks)
    crew = [_Worker(waiting, orders, max(cores() // workers, 1), said) for _ in range(workers)]
    try:
        for _ in tasks:
            yield _next_outcome(said, tell)
    finally:
        waiting.clear()
        for worker in crew:
            worker.stop()
        for worker in crew:
            worker.join()


def _next_outcome(said: "SimpleQueue[tuple[Task, Progress | Outcome]]", tell: Tell) -> Outcome:
    """Pass on progress until a run ends."""
    while True:
        task, event = said.get()
        if isinstance(event, Outcome):
            return event
        tell(task, event)


class _Worker:
    """A thread that feeds tasks to a process of its own, and begins another process where one dies."""

    def __init__(self, waiting: "deque[Task]", orders: Orders, threads: int, said: "SimpleQueue[Any]") -> None:
        self.waiting, self.orders, self.threads, self.said = waiting, orders, threads, said
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped, self.lock = False, Lock()
        self.thread = Thread(target=self._feed, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Let the process save and end."""
        with self.lock:
            self.stopped = True
            if self.process and self.process.stdin:
                with suppress(BrokenPipeError):
                    self.process.stdin.close()

    def join(self) -> None:
        """Wait for the end; a second Ctrl-C ends the process at once."""
        try:
            if self.process:
                self.process.wait()
            self.thread.join()
            if self.process:
                _close(self.process)
        except KeyboardInterrupt:
            if self.process:
                self.process.kill()
            raise

    def _feed(self) -> None:
        while not self.stopped:
            try:
                task = self.waiting.popleft()
            except IndexError:
                return
            try:
                outcome = self._do(task)
            except Exception as error:  # such as a process that could not be started: told, never waited for
                outcome = Outcome(task, 1, f"{type(error).__name__}: {error}")
            self.said.put((task, outcome))

    def _do(self, task: Task) -> Outcome:
        """Hand a task to the process and pass on what it says."""
        with self.lock:
            if self.stopped:
                return Outcome(task, 1, "stopped before it began")
            if self.process is None or self.process.poll() is not None:
                self.process = self._start()
            process = self.process
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(json.dumps([task._asdict(), self.orders._asdict()]).encode() + b"\n")
            process.stdin.flush()
        except (BrokenPipeError, ValueError):  # it died, or it was stopped
            return self._died(task, process)
        for line in process.stdout:
            kind, values = json.loads(line)
            if kind == "outcome":
                return Outcome(task, **values)
            row = decode(values.pop("row").encode()) if values.get("row") else None
            self.said.put((task, Progress(**values | {"row": row})))
        return self._died(task, process)

    def _died(self, task: Task, process: "subprocess.Popen[bytes]") -> Outcome:
        code = process.wait()
        _close(process)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
        fix = "; perhaps memory ran out: use fewer workers" if code == -signal.SIGKILL else ""
        return Outcome(task, 1, f"its process ended with {how}{fix}")

    def _start(self) -> "subprocess.Popen[bytes]":
        root = str(Path(__file__).parents[2])  # where fedcell is, also when a script found it in a way of its own
        paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        limits = dict.fromkeys(THREADS, str(self.threads))
        return subprocess.Popen(
            [sys.executable, "-m", "fedcell.sweeps.worker", str(self.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | limits | {"PYTHONPATH": paths},
            start_new_session=True,  # a Ctrl-C of the terminal reaches this process alone, which then stops its workers
        )


def _close(process: "subprocess.Popen[bytes]") -> None:
    """Close our ends of the pipes of a process that ended."""
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with suppress(BrokenPipeError):  # it died with a task unread
                pipe.close()
