"""What a quorum and a deadline cost on average: wastage, communication, age, and bounds on convergence.

`n` of `N` clients answer before the deadline `T`, each with probability `p` on its own; a round
succeeds when `n >= M`. Arguments broadcast against each other, so whole grids are one call. Tails are
upper-tail sums, right where failure or success is rare.

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


def participation_weight(n_clients: ArrayLike, quorum: ArrayLike, p: ArrayLike) -> Floats:
    """`S = E[1{k in S_t, |S_t| >= M} / |S_t|] = (1 - q) / N`.

    Deviation: the paper leaves this as a sum and bounds it from below by `s / N`; the closed form is exact.

    Reference: cafe, L242 and C12
    """
    return success(n_clients, quorum, p) / np.asarray(n_clients)


def metrics(n_clients: ArrayLike, quorum: ArrayLike, deadline_s: ArrayLike, p: ArrayLike) -> Metrics:
    """Wastage, communication and age of an MCU round.

    `E[C_w] = T ((1 - p) N + sum_{n<M} n p_n) / (1 - q)`, `E[C_b] = 1 / (1 - q)`, `E[age] = T/2 + T/s`.
    What can hardly succeed costs without limit (`inf`).

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
    """`g(M) = M Pr(n' >= M - 1)`; where gradient noise dominates, the optimality gap falls as `1 / g`.

    Reference: cafe, Remark 4 and C14
    """
    return np.asarray(quorum) * others_suffice(n_clients, quorum, p)


def inverse_responders(n_clients: int, quorum: int, p: float) -> float:
    """`E[1{n >= M} / n]`, the share of the gradient noise that a step really has.

    Reference: cafe, section 4.2, sharper noise term
    """
    n = np.arange(quorum, n_clients + 1)
    return float((binom.pmf(n, n_clients, p) / n).sum())


# ---------------------------------------------------------------- convergence


class Landscape(NamedTuple):
    """Constants of the loss that the bounds need."""

    smoothness: float  # L
    convexity: float  # mu
    heterogeneity: float  # Gamma = F* - mean of F_k*
    noise: float  # sigma^2, variance of a stochastic gradient
    distance: float  # eps_1 = E||w_1 - w*||^2


def step_size(t: ArrayLike, smoothness: float, convexity: float, success: ArrayLike) -> Floats:
    """`eta_t = 2 / (2L + A (t + 1))`, `A = (1 - q) mu`, for rounds `t >= 1`.

    Reference: cafe, L571-578 and C13
    """
    return np.asarray(2 / (2 * smoothness + np.asarray(success) * convexity * (np.asarray(t) + 1)))


def bound_exact(
    t: ArrayLike, n_clients: int, quorum: int, p: float, land: Landscape, *, sharp_noise: bool = False
) -> Floats:
    """`E[F(w_t)] - F* <= L / (2L + A t) ((4 L Gamma + 2 sigma^2 / M) / mu + (L + A) eps_1)`, `A = (1 - q) mu`.

    Args:
        t: rounds, failed ones included.
        n_clients: `N`.
        quorum: `M`.
        p: probability that a client answers in time.
        land: constants of the loss.
        sharp_noise: put `E[1{n >= M} / n] / (1 - q)` in place of `1 / M`.

    Reference: cafe, Eq. (13) with C12
    """
    ok = float(success(n_clients, quorum, p))
    a, smooth = ok * land.convexity, land.smoothness
    share = inverse_responders(n_clients, quorum, p) / ok if sharp_noise else 1 / quorum
    spread = 4 * smooth * land.heterogeneity + 2 * land.noise * share
    return smooth / (2 * smooth + a * np.asarray(t)) * (spread / land.convexity + (smooth + a) * land.distance)


def bound_age(t: ArrayLike, n_clients: int, quorum: int, p: float, land: Landscape) -> Floats:
    """`max(L/mu, 1) (4 L Gamma + 2 sigma^2/M + L mu eps_1) / (s mu t) + L eps_1 / t`, with `1/s = age/T - 1/2`.

    Looser than `bound_exact`; it is the form in which age appears.

    Reference: cafe, Eq. (16)
    """
    smooth, mu, t = land.smoothness, land.convexity, np.asarray(t, dtype=np.float64)
    spread = 4 * smooth * land.heterogeneity + 2 * land.noise / quorum + smooth * mu * land.distance
    s = float(participation(n_clients, quorum, p))
    return max(smooth / mu, 1.0) * spread / (s * mu * t) + smooth * land.distance / t


# ---------------------------------------------------------------- unequal clients, accumulated gradients


def poisson_binomial(p: ArrayLike) -> Floats:
    """The law of how many of independent clients with probabilities `p[k]` answer, `[N + 1]`."""
    law = np.ones(1)
    for one in np.asarray(p, dtype=np.float64):
        law = np.convolve(law, [1 - one, one])
    return law


def unequal_metrics(quorum: int, deadline_s: float, p: ArrayLike) -> Metrics:
    """`metrics` where client `k` answers in time with its own probability `p[k]`; `age_s` is `[N]`.

    `E[C_w] = T (sum_k (1 - p_k) + sum_{n<M} n p_n) / (1 - q)`, `E[age_k] = T/2 + T / (p_k Pr(n_{-k} >= M - 1))`.

    Reference: cafe, section 4.6
    """
    p = np.asarray(p, dtype=np.float64)
    law = poisson_binomial(p)
    ok = law[quorum:].sum()
    others = np.array([poisson_binomial(np.delete(p, k))[quorum - 1 :].sum() for k in range(len(p))])
    with np.errstate(divide="ignore"):
        wastage = deadline_s * ((1 - p).sum() + np.arange(quorum) @ law[:quorum]) / ok
        return Metrics(ok, np.asarray(wastage), np.asarray(1 / ok), deadline_s / 2 + deadline_s / (p * others))


def accumulated_gradients(n_clients: ArrayLike, quorum: ArrayLike, p: ArrayLike) -> Floats:
    """Mean number of gradients that AGU sums per client of a successful round.

    `1 + q / (1 - q) E[n | n < M] / N`.

    Reference: cafe, section 4.6
    """
    in_vain = np.asarray(p) * binom.cdf(np.asarray(quorum) - 2, np.asarray(n_clients) - 1, p)
    return 1 + in_vain / success(n_clients, quorum, p)


def accumulated_wastage_s(
    n_clients: ArrayLike, quorum: ArrayLike, deadline_s: ArrayLike, p: ArrayLike, *, union: bool = False
) -> Floats:
    """Wastage of AGU per successful update.

    Literal: `N T / (1 - q) - T E[n | n >= M] G` with `G` gradients per client; union: `N T (1 - p) / (1 - q)`.

    Reference: cafe, section 4.6
    """
    n, t, p = (np.asarray(value, dtype=np.float64) for value in (n_clients, deadline_s, p))
    ok = success(n, quorum, p)
    if union:
        return n * t * (1 - p) / ok
    used = n * participation(n, quorum, p) / ok * accumulated_gradients(n, quorum, p)
    return n * t / ok - t * used
