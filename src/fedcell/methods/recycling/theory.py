"""FL-GR: staleness, its closed forms, and the convergence bound that leads to the scheduler.

With `e = lr * steps` and `A_t` the expected mean square staleness after round `t`,

    E[F(w_{t+1}) - F(w_t)] <= (-e/2 + 3 L e^2) |grad F(w_t)|^2 + c1 + c A_t

is Theorem 4 with the square of `e` kept where the source loses it (`repaired`); the printed form has `3 L e` and other
constants, and its gradient term is negative only for `L < 1/6`. Corollary 2 then puts an upper bound of the gradient
where a lower one is needed; the repaired form asks for a Polyak-Lojasiewicz constant instead. Both are diagnostics:
`A_t` is all that a scheduler can change, and it enters with a positive factor either way.

Reference: chen-ch5, Eqs. (5.19)-(5.25), sections 4.2 and 4.3
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...types import Bools, Floats, Ints

GROWS = 1e-3  # rise of a logarithm in one round from which on a recursion is not stable; a few are still settling


class Constants(NamedTuple):
    """Rates, and what the assumptions bound."""

    lr: float  # eta
    steps: int  # lambda
    smoothness: float  # L
    noise: float  # sigma^2, variance of a stochastic gradient
    gradient: float  # G^2, bound of the squared norm of a device's gradient

    @property
    def reach(self) -> float:
        """`eta lambda`."""
        return self.lr * self.steps

    def hold(self) -> bool:
        """Whether the rate is small enough for the theorem, `eta <= 1 / (2 lambda L)`."""
        return bool(2 * self.reach * self.smoothness <= 1)


class Coefficients(NamedTuple):
    """The factors of one round's bound."""

    gradient: float  # of |grad F|^2
    constant: float  # c1
    staleness: float  # c, of A_t


# ---------------------------------------------------------------- staleness


def next_staleness(staleness: Ints, heard: Bools) -> Ints:
    """`(1 - heard) (tau + 1)`. Reference: chen-ch5, Eq. (5.19)"""
    return np.where(heard, 0, staleness + 1)


def expected_square_staleness(staleness: Ints, success: Floats) -> float:
    """`A_t = (1/K) sum_k (tau_k + 1)^2 (1 - P_k)`, with `P_k = 0` for devices that are not scheduled.

    >>> expected_square_staleness(np.array([0, 3]), np.array([0.0, 0.5]))
    4.5

    Reference: chen-ch5, section 4.2
    """
    return float(np.mean((staleness + 1.0) ** 2 * (1.0 - success)))


def round_robin_staleness(n_devices: float, n_heard: float) -> tuple[float, float]:
    """Mean and mean square where all take turns; `n_heard` divides `n_devices`.

    >>> round_robin_staleness(100, 10)
    (4.5, 28.5)

    Reference: chen-ch5, section 8, item 10
    """
    period = n_devices / n_heard
    return (period - 1) / 2, (period - 1) * (2 * period - 1) / 6


def random_staleness(n_devices: float, n_heard: float) -> tuple[float, float]:
    """Long-run mean and mean square where `n_heard` are drawn anew in every round.

    >>> random_staleness(100, 10)
    (9.0, 171.0)

    Reference: chen-ch5, section 8, item 10
    """
    away = n_devices - n_heard
    return away / n_heard, away * (n_devices + away) / n_heard**2


def steps_in_turn(period: float) -> float:
    """The largest `lr steps L` with which recycled gradients descend a quadratic, where all take turns.

    With all gradients `L w` of devices heard `0 .. n - 1` rounds ago, `w_{t+1} = w_t - (a / n) sum_j w_{t-j}` is stable
    for `a < 2 n sin^2(pi / 2n)`, where its characteristic polynomial meets the unit circle at angle `pi / n`.

    Args:
        period: rounds `n` between two turns of a device, the same for all.

    >>> round(steps_in_turn(10), 3)  # fresh gradients: 2
    0.489
    """
    return float(2 * period * np.sin(np.pi / (2 * period)) ** 2)


def steps_at_random(share: float) -> float:
    """As `steps_in_turn`, in the mean, where a share `q` of the devices is drawn anew in every round.

    Ages are geometric: the mean gradient is a moving average, `m_t = (1 - q) m_{t-1} + q L w_t`, and the step is that
    of heavy-ball descent, stable for `a < 2 (2 - q) / q`: more than fresh gradients bear.

    >>> round(steps_at_random(0.1), 3)
    38.0
    """
    return 2 * (2 - share) / share


def steps_of(heard: Bools) -> float:
    """As `steps_in_turn`, of a schedule as it was played.

    `w_{t+1} = w_t - (a / K) sum_k G_k` is followed, with `G_k` the `w` at which device `k` was last heard and 0 before
    the first time; `a` is the largest with which it does not grow over the second half of the rounds.

    Args:
        heard: `[n_rounds, n_devices]`, who was heard; long enough that most are heard again in the second half.

    >>> everyone = np.ones((100, 4), dtype=np.bool_)
    >>> round(steps_of(everyone), 2)
    2.0
    """
    low, high = 1e-3, 1e3
    while high > low * (1 + 1e-3):
        step = np.sqrt(low * high)
        low, high = (low, step) if _growth(heard, step) > GROWS else (step, high)
    return float(low)


