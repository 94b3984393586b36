"""What a quorum and a deadline cost on average: wastage, communication and age; the step size of the theorem.

`n` of `N` clients answer before the deadline `T`, each with probability `p` on its own; a round
succeeds when `n >= M`. Arguments broadcast against each other, so whole grids are one call. Tails are
upper-tail sums, which stay exact if failure or success is rare.

Reference: cafe, sections 2.3, 4 and 4.6
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from ...types import Floats


class Metrics(NamedTuple):
    """Averages of one choice of quorum and deadline; arrays of one shape."""

    success: Floats  # probability that a round succeeds
    wastage_s: Floats  # client seconds discarded per successful update
    communication: Floats  # broadcasts per successful update
    age_s: Floats  # mean age of a client at the server


def answer_probability(deadline_s: ArrayLike, rate: ArrayLike) -> Floats:
    """`p = 1 - exp(-rate * T)`, accurate for short deadlines too.

    Reference: cafe, L84
    """
    return np.asarray(-np.expm1(-np.asarray(rate) * np.asarray(deadline_s, dtype=np.float64)))


def success(n_clients: ArrayLike, quorum: ArrayLike, p: ArrayLike) -> Floats:
    """`1 - q = Pr(n >= M)` with `n ~ Bin(N, p)`.

    Reference: cafe, L98
    """
    return np.asarray(binom.sf(np.asarray(quorum) - 1, n_clients, p))


def participation(n_clients: ArrayLike, quorum: ArrayLike, p: ArrayLike) -> Floats:
    """`s = p Pr(n' >= M - 1)`, `n' ~ Bin(N - 1, p)`: a client takes part in a successful round.

    Reference: cafe, Eq. (8)
    """
    return np.asarray(p) * others_suffice(n_clients, quorum, p)


def others_suffice(n_clients: ArrayLike, quorum: ArrayLike, p: ArrayLike) -> Floats:
    """`Pr(n' >= M - 1)`: the quorum holds as soon as one given client answers."""
    return np.asarray(binom.sf(np.asarray(quorum) - 2, np.asarray(n_clients) - 1, p))


def metrics(n_clients: ArrayLike, quorum: ArrayLike, deadline_s: ArrayLike, p: ArrayLike) -> Metrics:
    """Wastage, communication and age of an MCU round.

    `E[C_w] = T ((1 - p) N + sum_{n<M} n p_n) / (1 - q)`, `E[C_b] = 1 / (1 - q)`, `E[age] = T/2 + T/s`.
    If a round can hardly succeed, its costs are infinite (`inf`).

    Args:
        n_clients: `N`.
        quorum: `M`, from 1 to `N`.
        deadline_s: `T`, the length of every round.
        p: probability that a client answers within `T`.

    Reference: cafe, Eq. (4), (6), (7)
    """
    n, t, p = (np.asarray(value, dtype=np.float64) for value in (n_clients, deadline_s, p))
    ok, s = success(n, quorum, p), participation(n, quorum, p)
    answered_in_vain = n * p * binom.cdf(np.asarray(quorum) - 2, n - 1, p)  # sum_{m<M} m p_m
    with np.errstate(divide="ignore", over="ignore"):
        wastage = t * ((1 - p) * n + answered_in_vain) / ok
        return Metrics(*np.broadcast_arrays(ok, wastage, 1 / ok, t / 2 + t / s))


def noise_gain(n_clients: ArrayLike, quorum: ArrayLike, p: ArrayLike) -> Floats:
    """`g(M) = M Pr(n' >= M - 1)`; if gradient noise dominates, the optimality gap falls as `1 / g`.

    Reference: cafe, Remark 4 and C14
    """
    return np.asarray(quorum) * others_suffice(n_clients, quorum, p)


def step_size(t: ArrayLike, smoothness: float, convexity: float, success: ArrayLike) -> Floats:
    """`eta_t = 2 / (2L + A (t + 1))`, `A = (1 - q) mu`, for rounds `t >= 1`.

    Reference: cafe, L571-578 and C13
    """
    return np.asarray(2 / (2 * smoothness + np.asarray(success) * convexity * (np.asarray(t) + 1)))


def poisson_binomial(p: ArrayLike) -> Floats:
    """The law of how many of independent clients with probabilities `p[k]` answer, `[N + 1]`."""
    law = np.ones(1)
    for one in np.asarray(p, dtype=np.float64):
        law = np.convolve(law, [1 - one, one])
    return law
