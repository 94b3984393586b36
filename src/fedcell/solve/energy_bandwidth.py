"""Shares of a band that carry given loads with the least weighted energy.

Sending a load over a share `s` in a fixed time costs `c s (exp(a / s) - 1)`, which falls with `s` and is convex. With
shares no less than `m` and a budget `S` for all of them together, the optimum has one price `mu`:

    minimise sum_k c_k s_k (exp(a_k / s_k) - 1)   subject to   s_k >= m_k,  sum_k s_k = S
    s_k = max(a_k / x_k, m_k),   c_k ((x_k - 1) exp(x_k) + 1) = mu

Everything is done in logarithms, so neither a tiny price nor a huge load leaves the range of a double.

Reference: chen-ch4, Eqs. (4.25)-(4.29) and Algorithm 5
"""

from typing import NamedTuple

import numpy as np

from ..types import Floats
from .lambert import log_multiple

INVERSE_STEPS = 7  # Newton steps from a start above the root: enough for every double
PRICE_STEPS = 200  # each halves the bracket at worst
CLOSE = 1e-15  # relative distance of the sum from the budget at which the search ends
TOLERANCE = 1e-10  # relative distance beyond which an answer is refused
SMALL = 0.1  # below it `x - 1 + exp(-x)` is taken from its series
SERIES = tuple((-1) ** n / factorial for n, factorial in enumerate((2, 6, 24, 120, 720, 5040, 40320, 362880, 3628800)))


class Shares(NamedTuple):
    """The best shares, and the logarithm of the price at which they are asked for (infinite: all at their least)."""

    share: Floats
    log_price: float


def least_energy_shares(load: Floats, weight: Floats, least: Floats, budget: float = 1.0) -> Shares:
    """The shares of least weighted energy.

    Args:
        load: `a`, `[n]`, above 0: bits times ln 2, over the seconds and the width of the whole band.
        weight: `c`, `[n]`, above 0.
        least: `m`, `[n]`, at least 0; together no more than the budget.
        budget: `S`.

    Raises:
        ValueError: for loads or weights that are not positive, and for least shares beyond the budget.
        ArithmeticError: if the shares found do not add up to the budget.

    >>> least_energy_shares(np.ones(4), np.ones(4), np.zeros(4)).share.round(6).tolist()
    [0.25, 0.25, 0.25, 0.25]

    Reference: chen-ch4, Algorithm 5; the least shares are kept inside the search, so the band is never exceeded
    """
    a, m, n = np.asarray(load, dtype=np.float64), np.asarray(least, dtype=np.float64), len(load)
    if n == 0:
        return Shares(np.zeros(0), -np.inf)
    _check(a, weight, m, budget)
    log_c = np.log(weight)
    slack = budget - float(m.sum())
    if slack <= CLOSE * budget:
        return Shares(m.copy(), np.inf)
    share, price = _search(np.log(a), log_c, m, slack / n, budget)
    if not abs(share.sum() - budget) <= TOLERANCE * budget:
        raise ArithmeticError(
            f"shares add up to {share.sum():.17g}, not {budget:.17g}: the price {price:.17g} is wrong"
        )
    return Shares(share, price)


def _check(a: Floats, c: Floats, m: Floats, budget: float) -> None:
    """Raise ValueError for inputs that have no optimum."""
    for name, value in (("load", a), ("weight", c)):
        if not (np.isfinite(value).all() and (value > 0).all()):
            raise ValueError(f"{name} holds {np.min(value):.6g}: give finite numbers above 0")
    if not (m >= 0).all() or not m.sum() <= budget * (1 + TOLERANCE):
        raise ValueError(f"least shares add up to {m.sum():.6g} of a budget of {budget:.6g}: take fewer")


def _search(log_a: Floats, log_c: Floats, m: Floats, even: float, budget: float) -> tuple[Floats, float]:
    """Newton on the logarithm of the sum, kept inside a bracket that every step narrows.

    The shares `m + even` add up to the budget. At the highest of their marginals nobody asks for more than this share,
    and at the lowest nobody asks for less: these two prices are the bracket.
    """
    marginal = log_c + log_marginal(np.exp(log_a - np.log(m + even)))
    low, high = float(marginal.min()), float(marginal.max())
    price = 0.5 * (low + high)
    for _ in range(PRICE_STEPS):
        x = inverse_marginal(price - log_c)
        asked = np.exp(log_a) / x
        share = np.maximum(asked, m)
        total = float(share.sum())
        if total > budget:
            low = price
        else:
            high = price
        if abs(total - budget) <= CLOSE * budget or high - low <= CLOSE * max(abs(price), 1.0):
            break
        slope = -float((asked * slack_of(x) / x**2)[asked > m].sum()) / total  # d log(sum) / d log(price)
        step = price - np.log(total / budget) / slope if slope < 0 else np.inf
        price = step if low < step < high else 0.5 * (low + high)
    return share, price


# ---------------------------------------------------------------- the marginal and its inverse


def slack_of(x: Floats) -> Floats:
    """`x - 1 + exp(-x)` for `x > 0`, without loss of digits near 0."""
    near = np.minimum(x, SMALL)
    series = np.full_like(near, SERIES[-1])
    for coefficient in SERIES[-2::-1]:
        series = coefficient + near * series
    return np.where(x < SMALL, near**2 * series, x + np.expm1(-x))


def log_marginal(x: Floats) -> Floats:
    """`log((x - 1) exp(x) + 1)` for `x > 0`.

    >>> log_marginal(np.array([2.0])).round(6).tolist()  # log(e^2 + 1)
    [2.126928]
    """
    return np.asarray(x + np.log(slack_of(x)))


def inverse_marginal(log_r: Floats) -> Floats:
    """The `x > 0` with `(x - 1) exp(x) + 1 = r`, that is `1 + W_0((r - 1) / e)`.

    Newton on `log x`, in which the logarithm of the left side is convex and rising: from above it falls to the root.
    Starts are `sqrt(2 r)` and, for `r > 1.5`, `1 + log r`; both are above it.

    Reference: chen-ch4, Eq. (4.28)
    """
    log_r = np.asarray(log_r, dtype=np.float64)
    log_x = 0.5 * (np.log(2.0) + log_r)
    large = log_r > 0.4
    log_x = np.where(large, np.minimum(log_x, np.log1p(np.where(large, log_r, 1.0))), log_x)
    for _ in range(INVERSE_STEPS):
        x = np.exp(log_x)
        slack = slack_of(x)
        log_x = log_x - (x + np.log(slack) - log_r) * slack / x**2
    return np.asarray(np.exp(log_x))


# ---------------------------------------------------------------- power


def least_share(load: Floats, reach: Floats) -> Floats:
    """The share at which a load needs all the power there is, `s log(1 + A / s) = a`; infinite if none will do.

    `s = A / y` with `y` the positive root of `a y = A log(1 + y)`, by the lower branch of the Lambert function.

    Args:
        load: `a`, above 0.
        reach: `A`, the largest received power over the noise in the whole band.

    Reference: chen-ch4, Eq. (4.25a)
    """
    a, reach = np.asarray(load, dtype=np.float64), np.asarray(reach, dtype=np.float64)
    y = log_multiple(reach / a)
    return np.divide(reach, y, out=np.full_like(y, np.inf), where=y > 0)


def effort(load: Floats, share: Floats) -> Floats:
    """`s (exp(a / s) - 1)`: received power over the noise in the whole band; infinite if it leaves the doubles.

    Reference: chen-ch4, Eq. (4.24)
    """
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(share * np.expm1(load / share))
