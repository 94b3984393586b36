"""Times to answer that are drawn instead of computed: exponential, or from a measured trace."""

from collections.abc import Iterable, Iterator
from math import isfinite

import numpy as np

from ..errors import BadInput
from ..rng import stream
from ..tables import read_rows
from ..types import Floats
from .devices import hardware
from .settings import WorldConfig

COLUMN = "seconds"


def response_s(settings: WorldConfig, trace_s: Floats | None, seed: int, round: int) -> Floats | None:
    """Seconds each device takes to answer in this round; None if work and channel decide.

    Args:
        settings: the kind of answer, the law of its rates (drawn once per device), and how many answer at once.
        trace_s: measured seconds, drawn from with replacement (response=trace).
        seed: of the run.
        round: of the draw.

    Returns: `[n_devices]` or None.

    Reference: cafe, section 2.1
    """
    if settings.response == "computed":
        return None
    seconds = _drawn_s(settings, trace_s, seed, round)
    seconds[: settings.n_fast] = 0.0
    return seconds


def _drawn_s(settings: WorldConfig, trace_s: Floats | None, seed: int, round: int) -> Floats:
    """Draw seconds for all devices, including those that answer at once, so that `n_fast` changes no other draw."""
    rng = stream(seed, round, "world.response")
    if settings.response == "exponential":
        rate = hardware(settings, seed).column("response_rate", settings.response_rate)
        return np.asarray(rng.standard_exponential(settings.n_devices) / rate)
    if trace_s is None:
        raise BadInput("world.response = 'trace' needs measured seconds: build the world with build_world()")
    return np.asarray(trace_s[rng.integers(len(trace_s), size=settings.n_devices)])


def read_trace(path: str, key: str = "world.response_trace") -> Floats:
    """Read measured seconds from a CSV file: one number per line, or a column named `seconds`.

    `key` is the setting or flag that names the file.
    Raises BadInput, with the file and the line, on anything that is not a time of at least 0 s.
    """
    values = np.array(list(_seconds(path, read_rows(path, key, "seconds"))), dtype=np.float64)
    if not len(values):
        raise BadInput(f"response trace {path!r} holds no seconds: write one number per line")
    return values


def _seconds(path: str, rows: Iterable[tuple[int, list[str]]]) -> Iterator[float]:
    column: int | None = None
    for line, cells in rows:
        if column is None:
            column = _column(path, line, cells)
            if COLUMN in cells:
                continue
        yield _time(path, line, cells[column] if column < len(cells) else "")


def _column(path: str, line: int, cells: list[str]) -> int:
    """Find the column of seconds in the first line that is not empty."""
    if COLUMN in cells:
        return cells.index(COLUMN)
    if len(cells) > 1:
        raise BadInput(f"response trace {path!r} line {line} has {len(cells)} columns: name one of them {COLUMN!r}")
    return 0


def _time(path: str, line: int, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or value < 0:
        raise BadInput(f"response trace {path!r} line {line}: {cell!r} is not a time: write finite seconds, at least 0")
    return value
