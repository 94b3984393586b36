"""Flower's SuperNode with a shorter pause: a device asks for work several times a second instead of every 3 s.

    python -m fedcell.deploy.node --poll-s 0.2 --insecure --superlink 127.0.0.1:8000 --port 8001 ...

Flags are those of `flower-supernode`, and `--poll-s`. Flower has no setting for the pause, so this replaces the module
`time` that its loop uses in flwr 1.41. If the loop of another version sleeps in another way, Flower's pause remains.
"""

import sys
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ..errors import BadInput, FedcellError
from .loopback import refuse_open

FLAG = "--poll-s"
POLL_S = 0.2


class ShortSleeps:
    """The module `time` with sleeps that are no longer than a bound."""

    def __init__(self, longest_s: float) -> None:
        self.longest_s = longest_s

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        """Sleep, but not longer than the bound."""
        time.sleep(min(seconds, self.longest_s))


def main() -> None:
    """Run a SuperNode."""
    try:
        longest_s, arguments = own_flag(sys.argv[1:])
        refuse_open(arguments)
    except FedcellError as error:
        sys.exit(f"fedcell: {error}")
    from flwr.supernode.cli import flower_supernode

    import_module("flwr.supernode.start_client_internal").__dict__["time"] = ShortSleeps(longest_s)
    sys.argv = ["flower-supernode", *arguments]
    flower_supernode()


def own_flag(arguments: Sequence[str]) -> tuple[float, list[str]]:
    """Split off `--poll-s`: return the seconds between two requests for work, and Flower's flags.

    >>> own_flag(["--insecure", "--poll-s", "0.5"])
    (0.5, ['--insecure'])
    >>> own_flag(["--poll-s=0.5", "--insecure"])
    (0.5, ['--insecure'])
    """
    rest, text, following = list[str](), str(POLL_S), iter(arguments)
    for one in following:
        flag, equals, value = one.partition("=")
        if flag == FLAG:
            text = value if equals else next(following, "")
        else:
            rest.append(one)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.01 <= seconds <= 60:
        raise BadInput(f"{FLAG} {text} is out of range: give 0.01 to 60 seconds")
    return seconds, rest


if __name__ == "__main__":
    main()
