"""The table of a comparison, in units a person reads."""

from collections.abc import Collection, Mapping, Sequence
from math import isfinite, nan
from typing import TYPE_CHECKING

from ..arguments import Kind, expect
from ..human import BITS as BITS
from ..human import JOULES as JOULES
from ..human import TIMES as TIMES
from ..human import Units as Units
from ..human import heard
from ..human import human as human
from ..human import scale as scale
from ..record import Record, RunInfo, summarise
from ..record.scores import heads, score_cells, score_meaning, shared

if TYPE_CHECKING:
    from rich.table import Table

RECORDS = Kind(
    lambda runs: isinstance(runs, Collection) and all(isinstance(one, Record | RunInfo) for one in runs),
    "give a list of records, as fedcell.run returns",
)
HEADER = ("method", "best", "final", "time", "compute", "radio", "uplink", "delivered")  # scores by name if need be
MEANING = "{} time: {}. compute, radio: energy of all devices. delivered: devices heard of those selected, per round."
SERVED = ("hits", "backhaul", "saved")
SERVED_MEANING = (
    " hits: requests served by edge servers, in %. backhaul: requested files that it carried, those fetched ahead "
    "included. saved: bits it was spared of those requested, in %."
)
MORE = (("downlink_bit", "downlink", BITS), ("receive_joule", "receive", JOULES), ("idle_joule", "idle", JOULES))
MORE_MEANING = {  # of columns that a run has only in some worlds
    "downlink_bit": " downlink: sent by base stations.",
    "receive_joule": " receive: energy of listening.",
    "idle_joule": " idle: energy of standing by.",
}


def grid(summaries: Sequence[RunInfo]) -> list[list[str]]:
    """The texts of the table: the header, then one list per run."""
    named = shared(summaries) is None
    rows = [["method", *heads(summaries), *HEADER[3:]], *(_cells(one, named) for one in summaries)]
    for name, title, units in MORE:
        if any(getattr(one.totals, name) for one in summaries):
            added = [title, *(human(getattr(one.totals, name), units) for one in summaries)]
            rows = [[*row, cell] for row, cell in zip(rows, added, strict=True)]
    if any(one.served for one in summaries):
        more = [SERVED, *(served_cells(one.served) for one in summaries)]
        rows = [[*row, *cells] for row, cells in zip(rows, more, strict=True)]
    return rows


def meaning(summaries: Sequence[RunInfo]) -> str:
    """How to read the table."""
    text = MEANING.format(score_meaning(summaries), " or ".join(dict.fromkeys(one.clock for one in summaries)))
    text += "".join(MORE_MEANING[name] for name, _, _ in MORE if any(getattr(one.totals, name) for one in summaries))
    return text + SERVED_MEANING * any(one.served for one in summaries)


def served_cells(served: Mapping[str, float]) -> list[str]:
    """The cells of `SERVED` for a run; dashes if it has no edge servers.

    >>> served_cells({"hit_ratio": 0.25, "video_backhaul_bit": 2e9, "saved_share": -0.1})
    ['25.0', '2.00 Gbit', '-10.0']
    """
    hits, saved = (_percent(served.get(name, nan)) for name in ("hit_ratio", "saved_share"))
    return [hits, human(served.get("video_backhaul_bit", nan), BITS), saved]


def remarks(summaries: Sequence[RunInfo]) -> list[str]:
    """A sentence for every run that did not play all its rounds."""
    return [
        f"{one.label}: {one.state} after {one.rounds} of {one.total_rounds} rounds"
        + f" ({one.message})" * bool(one.message)
        for one in summaries
        if one.state != "finished" or one.message
    ]


def text(runs: Sequence[Record | RunInfo]) -> str:
    """The table of records, or of their summaries, in plain characters, for pipes and files."""
    expect(RECORDS, runs=runs)
    summaries = [one if isinstance(one, RunInfo) else summarise(one) for one in runs]
    return "\n".join([*aligned(grid(summaries)), "", meaning(summaries), *remarks(summaries)])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of equal width: a header, a rule, and rows of which the first column is flush left.

    >>> aligned([["a", "b"], ["long", "1"]])
    ['a     b', '----  -', 'long  1']
    """
    return columns(ruled(rows), "<" + ">" * (len(rows[0]) - 1))


def ruled(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The rows with a rule below the first, which is their header."""
    rule = ["-" * max(map(len, column)) for column in zip(*rows, strict=True)]
    return [rows[0], rule, *rows[1:]]


def columns(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Lines of cells two spaces apart; `sides` says for each column whether it is flush left (`<`) or right (`>`).

    A last column that is flush left is not filled up.

    >>> columns([["a", "b", "c"], ["long", "10", "and more"]], "<><")
    ['a      b  c', 'long  10  and more']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if sides[-1] == "<":
        widths[-1] = 0
    return [
        "  ".join(
            cell.ljust(width) if side == "<" else cell.rjust(width)
            for cell, side, width in zip(row, sides, widths, strict=True)
        )
        for row in rows
    ]


def rich_table(summaries: Sequence[RunInfo]) -> "Table":
    """The table for a terminal: only the method folds, and the best final score stands out."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    header, *rows = grid(summaries)
    table = Table(box=SIMPLE_HEAD, caption=meaning(summaries), caption_justify="left", padding=(0, 1, 0, 0))
    table.add_column(header[0], min_width=12, overflow="fold")
    for name in header[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    metric, final = shared(summaries), [one.totals.final for one in summaries]
    best = metric.best(final) if metric else nan
    for score, row in zip(final, rows, strict=True):
        table.add_row(*row, style="bold" if score == best else "")
    return table


def _cells(one: RunInfo, named: bool) -> list[str]:
    found = one.totals
    return [
        one.label,
        *score_cells(one, named),
        human(found.simulated_s, TIMES),
        human(found.compute_joule, JOULES),
        human(found.radio_joule, JOULES),
        human(found.uplink_bit, BITS),
        heard(found.delivered_per_round, found.selected_per_round),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if isfinite(share) else "-"
