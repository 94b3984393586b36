"""A comparison as tables for people, as JSON and as CSV."""

import csv
import io
from collections.abc import Iterator, Sequence
from html import escape
from math import floor, isfinite, log10
from typing import TYPE_CHECKING, Any, NamedTuple

from ..record.files import nulled
from ..record.html import table
from .groups import spans
from .quantities import PERCENT, Quantity, goal_text
from .table import aligned, scale

if TYPE_CHECKING:
    from rich.table import Table

    from .comparison import Comparison, Group, Measure

STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
CSV_HEADER = (
    *("group", "quantity", "target", "unit", "seeds", "n", "never_reached", "mean", "low", "high", "at_least"),
    *("difference", "difference_low", "difference_high", "p", "pairs"),
)


class Section(NamedTuple):
    """One table: a heading, and cells with a header line."""

    title: str
    cells: list[list[str]]


def sections(comparison: "Comparison") -> list[Section]:
    """What was achieved, what each target took, and both as differences to the reference."""
    out = []
    for target in (None, *comparison.targets):
        columns = [one for one in comparison.quantities if one.target == target]
        title = "mean over seeds" if target is None else f"to reach {goal_text(comparison.metric, target)}"
        out.append(Section(title, _values(comparison, columns, target)))
        gaps = [group.measures[one.key].difference for group in comparison.groups for one in columns]
        if any(gap.n for gap in gaps if gap):
            out.append(Section(f"{title}: difference to {comparison.reference}", _gaps(comparison, columns)))
    return out


def comparison_lines(comparison: "Comparison") -> list[str]:
    """What is compared, how to read it, and what to keep in mind."""
    n, share = len(comparison.seeds), f"{100 * comparison.confidence:g} %"
    brought = any(one.key == "hit_ratio" for one in comparison.quantities)
    metric, shares = comparison.metric, f"delivered{', hits, saved' * brought} in %"
    scores = "best, final, " if metric.share else f"best, final: test {metric.title}{metric.direction}; "
    out = [f"seeds: {spans(comparison.seeds)} (n = {n}); {scores}{shares}"]
    if n > 1:
        out[0] += f"; ± is half the {share} Student t interval of the mean over seeds"
    if n > 1 and len(comparison.groups) > 1:
        out.append("differences are taken seed by seed; paired t-test: * p < 0.05, ** p < 0.01, *** p < 0.001")
    measures = [one for group in comparison.groups for one in group.measures.values()]
    if any(one.censored for one in measures):
        out.append("> some runs never reach the target: their mean is more than this, and differences have no p-value")
    counts = [one.estimate.n for one in measures if not one.censored]
    counts += [one.difference.n for one in measures if one.difference]
    if any(0 < count < n for count in counts):
        out.append("(k): over k seeds, because the others have no such number")
    return [*out, *(f"note: {note}" for note in comparison.notes)]


def comparison_text(comparison: "Comparison") -> str:
    """The tables in plain characters, for pipes and files."""
    parts = []
    for section in sections(comparison):
        parts += [section.title, *aligned(section.cells), ""]
    return "\n".join([*parts, *comparison_lines(comparison)])


def comparison_tables(comparison: "Comparison") -> "list[Table]":
    """The tables for a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    out = []
    for title, (header, *rows) in sections(comparison):
        table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", padding=(0, 1, 0, 0))
        table.add_column(header[0], min_width=12, overflow="fold")
        for name in header[1:]:
            table.add_column(name, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        out.append(table)
    return out


def comparison_html(comparison: "Comparison") -> str:
    """The tables for a page or a notebook."""
    parts = [f"<h4>{escape(title)}</h4>{table(cells)}" for title, cells in sections(comparison)]
    return "".join([*parts, *(f"<p>{escape(line)}</p>" for line in comparison_lines(comparison))])


def comparison_json(comparison: "Comparison") -> dict[str, Any]:
    """Plain values in SI units; numbers that JSON lacks become null."""
    quantities = [one._asdict() for one in comparison.quantities]
    for one in quantities:
        del one["units"]
    return {
        "seeds": list(comparison.seeds),
        "reference": comparison.reference,
        "confidence": comparison.confidence,
        "metric": comparison.metric.name,
        "more_is_better": comparison.metric.rises,
        "targets": list(comparison.targets),
        "notes": list(comparison.notes),
        "quantities": quantities,
        "groups": [_group_json(group) for group in comparison.groups],
    }


def comparison_csv(comparison: "Comparison") -> str:
    """One line per group and quantity, in SI units; a cell is empty if there is no number."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for group in comparison.groups:
        for one in comparison.quantities:
            writer.writerow([_cell(value) for value in _csv_row(comparison, group, one)])
    return out.getvalue()


# ---------------------------------------------------------------- cells for people


