"""A worker process that does one task after the other over pipes, and is started again if it dies.

The process is `python -m fedcell.sweeps.worker`. It reads one task per line from its stdin and writes progress and
outcomes to its stdout, all of it JSON. When its stdin ends, because its owner closed it or died, it saves a
checkpoint and ends. This file imports nothing heavy: on a cluster its owner is a small process beside it.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from ..threads import THREADS

PIPES = "CUDA_MPS_PIPE_DIRECTORY"  # environment: where processes find a GPU service that they share
OUTCOME, LOST = "outcome", "lost"  # kinds of last messages; all others are progress
Message = tuple[str, dict[str, Any]]


class Runner:
    """The owner of one worker process.

    Args:
        threads: for training and the numerical libraries.
        place: folder to work in; None: that of this process.
        gpu: the one that it sees, as `CUDA_VISIBLE_DEVICES` names it; empty: all.
        service: environment by which it finds a GPU service that it shares with others; empty: there is none.
    """

    def __init__(
        self, threads: int, place: str | None = None, gpu: str = "", service: Mapping[str, str] | None = None
    ) -> None:
        self.threads, self.place, self.gpu, self.service = threads, place, gpu, dict(service or {})
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped, self.lock = False, Lock()

    def play(self, task: Mapping[str, Any], orders: Mapping[str, Any]) -> Iterator[Message]:
        """Hand a task to the process and yield its messages; the last one is an outcome or says that it was lost."""
        with self.lock:
            if self.stopped:
                yield OUTCOME, {"code": 1, "message": "stopped before it began"}
                return
            if self.process is None or self.process.poll() is not None:
                self.process = self._start()
            process = self.process
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(json.dumps([task, orders]).encode() + b"\n")
            process.stdin.flush()
        except (BrokenPipeError, ValueError):  # it died, or it was stopped
            yield self._lost(process)
            return
        for line in process.stdout:
            try:
                kind, values = json.loads(line)
            except ValueError:  # half a message: it was killed while it wrote
                break
            yield kind, values
            if kind == OUTCOME:
                return
        yield self._lost(process)

    def stop(self) -> None:
        """Let the process save and end."""
        with self.lock:
            self.stopped = True
            if self.process and self.process.stdin:
                with suppress(BrokenPipeError):
                    self.process.stdin.close()

    def wait(self) -> None:
        """Wait for the end of the process."""
        if self.process:
            self.process.wait()

    def kill(self) -> None:
        """Kill the process, unless it uses a GPU service: a kill could take down the others that share it."""
        if self.process and PIPES not in os.environ | self.service:
            self.process.kill()

    def close(self) -> None:
        """Close our ends of the pipes of a process that ended."""
        for pipe in (self.process.stdin, self.process.stdout) if self.process else ():
            if pipe:
                with suppress(BrokenPipeError):  # it died with a task unread
                    pipe.close()

    def _lost(self, process: "subprocess.Popen[bytes]") -> Message:
        code = process.wait()
        self.close()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
        fix = "; perhaps memory ran out: use fewer workers" if code == -signal.SIGKILL else ""
        return LOST, {"code": 1, "message": f"its process ended with {how}{fix}"}

    def _start(self) -> "subprocess.Popen[bytes]":
        root = str(Path(__file__).parents[2])  # where fedcell is, also when a script found it in a way of its own
        paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        limits = dict.fromkeys(THREADS, str(self.threads)) | ({"CUDA_VISIBLE_DEVICES": self.gpu} if self.gpu else {})
        return subprocess.Popen(
            [sys.executable, "-m", "fedcell.sweeps.worker", str(self.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | limits | self.service | {"PYTHONPATH": paths},
            cwd=self.place,
            start_new_session=True,  # a Ctrl-C of the terminal reaches the sweep alone, which then stops its workers
        )
