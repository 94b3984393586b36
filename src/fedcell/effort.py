"""How much of an experiment to run, and how: the flags that experiment files and `fedcell reproduce` share."""

import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from math import inf
from pathlib import Path
from typing import NamedTuple

from .errors import BadInput

SEEDS, QUICK_SEEDS = 5, 2  # of every case, by default


class Effort(NamedTuple):
    """The values of the flags."""

    quick: bool = False  # the reduced grid
    seeds: int | None = None  # seeds 1..N of every case, or its first N own ones; None: `SEEDS`, or `QUICK_SEEDS`
    stored: bool = False  # run nothing
    workers: int = 1  # processes side by side; 0: as many as there are cores
    only: str = ""  # run nothing but cases with this text in their key
    until_s: float = inf  # when to stop, as `time.time()` counts

    @property
    def numbers(self) -> range:
        """Seeds 1..N, as many as a case gets."""
        return range(1, 1 + (self.seeds or (QUICK_SEEDS if self.quick else SEEDS)))

    def folder(self, results: Path) -> Path:
        """The folder for results; quick results are kept apart from full ones."""
        return results / "quick" if self.quick else results


def flags(parser: ArgumentParser) -> None:
    """Add the flags to a parser."""
    parser.add_argument("--quick", action="store_true", help="a reduced grid, to see that it works; kept apart")
    parser.add_argument(
        "--seeds",
        metavar="N",
        type=int,
        help=f"seeds 1..N of every case, or the first N of its own (default: {SEEDS}; quick: {QUICK_SEEDS})",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=int,
        default=1,
        help="processes that run cases side by side; 0: as many as there are cores (default: 1)",
    )
    parser.add_argument("--stored", action="store_true", help="run nothing: judge and draw the runs on file")
    parser.add_argument("--only", metavar="TEXT", default="", help="run only cases with this in their name; judge all")
    parser.add_argument(
        "--minutes",
        dest="until_s",
        metavar="N",
        type=_from_now,
        default=inf,
        help="stop after so many minutes; runs under way resume with the same command (default: run all)",
    )


def _from_now(minutes: str) -> float:
    """The time that many minutes from now, as `time.time()` counts."""
    try:
        number = float(minutes)
    except ValueError:
        number = -1.0
    if not number > 0.0:
        raise ArgumentTypeError(f"{minutes!r} is no number above 0: give minutes such as 9.5")
    return time.time() + 60.0 * number


def effort_of(options: Namespace) -> Effort:
    """Read the flags from parsed options; raises BadInput for a value that is too small."""
    effort = Effort(**{name: getattr(options, name) for name in Effort._fields})
    for name, value, least in (("seeds", effort.seeds, 1), ("workers", effort.workers, 0)):
        if value is not None and value < least:
            raise BadInput(f"--{name} {value} is below {least}: give a whole number from {least} on")
    return effort
