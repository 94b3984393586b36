"""How the figures of experiments look."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..report.figure import COLOURS, LINES
from ..report.paired import half_width
from .measures import accuracies, final
from .over_seeds import values_of
from .stores import Row

PRINTED = "#444444"  # colour of what the paper prints


def panels(n: int = 1, columns: int = 2, height: float = 4.0) -> tuple[Figure, list[Axes]]:
    """A figure with `n` panels, one if there is nothing to show, in lines of `columns`."""
    columns = min(max(n, 1), columns)
    lines = -(-max(n, 1) // columns)
    figure = Figure(figsize=(5.4 * columns if columns > 1 else 7.0, height * lines), layout="constrained")
    axes = list(np.ravel(figure.subplots(lines, columns, squeeze=False)))
    for unused in axes[max(n, 1) :]:
        unused.set_visible(False)
    return figure, axes


def dress(axes: Axes, x: str, y: str, title: str = "", legend: bool = True) -> None:
    """Names of the axes, a grid, and a legend if curves have labels."""
    axes.set(xlabel=x, ylabel=y, title=title)
    axes.grid(color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize="small")


def curve(ax: Axes, rows: Sequence[Row], key: str, index: int, label: str, y: str = "accuracy") -> None:
    """Mean over seeds of a column against the round, if the case was run."""
    runs = [row for row in rows if row["case"] == key]
    if not runs:
        return
    x = runs[0]["rounds"] if len(runs[0][y]) == len(runs[0]["rounds"]) else np.arange(1, len(runs[0][y]) + 1)
    look = {"color": COLOURS[index % len(COLOURS)], "linestyle": LINES[index % len(LINES)]}
    ax.plot(x, np.mean([row[y] for row in runs], axis=0), label=label, **look)


def printed_point(ax: Axes, x: float, y: float, label: str = "printed") -> None:
    """A number that the paper prints, named once in a panel."""
    named = label in ax.get_legend_handles_labels()[1]
    ax.plot(x, y, "x", color=PRINTED, markeredgewidth=1.6, label=None if named else label, zorder=5)


def printed_lead(ax: Axes, rows: Sequence[Row], low: str, margin: float, x: str = "rounds") -> None:
    """Where a case would end that leads another by the printed margin: a line up from that one's end, if it was run."""
    runs = [row for row in rows if row["case"] == low]
    if runs:
        at, level = float(np.mean([row[x][-1] for row in runs])), float(values_of(rows, low, final).mean())
        ax.plot([at, at], [level, level + margin], color=PRINTED, linewidth=1.0, zorder=5)
        printed_point(ax, at, level + margin, "printed lead")


def lead(ax: Axes, rows: Sequence[Row], high: str, low: str, index: int, label: str) -> None:
    """The lead in accuracy of one case over another against the round: mean over seeds with its 95 % interval."""
    own = {key: {row["seed"]: row for row in rows if row["case"] == key} for key in (high, low)}
    seeds = sorted(own[high].keys() & own[low].keys())
    if not seeds:
        return
    leads = 100 * np.array([accuracies(own[high][seed]) - accuracies(own[low][seed]) for seed in seeds])
    at, mean, half = own[high][seeds[0]]["rounds"], leads.mean(axis=0), half_width(leads, 0.95)
    colour = COLOURS[index % len(COLOURS)]
    ax.plot(at, mean, label=label, color=colour, linestyle=LINES[index % len(LINES)])
    ax.fill_between(at, mean - half, mean + half, color=colour, alpha=0.15, linewidth=0)
    ax.axhline(0, color="#888888", linewidth=0.8)
