"""What a run spends: rounds, seconds, joules and uplink bits, as running totals."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..record import Record
from ..record.totals import joules
from ..types import Floats, Ints
from .table import BITS, JOULES, TIMES, Units


class Cost(NamedTuple):
    """One horizontal axis: what it counts, in which units, and how it is read from a record."""

    name: str
    title: str
    units: Units
    unit: str  # of the numbers in a record
    total: Callable[[Record], Floats]  # [n_rounds], after each round


def titled(cost: Cost, records: Sequence[Record]) -> str:
    """The title of an axis; for time, it says whether seconds are simulated or measured."""
    return f"{clocks(records)} {cost.title}" if cost.name == "time" else cost.title


def clocks(records: Sequence[Record]) -> str:
    """Whether the seconds of the records are simulated, measured, or both.

    >>> clocks([])
    'simulated'
    """
    return " or ".join(dict.fromkeys(one.clock for one in records)) or "simulated"


def measured(record: Record, metric: str) -> tuple[Ints, Floats]:
    """The indices of the rounds in which a metric was measured, and its values there."""
    values = record.columns.get(metric, np.empty(0))
    index = np.flatnonzero(np.isfinite(values)).astype(np.int64)
    return index, values[index]


def _energy(record: Record) -> Floats:
    if record.clock == "measured":  # joules are not
        return np.full(len(record.columns["round"]), np.nan)
    return joules(record.columns)


COSTS = (
    Cost("round", "round", ((1.0, ""),), "", lambda record: record.columns["round"] + 1.0),
    Cost("time", "time", TIMES, "s", lambda record: record.columns["clock_s"]),
    Cost("energy", "energy of all devices", JOULES, "J", _energy),
    Cost("uplink", "uplink traffic", BITS, "bit", lambda record: np.cumsum(record.columns["uplink_bit"])),
)
