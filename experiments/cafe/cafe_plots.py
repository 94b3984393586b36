"""How the figures on CAFe look."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from cafe_setting import by_seed
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedcell.experiment import Row
from fedcell.report.figure import COLOURS, LINES, MARKERS


def panels(n: int = 1, height: float = 4.2) -> tuple[Figure, list[Axes]]:
    """A figure with `n` panels in rows of two."""
    columns = min(n, 2)
    rows = -(-n // columns)
    figure = Figure(figsize=(5.6 * columns if n > 1 else 7.0, height * rows), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(rows, columns)).ravel())


def dress(ax: Axes, x: str, y: str, title: str = "", legend: bool = True) -> None:
    ax.set(xlabel=x, ylabel=y, title=title)
    ax.grid(color="#dddddd", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    if legend and ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False)


def look(index: int) -> dict[str, Any]:
    """A colour, a line and a marker of its own for every curve."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": LINES[index % len(LINES)],
        "marker": MARKERS[index % len(MARKERS)],
    }


def accuracy_points(
    ax: Axes, rows: list[Row], xs: Sequence[float], keys: Sequence[str], index: int, label: str
) -> None:
    """Mean accuracy with one standard deviation, where the cases were run."""
    run = [(x, by_seed(rows, key)) for x, key in zip(xs, keys, strict=True)]
    run = [(x, values) for x, values in run if len(values)]
    if run:
        mean, spread = [values.mean() for _, values in run], [values.std() for _, values in run]
        ax.errorbar([x for x, _ in run], mean, spread, capsize=3, label=label, **look(index))
