"""Progress on stderr: a live bar per method on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ..metrics import Metric, leading
from ..record import Progress
from ..report.table import TIMES, human
from ..types import Row

if TYPE_CHECKING:
    from rich.progress import TaskID

    from ..plan.cell import TrainingProgress

LINE_EVERY_S = 5.0
Watcher = TypeVar("Watcher", bound="Quiet")


class Quiet:
    """Print only notices; the base of the other watchers."""

    def __init__(self) -> None:
        self.again = ""  # how to resume after an interruption; empty while nothing is written
        self.scores: dict[str, tuple[Metric, float]] = {}  # newest of each method

    def __call__(self, progress: Progress) -> None:
        self.again = progress.again or self.again
        metric = leading(progress.task)
        if progress.row and metric.name in progress.row.metrics:
            self.scores[progress.label] = metric, progress.row.metrics[metric.name]
        if progress.note:
            self.say(f"fedcell: {progress.label}: {progress.note}")
        self.step(progress)

    def say(self, line: str) -> None:
        """Write a line to stderr; a reader that left does not stop the run."""
        with suppress(BrokenPipeError):
            print(line, file=sys.stderr, flush=True)

    def step(self, progress: Progress) -> None:
        """Show how far a run is."""

    def facts(self, label: str, row: Row, named: bool = False) -> str:
        """The newest numbers of a run in a few words; a metric that is not a share is always named."""
        score = ""
        if label in self.scores:
            metric, value = self.scores[label]
            word = f"{metric.title} " if named or not metric.share else ""
            score = f"{word}{metric.shown(value)}{' %' * metric.share}, "
        return f"{score}{human(row.clock_s, TIMES)} simulated"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal tidy."""


class Lines(Quiet):
    """A line per method now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.next_s = 0.0

    def step(self, progress: Progress) -> None:
        last = progress.done == progress.total
        if progress.row and (last or time.monotonic() >= self.next_s):
            self.next_s = time.monotonic() + LINE_EVERY_S
            facts = self.facts(progress.label, progress.row, named=True)
            self.say(f"{progress.label}: round {progress.done} of {progress.total}, {facts}")


class Live(Quiet):
    """The base of watchers that show live bars, which a subclass makes."""

    live: Any  # a `rich.progress.Progress`

    def say(self, line: str) -> None:
        self.live.console.print(line, markup=False, highlight=False)

    def __enter__(self) -> Self:
        self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()


class Bars(Live):
    """A live bar per method."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress
        from rich.table import Column

        console = Console(stderr=True)
        label = Column(max_width=max(16, console.width - 62), no_wrap=True, overflow="ellipsis")
        self.live = RichProgress(
            TextColumn("{task.description}", markup=False, table_column=label),
            BarColumn(bar_width=14),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}", markup=False, table_column=Column(no_wrap=True)),
            TimeRemainingColumn(compact=True),
            console=console,
        )
        self.tasks: dict[str, TaskID] = {}

    def step(self, progress: Progress) -> None:
        if progress.label not in self.tasks:
            self.tasks[progress.label] = self.live.add_task(progress.label, total=progress.total, facts="")
        shown: dict[str, Any] = {"facts": self.facts(progress.label, progress.row)} if progress.row else {}
        if not progress.note or progress.state != "running":
            shown["completed"] = progress.done
        self.live.update(self.tasks[progress.label], **shown)


class TimeLeft:
    """Print why a plan trains, and how long it will take: after the first round, then now and then.

    Args:
        asked: whether the user asked for training.
        clock: returns seconds.
    """

    def __init__(self, asked: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self.asked, self.clock, self.began_s, self.next_s = asked, clock, 0.0, 0.0

    def __call__(self, training: "TrainingProgress") -> None:
        done, total, now = training.done, training.total, self.clock()
        if not done and not self.began_s:
            self.began_s = now
            why = "" if self.asked else "what its rounds cost depends on what devices learn: "
            instead = "" if self.asked else "; --no-train guesses at once"
            self.say(f"fedcell: {training.label}: {why}training {total} rounds in all (--rounds N: fewer{instead})")
        elif 0 < done < total and now >= self.next_s:
            self.next_s = now + LINE_EVERY_S
            left = human((now - self.began_s) / done * (total - done), TIMES)
            self.say(f"{training.label}: {done} of {total} rounds trained, about {left} left")

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


def watcher(quiet: bool) -> Quiet:
    """The watcher that fits the terminal and what is installed."""
    return fitting(quiet, Quiet, Lines, Bars)


def fitting(
    quiet: bool, silent: Callable[[], Watcher], lines: Callable[[], Watcher], live: Callable[[], Watcher]
) -> Watcher:
    """One of three watchers: no progress, lines, or, on a terminal with rich, live bars."""
    if quiet:
        return silent()
    with suppress(ImportError):  # rich is not installed
        return live() if sys.stderr.isatty() else lines()
    return lines()
