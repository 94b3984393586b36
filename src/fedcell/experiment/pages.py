"""The page of a paper, for people, and the ledger as lists for programs; `front` has the page before them.

`docs/generate.py` writes them. A page has what the paper claims and what was found in a few sentences each; then figure
by figure our figure, the paper's table with ours beside it, every claim with its verdict, and why a claim fails; then
the readings taken, and every threshold that changed. The ledger has the numbers behind it.
"""

import csv
import io
import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from .beside import SideBySide
from .ledger import LedgerRow, Paper, read_result, totals
from .verdicts import VERDICTS, Part

SHOWN, REASON = 160, 300  # characters of what was measured and of what was asked; the ledger has all of it
MOST_PARTS = 3  # comparisons that are shown one by one
MOST_PRINTED = 100  # characters of printed numbers beside a table that has them
FAILS = ("not reproduced", "cannot decide", "partly", "far larger", "indicated")


def paper_page(paper: Paper, rows: Sequence[LedgerRow], figures: str) -> str:
    """The page of one paper.

    Args:
        paper: what `paper.toml` says.
        rows: of the paper.
        figures: where the folder of papers is, seen from the page.
    """
    counted = [row for row in rows if row.counted]
    parts = [f"# {paper.title}\n", f"{paper.reference}.\n"]
    if paper.summary:
        parts.append(f"## What the paper claims\n\n{paper.summary.strip()}\n")
    parts.append(
        "## What was found\n\n" + "\n\n".join(filter(None, (paper.found.strip(), _counts_line(counted)))) + "\n"
    )
    parts.append("## Figures and tables\n")
    groups = [list(group) for _, group in groupby(rows, lambda row: row.experiment)]
    of_paper = {row.experiment for row in counted}
    groups.sort(key=lambda group: group[0].experiment not in of_paper)  # questions of ours behind the paper's
    parts += [_figure(group, figures) for group in groups]
    parts.append(_list("Readings taken", paper.readings))
    parts.append(_beyond([row for row in rows if not row.counted and row.experiment in of_paper]))
    parts.append(_list("Thresholds that changed", paper.changed))
    parts.append(f"All claims with all numbers: [the ledger](../claims.md#{paper.name}).\n")
    return "\n".join(part for part in parts if part)


def _counts_line(rows: Sequence[LedgerRow]) -> str:
    """How many claims have which verdict, in a line."""
    found = totals(rows)
    if not found.total():
        return "No claim of a paper, questions of ours alone. [What the verdicts mean](../reproduce.md#the-rules)."
    words = ", ".join(f"{found[verdict]} {verdict}" for verdict in VERDICTS if found[verdict])
    return f"{found.total()} claims: {words}. [What the verdicts mean](../reproduce.md#the-rules)."


# ---------------------------------------------------------------- a figure


def _figure(rows: list[LedgerRow], figures: str) -> str:
    """A figure of the paper with its claims, or one of ours with all its questions."""
    first, own = rows[0], [row for row in rows if row.counted] or rows
    lines = [f"### {first.title}\n", *(() if own[0].counted else ("Questions of ours, which do not count.\n",))]
    if all(row.verdict == "not run" and not row.ours for row in own):
        return "\n".join([*lines, *_not_run(own), ""])
    if first.result and first.result.with_suffix(".png").is_file():
        lines.append(f"![{first.title}]({figures}/{first.paper}/results/{first.experiment}.png)\n")
    table = _table(first)
    if table:
        lines += [line(*table.head), "|---" * len(table.head) + "|", *(line(*row) for row in table.rows), ""]
    lines += ["| claim | paper | here | seeds | verdict |", "|---|---|---|---|---|"]
    lines += [_claim(row, table is not None) for row in own]
    return "\n".join([*lines, "", *_whys(own)])


def _table(row: LedgerRow) -> SideBySide | None:
    """The table of the figure's result, if the paper has one."""
    result = read_result(row.result) if row.result else None
    return SideBySide(**result["table"]) if result and "table" in result else None


def _not_run(rows: Sequence[LedgerRow]) -> list[str]:
    """A figure without any run: the reasons, and what it claims."""
    reasons = "; ".join(dict.fromkeys(row.reason for row in rows))
    return [f"**Not run**: {reasons}. What it claims:\n", *(f"- {row.claim} ({row.printed})" for row in rows)]


