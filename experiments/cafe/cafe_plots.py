"""How the figures on CAFe look."""

from collections.abc import Sequence
from typing import Any

from cafe_setting import values
from matplotlib.axes import Axes

from fedcell.experiment import Row
from fedcell.report.figure import COLOURS, LINES, MARKERS


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
    """Mean accuracy with one standard deviation, if the cases were run."""
    run = [(x, values(rows, key)) for x, key in zip(xs, keys, strict=True)]
    run = [(x, values) for x, values in run if len(values)]
    if run:
        mean, spread = [values.mean() for _, values in run], [values.std() for _, values in run]
        ax.errorbar([x for x, _ in run], mean, spread, capsize=3, label=label, **look(index))
