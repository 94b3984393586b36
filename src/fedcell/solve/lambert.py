"""Equations in a number and its logarithm, solved by the lower branch of the Lambert function, `W exp(W) = x`.

Real arithmetic on whole arrays: much faster than a complex `lambertw`, and exact when that loses half of its digits.
"""

import numpy as np

from ..types import Floats

NEWTON_STEPS = 5  # from the start below, enough for every double


def log_multiple(a: Floats) -> Floats:
    """The positive root of `y = a log(1 + y)`, the largest `y` with `y / log(1 + y) <= a`; 0 if there is none.

    `y = -a W_{-1}(-exp(-1 / a) / a) - 1` for `a > 1`. For `a <= 1` no positive `y` will do, since
    `y / log(1 + y) > 1`.

    Args:
        a: any shape, not negative; infinite gives infinite.

    >>> y = log_multiple(np.array([0.5, 1.0, 2.0]))
    >>> (y - np.array([0.5, 1.0, 2.0]) * np.log1p(y)).round(12).tolist()
    [0.0, 0.0, 0.0]
    """
    a = np.asarray(a, dtype=np.float64)
    root = np.where(np.isinf(a), np.inf, 0.0)
    solvable = (a > 1) & np.isfinite(a)
    root[solvable] = _root(a[solvable])
    return root


def _root(a: Floats) -> Floats:
    """`log_multiple` for finite `a > 1`: Newton from above, where the convex `y - a log(1 + y)` makes it monotone.

    The start is the bound `W_{-1}(-exp(-s - 1)) > -1 - sqrt(2 s) - s` (Chatzigeorgiou 2013), `s = log a + 1 / a - 1`.
    """
    above = a - 1.0
    s = np.maximum(np.log1p(above) - above / a, 0.0)
    least = 2.0 * above  # the root is no less, since log(1 + y) >= 2 y / (2 + y)
    y = np.maximum(above + a * (np.sqrt(2.0 * s) + s), least)
    for _ in range(NEWTON_STEPS):
        slope = (y - above) / (1.0 + y)
        y = np.maximum(y - (y - a * np.log1p(y)) / slope, least)
    return np.asarray(y)
