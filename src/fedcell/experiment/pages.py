"""Pages for readers, made of the ledger: one per paper, a front page with a bar per paper, and lists for programs.

`docs/generate.py` writes them. A page has what the paper claims in five sentences, its figures and tables with the
printed numbers beside ours, what fails and why, the readings taken, and every threshold that changed.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from .ledger import LedgerRow, Paper, totals
from .verdicts import VERDICTS

SHOWN = 220  # characters of what was measured; the ledger has all of it
COLOURS = ("#1b7837", "#5aae61", "#a6dba0", "#d9d9d9", "#d6604d", "#f4a582", "#f7f7f7")  # of VERDICTS
RANK = {
    "reproduced": 3.0,
    "far larger": 2.5,
    "partly": 2.0,
    "indicated": 1.5,
    "not reproduced": 1.0,
    "cannot decide": 1.0,
}
FAILS = ("not reproduced", "cannot decide", "partly", "far larger", "indicated")
Earlier = Mapping[str, Mapping[str, str]]  # paper -> experiment/claim -> verdict by the rules before these


# ---------------------------------------------------------------- a paper


def paper_page(paper: Paper, rows: Sequence[LedgerRow], figures: str) -> str:
    """The page of one paper.

    Args:
        paper: what `paper.toml` says.
        rows: of the paper.
        figures: where the folder of papers is, seen from the page.
    """
    counted = [row for row in rows if row.counted]
    parts = [f"# {paper.title}\n", f"{paper.reference}.\n", f"{_counts_line(counted)}\n"]
    if paper.summary:
        parts.append(f"## What the paper claims\n\n{paper.summary.strip()}\n")
    parts.append("## Figures and tables\n")
    parts += [_figure(list(group), figures) for _, group in groupby(rows, lambda row: row.experiment)]
    parts.append(_fails(counted))
    parts.append(_list("Readings taken", paper.readings))
    parts.append(_beyond([row for row in rows if not row.counted]))
    parts.append(_list("Thresholds that changed", paper.changed))
    parts.append(f"All claims with all numbers: [the ledger](../claims.md#{paper.name}).\n")
    return "\n".join(part for part in parts if part)


def _counts_line(rows: Sequence[LedgerRow]) -> str:
    found = totals(rows)
    if not found.total():
        return "No claim of a paper, questions of ours alone. [What the verdicts mean](../reproduce.md#the-rules)."
    words = ", ".join(f"{found[verdict]} {verdict}" for verdict in VERDICTS if found[verdict])
    return f"{found.total()} claims: {words}. [What the verdicts mean](../reproduce.md#the-rules)."


def _figure(rows: list[LedgerRow], figures: str) -> str:
    first = rows[0]
    own = [row for row in rows if row.counted]
    if not own and not first.result:
        return ""
    lines = [f"### {first.title}\n"]
    if first.result and first.result.with_suffix(".png").is_file():
        lines.append(f"![{first.title}]({figures}/{first.paper}/results/{first.experiment}.png)\n")
    if own:
        lines += ["| claim | paper | here | seeds | verdict |", "|---|---|---|---|---|"]
        lines += [
            _line(row.claim, row.printed, short(row), "-" if row.n is None else str(row.n), f"**{row.verdict}**")
            for row in own
        ]
    return "\n".join([*lines, ""])


def short(row: LedgerRow) -> str:
    """What was measured in a few words: the comparison with its interval if there are at most two of them."""
    if 0 < len(row.parts) <= 2 and row.n is not None:
        return "; ".join(map(str, row.parts))
    return cut(row.ours)


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


def _fails(rows: Sequence[LedgerRow]) -> str:
    """What is not reproduced, and why; what was not run, by its reason."""
    lines = [
        f"- **{verdict}**, {row.experiment}: {row.claim}. {_explained(row)}"
        for verdict in FAILS
        for row in rows
        if row.verdict == verdict
    ]
    lines += [
        f"- **not run** in full, {row.experiment}: {row.claim}. {cut(row.reason)}."
        for row in rows
        if row.verdict == "not run" and row.ours
    ]
    idle = Counter(row.reason for row in rows if row.verdict == "not run" and not row.ours)
    lines += [f"- **not run**, {n} claim{'s' * (n > 1)}: {reason}." for reason, n in idle.items()]
    return "\n".join(["## What fails, and why\n", *lines, ""]) if lines else ""


def _explained(row: LedgerRow) -> str:
    """The sentence that says why a claim fails, and behind it what was asked; without one what was asked alone."""
    return f"{row.why} *Asked: {row.reason}.*" if row.why else sentence(row.reason)


def sentence(text: str) -> str:
    """A capital at the start, a stop at the end.

    >>> sentence("ahead of all; 2 of 8 hold")
    'Ahead of all; 2 of 8 hold.'
    """
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('...') else '.'}"


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


# ---------------------------------------------------------------- the front page


def front_page(papers: Sequence[Paper], rows: Sequence[LedgerRow], earlier: Earlier) -> str:
    """A bar and a line per paper, verdicts before and after these rules, and those that got worse."""
    parts = [_FRONT, _table(papers, rows), _before_and_after(papers, rows, earlier), _worse(rows, earlier)]
    return "\n".join(part for part in parts if part)


_FRONT = """\
# The papers: what they claim, and what was found

