"""A table of a paper with what was measured beside it, for the page of the paper."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

NOTHING = "-"  # the paper prints no number, or nothing was run


class SideBySide(NamedTuple):
    """Cells as a reader sees them; the first column names the rows."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


Cells = Mapping[str, tuple[str, str]]  # name of a row -> (printed, measured)


def beside(what: str, columns: Mapping[str, Cells]) -> SideBySide:
    """The columns of a paper's table, each with the measured one beside it.

    Args:
        what: what a row is, such as a method.
        columns: the paper's columns by their titles; rows come in the order in which the columns name them.

    >>> beside("M", {"MCU": {"27": ("93.8 %", "85.9 %")}, "AGU": {"27": ("93.2 %", "")}}).rows
    [['27', '93.8 %', '85.9 %', '93.2 %', '-']]
    """
    names = dict.fromkeys(name for cells in columns.values() for name in cells)
    head = [what, *(f"{title}, {side}" for title in columns for side in ("paper", "here"))]
    rows = [
        [name, *(cell or NOTHING for cells in columns.values() for cell in cells.get(name, (NOTHING, NOTHING)))]
        for name in names
    ]
    return SideBySide(head, rows)


def percent(accuracy: float | None, digits: int = 1) -> str:
    """A printed accuracy.

    >>> percent(0.6608), percent(None)
    ('66.1 %', '')
    """
    return "" if accuracy is None else f"{100 * accuracy:.{digits}f} %"
