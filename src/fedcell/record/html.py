"""Runs as an HTML table, which is what Jupyter shows of a record."""

from collections.abc import Sequence
from html import escape
from math import isfinite

from ..human import BITS, JOULES, TIMES, heard, human
from ..metrics import Metric
from .index import RunInfo
from .scores import heads, shared


def table(rows: Sequence[Sequence[str]]) -> str:
    """An HTML table of a header and rows; the first column is left-aligned, the others right-aligned."""
    header, *rest = rows
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>"
        + "".join(f'<td style="text-align:{_side(n)}">{escape(cell)}</td>' for n, cell in enumerate(row))
        + "</tr>"
        for row in rest
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def runs(infos: Sequence[RunInfo]) -> str:
    """An HTML table with a row per run, followed by the message of each run that has one."""
    said = [f"{info.label}: {info.state}: {info.message}" for info in infos if info.message]
    header = ["method", "seed", "state", "rounds", *heads(infos), "time", "energy", "uplink", "delivered"]
    named = shared(infos) is None
    cells = [_cells(info, named) for info in infos]
    return table([header, *cells]) + "".join(f"<p>{escape(line)}</p>" for line in said)


def _side(column: int) -> str:
    return "right" if column else "left"


def _score(value: float, metric: Metric, named: bool) -> str:
    """A score for people, such as `91.4 %` or `53.2`; with the name of its metric if that differs between runs."""
    if not isfinite(value):
        return metric.shown(value)
    return metric.shown(value) + (" %" if metric.share else "") + (f" {metric.title}" if named else "")


def _cells(info: RunInfo, named: bool) -> list[str]:
    found = info.totals
    scores = [_score(one, info.metric, named) for one in (found.best, found.final)]
    costs = [human(found.simulated_s, TIMES), human(found.joule, JOULES), human(found.uplink_bit, BITS)]
    rounds = str(info.rounds) if info.rounds == info.total_rounds else f"{info.rounds}/{info.total_rounds}"
    updates = heard(found.delivered_per_round, found.selected_per_round)
    return [info.label, str(info.seed), info.state, rounds, *scores, *costs, updates]