def _growth(heard: Bools, step: float) -> float:
    """Rise of the logarithm of `w` and all `G_k` in one round, over the second half."""
    n_rounds, n_devices = heard.shape
    point, kept, scale, size = 1.0, np.zeros(n_devices), 0.0, np.zeros(n_rounds)
    for t, now in enumerate(heard):
        kept[now] = point
        point -= step * kept.mean()
        largest = max(abs(point), np.abs(kept).max(), 1e-300)
        point, kept, scale = point / largest, kept / largest, scale + np.log(largest)
        size[t] = scale
    half = n_rounds // 2
    return float((size[-1] - size[half]) / (n_rounds - 1 - half))


# ---------------------------------------------------------------- lemmas


def local_drift(constants: Constants) -> float:
    """Bound of `E |w_k^l - w|^2`, how far local steps lead away. Reference: chen-ch5, Eq. (5.21), Lemma 9"""
    n, e = constants.steps, constants.reach
    return 4 * (n - 1) * e**2 / n * (2 * constants.gradient + constants.noise / n)


def global_drift(constants: Constants, rounds: ArrayLike) -> Floats:
    """Bound of `E |w_t - w_t'|^2` over `rounds = t - t'`. Reference: chen-ch5, Eq. (5.22), Lemma 10"""
    n, e, smooth = constants.steps, constants.reach, constants.smoothness
    local = 4 * e**2 * smooth**2 * (n - 1) / n
    spread = (1 + 2 * local) * constants.gradient + (1 + local / n) * constants.noise
    return 3 * e**2 * np.asarray(rounds, dtype=np.float64) ** 2 * spread


# ---------------------------------------------------------------- theorem and corollary


def coefficients(constants: Constants, *, repaired: bool = True) -> Coefficients:
    """The factors of Theorem 4, printed or repaired.

    Reference: chen-ch5, Eq. (5.23) and section 4.3
    """
    n, e, smooth = constants.steps, constants.reach, constants.smoothness
    g, s = constants.gradient, constants.noise
    local = (n - 1) / n * (2 * g + s / n)
    stale = (1 + 2 * (n - 1) / n) * g + (1 + (n - 1) / n**2) * s
    if repaired:
        return Coefficients(-e / 2 + 3 * smooth * e**2, 2.5 * e * local + e * s, 2.25 * e * stale)
    return Coefficients(
        gradient=-e / 2 + 3 * smooth * e,
        constant=(e + 3 * e * smooth) * local + (e + 1) * s / 2,
        staleness=9 / 8 * (e + 1) * stale,
    )


def round_bound(
    constants: Constants, squared_gradient: ArrayLike, square_staleness: ArrayLike, *, repaired: bool = True
) -> Floats:
    """Bound of the loss change in one round, entry by entry.

    Args:
        constants: rates and assumptions.
        squared_gradient: `|grad F(w_t)|^2`.
        square_staleness: `A_t`.
        repaired: keep the square of the rate that the printed form loses.

    Reference: chen-ch5, Eq. (5.23)
    """
    by = coefficients(constants, repaired=repaired)
    return by.gradient * np.asarray(squared_gradient) + by.constant + by.staleness * np.asarray(square_staleness)


def contraction(constants: Constants, convexity: float | None = None) -> float:
    """Factor of the gap `F - F*` in one round; below 1 it shrinks.

    Args:
        constants: rates and assumptions.
        convexity: Polyak-Lojasiewicz constant `mu`: `1 - mu e + 6 mu L e^2`; None: the printed `1 - e L + 6 e L^2`.
    """
    e, smooth = constants.reach, constants.smoothness
    if convexity is None:
        return 1 - e * smooth + 6 * e * smooth**2
    return 1 - convexity * e + 6 * convexity * smooth * e**2


def final_bound(constants: Constants, gap: float, square_staleness: ArrayLike, convexity: float | None = None) -> float:
    """Bound of `E[F(w_T) - F*]`: `phi^T gap + sum_t phi^(T-1-t) (c1 + c A_t)`.

    Deviation: the printed sum starts at `t = 1`; telescoping gives 0.

    Args:
        constants: rates and assumptions.
        gap: `F(w_0) - F*`.
        square_staleness: `A_t` of every round, `[n_rounds]`.
        convexity: as in `contraction`; None takes the printed theorem and corollary.

    Reference: chen-ch5, Eq. (5.24)
    """
    stale = np.asarray(square_staleness, dtype=np.float64)
    by, phi = coefficients(constants, repaired=convexity is not None), contraction(constants, convexity)
    power = phi ** np.arange(len(stale) - 1, -1, -1)
    return float(phi ** len(stale) * gap + power @ (by.constant + by.staleness * stale))
