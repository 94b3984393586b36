"""`rounds.jsonl`: one JSON line per round, only ever appended to, free of anything that differs between reruns."""

import json
import os
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ContractError, FedcellError
from ..types import Row
from .files import plain, read_bytes, sync_folder
from .folder import ROWS
from .letters import pack, unpack
from .rows_sum import NO_ROWS, rows_sum

INTEGERS = ("round", "n_selected", "n_delivered")
NUMBERS = ("clock_s", "round_s", "compute_joule", "radio_joule", "uplink_bit")


def encode(row: Row) -> bytes:
    """Encode a row as one JSON line; floats are written so that reading them gives the same bits."""
    clash = set(row.metrics) & set(Row._fields)
    if clash:
        raise ContractError(f"metric {min(clash)!r} has the name of a column of the record: rename it in the method")
    values: dict[str, Any] = {name: int(getattr(row, name)) for name in INTEGERS}
    values |= {name: float(getattr(row, name)) for name in NUMBERS}
    values |= {"outcome": pack(row.outcome), "metrics": {name: float(value) for name, value in row.metrics.items()}}
    ordered = {name: values[name] for name in Row._fields}
    return json.dumps(plain(ordered), allow_nan=False, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Row:
    """The row of one line; raises ValueError, KeyError or TypeError when it is damaged."""
    values = json.loads(line)
    try:
        values |= {name: float(values[name]) for name in NUMBERS}
        values["metrics"] = {name: float(value) for name, value in values["metrics"].items()}
        np.array([values[name] for name in INTEGERS], np.int64)
    except OverflowError as error:
        raise ValueError(str(error)) from None
    if not isinstance(values["outcome"], str):
        raise TypeError("the outcome is no text")
    values["outcome"] = unpack(values["outcome"])
    return Row(**values)


def columns(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows as arrays, one per column and per metric; NaN if a metric was not measured in a round."""
    out: dict[str, Any] = {name: np.array([getattr(row, name) for row in rows], np.int64) for name in INTEGERS}
    out |= {name: np.array([getattr(row, name) for row in rows], np.float64) for name in NUMBERS}
    out["outcome"] = [row.outcome for row in rows]
    for name in dict.fromkeys(name for row in rows for name in row.metrics):
        out[name] = np.array([row.metrics.get(name, np.nan) for row in rows], np.float64)
    return out


def numbers(lines: Sequence[bytes]) -> dict[str, Any]:
    """The columns of sound lines as `columns` makes them, without the outcomes, which can be large."""
    return _decode_all(b"".join(lines), None, outcomes=False)[0]


def load(folder: Path, wanted: Collection[str] | None = None) -> tuple[dict[str, Any], int]:
    """The columns of the journal in a folder, and its number of rounds.

    The whole file is decoded at once, about ten times as fast as row by row. If anything in it is unusual, it is
    decoded row by row, which reports what is wrong.

    Args:
        folder: of one run.
        wanted: columns and metrics to return; None: all. A metric that was never measured is left out.
    """
    data = read_bytes(folder / ROWS)
    whole = data[: data.rfind(b"\n") + 1]
    try:
        table = _decode_all(whole, wanted)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        lines = _lines(data, folder / ROWS)[0]
        found, whole = [decode(line) for line in lines], b"".join(lines)
        every = columns(found)
        table = {name: part for name, part in every.items() if wanted is None or name in wanted}, len(found)
    _verify(folder, whole)
    return table


def read(folder: Path) -> tuple[list[bytes], int]:
    """The whole lines of the journal and the bytes of a half-written rest, without changing the file."""
    lines, rest = _lines(read_bytes(folder / ROWS), folder / ROWS)
    _verify(folder, b"".join(lines))
    return lines, rest


def _verify(folder: Path, data: bytes) -> None:
    """Check whole lines against the checksum in the status, if there is one."""
    if kept := rows_sum(folder):
        kept.check(data, folder / ROWS)


def _decode_all(data: bytes, wanted: Collection[str] | None, outcomes: bool = True) -> tuple[dict[str, Any], int]:
    """The columns of whole lines; raises what `decode` raises if a line may be damaged."""
    values = json.loads(b"[" + data[:-1].replace(b"\n", b",") + b"]")
    if len(values) != data.count(b"\n") or any(len(row) != len(Row._fields) for row in values):
        raise ValueError("a line is no row")
    found = dict(zip(Row._fields, zip(*map(_ROW, values), strict=True), strict=True)) if values else dict(_EMPTY)
    if found["round"] != tuple(range(len(values))):
        raise ValueError("a round is missing")
    metrics = found.pop("metrics")
    out: dict[str, Any] = {name: _array(found[name], np.int64) for name in INTEGERS}
    out |= {name: _array(found[name], np.float64) for name in NUMBERS}
    if not all(isinstance(one, str) for one in found["outcome"]):
        raise TypeError("an outcome is no text")
    if outcomes and (wanted is None or "outcome" in wanted):
        out["outcome"] = [unpack(one) for one in found["outcome"]]
    for name in dict.fromkeys(chain.from_iterable(metrics)):
        if wanted is None or name in wanted:
            out[name] = _array([row.get(name, np.nan) for row in metrics], np.float64)
    return {name: part for name, part in out.items() if wanted is None or name in wanted}, len(values)


_ROW = itemgetter(*Row._fields)
_EMPTY: dict[str, tuple[Any, ...]] = dict.fromkeys(Row._fields, ())


def _array(values: Sequence[Any], kind: type) -> Any:
    try:
        array: Any = np.array(values, kind)
    except OverflowError as error:
        raise ValueError(str(error)) from None
    if array.ndim != 1 or None in values:  # NumPy takes None for NaN
        raise TypeError("a value is no number")
    return array


def _lines(data: bytes, path: Path) -> tuple[list[bytes], int]:
    """The whole lines of a journal, the last one dropped if it is damaged, and the bytes that follow them."""
    end = data.rfind(b"\n") + 1
    lines = data[:end].splitlines(keepends=True)
    if lines and not sound(lines[-1], len(lines) - 1):
        end -= len(lines.pop())
    for number, line in enumerate(lines):
        if not sound(line, number):
            raise FedcellError(
                f"line {number + 1} of {path} is damaged: delete it and all lines after it, and resume makes them anew"
            )
    return lines, len(data) - end


class Journal:
    """The open journal of a run: appends new rows, and compares rows that are already there."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.path = folder / ROWS
        self.lines, torn = read(folder)
        self.sum = NO_ROWS.plus(b"".join(self.lines))  # one value, which no Ctrl-C leaves half-changed
        self.file = self.path.open("ab", buffering=0)
        if torn:
            say(f"cut a half-written row ({torn} bytes) off {self.path}: its round is simulated again")
            self.file.truncate(self.sum.byte)
        sync_folder(folder)

    def put(self, row: Row) -> None:
        """Append a row; if its round is already recorded, raise FedcellError unless both rows are equal."""
        line = encode(row)
        if row.round < len(self.lines):
            _compare(decode(self.lines[row.round]), decode(line), self.path)
            return
        try:
            written = 0
            while written < len(line):
                written += self.file.write(line[written:])
        except BaseException:
            self.file.truncate(self.sum.byte)  # never leave half a row behind
            raise
        self.lines.append(line)
        self.sum = self.sum.plus(line)

    def cut(self, n_rows: int) -> int:
        """Keep the first `n_rows` rows and drop the others; return how many were dropped."""
        dropped = self.lines[n_rows:]
        if dropped:
            del self.lines[n_rows:]
            self.sum = NO_ROWS.plus(b"".join(self.lines))
            self.file.truncate(self.sum.byte)
        return len(dropped)

    def sync(self) -> None:
        """Make every row survive a power cut."""
        os.fsync(self.file.fileno())

    def close(self) -> None:
        self.file.close()


def sound(line: bytes, number: int) -> bool:
    """Whether a line decodes to the row of round `number`."""
    try:
        return decode(line).round == number
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _compare(old: Row, new: Row, path: Path) -> None:
    before, after = ({**row._asdict(), **row.metrics} for row in (old, new))
    for name in dict.fromkeys([*before, *after]):
        was, now = repr(before.get(name)), repr(after.get(name))
        if was != now and name != "metrics":
            raise FedcellError(
                f"round {new.round} now gives {name} = {now} but {path} holds {was}: the code, a library or the "
                "hardware changed since this run began, so start a new run"
            )
