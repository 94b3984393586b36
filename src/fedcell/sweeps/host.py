"""The part of a sweep on a Ray node: a process that does the runs, and an actor that passes on its messages.

If the actor is killed, its end of the pipes closes, so the process saves a checkpoint and releases its run folder.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..version import __version__
from .runner import Message, Runner


class Node(NamedTuple):
    """What a worker reports about itself before it gets a task."""

    name: str
    version: str  # of fedcell
    token: str  # that it read from the folder of the sweep; empty if it cannot
    pid: int


class Host:
    """Does tasks on the node that Ray puts it on.

    Args:
        threads: of each run.
        place: folder that the sweep was started in; relative paths begin there.
    """

    def __init__(self, threads: int, place: str) -> None:
        self.place = place
        self.runner = Runner(threads, place)

    def ready(self, token: str) -> Node:
        """Describe this worker, with the text of the file `token`, or an empty one if it does not see that file."""
        path = Path(self.place, token)
        return Node(os.uname().nodename, __version__, path.read_text() if path.is_file() else "", os.getpid())

    def play(self, task: Mapping[str, Any], orders: Mapping[str, Any]) -> Iterator[Message]:
        """Yield the messages of `Runner.play`."""
        yield from self.runner.play(task, orders)

    def stop(self) -> None:
        """Let the present run save; returns when its process has ended."""
        self.runner.stop()
        self.runner.wait()
