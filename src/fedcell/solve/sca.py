"""Successive convex approximation in one variable, many problems at once.

`max objective(x)  s.t.  low <= x <= high, cost(x) <= budget` with both functions replaced by their tangents at the
present point; what remains is linear, so its solution is an end of the interval that is left.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..types import Bools, Floats

Tangent = Callable[[Floats], tuple[Floats, Floats]]  # point -> value and slope there


class Solution(NamedTuple):
    """Where the iterations ended, and for which entries every linear problem had a solution."""

    x: Floats
    feasible: Bools


def successive_linear(
    objective: Tangent,
    cost: Tangent,
    budget: Floats,
    low: Floats,
    high: Floats,
    start: Floats,
    *,
    iterations: int = 10,
    tolerance: float = 1e-6,
) -> Solution:
    """Linearise, solve, move, until no entry moves by more than a relative `tolerance`.

    With a concave cost every iterate is feasible for the true problem, since tangents lie above it.

    Args:
        objective: to be maximised; value and slope at a point.
        cost: to be kept within `budget`; value and slope at a point.
        budget, low, high: limits of each entry.
        start: where to linearise first.
        iterations: most iterations.
        tolerance: relative.
    """
    x, feasible = np.array(start, dtype=np.float64), np.ones(len(start), dtype=np.bool_)
    for _ in range(iterations):
        left, right = _interval(*cost(x), x, budget, low, high)
        feasible &= left <= right * (1 + 1e-12)
        following = np.where(feasible, np.where(objective(x)[1] > 0, right, left), x)
        settled = np.abs(following - x) <= tolerance * np.abs(x)
        x = following
        if settled.all():
            break
    return Solution(x, feasible)


def _interval(
    value: Floats, slope: Floats, x: Floats, budget: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Ends of `{z in [low, high] : value + slope (z - x) <= budget}`; left above right if it is empty."""
    with np.errstate(divide="ignore", invalid="ignore"):
        bend = x + (budget - value) / slope
    right = np.where(slope > 0, np.minimum(high, bend), high)
    left = np.where(slope < 0, np.maximum(low, bend), low)
    impossible = (slope == 0) & (value > budget)
    return np.where(impossible, np.inf, left), right
