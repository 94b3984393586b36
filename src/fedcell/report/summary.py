"""What a run achieved and what it cost, in single numbers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..record import Record
from ..record.files import nulled
from ..record.folder import FEDERATION
from ..record.served import served
from ..record.totals import total
from ..types import Floats, Ints


class Summary(NamedTuple):
    """One run. Costs are totals over all rounds and devices; a score is NaN when it was never measured."""

    label: str
    state: str
    message: str
    rounds: int
    total_rounds: int
    accuracy_best: float
    accuracy_final: float
    simulated_s: float
    compute_joule: float
    radio_joule: float
    uplink_bit: float
    delivered_per_round: float  # devices, mean over rounds
    selected_per_round: float
    folder: str
    clock: str = "simulated"  # or measured, on real devices, whose energy is NaN
    served: Mapping[str, float] = {}  # what edge servers brought, where there are any


def clock(record: Record) -> str:
    """Whether the seconds of a record are simulated, or measured on real devices."""
    return "measured" if FEDERATION in record.own else "simulated"


def summarise(record: Record) -> Summary:
    """The totals of a record."""
    totals = total(record.columns)
    if clock(record) == "measured":
        totals = totals.without_energy()
    return Summary(
        label=record.label,
        state=record.status.state,
        message=record.status.message,
        rounds=record.status.rounds,
        total_rounds=record.status.total,
        **totals._asdict(),
        folder=str(record.folder),
        clock=clock(record),
        served=served(record.columns),
    )


def measured(record: Record, metric: str) -> tuple[Ints, Floats]:
    """The indices of the rounds in which a metric was measured, and its values there."""
    values = record.columns.get(metric, np.empty(0))
    index = np.flatnonzero(np.isfinite(values)).astype(np.int64)
    return index, values[index]


def as_json(summary: Summary) -> Mapping[str, Any]:
    """Plain values; numbers that JSON lacks become null."""
    values = summary._asdict()
    found: dict[str, Any] = nulled(values | values.pop("served"))
    return found
