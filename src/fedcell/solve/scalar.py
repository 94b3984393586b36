"""Searches in one variable, many problems at once: every array entry is a problem of its own."""

from collections.abc import Callable

import numpy as np

from ..types import Bools, Floats, Ints

HALVINGS = 48  # brings an interval down to 4e-15 of its length


def convex_minimum(slope: Callable[[Floats], Floats], low: Floats, high: Floats, halvings: int = HALVINGS) -> Floats:
    """Where a convex function is least in `[low, high]`, from the sign of its slope.

    Args:
        slope: the derivative, non-decreasing in each entry.
        low, high: ends of the interval of each entry, `low <= high`.
        halvings: steps of bisection.

    Returns: the minimiser; next to an end if the slope does not change sign.

    >>> convex_minimum(lambda x: x - np.array([1.0, 9.0]), np.zeros(2), np.full(2, 4.0)).round(6).tolist()
    [1.0, 4.0]
    """
    low, high = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        rising = slope(middle) > 0
        np.copyto(high, middle, where=rising)
        np.copyto(low, middle, where=~rising)
    return 0.5 * (low + high)


def largest(holds: Callable[[Ints], Bools], most: Ints) -> Ints:
    """The largest whole number up to `most` for which a statement holds, 0 if it holds for none above 0.

    Args:
        holds: true up to some number and false beyond it, in each entry; never asked about 0.
        most: largest number of each entry, at least 0.

    >>> largest(lambda k: k <= np.array([3, 0, 99]), np.full(3, 7)).tolist()
    [3, 0, 7]
    """
    low, high = np.zeros_like(most), np.asarray(most).copy()
    while (low < high).any():
        middle = low + (high - low + 1) // 2
        good = holds(np.maximum(middle, 1)) & (middle >= 1)
        low, high = np.where(good, middle, low), np.where(good, high, np.maximum(middle - 1, low))
    return low
