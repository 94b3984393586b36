"""Figures by knob: quantities over the values of one setting, with their intervals, one line per method."""

from collections.abc import Sequence
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..options import written
from ..record.files import write_asked
from .figure import COLOURS, FORMATS, INK, LINES, MARKERS, PAGE_INCH, PRINT, format_of, legend, shorten
from .table import Units, scale

if TYPE_CHECKING:  # matplotlib takes a while to import and is needed by whoever draws alone
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE = 20.0  # values whose largest is so many times the smallest get a logarithmic axis
TALL = 5.0  # the same upwards, except for shares
SHARE: Units = ((0.01, ""),)  # in %


class KnobPoint(NamedTuple):
    """One quantity at one value of a knob: its mean and interval."""

    label: str  # of the line that it belongs to
    knob: Any
    mean: float
    low: float
    high: float
    single: Sequence[float] = ()  # values to draw one by one instead of an interval


class KnobPanel(NamedTuple):
    """One quantity over the knob."""

    title: str
    units: Units
    points: Sequence[KnobPoint]


def save_knobs(key: str, panels: Sequence[KnobPanel], path: str | Path, width_inch: float = PAGE_INCH) -> Path:
    """Draw panels into a PNG, PDF or SVG file; its suffix selects the format."""
    from matplotlib import rc_context

    buffer, path = BytesIO(), Path(path)
    kind = format_of(path)
    with rc_context(PRINT):
        draw_knobs(key, panels, width_inch).savefig(buffer, format=kind, **FORMATS[kind])
    return write_asked(path, buffer.getvalue(), "then ask for the figure again")


def draw_knobs(key: str, panels: Sequence[KnobPanel], width_inch: float = PAGE_INCH) -> "Figure":
    """A panel per quantity over the values of `key`, two side by side, with one legend above them."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    across = min(2, len(panels))
    down = -(-len(panels) // across)
    size = (width_inch, 0.3 + 0.66 * width_inch / across * down)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(wspace=0.04, hspace=0.04))
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for ax, panel in zip(axes, panels, strict=False):
        _draw_panel(ax, key, panel)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    legend(figure, axes[0], width_inch)
    return figure


def _draw_panel(ax: "Axes", key: str, panel: KnobPanel) -> None:
    from matplotlib.ticker import LogFormatter

    knobs = _sorted(list(dict.fromkeys(point.knob for point in panel.points)))
    number = all(_is_number(knob) for knob in knobs)
    at = {knob: float(knob) if number else float(place) for place, knob in enumerate(knobs)}
    found = [abs(point.mean) for point in panel.points if isfinite(point.mean)] or [1.0]
    logarithmic = panel.units != SHARE and min(found) > 0 and max(found) > TALL * min(found)
    size, unit = scale((min(found) * max(found)) ** 0.5 if logarithmic else max(found), panel.units)
    for index, label in enumerate(dict.fromkeys(point.label for point in panel.points)):
        mine = sorted((point for point in panel.points if point.label == label), key=lambda point: at[point.knob])
        look: dict[str, Any] = {"color": COLOURS[index % len(COLOURS)], "linestyle": LINES[index % len(LINES)]}
        mark = MARKERS[index % len(MARKERS)]
        x = [at[point.knob] for point in mine]
        ax.plot(x, [point.mean / size for point in mine], marker=mark, ms=4, lw=1.2, label=shorten(label, 60), **look)
        for point in mine:
            ones = [value / size for value in point.single]
            ax.plot([at[point.knob]] * len(ones), ones, mark, ms=2.5, color=look["color"], alpha=0.6)
        low, high = ([getattr(point, name) / size for point in mine] for name in ("low", "high"))
        if logarithmic:  # an interval may reach below 0, which such an axis has no place for
            low = [max(value, min(found) / size / WIDE) for value in low]
        ax.fill_between(x, low, high, color=look["color"], alpha=0.15, linewidth=0)
    if logarithmic:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(LogFormatter())  # 200 instead of 2 x 10^2
        ax.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
    ax.set_ylabel(panel.title + (f" ({unit})" if unit else ""), color=INK)
    ax.set_xlabel(key, color=INK)
    if not number:
        ax.set_xticks(range(len(knobs)), [_tick(knob) for knob in knobs])
    elif min(at.values()) > 0 and max(at.values()) > WIDE * min(at.values()):
        ax.set_xscale("log")
    ax.grid(color="#dddddd", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(colors=INK)


def _sorted(knobs: list[Any]) -> list[Any]:
    """Numbers in their order, anything else as given."""
    return sorted(knobs, key=float) if all(map(_is_number, knobs)) else knobs


def _is_number(knob: Any) -> bool:
    return isinstance(knob, int | float) and not isinstance(knob, bool)


def ends_of(knob: Any) -> tuple[float, float] | None:
    """The lowest and the highest number of a range such as `1e8..1e9` or `1e8~1e9`; None for anything else.

    >>> ends_of("1e8~1e9"), ends_of("random")
    ((100000000.0, 1000000000.0), None)
    """
    try:
        low, high = map(float, str(knob).replace("~", "..").split(".."))
    except ValueError:
        return None
    return low, high


def _tick(knob: Any) -> str:
    """A value for people: numbers, also those of a range, in few digits.

    >>> _tick("123456789~1e9"), _tick("1000000000"), _tick("random")
    ('1.23e8~1e9', '1e9', 'random')
    """
    try:
        numbers = ends_of(knob) or (float(knob),)
    except (TypeError, ValueError):
        return written(knob)
    return "~".join(f"{one:.3g}".replace("e+0", "e").replace("e+", "e") for one in numbers)
