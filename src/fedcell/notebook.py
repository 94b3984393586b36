"""Progress in Jupyter: bars in the cell that runs, while it runs."""

import sys
import time
from html import escape
from importlib import import_module
from typing import Any

from .human import TIMES, human
from .metrics import leading
from .record import Progress, Watch, silent

EVERY_S = 0.3  # between two updates


class CellBars:
    """A watcher that shows a bar per run; notices are lines below."""

    def __init__(self) -> None:
        self.runs: dict[str, Progress] = {}
        self.scores: dict[str, str] = {}
        self.notes: list[str] = []
        self.handle: Any = None
        self.next_s = 0.0

    def __call__(self, progress: Progress) -> None:
        if progress.note:
            self.notes.append(f"{progress.label}: {progress.note}")
        metric = leading(progress.task)
        if progress.row and metric.name in progress.row.metrics:
            shown = metric.shown(progress.row.metrics[metric.name])
            self.scores[progress.label] = f"{shown} %" if metric.share else f"{metric.title} {shown}"
        known = self.runs.get(progress.label)
        if progress.total and not (progress.note and progress.state == "running"):
            self.runs[progress.label] = progress if progress.row or not known else progress._replace(row=known.row)
        if progress.note or progress.done == progress.total or time.monotonic() >= self.next_s:
            self.next_s = time.monotonic() + EVERY_S
            self.show()

    def show(self) -> None:
        """Draw, or draw again in the same place."""
        shell = import_module("IPython.display")
        picture = shell.HTML(self.html())
        if self.handle is None:
            self.handle = shell.display(picture, display_id=True)
        else:
            self.handle.update(picture)

    def html(self) -> str:
        """All bars and notices."""
        bars = [f"<tr>{''.join(f'<td>{cell}</td>' for cell in self._cells(one))}</tr>" for one in self.runs.values()]
        return f"<table>{''.join(bars)}</table>" + "".join(f"<p>{escape(note)}</p>" for note in self.notes)

    def _cells(self, one: Progress) -> list[str]:
        score = self.scores.get(one.label, "")
        clock = f"{human(one.row.clock_s, TIMES)} simulated" if one.row else ""
        bar = f'<progress value="{one.done}" max="{one.total}"></progress>'
        return [escape(one.label), bar, f"{one.done} of {one.total}", score, clock, escape(one.state)]


def watcher(watch: Watch) -> Watch:
    """Return progress bars if code runs in Jupyter and `watch` is the silent default; otherwise return `watch`."""
    return CellBars() if watch is silent and in_jupyter() else watch


def in_jupyter() -> bool:
    """Whether this code runs in a Jupyter kernel."""
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")