def _values(comparison: "Comparison", columns: Sequence[Quantity], target: float | None) -> list[list[str]]:
    """A line per group; for a target with the number of runs that reach it."""
    parts = [[group.measures[one.key] for group in comparison.groups] for one in columns]
    printed = [_value_column(one, part) for one, part in zip(columns, parts, strict=True)]
    head, names = ["method"], [[group.label] for group in comparison.groups]
    if target is not None:
        head.append("reached")
        for name, one in zip(names, parts[0], strict=True):
            name.append(f"{one.estimate.n}/{len(one.values)}")
    return [head + [title for title, _ in printed], *_joined(names, [cells for _, cells in printed])]


def _gaps(comparison: "Comparison", columns: Sequence[Quantity]) -> list[list[str]]:
    """A line per group other than the reference."""
    others = [group for group in comparison.groups if group.label != comparison.reference]
    printed = [_gap_column(one, comparison, others) for one in columns]
    names = [[group.label] for group in others]
    return [["method", *(title for title, _ in printed)], *_joined(names, [cells for _, cells in printed])]


def _joined(names: list[list[str]], columns: Sequence[list[str]]) -> Iterator[list[str]]:
    for name, cells in zip(names, zip(*columns, strict=True), strict=True):
        yield [*name, *cells]


def _value_column(one: Quantity, measures: "Sequence[Measure]") -> tuple[str, list[str]]:
    shown = [part.bound if part.censored else part.estimate.mean for part in measures]
    size, title = _scaled(one, shown)
    cells = []
    for value, part in zip(shown, measures, strict=True):
        half = (part.estimate.high - part.estimate.low) / 2
        cells.append(
            f"> {number(value / size, half / size)}"
            if part.censored
            else number(value / size, half / size) + _few(part.estimate.n, len(part.values))
        )
    return title, cells


def _gap_column(one: Quantity, comparison: "Comparison", others: "Sequence[Group]") -> tuple[str, list[str]]:
    means = [group.measures[one.key].estimate.mean for group in comparison.groups]
    gaps = [group.measures[one.key].difference for group in others]
    size, title = _scaled(one, [*means, *(gap.mean for gap in gaps if gap)])
    cells = []
    for gap in gaps:
        assert gap is not None  # every group but the reference has one
        text = number(gap.mean / size, (gap.high - gap.low) / 2 / size, sign=True)
        stars = next((f" {mark}" for limit, mark in STARS if gap.p < limit), "")
        cells.append(text + stars + _few(gap.n, len(comparison.seeds)))
    return title, cells


def _few(n: int, of: int) -> str:
    return f" ({n})" if 0 < n < of else ""


def _scaled(one: Quantity, values: Sequence[float]) -> tuple[float, str]:
    """The unit that the largest value fills, and the title of the column with it."""
    there = [abs(value) for value in values if isfinite(value)]
    size, unit = scale(max(there, default=0.0), one.units)
    named = unit and max(there, default=0.0) > 0 and one.units is not PERCENT
    return size, f"{one.title} ({unit})" if named else one.title


def number(value: float, half: float, sign: bool = False) -> str:
    """A value with three digits, and half of its interval with as many decimals.

    >>> number(93.172, 0.4412), number(-0.01234, float("nan"), sign=True), number(1234.0, 20.0)
    ('93.2 ±0.4', '-0.0123', '1234 ±20')
    """
    if not isfinite(value):
        return "-"
    wide = isfinite(half) and half > 0
    decimals = 2 - floor(log10(abs(value))) if value else 6 * wide
    if wide:  # a small mean with a wide interval needs no more digits than that
        decimals = min(decimals, max(1 - floor(log10(half)), 1))
    decimals = min(max(decimals, 0), 6)
    text = f"{value:+.{decimals}f}" if sign else f"{value:.{decimals}f}"
    return text + (f" ±{half:.{decimals}f}" if isfinite(half) else "")


# ---------------------------------------------------------------- plain values


def _group_json(group: "Group") -> dict[str, Any]:
    return {
        "label": group.label,
        "name": group.name,
        "varied": dict(group.varied),
        "folders": [str(record.folder) for record in group.records],
        "measures": {key: _measure_json(one) for key, one in group.measures.items()},
    }


def _measure_json(one: "Measure") -> dict[str, Any]:
    gap = one.difference
    return {
        "values": nulled(one.values.tolist()),
        "at_least": nulled(one.least.tolist()),
        "never_reached": one.censored,
        **nulled(one.estimate._asdict()),
        "difference": nulled(gap._asdict()) if gap else None,
    }


def _csv_row(comparison: "Comparison", group: "Group", one: Quantity) -> list[Any]:
    part = group.measures[one.key]
    mean, low, high, n = part.estimate
    gap = part.difference or (None,) * 5
    seeds = spans(comparison.seeds)
    least = part.bound if part.censored else None
    return [group.label, one.key, one.target, one.unit, seeds, n, part.censored, mean, low, high, least, *gap]


def _cell(value: Any) -> Any:
    return "" if nulled(value) is None else value
