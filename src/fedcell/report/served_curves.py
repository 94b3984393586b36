"""Curves over rounds: metrics as they were measured, and what edge servers bring, smoothed over the rounds before."""

from collections.abc import Sequence

import numpy as np

from ..record import Record
from ..record.served import COLUMNS, MARK
from ..types import Floats, Ints
from .costs import measured

SERVED = {"hit_ratio": "hits of edge servers (%)", "saved_share": "backhaul spared (%)"}
PARTS = 20  # a value is the mean over this part of the rounds: those of a single round are few requests


def have_servers(records: Sequence[Record]) -> bool:
    """Whether any run has edge servers."""
    return any(MARK in record.columns for record in records)


def curve(record: Record, metric: str) -> tuple[Ints, Floats]:
    """The indices of the rounds in which a metric is known, and its values there."""
    if metric not in SERVED or MARK not in record.columns:
        return measured(record, metric)
    requests, asked, ratio, backhaul = (
        np.nan_to_num(record.columns.get(name, np.zeros(len(record.columns[MARK])))) for name in COLUMNS[:4]
    )
    part, whole = (requests * ratio, requests) if metric == "hit_ratio" else (asked - backhaul, asked)
    width = max(len(requests) // PARTS, 1)
    above, below = _trailing(part, width), _trailing(whole, width)
    index = np.flatnonzero(below > 0).astype(np.int64)
    return index, above[index] / below[index]


def _trailing(values: Floats, width: int) -> Floats:
    """Sums over each value and those before it, `width` at most.

    >>> _trailing(np.array([1.0, 2.0, 3.0, 4.0]), 2).tolist()
    [1.0, 3.0, 5.0, 7.0]
    """
    total = np.concatenate([np.zeros(1), np.cumsum(values)])
    at = np.arange(1, len(values) + 1)
    return np.asarray(total[at] - total[np.maximum(at - width, 0)])
