"""How the figures on RawHFL look."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import rawhfl_setting as setting
from matplotlib.axes import Axes

from fedcell.experiment import Row
from fedcell.report.figure import COLOURS, LINES
from fedcell.types import Floats


def look(index: int) -> dict[str, Any]:
    """Colour and line style of the curve of a number."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": LINES[index // len(COLOURS) % len(LINES)]}


def band(axes: Axes, at: Floats, every: Floats, index: int, label: str) -> None:
    """Mean and spread over the first axis."""
    mean, deviation = every.mean(axis=0), every.std(axis=0)
    axes.plot(at, mean, label=label, linewidth=1.2, **look(index))
    axes.fill_between(at, mean - deviation, mean + deviation, alpha=0.15, color=look(index)["color"], linewidth=0)


def curves(axes: Axes, rows: Sequence[Row], stay: str, what: str, entries: Sequence[str]) -> None:
    """Mean and spread over seeds of every entry that was run, and the ceilings of the data."""
    for index, entry in enumerate(entries):
        if setting.ran(rows, stay, [entry]):
            at, every = setting.curve(rows, stay, entry, what)
            band(axes, at, np.where(np.isfinite(every), every, np.nan), index, setting.title(entry))
    every_ceiling = setting.ceilings(rows, stay)
    names = {"accuracy": {"bayes_on_test": "Bayes", "similar_on_test": "most similar"}, "loss": {"loss": "floor"}}
    for line, (name, label) in zip((":", "--"), names[what].items(), strict=False):
        if every_ceiling:
            height = float(np.mean([getattr(one, name) for one in every_ceiling]))
            axes.axhline(height, color="#888888", linewidth=1, linestyle=line, label=label)


def distribution(axes: Axes, numbers: Floats, index: int, label: str) -> None:
    """The cumulative law of numbers, or of percentiles of several drops."""
    if not numbers.size:
        return
    ordered = np.sort(numbers.ravel())
    axes.step(ordered, np.arange(1, ordered.size + 1) / ordered.size, where="post", label=label, **look(index))
