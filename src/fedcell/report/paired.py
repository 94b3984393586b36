"""Means over seeds with Student t intervals, and differences that are taken seed by seed."""

from typing import NamedTuple

import numpy as np

from ..types import Floats

NO_SPREAD = 1e-12  # values that differ by less than this share of their size differ by rounding alone


class Estimate(NamedTuple):
    """A mean over seeds and its confidence interval, which needs two values (NaN below that)."""

    mean: float
    low: float
    high: float
    n: int


class Difference(NamedTuple):
    """A mean of paired differences, its interval, and the p-value of the paired t-test.

    `p` is NaN with fewer than two pairs, and if all pairs differ by the same, so that no spread is left to test
    against.
    """

    mean: float
    low: float
    high: float
    p: float
    n: int  # pairs


def half_width(values: Floats, confidence: float) -> Floats:
    """t s / sqrt(n) along the first axis; NaN for fewer than two values.

    `t` is the quantile of Student's distribution with n - 1 degrees of freedom that leaves (1 - confidence) / 2 above
    it, and `s` the standard deviation with n - 1 in its denominator.
    """
    from scipy.special import stdtrit

    n = len(values)
    if n < 2:
        return np.full(values.shape[1:], np.nan)
    t = stdtrit(n - 1, 0.5 + confidence / 2)
    return np.asarray(t * values.std(axis=0, ddof=1) / np.sqrt(n))


def estimate(values: Floats, confidence: float = 0.95) -> Estimate:
    """The mean of the values that are there (NaN: not there), with its interval.

    >>> estimate(np.array([1.0, 2.0, 3.0, np.nan]), 0.9)  # doctest: +ELLIPSIS
    Estimate(mean=2.0, low=0.314..., high=3.685..., n=3)
    """
    there = values[np.isfinite(values)]
    mean = float(there.mean()) if len(there) else float("nan")
    half = float(half_width(there, confidence))
    return Estimate(mean, mean - half, mean + half, len(there))


def difference(values: Floats, reference: Floats, confidence: float = 0.95) -> Difference:
    """Values less reference, pair by pair; a pair of which one side is not there (NaN) is left out.

    >>> difference(np.array([3.0, 5.0, 7.0]), np.array([1.0, 2.0, 6.0])).mean
    2.0
    """
    from scipy.special import stdtr

    pairs = values - reference
    kept = np.isfinite(pairs)
    mean, low, high, n = estimate(pairs, confidence)
    p = float("nan")
    if n > 1:
        spread = float(pairs[kept].std(ddof=1))
        if spread > NO_SPREAD * float(np.abs([values[kept], reference[kept]]).max()):
            p = float(2.0 * stdtr(n - 1, -abs(mean) * np.sqrt(n) / spread))
    return Difference(mean, low, high, p, n)
