"""Curves of several seeds on one axis: the mean over seeds, and its confidence band.

Clocks, joules and bits of two seeds never agree, so a mean over seeds at one cost needs a value between two evaluations
of a seed: the straight line between them. A mean of the last values seen instead is a staircase whose jumps come from
the times of rounds and not from learning. Costs to a target never come from these lines: `quantities` counts the round
whose evaluation shows the target. The mean is taken only when every seed has been evaluated and none has ended.
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


def between(cost: Floats, values: Floats, at: Floats) -> Floats:
    """The straight lines between the points of a curve; of points at one cost the last counts.

    >>> between(np.array([1.0, 2.0, 2.0, 4.0]), np.array([10.0, 20.0, 30.0, 40.0]), np.array([1.0, 1.5, 2.0, 3.0]))
    array([10., 20., 30., 35.])
    """
    last = np.append(cost[1:] > cost[:-1], True)
    return np.interp(at, cost[last], values[last])


def band(curves: Sequence[tuple[Floats, Floats]], confidence: float = 0.95) -> Band:
    """The mean of (cost, value) curves, each with a cost that never falls and at least one point.

    If one curve ends before another begins, the mean has no points.
    """
    begin = max(float(cost[0]) for cost, _ in curves)
    end = min(float(cost[-1]) for cost, _ in curves)
    at = np.unique(np.concatenate([cost for cost, _ in curves]))
    at = at[(at >= begin) & (at <= end)]
    if len(at) > MOST_POINTS:
        at = at[np.linspace(0, len(at) - 1, MOST_POINTS).round().astype(np.int64)]
    values = np.stack([between(cost, value, at) for cost, value in curves])
    mean, half = values.mean(axis=0), half_width(values, confidence)
    return Band(at, mean, mean - half, mean + half, len(curves))
