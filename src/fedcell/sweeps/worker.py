"""A worker of the engine `local`: tasks as JSON lines on stdin, progress and outcomes as JSON lines on stdout."""

import _thread
import json
import os
import signal
import sys
import time
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import IO, Any

import torch

from ..record import Progress
from ..record.files import in_use
from ..record.rows import encode
from . import mps
from .task import Orders, RunEnd, SweepRun, play

EVERY_S = 0.2  # between two reports of a running run
PATIENCE_S = 60.0  # for the worker of a killed sweep to let go of a run


def main(threads: int) -> int:
    """Work until stdin ends; when it ends in the middle of a run, save that run and stop."""
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the sweep runs in the background of a shell
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever a method prints is no message
    asked: SimpleQueue[bytes] = SimpleQueue()
    busy = Event()
    Thread(target=_listen, args=(asked, busy), daemon=True).start()
    try:
        while line := asked.get():
            task, orders = json.loads(line)
            _work(SweepRun(**task), Orders(**orders), out, busy)
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    return 0


def _listen(asked: "SimpleQueue[bytes]", busy: Event) -> None:
    """Pass on tasks; the end of stdin means that nobody waits for this process any more."""
    for line in sys.stdin.buffer:
        busy.set()
        asked.put(line)
    asked.put(b"")
    if busy.is_set():
        _thread.interrupt_main()


def _work(task: SweepRun, orders: Orders, out: IO[bytes], busy: Event) -> None:
    told_s = 0.0

    def say(kind: str, values: dict[str, Any]) -> None:
        out.write(json.dumps([kind, values]).encode() + b"\n")

    def tell(progress: Progress) -> None:
        nonlocal told_s
        small = progress.row and progress.done < progress.total and not progress.note
        if small and time.monotonic() - told_s < EVERY_S:
            return
        told_s = time.monotonic()
        row = encode(progress.row).decode() if progress.row else None
        try:
            say("progress", progress._asdict() | {"row": row, "folder": None})
        except BrokenPipeError:
            raise KeyboardInterrupt from None  # nobody listens: save and stop

    folder, deadline_s = Path(orders.folder) / task.name, time.monotonic() + PATIENCE_S
    while in_use(folder) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    outcome = RunEnd(task, 1, mps.BROKEN) if mps.is_broken() else play(task, orders, tell)
    busy.clear()
    say("outcome", {"code": outcome.code, "message": outcome.message})


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
