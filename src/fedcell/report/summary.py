"""What a run achieved and what it cost, in single numbers."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from ..record import Record
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


def summarise(record: Record) -> Summary:
    """The totals of a record."""
    accuracy, columns = measured(record, "accuracy")[1], record.columns
    return Summary(
        label=record.label,
        state=record.status.state,
        message=record.status.message,
        rounds=record.status.rounds,
        total_rounds=record.status.total,
        accuracy_best=float(accuracy.max()) if len(accuracy) else float("nan"),
        accuracy_final=float(accuracy[-1]) if len(accuracy) else float("nan"),
        simulated_s=float(columns["clock_s"][-1]) if record.status.rounds else 0.0,
        compute_joule=float(columns["compute_joule"].sum()),
        radio_joule=float(columns["radio_joule"].sum()),
        uplink_bit=float(columns["uplink_bit"].sum()),
        delivered_per_round=_mean(columns["n_delivered"]),
        selected_per_round=_mean(columns["n_selected"]),
        folder=str(record.folder),
    )


def measured(record: Record, metric: str) -> tuple[Ints, Floats]:
    """The indices of the rounds in which a metric was measured, and its values there."""
    values = record.columns.get(metric, np.empty(0))
    index = np.flatnonzero(np.isfinite(values)).astype(np.int64)
    return index, values[index]


def as_json(summary: Summary) -> Mapping[str, Any]:
    """Plain values; numbers that JSON lacks become null."""
    values = summary._asdict()
    return {name: None if isinstance(v, float) and not isfinite(v) else v for name, v in values.items()}


def _mean(values: Floats) -> float:
    return float(np.mean(values)) if len(values) else 0.0