These pages are written by `docs/generate.py` from `experiments/`. Every comparison is judged by
[the same rules](../reproduce.md#the-rules), and nothing is decided on fewer than three seeds.
`fedcell reproduce --all --stored` judges and draws everything again from the runs in the repository.
[The ledger](../claims.md) has every claim with all its numbers, also as [CSV](../claims.csv) and
[JSON](../claims.json).

![claims by verdict, one bar per paper](verdicts.svg)
"""


def _table(papers: Sequence[Paper], rows: Sequence[LedgerRow]) -> str:
    lines = ["| paper | claims | " + " | ".join(VERDICTS) + " | not counted |", "|---" * (len(VERDICTS) + 3) + "|"]
    for paper in papers:
        own = [row for row in rows if row.paper == paper.name]
        lines.append(_line(f"[{paper.title}]({paper.name}.md)", *_numbers(own)))
    lines.append(_line("all", *_numbers(rows)))
    return "\n".join([*lines, ""])


def _numbers(rows: Sequence[LedgerRow]) -> list[str]:
    found = totals(rows)
    return [str(n) for n in (found.total(), *(found[word] for word in VERDICTS), sum(not row.counted for row in rows))]


def _before_and_after(papers: Sequence[Paper], rows: Sequence[LedgerRow], earlier: Earlier) -> str:
    if not earlier:
        return ""
    words = ("reproduced", "partly", "not reproduced", "not run")
    lines = [
        "## Before these rules\n",
        "Earlier rules let one seed decide, and one comparison of many make a claim `partly`. Claims that were taken",
        "out of the count since (checks of our own settings, second readings) are in the numbers before.\n",
        "| paper | claims before | "
        + " | ".join(f"{word} before" for word in words)
        + " | claims now | reproduced now |",
        "|---" * (len(words) + 4) + "|",
    ]
    for paper in papers:
        was, own = Counter(earlier.get(paper.name, {}).values()), [row for row in rows if row.paper == paper.name]
        now = totals(own)
        numbers = (was.total(), *(was[word] for word in words), now.total(), now["reproduced"])
        lines.append(_line(paper.name, *map(str, numbers)))
    return "\n".join([*lines, ""])


def _worse(rows: Sequence[LedgerRow], earlier: Earlier) -> str:
    """Every claim whose verdict got worse, and how many are not run again yet."""
    lines, idle = [], 0
    for row in rows:
        before = earlier.get(row.paper, {}).get(f"{row.experiment}/{row.key}")
        if before is None or before == "not run":
            continue
        if row.verdict == "not run":
            idle += 1
        elif RANK[row.verdict] < RANK[before]:
            why = row.why or sentence(cut(row.reason))
            lines.append(f"- {row.name}, {row.claim}: {before} before, **{row.verdict}** now. {why}")
    if idle:
        lines.append(f"- {idle} claims that had a verdict have none yet: their runs are to be made again.")
    return "\n".join(["### Verdicts that got worse\n", *lines, ""]) if lines else ""


def bars(papers: Sequence[Paper], rows: Sequence[LedgerRow]) -> str:
    """One bar per paper, divided by verdict, as an SVG."""
    left, width, height, gap = 150, 560, 20, 8
    most = max((totals([row for row in rows if row.paper == paper.name]).total() for paper in papers), default=1) or 1
    shown = [paper for paper in papers if totals([row for row in rows if row.paper == paper.name]).total()]
    total_height = len(shown) * (height + gap) + 60
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 40}" height="{total_height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{left + width + 40}" height="{total_height}" fill="white"/>',
    ]
    for place, paper in enumerate(shown):
        found = totals([row for row in rows if row.paper == paper.name])
        y, x = 10 + place * (height + gap), float(left)
        out.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{escape(paper.name)}</text>')
        for verdict, colour in zip(VERDICTS, COLOURS, strict=True):
            size = width * found[verdict] / most
            if found[verdict]:
                out.append(_box(x, y, size, height, colour, str(found[verdict]), verdict))
            x += size
    y = 10 + len(shown) * (height + gap) + 8
    for place, (verdict, colour) in enumerate(zip(VERDICTS, COLOURS, strict=True)):
        x = 8 + place * 106
        out.append(_box(x, y, 12, 12, colour, "", verdict))
        out.append(f'<text x="{x + 16}" y="{y + 10}" font-size="11">{verdict}</text>')
    return "\n".join([*out, "</svg>", ""])


def _box(x: float, y: float, width: float, height: float, colour: str, text: str, title: str) -> str:
    inside = f'<text x="{x + width / 2:.1f}" y="{y + 14:.1f}" text-anchor="middle">{text}</text>' if width > 14 else ""
    box = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{colour}" stroke="#888888">'
    return f"{box}<title>{title}{f': {text}' if text else ''}</title></rect>{inside}"


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


def read_earlier(root: Path) -> Earlier:
    """The verdicts before the present rules, if the folder of experiments has them."""
    path = root / "earlier.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
