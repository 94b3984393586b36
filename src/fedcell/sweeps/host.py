"""What runs of a sweep on a Ray node: a process that does the runs, and this actor, which passes on what it says.

Killed, the actor takes its end of the pipes with it, so the process saves a checkpoint and lets go of its run folder.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..version import __version__
from .runner import Message, Runner


class Node(NamedTuple):
    """What a worker says of itself before it gets a task."""

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
        """Who this is, and the text of a file of the sweep."""
        path = Path(self.place, token)
        return Node(os.uname().nodename, __version__, path.read_text() if path.is_file() else "", os.getpid())

    def play(self, task: Mapping[str, Any], orders: Mapping[str, Any]) -> Iterator[Message]:
        """Messages as of `Runner.play`."""
        yield from self.runner.play(task, orders)

    def stop(self) -> None:
        """Let the present run save; returns when its process has ended."""
        self.runner.stop()
        self.runner.wait()