def _claim(row: LedgerRow, beside: bool) -> str:
    printed = "in the table" if beside and len(row.printed) > MOST_PRINTED else row.printed
    return line(row.claim, printed, short(row, beside), "-" if row.n is None else str(row.n), f"**{row.verdict}**")


def short(row: LedgerRow, beside: bool = False) -> str:
    """What was measured in a few words: a few comparisons, or how many of them hold.

    Args:
        row: of the ledger.
        beside: whether a table with the numbers stands above.
    """
    if row.n is None or not row.parts:
        return cut(row.ours)
    if len(row.parts) <= MOST_PARTS:
        return "; ".join(map(_in_words, row.parts))
    held = f"{sum(map(bool, row.parts))} of {len(row.parts)} comparisons hold"
    parts_alone = row.ours == "; ".join(map(str, row.parts))
    return held if beside else f"{held}; {cut('; '.join(map(_in_words, row.parts)) if parts_alone else row.ours)}"


def _in_words(part: Part) -> str:
    """A comparison without its seeds, which have a column."""
    if part.n is None or part.verdict == "not run":
        return str(part)
    return f"{part.name}: {part.measured}{', undecided' * (part.verdict == 'cannot decide')}"


def _whys(rows: Sequence[LedgerRow]) -> list[str]:
    """Why claims fail, one by one; of those that were run in part, what is missing."""
    failing = [row for row in rows if row.verdict in FAILS or (row.verdict == "not run" and row.ours)]
    return [*(f"- **{row.verdict}**: {row.claim}. {why(row)}" for row in failing), ""] if failing else []


def why(row: LedgerRow) -> str:
    """Why a claim fails, in a sentence; without one what was asked, and what of it holds."""
    return row.why or sentence(cut(row.reason, REASON))


def cut(text: str, most: int = SHOWN) -> str:
    """The beginning of a text, up to a comma or semicolon.

    >>> cut("one, two; three", 9)
    'one, two; ...'
    """
    if len(text) <= most:
        return text
    head = text[: most + 1]
    end = max(head.rfind(mark) for mark in (",", ";"))
    return f"{head[: end + 1] if end > 0 else head[:most]} ..."


def sentence(text: str) -> str:
    """A capital at the start, a stop at the end.

    >>> sentence("ahead of all; 2 of 8 hold")
    'Ahead of all; 2 of 8 hold.'
    """
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('...') else '.'}"


# ---------------------------------------------------------------- behind the figures


def _beyond(rows: Sequence[LedgerRow]) -> str:
    names = {"beyond": "question of ours", "check": "check"}
    lines = [
        f"- **{row.verdict}**, {row.experiment} ({names[row.kind]}): {row.claim}."
        for row in rows
        if row.verdict != "not run"
    ]
    return "\n".join(["## Beyond the paper\n", *lines, ""]) if lines else ""


def _list(title: str, items: Sequence[str]) -> str:
    return "\n".join([f"## {title}\n", *(f"- {item}" for item in items), ""]) if items else ""


def line(*cells: str) -> str:
    """A row of a table in Markdown."""
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


# ---------------------------------------------------------------- for programs


def plain(row: LedgerRow) -> dict[str, Any]:
    """A row in values that JSON has; the result as a path inside the folder of experiments."""
    result = f"{row.paper}/results/{row.experiment}.json" if row.result else None
    return row._asdict() | {"parts": [part._asdict() for part in row.parts], "result": result}


def as_json(rows: Sequence[LedgerRow]) -> str:
    return json.dumps([plain(row) for row in rows], indent=1, ensure_ascii=False) + "\n"


def as_csv(rows: Sequence[LedgerRow]) -> str:
    names = ("paper", "experiment", "key", "kind", "claim", "printed", "ours", "n", "verdict", "reason", "why")
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*names, "comparisons"])
    for row in rows:
        values = ["" if value is None else value for value in (getattr(row, name) for name in names)]
        table.writerow([*values, "; ".join(map(str, row.parts))])
    return text.getvalue()
