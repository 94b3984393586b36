"""Progress of many runs on stderr: one live bar over all of them on a terminal, lines now and then elsewhere."""

import time
from collections.abc import Callable
from functools import partial

from ..record import Progress
from ..types import Row
from .progress import LINE_EVERY_S, Live, Quiet, fitting

STOPPED = ("finished", "diverged", "failed")


class Many(Quiet):
    """Count runs and rounds; print only notices.

    Args:
        n_runs: runs of the sweep.
        n_rounds: rounds of all of them together.
    """

    def __init__(self, n_runs: int, n_rounds: int) -> None:
        super().__init__()
        self.n_runs, self.n_rounds = n_runs, n_rounds
        self.rounds: dict[str, int] = {}  # done, by run; all of them for a run that stopped
        self.rows: dict[str, Row] = {}  # newest of each run that is under way
        self.stopped = 0

    def step(self, progress: Progress) -> None:
        name = progress.label
        if not progress.total or (progress.note and progress.state == "running"):
            return
        if progress.row:
            self.rows[name] = progress.row
        begun = name in self.rounds
        self.rounds[name] = progress.total if progress.state in STOPPED else progress.done
        if progress.state in STOPPED:
            self.stopped += 1
            if begun or progress.state == "failed":  # else it was done before
                self.end(name, progress.state)
            self.rows.pop(name, None)
        self.tick()

    def end(self, name: str, state: str) -> None:
        """Show that a run stopped."""

    def tick(self) -> None:
        """Show how far all runs are."""

    def standing(self) -> str:
        """How far all runs are, in a few words."""
        share = 100 * sum(self.rounds.values()) / max(self.n_rounds, 1)
        return f"{self.stopped} of {self.n_runs} runs done, {len(self.rows)} running, {share:.0f} % of all rounds"


class ManyLines(Many):
    """A line for every run that ends, and one now and then."""

    def __init__(self, n_runs: int, n_rounds: int) -> None:
        super().__init__(n_runs, n_rounds)
        self.next_s = time.monotonic() + LINE_EVERY_S

    def end(self, name: str, state: str) -> None:
        facts = f", {self.facts(name, self.rows[name], named=True)}" if name in self.rows else ""
        self.say(f"[{self.stopped}/{self.n_runs}] {name}: {state}{facts}")

    def tick(self) -> None:
        if time.monotonic() >= self.next_s:
            self.next_s = time.monotonic() + LINE_EVERY_S
            self.say(self.standing())


class ManyBar(Live, Many):
    """One live bar over the rounds of all runs."""

    def __init__(self, n_runs: int, n_rounds: int) -> None:
        super().__init__(n_runs, n_rounds)
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self.live = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} %", markup=False),
            TimeElapsedColumn(),
            TextColumn("left:", markup=False),
            TimeRemainingColumn(compact=True),
            console=Console(stderr=True),
        )
        self.task = self.live.add_task(f"0/{n_runs} runs", total=n_rounds)

    def tick(self) -> None:
        words = f"{self.stopped}/{self.n_runs} runs, {len(self.rows)} running"
        self.live.update(self.task, completed=sum(self.rounds.values()), description=words)


def watcher_of_many(quiet: bool, n_runs: int, n_rounds: int) -> Many:
    """The watcher that fits the terminal and what is installed."""
    made: list[Callable[[], Many]] = [partial(one, n_runs, n_rounds) for one in (Many, ManyLines, ManyBar)]
    return fitting(quiet, *made)
