"""What a run spends: rounds, simulated seconds, joules and uplink bits, as running totals."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..record import Record
from ..types import Floats
from .table import BITS, JOULES, TIMES, Units


class Cost(NamedTuple):
    """One horizontal axis: what it counts, in which units, and how it is read from a record."""

    name: str
    title: str
    units: Units
    unit: str  # of the numbers in a record
    total: Callable[[Record], Floats]  # [n_rounds], after each round


def _energy(record: Record) -> Floats:
    return np.asarray(np.cumsum(record.columns["compute_joule"] + record.columns["radio_joule"]))


COSTS = (
    Cost("round", "round", ((1.0, ""),), "", lambda record: record.columns["round"] + 1.0),
    Cost("time", "simulated time", TIMES, "s", lambda record: record.columns["clock_s"]),
    Cost("energy", "energy of all devices", JOULES, "J", _energy),
    Cost("uplink", "uplink traffic", BITS, "bit", lambda record: np.cumsum(record.columns["uplink_bit"])),
)
