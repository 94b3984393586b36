"""A comparison as LaTeX tables with booktabs rules, for a paper."""

import re

from .comparison import Comparison
from .groups import spans
from .quantities import PERCENT
from .side_by_side import Section, comparison_lines, sections

SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
VALUE = re.compile(r"(> )?([+-]?\d[\d.]*)(?: ±(\S+))?(?: (\*+))?(?: (\(\d+\)))?")


def comparison_latex(comparison: Comparison) -> str:
    """One table per section: what was achieved, what each target took, and the differences to the reference."""
    percent = {one.title for one in comparison.quantities if one.units is PERCENT}
    head = ["% \\usepackage{booktabs}", *(f"% {line}" for line in comparison_lines(comparison))]
    return "\n".join([*head, *(_table(comparison, section, percent) for section in sections(comparison))])


def escaped(text: str) -> str:
    """Text that LaTeX prints as it is.

    >>> escaped("fedavg:n_selected=5 & 90 %")
    'fedavg:n\\\\_selected=5 \\\\& 90 \\\\%'
    """
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def cell(text: str) -> str:
    """A cell of a table: a mean with half its interval as mathematics, anything else as text.

    >>> cell("93.2 ±0.4"), cell("> 12.1"), cell("+0.3 ±0.1 **"), cell("-"), cell("2/3")
    ('$93.2 \\\\pm 0.4$', '$> 12.1$', '$+0.3 \\\\pm 0.1^{**}$', '--', '2/3')
    """
    if text == "-":
        return "--"
    match = VALUE.fullmatch(text)
    if not match:
        return escaped(text)
    more, number, half, stars, few = match.groups()
    shown = f"{more or ''}{number}" + f" \\pm {half}" * bool(half) + f"^{{{stars}}}" * bool(stars)
    return f"${shown}$" + f" {few}" * bool(few)


def _table(comparison: Comparison, section: Section, percent: set[str]) -> str:
    (first, *titles), *rows = section.cells
    header = [first, *(f"{title} (%)" if title in percent else title for title in titles)]
    n, share = len(comparison.seeds), f"{100 * comparison.confidence:g} %"
    seeds = f"seed {comparison.seeds[0]}" if n == 1 else f"seeds {spans(comparison.seeds)}, with {share} intervals"
    caption = f"{section.title[0].upper()}{section.title[1:]} ({seeds})."
    lines = [" & ".join([escaped(name), *map(cell, values)]) + r" \\" for name, *values in rows]
    return "\n".join(
        [
            "",
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{escaped(caption)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            r"\toprule",
            " & ".join(map(escaped, header)) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )
