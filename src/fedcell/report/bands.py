"""Curves of several seeds on one axis: the mean of step functions, and its confidence band.

A run's clock, joules and bits jump from round to round, and its accuracy is known after the rounds that were evaluated.
So the accuracy that a run has after spending `c` is that of its last evaluation at a cost of at most `c`: a step
function, continuous from the right. Nothing is interpolated between two evaluations: that would credit a run with
accuracy that it had not been seen to reach. The mean over seeds is taken at every cost where any seed steps, and only
where every seed has been evaluated and none has ended.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..types import Floats
from .paired import half_width

MOST_POINTS = 2000  # of a curve in a figure


class Band(NamedTuple):
    """A mean curve of `n` seeds and its interval; without one (NaN) for a single seed."""

    cost: Floats  # [n_points], rising
    mean: Floats
    low: Floats
    high: Floats
    n: int


def step(cost: Floats, values: Floats, at: Floats) -> Floats:
    """The last of `values` whose cost is at most `at`; NaN before the first.

    >>> step(np.array([1.0, 2.0, 2.0, 4.0]), np.array([10.0, 20.0, 30.0, 40.0]), np.array([0.5, 1.9, 2.0, 9.0]))
    array([nan, 10., 30., 40.])
    """
    index = np.searchsorted(cost, at, side="right") - 1
    return np.where(index >= 0, values[np.maximum(index, 0)], np.nan)


def band(curves: Sequence[tuple[Floats, Floats]], confidence: float = 0.95) -> Band:
    """The mean of (cost, value) curves, each with a cost that never falls and at least one point."""
    begin = max(float(cost[0]) for cost, _ in curves)
    end = max(begin, min(float(cost[-1]) for cost, _ in curves))
    at = np.unique(np.concatenate([cost for cost, _ in curves]))
    at = at[(at >= begin) & (at <= end)]
    if len(at) > MOST_POINTS:
        at = at[np.linspace(0, len(at) - 1, MOST_POINTS).round().astype(np.int64)]
    values = np.stack([step(cost, value, at) for cost, value in curves])
    mean, half = values.mean(axis=0), half_width(values, confidence)
    return Band(at, mean, mean - half, mean + half, len(curves))
