"""The page in front of the papers, a bar and an answer for each, and the page of verdicts before the present rules."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from .ledger import LedgerRow, Paper, totals
from .pages import line, why
from .verdicts import VERDICTS

COLOURS = ("#1b7837", "#5aae61", "#a6dba0", "#d9d9d9", "#d6604d", "#f4a582", "#f7f7f7")  # of VERDICTS
DARK = (COLOURS[0], COLOURS[4])  # that black letters are hard to read on
RANK = {
    "reproduced": 3.0,
    "far larger": 2.5,
    "partly": 2.0,
    "indicated": 1.5,
    "not reproduced": 1.0,
    "cannot decide": 1.0,
}
Earlier = Mapping[str, Mapping[str, str]]  # paper -> experiment/claim -> verdict by the rules before these

CHANGES = "changes.md"  # the page of verdicts before and after

_FRONT = """\
# The papers: what they claim, and what was found

`docs/generate.py` writes these pages from `experiments/`. [The same rules](../reproduce.md#the-rules) judge every
comparison, and nothing is decided on fewer than three seeds. `fedcell reproduce --all --stored` judges and draws
everything again from the runs in the repository. [The ledger](../claims.md) has every claim with all its numbers, also
as [CSV](../claims.csv) and [JSON](../claims.json).

![claims by verdict, one bar per paper](verdicts.svg)
"""

_CHANGED = """\
# Verdicts before and after the present rules

Earlier rules let one seed decide, and one comparison of many make a claim `partly`.
[The present ones](../reproduce.md#the-rules) ask for three seeds, intervals, and half of the comparisons. Claims that
were taken out of the count since (checks of our own settings, second readings) are in the numbers before.
"""


def front_page(papers: Sequence[Paper], rows: Sequence[LedgerRow]) -> str:
    """A bar, a line of counts and an answer per paper."""
    answers = [f"- [{paper.title}]({paper.name}.md): {first_sentence(paper.found)}" for paper in papers if paper.found]
    parts = [_FRONT, "\n".join([*answers, ""]), "## Claims by verdict\n", counts_table(papers, rows, "{}.md")]
    parts.append(
        f"[Verdicts before and after the present rules]({CHANGES}) names every claim whose verdict got worse.\n"
    )
    return "\n".join(parts)


def first_sentence(text: str) -> str:
    """Up to the first stop that ends a sentence.

    >>> first_sentence("It leads by 1.3 points. Then it falls.")
    'It leads by 1.3 points.'
    """
    words = " ".join(text.split())
    return words[: words.find(". ") + 1] or words


def changes_page(papers: Sequence[Paper], rows: Sequence[LedgerRow], earlier: Earlier) -> str:
    """Counts by paper before and after, and every verdict that got worse."""
    if not earlier:
        return f"{_CHANGED}\nNo earlier verdicts are on file.\n"
    return "\n".join(filter(None, (_CHANGED, _before_and_after(papers, rows, earlier), _worse(rows, earlier))))


def counts_table(papers: Sequence[Paper], rows: Sequence[LedgerRow], link: str) -> str:
    """How many claims of each paper have each verdict; `link` is the target of a paper's name, such as `{}.md`."""
    lines = ["| paper | claims | " + " | ".join(VERDICTS) + " | not counted |", "|---" * (len(VERDICTS) + 3) + "|"]
    for paper in papers:
        own = [row for row in rows if row.paper == paper.name]
        lines.append(line(f"[{paper.name}]({link.format(paper.name)})", *_numbers(own)))
    lines.append(line("all", *_numbers(rows)))
    return "\n".join([*lines, ""])


def _numbers(rows: Sequence[LedgerRow]) -> list[str]:
    found = totals(rows)
    numbers = (found.total(), *(found[word] for word in VERDICTS), sum(not row.counted for row in rows))
    return [str(n) if n else "." for n in numbers]


def _before_and_after(papers: Sequence[Paper], rows: Sequence[LedgerRow], earlier: Earlier) -> str:
    words = ("reproduced", "partly", "not reproduced", "not run")
    lines = [
        "| paper | claims before | "
        + " | ".join(f"{word} before" for word in words)
        + " | claims now | reproduced now |",
        "|---" * (len(words) + 4) + "|",
    ]
    for paper in papers:
        was, own = Counter(earlier.get(paper.name, {}).values()), [row for row in rows if row.paper == paper.name]
        now = totals(own)
        numbers = (was.total(), *(was[word] for word in words), now.total(), now["reproduced"])
        lines.append(line(paper.name, *map(str, numbers)))
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
            lines.append(f"- {row.name}, {row.claim}: {before} before, **{row.verdict}** now. {why(row)}")
    if idle:
        lines.append(f"- {idle} claims that had a verdict have none yet: their runs are to be made again.")
    return "\n".join(["## Verdicts that got worse\n", *lines, ""]) if lines else ""


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
    ink = "white" if colour in DARK else "black"
    label = f'<text x="{x + width / 2:.1f}" y="{y + 14:.1f}" text-anchor="middle" fill="{ink}">{text}</text>'
    inside = label if width > 14 else ""
    box = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{colour}" stroke="#888888">'
    return f"{box}<title>{title}{f': {text}' if text else ''}</title></rect>{inside}"


def read_earlier(root: Path) -> Earlier:
    """The verdicts before the present rules, if the folder of experiments has them."""
    path = root / "earlier.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
