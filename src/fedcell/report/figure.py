"""Figures: the leading metric by round, time, energy and uplink traffic, of single runs or of means over seeds.

Curves differ in colour, line style and marker, so that they are told apart in grey as well. PDF files embed their fonts
(TrueType), SVG files hold texts as texts, and both are free of dates.
"""

from collections.abc import Collection, Sequence
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..arguments import FILE, Kind, expect
from ..errors import BadInput, did_you_mean
from ..metrics import BY_NAME, LOSS
from ..record import Record
from ..record.files import refuse_folder, write_asked
from ..types import Floats
from .bands import Band, band
from .comparison import Comparison, Group
from .costs import COSTS, Cost, titled
from .labels import short_labels
from .served_curves import SERVED, curve, have_servers
from .table import scale

if TYPE_CHECKING:  # matplotlib takes a while to import, and only drawing needs it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours without yellow: colour-blind readers tell them apart, and all are dark enough on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)), (0, (9, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK = "#333333"
WIDTH_INCH = 10.0
LOG_RATIO = 20.0  # totals that differ by more than this between methods get a logarithmic axis
COLUMN_INCH, PAGE_INCH = 3.5, 7.16  # widths of one and of two columns of a paper
NARROW_INCH = 5.0  # below this, panels stand on top of each other
FEW = 3  # seeds from which on a band says more than the runs themselves
FORMATS: dict[str, dict[str, Any]] = {
    "png": {"dpi": 300},
    "pdf": {"metadata": {"CreationDate": None}},
    "svg": {"metadata": {"Date": None}},
}
READ = Kind(
    lambda runs: isinstance(runs, Collection) and all(isinstance(one, Record) for one in runs),
    "give a list of records, as fedcell.run and fedcell.read return",
)
PRINT: Any = {"font.size": 8, "pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "fedcell"}


def save(records: Sequence[Record], path: str | Path, again: str = "ask for the figure again") -> Path:
    """Draw the records into a PNG file; `again` tells the user what to do once a full disk has room."""
    expect(READ, records=records)
    expect(FILE, path=path)
    buffer, path = BytesIO(), Path(path)
    draw(records).savefig(buffer, format="png", dpi=150)
    return write_asked(path, buffer.getvalue(), f"then {again} (the record is whole)")


def save_comparison(
    comparison: Comparison, path: str | Path, width_inch: float = PAGE_INCH, axes: Sequence[str] = ()
) -> Path:
    """Draw the means over seeds into a PNG, PDF or SVG file, selected by its suffix; see `draw_comparison`."""
    from matplotlib import rc_context

    buffer, path = BytesIO(), Path(path)
    kind = format_of(path)
    with rc_context(PRINT):
        draw_comparison(comparison, width_inch, axes).savefig(buffer, format=kind, **FORMATS[kind])
    return write_asked(path, buffer.getvalue(), "then ask for the figure again (the record is whole)")


def check_figure(paths: Sequence[str | Path], axes: Sequence[str] = ()) -> None:
    """Raise BadInput for files or axes that `save_comparison` would refuse, before any work is done."""
    _chosen(axes)
    for path in paths:
        format_of(path)
        refuse_folder(Path(path))


def format_of(path: str | Path) -> str:
    """The format of a file by its suffix: png, pdf or svg; raise BadInput for any other."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise BadInput(f"figure {path} has no known format: end its name in .png, .pdf or .svg")
    return kind


def draw(records: Sequence[Record]) -> "Figure":
    """Draw four panels, two more if runs have edge servers, with one legend above them."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    metric = _leads(records)
    down = 3 if have_servers(records) else 2
    figure = Figure(figsize=(WIDTH_INCH, 3.7 * down), layout=ConstrainedLayoutEngine(wspace=0.05, hspace=0.05))
    axes = figure.subplots(down, 2).ravel()
    for cost, ax in zip(COSTS, axes, strict=False):
        ax.sharey(axes[0])
        _draw_panel(ax, cost, records, metric)
    for ax in axes[:4:2]:
        ax.set_ylabel(_metric_title(metric), color=INK)
    for name, ax in zip(SERVED, axes[4:], strict=False):
        _draw_panel(ax, COSTS[0], records, name)
        ax.set_ylabel(_metric_title(name), color=INK)
    legend(figure, axes[0], WIDTH_INCH)
    return figure


def draw_comparison(comparison: Comparison, width_inch: float = PAGE_INCH, axes: Sequence[str] = ()) -> "Figure":
    """One mean curve per group with its confidence band over the seeds, in one panel per cost.

    With fewer than three seeds every run is a line: a Student interval of two values covers the panel.

    Runs with edge servers have two more panels over the rounds, unless axes are chosen.

    Args:
        comparison: what `compare` returned.
        width_inch: of the figure, such as `COLUMN_INCH` or `PAGE_INCH`.
        axes: names of `COSTS`; none: all four.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    records = [record for group in comparison.groups for record in group.records]
    metric = _leads(records)
    shown = [(cost, metric) for cost in _chosen(axes)]
    if have_servers(records) and not axes:
        shown += [(COSTS[0], name) for name in SERVED]
    across = 2 if width_inch >= NARROW_INCH and len(shown) > 1 else 1
    down = -(-len(shown) // across)
    with rc_context(PRINT):
        size = (width_inch, 0.66 * width_inch / across * down + 0.25 + 0.1 * len(comparison.groups))
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(wspace=0.04, hspace=0.04))
        panels = figure.subplots(down, across, squeeze=False).ravel()
        for ax in panels[len(shown) :]:
            ax.set_visible(False)
        for number, ((cost, name), ax) in enumerate(zip(shown, panels, strict=False)):
            if name == metric:
                ax.sharey(panels[0])
            _draw_bands(ax, cost, comparison, name)
            if name != metric or number % across == 0:
                ax.set_ylabel(_metric_title(name), color=INK)
        legend(figure, panels[0], width_inch, _seeds_title(len(comparison.seeds), comparison.confidence))
    return figure


def _seeds_title(n: int, confidence: float) -> str:
    if n < FEW:
        return f"{n} seeds, a line each" if n > 1 else "one seed"
    return f"mean and {100 * confidence:g} % interval over {n} seeds"


def _leads(records: Sequence[Record]) -> str:
    """The metric that is drawn: what leads all runs, or the loss if they have different tasks or no such column."""
    found = {record.metric.name for record in records}
    return found.pop() if len(found) == 1 and any(found & record.columns.keys() for record in records) else LOSS.name


def _metric_title(metric: str) -> str:
    return SERVED.get(metric) or BY_NAME[metric].heading


def _factor(metric: str) -> float:
    return BY_NAME[metric].factor if metric in BY_NAME else 100.0  # shares are drawn in %


def _chosen(names: Sequence[str]) -> list[Cost]:
    known = {cost.name: cost for cost in COSTS}
    for name in names:
        if name not in known:
            raise BadInput(f"unknown axis {name!r}{did_you_mean(name, [*known])} (known are {', '.join(known)})")
    return [known[name] for name in dict.fromkeys(names)] or list(COSTS)


def legend(figure: "Figure", ax: "Axes", width_inch: float, title: str | None = None) -> None:
    """One legend above all panels, in as many columns as its labels leave room for."""
    from matplotlib import rcParams

    handles, labels = ax.get_legend_handles_labels()
    if handles:
        entry_inch = (
            rcParams["font.size"] / 10.0 * (1.0 + 0.085 * max(map(len, labels)))
        )  # of a sample line and its label
        columns = min(max(int(width_inch / entry_inch), 1), len(labels), 5)
        where: dict[str, Any] = {"loc": "outside upper center", "ncols": columns, "frameon": False}
        figure.legend(handles, labels, handlelength=4.5, title=title, **where)


def _draw_bands(ax: "Axes", cost: Cost, comparison: Comparison, metric: str) -> None:
    """The mean curves of all groups over one cost."""
    spent = [[cost.total(one) for one in group.records] for group in comparison.groups]
    totals = [float(max(total[-1] for total in part)) for part in spent]
    paid = [total for total in totals if total > 0] or [1.0]
    size, unit = scale(max(paid), cost.units)
    for index, (group, part) in enumerate(zip(comparison.groups, spent, strict=True)):
        curves = _curves(group, part, metric, size)
        if curves and isfinite(totals[index]):
            found = band(curves, comparison.confidence)
            style = _style(index, len(found.cost), len(comparison.groups)) | {"linewidth": 1.2, "markersize": 4.0}
            if totals[index] > 0 and len(curves) < FEW:
                _draw_runs(ax, shorten(group.label, 100), curves, style)
            else:
                _draw_band(ax, shorten(group.label, 100), found, style, totals[index] == 0)
    records = [one for group in comparison.groups for one in group.records]
    _dress(ax, titled(cost, records) + (f" ({unit})" if unit else ""), max(paid) > LOG_RATIO * min(paid))
    if _factor(metric) > 1:  # an interval may leave what a share can be; the figure need not
        bottom, top = ax.get_ylim()
        ax.set_ylim(bottom if metric == "saved_share" else max(bottom, 0.0), min(top, 100.0))


def _curves(group: Group, spent: Sequence[Floats], metric: str, size: float) -> list[tuple[Floats, Floats]]:
    """(cost, value) of every seed at its evaluations; seeds that were never evaluated have none."""
    found = [(total, *curve(one, metric)) for one, total in zip(group.records, spent, strict=True)]
    return [(total[rounds] / size, _factor(metric) * values) for total, rounds, values in found if len(values)]


def _draw_runs(ax: "Axes", label: str, curves: Sequence[tuple[Floats, Floats]], style: dict[str, Any]) -> None:
    """Draw every seed as a line in the same style, with one entry in the legend."""
    for number, (cost, values) in enumerate(curves):
        ax.plot(cost, values, label=label if number == 0 else None, **style)


def _draw_band(ax: "Axes", label: str, found: Band, style: dict[str, Any], free: bool) -> None:
    faint: Any = {"color": style["color"], "alpha": 0.15, "linewidth": 0}
    if free:
        _draw_level(ax, label, float(found.mean[-1]), style)
        if found.n >= FEW:
            ax.axhspan(float(found.low[-1]), float(found.high[-1]), **faint)
        return
    ax.plot(found.cost, found.mean, label=label if len(found.cost) else f"{label} (seeds share no range)", **style)
    ax.fill_between(found.cost, found.low, found.high, **faint)


def _draw_panel(ax: "Axes", panel: Cost, records: Sequence[Record], metric: str) -> None:
    costs = [panel.total(record) for record in records]
    totals = [float(cost[-1]) for cost in costs if len(cost) and cost[-1] > 0] or [1.0]
    size, unit = scale(max(totals), panel.units)
    texts = [record.label for record in records]
    labels = short_labels(texts, texts)[0] if texts else []
    for index, (record, cost) in enumerate(zip(records, costs, strict=True)):
        rounds, values = curve(record, metric)
        if len(values) and isfinite(cost[-1]):
            values = values * _factor(metric)
            style = _style(index, len(values), len(records))
            _draw_curve(ax, shorten(labels[index], 100), cost[rounds] / size, values, style)
    _dress(ax, titled(panel, records) + (f" ({unit})" if unit else ""), max(totals) > LOG_RATIO * min(totals))


def _draw_curve(ax: "Axes", label: str, cost: Floats, values: Floats, style: dict[str, Any]) -> None:
    if cost[-1] > 0:
        ax.plot(cost, values, label=label, **style)
        return
    _draw_level(ax, label, float(values[-1]), style)


def _draw_level(ax: "Axes", label: str, value: float, style: dict[str, Any]) -> None:
    """Draw a level line for a curve that costs nothing, at the score that it reaches."""
    ax.axhline(value, label=label, **style | {"marker": ""})
    note = f"{shorten(label, 40)} (at no cost)"
    ax.annotate(note, (1, value), xycoords=("axes fraction", "data"), **_NOTE)


_NOTE: dict[str, Any] = {
    "xytext": (-4, 3),
    "textcoords": "offset points",
    "ha": "right",
    "va": "bottom",
    "fontsize": 8,
    "color": INK,
}


def shorten(label: str, most: int) -> str:
    """Cut a label to at most `most` characters; an ellipsis marks the cut."""
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
    from matplotlib.ticker import MaxNLocator

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
        if title == COSTS[0].title:  # rounds are whole
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
