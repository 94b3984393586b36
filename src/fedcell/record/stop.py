"""Stop a run from another process: a request file in its folder, which the run looks for between two rounds.

No signal is sent, so only the process that holds the folder can be affected.
"""

import time
from contextlib import suppress
from pathlib import Path

from ..errors import BadInput
from .files import explained, in_use, write_atomic

NAME = "stop"
LOOK_EVERY_S = 0.1


class Stopped(KeyboardInterrupt):
    """A run was asked to stop: it ends as with Ctrl-C."""


def request(folder: str | Path) -> None:
    """Ask the run in a folder to stop after its present round; BadInput when no process works on it."""
    folder = Path(folder)
    if not in_use(folder):
        raise BadInput(f"{folder} is not running: there is nothing to stop")
    with explained(folder, "or stop the run with Ctrl-C in its terminal"):
        write_atomic(folder / NAME, b"")


class StopRequests:
    """Look for requests to stop one run; a request left over from an earlier try is deleted first."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.path.unlink(missing_ok=True)
        self.due_s = 0.0

    def check(self) -> None:
        """Raise Stopped when asked to."""
        if time.monotonic() < self.due_s:
            return
        self.due_s = time.monotonic() + LOOK_EVERY_S
        if self.path.exists():
            raise Stopped

    def close(self) -> None:
        """Delete the request."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
