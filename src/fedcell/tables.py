"""CSV files that stand for settings: one line per device, or one per place on a track; known by their checksums."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from io import StringIO
from math import inf, isnan, nan
from pathlib import Path
from typing import NamedTuple

from .errors import BadInput, choose_one

DIGITS = 16  # of a checksum


class File(str):
    """The path of a file and, behind `#`, its checksum, so that a record says which one was used; empty for none.

    >>> File(""), File("devices.csv#00ff").path, File("devices.csv#00ff").checksum
    ('', 'devices.csv', '00ff')
    """

    @staticmethod
    def of(text: str) -> "File":
        """Read a path, and add the file's checksum if it has none; a given one is compared only when `data` is read."""
        if not isinstance(text, str):
            raise ValueError("a file is named by a text")
        path, _, checksum = text.partition("#")
        return File(text) if checksum or not path else File(f"{path}#{_checksum(_bytes(path))}")

    @property
    def path(self) -> str:
        return self.partition("#")[0]

    @property
    def checksum(self) -> str:
        return self.partition("#")[2]

    def data(self) -> bytes:
        """The bytes of the file; raises BadInput if its checksum is not the recorded one."""
        data = _bytes(self.path)
        if self.checksum and _checksum(data) != self.checksum:
            raise BadInput(f"{self.path!r} changed since it was recorded: restore it, or start a new run")
        return data


class Line(NamedTuple):
    """One line of a table: where it stands in the file, and its cells."""

    number: int
    cells: Mapping[str, str]


def read_column(file: File, column: str) -> list[float]:
    """The numbers of a column; raises BadInput, with the line, for a cell that is no number."""
    lines = read_lines(file, (column,))
    return [number(file, line, column) for line in lines]


def read_lines(file: File, needed: Sequence[str] = (), known: Sequence[str] | None = None) -> tuple[Line, ...]:
    """The lines below the header of a CSV file.

    Args:
        file: UTF-8, commas, a header with the names of the columns.
        needed: columns that must be there.
        known: columns that may be there; None: any.
    """
    names, lines = _parsed(file.path, file.data())
    for name in needed:
        if name not in names:
            raise BadInput(f"{file.path!r} has no column {name!r}{choose_one(name, list(names))}")
    for name in names if known is not None else ():
        if name not in known:  # type: ignore[operator]
            raise BadInput(f"column {name!r} of {file.path!r} is unknown{choose_one(name, list(known))}")  # type: ignore[arg-type]
    return lines


def read_rows(path: str, key: str, what: str) -> list[tuple[int, list[str]]]:
    """The lines of a CSV file that are not empty, each with its number, with or without a header.

    Args:
        path: of the file, UTF-8.
        key: the setting or flag that names it.
        what: the file should hold, such as seconds.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
        return [(line, [cell.strip() for cell in cells]) for line, cells in _rows(text)]
    except (UnicodeDecodeError, csv.Error):
        raise BadInput(f"{key} = {path!r} is not a CSV text in UTF-8: write one number per line") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{key} = {path!r} cannot be read ({_reason(error)}): name a CSV file of {what}") from None


def number(file: File, line: Line, column: str) -> float:
    """The number in a cell."""
    try:
        value = float(line.cells[column])
    except ValueError:
        value = nan
    if isnan(value):
        what = f"{file.path!r} line {line.number}: {column} = {line.cells[column]!r} is no number"
        raise BadInput(f"{what}: write a plain SI number such as 1e6")
    return value


def within(file: File, line: Line, column: str, low: float, high: float = inf) -> float:
    """The number in a cell, which must be finite and between two limits."""
    value = number(file, line, column)
    if not (low <= value <= high and abs(value) < inf):
        span = f"from {low:g} to {high:g}" if high < inf else f"of at least {low:g}"
        raise BadInput(f"{file.path!r} line {line.number}: {column} = {value:g}: write a finite number {span}")
    return value


def whole_number(file: File, line: Line, column: str, low: float, high: float = inf) -> float:
    """The number in a cell, which must be a whole one between two limits."""
    value = within(file, line, column, low, high)
    if value != int(value):
        span = f"from {low:g} to {high:g}" if high < inf else f"from {low:g}"
        raise BadInput(f"{file.path!r} line {line.number}: {column} = {value:g}: write a whole number {span}")
    return value


@lru_cache(maxsize=32)
def _parsed(path: str, data: bytes) -> tuple[tuple[str, ...], tuple[Line, ...]]:
    try:
        return _table(path, data.decode("utf-8-sig"))
    except (UnicodeDecodeError, csv.Error):
        raise BadInput(f"{path!r} is no CSV text in UTF-8: save it with commas and a header") from None


def _table(path: str, text: str) -> tuple[tuple[str, ...], tuple[Line, ...]]:
    rows = list(_rows(text))
    if len(rows) < 2:
        raise BadInput(f"{path!r} holds no lines below a header: write the names of the columns, then one line each")
    (_, header), *body = rows
    names = tuple(cell.strip() for cell in header)
    if "" in names or len(set(names)) < len(names):
        raise BadInput(f"the header of {path!r} has an empty or a double name: name every column once")
    for line, cells in body:
        if len(cells) != len(names):
            raise BadInput(f"{path!r} line {line} has {len(cells)} cells, not {len(names)}: write one for each column")
    return names, tuple(Line(at, dict(zip(names, map(str.strip, cells), strict=True))) for at, cells in body)


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(StringIO(text, newline=""))
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield reader.line_num, cells


def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise BadInput(f"the file {path!r} cannot be read ({_reason(error)}): name a CSV file with a header") from None


def _reason(error: OSError | ValueError) -> str:
    """Why a file cannot be read; a path with a NUL byte raises a ValueError."""
    return (getattr(error, "strerror", None) or "no path of a file").lower()


def _checksum(data: bytes) -> str:
    return sha256(data).hexdigest()[:DIGITS]
