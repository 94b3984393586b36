"""The figure of a comparison: accuracy by round, simulated time, energy and uplink traffic.

Curves differ in colour, line style and marker, so that they are told apart in grey as well.
"""

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..record import Record
from ..record.files import explained, write_atomic
from ..types import Floats
from .summary import measured
from .table import BITS, JOULES, TIMES, Units, scale

if TYPE_CHECKING:  # matplotlib takes a while to import and is needed by whoever draws alone
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours without yellow: colour-blind readers tell them apart, and all are dark enough on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)), (0, (9, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK = "#333333"
WIDTH_INCH = 10.0
LOG_RATIO = 20.0  # totals that differ by more than this between methods get a logarithmic axis


class Panel(NamedTuple):
    """One horizontal axis: what it counts, in which units, and how it is read from a record."""

    title: str
    units: Units
    cost: Callable[[Record], Floats]  # [n_rounds], running total


def _energy(record: Record) -> Floats:
    return np.asarray(np.cumsum(record.columns["compute_joule"] + record.columns["radio_joule"]))


PANELS = (
    Panel("round", ((1.0, ""),), lambda record: record.columns["round"] + 1.0),
    Panel("simulated time", TIMES, lambda record: record.columns["clock_s"]),
    Panel("energy of all devices", JOULES, _energy),
    Panel("uplink traffic", BITS, lambda record: np.cumsum(record.columns["uplink_bit"])),
)


def save(records: Sequence[Record], path: str | Path) -> Path:
    """Draw the records into a PNG file."""
    buffer, path = BytesIO(), Path(path)
    draw(records).savefig(buffer, format="png", dpi=150)
    with explained(path.parent, "then ask for the figure again (the record is whole)"):
        write_atomic(path, buffer.getvalue())
    return path


def draw(records: Sequence[Record]) -> "Figure":
    """The four panels, with one legend above them."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    metric = "accuracy" if any("accuracy" in record.columns for record in records) else "loss"
    figure = Figure(figsize=(WIDTH_INCH, 7.4), layout=ConstrainedLayoutEngine(wspace=0.05, hspace=0.05))
    axes = figure.subplots(2, 2, sharey=True).ravel()
    for panel, ax in zip(PANELS, axes, strict=True):
        _draw_panel(ax, panel, records, metric)
    for ax in axes[::2]:
        ax.set_ylabel("test accuracy (%)" if metric == "accuracy" else "test loss", color=INK)
    handles, labels = axes[0].get_legend_handles_labels()
    if handles:
        width_inch = 1.0 + 0.085 * max(map(len, labels))  # of a sample line and its label
        columns = min(max(int(WIDTH_INCH / width_inch), 1), len(labels), 5)
        figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False, handlelength=4.5)
    return figure


def _draw_panel(ax: "Axes", panel: Panel, records: Sequence[Record], metric: str) -> None:
    costs = [panel.cost(record) for record in records]
    totals = [float(cost[-1]) for cost in costs if len(cost) and cost[-1] > 0] or [1.0]
    size, unit = scale(max(totals), panel.units)
    for index, (record, cost) in enumerate(zip(records, costs, strict=True)):
        rounds, values = measured(record, metric)
        if len(values):
            values = values * (100.0 if metric == "accuracy" else 1.0)
            style = _style(index, len(values), len(records))
            _draw_curve(ax, shorten(record.label, 100), cost[rounds] / size, values, style)
    _dress(ax, panel.title + (f" ({unit})" if unit else ""), max(totals) > LOG_RATIO * min(totals))


def _draw_curve(ax: "Axes", label: str, cost: Floats, values: Floats, style: dict[str, Any]) -> None:
    if cost[-1] > 0:
        ax.plot(cost, values, label=label, **style)
        return
    # Nothing was spent: a level line says what is reached for free.
    ax.axhline(values[-1], label=label, **style | {"marker": ""})
    note = f"{shorten(label, 40)} (at no cost)"
    ax.annotate(note, (1, values[-1]), xycoords=("axes fraction", "data"), **_NOTE)


_NOTE: dict[str, Any] = {
    "xytext": (-4, 3),
    "textcoords": "offset points",
    "ha": "right",
    "va": "bottom",
    "fontsize": 8,
    "color": INK,
}


def shorten(label: str, most: int) -> str:
    """A label that fits into its place."""
    return label if len(label) <= most else label[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _style(index: int, n_points: int, n_curves: int) -> dict[str, Any]:
    """A look of its own for every curve, with a few markers that do not hide those of its neighbours."""
    every = max(n_points // 7, 1)
    return {
        "markevery": (index * every // n_curves, every),
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": LINES[index % len(LINES)],
        "marker": MARKERS[index % len(MARKERS)],
        "linewidth": 1.7,
        "markersize": 5.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.7,
    }


def _dress(ax: "Axes", title: str, logarithmic: bool) -> None:
    ax.set_xlabel(title, color=INK)
    ax.grid(color="#dddddd", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#888888")
    ax.tick_params(colors=INK, labelleft=True)
    if logarithmic:
        ax.set_xscale("log")
    else:
        ax.set_xlim(left=0)
