"""FL-GR: staleness, and the largest steps with which recycled gradients stay stable under a schedule.

The convergence bound (chen-ch5, Theorem 4 and Corollary 2) depends on a schedule through `A_t` alone, the expected mean
square staleness after round `t`, which enters with a positive factor: the scheduler makes `A_t` small. The printed
factors lose a square of the step size, and the corollary uses an upper bound of the gradient although it needs a lower
one, so rows record `A_t` and not the bound.

Reference: chen-ch5, Eq. (5.19), section 4.2
"""

import numpy as np

from ...types import Bools, Floats, Ints

LEAST_ROUNDS = 4  # of a schedule, so that its second half has a rise
GROWS = 1e-3  # a recursion whose logarithm rises by more per round is unstable; smaller rises are those of settling


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


def steps_in_turn(period: float) -> float:
    """The largest `lr steps L` with which recycled gradients descend a quadratic, if all take turns.

    With all gradients `L w` of devices heard `0 .. n - 1` rounds ago, `w_{t+1} = w_t - (a / n) sum_j w_{t-j}` is stable
    for `a < 2 n sin^2(pi / 2n)`, where its characteristic polynomial meets the unit circle at angle `pi / n`.

    Args:
        period: rounds `n` between two turns of a device, the same for all.

    >>> round(steps_in_turn(10), 3)  # fresh gradients: 2
    0.489
    """
    return float(2 * period * np.sin(np.pi / (2 * period)) ** 2)


def steps_of(heard: Bools) -> float:
    """Like `steps_in_turn`, for a schedule that was recorded.

    Follow `w_{t+1} = w_t - (a / K) sum_k G_k`, with `G_k` the `w` at which device `k` was last heard, 0 before it was.
    Return the largest `a` with which `w` and the `G_k` do not grow over the second half of the rounds.

    Args:
        heard: `[n_rounds, n_devices]`, at least 4 rounds, so many that most are heard again in the second half.

    >>> everyone = np.ones((100, 4), dtype=np.bool_)
    >>> round(steps_of(everyone), 2)
    2.0
    """
    if len(heard) < LEAST_ROUNDS or not heard.any():
        raise ValueError(
            f"steps_of() got {len(heard)} rounds in which {int(heard.sum())} uploads were heard: give a schedule of "
            f"{LEAST_ROUNDS} rounds at least in which somebody is heard"
        )
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
