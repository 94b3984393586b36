"""How far cached labels stray from their long-term law, and what that costs in convergence.

`v` are the label shares of a cache, `pi` the long-term shares, `M = B / b` the cache in batches, `Gamma` the lag up
to which the shares of two rounds correlate and `delta2` a bound on their covariance.

Reference: streaming, sections III to V; sections 4.1 to 4.3 of the method's page
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from ...errors import BadInput
from ...labels import histogram
from ...rng import SETUP
from ...types import Floats, Ints, Store
from ...world.caches import RULES, Cache, Keeper, aim, begin, drsr_gain, srsr_gain
from ...world.labels import LabelLaw, draw_labels, first_state, ideal_labels, next_state
from ...world.settings import StreamConfig
from ...world.streams import first_fill, sizes

# ---------------------------------------------------------------- measured


def discrepancy(counts: Ints, long_term: Floats) -> Floats:
    """`sum_r (v_r - pi_r)^2` of every device, `[n_devices]`; their sum is the per-slot discrepancy `psi_t`.

    Args:
        counts: samples of each class in each cache, `[n_devices, n_classes]`.
        long_term: long-term label shares, `[n_devices, n_classes]`.
    """
    return np.asarray(np.sum(deviation(counts, long_term) ** 2, axis=1))


def deviation(counts: Ints, long_term: Floats) -> Floats:
    """`v - pi`, `[n_devices, n_classes]`."""
    return np.asarray(counts / np.maximum(counts.sum(axis=1), 1)[:, None] - long_term)


def label_trace(settings: StreamConfig, law: LabelLaw, n_rounds: int, seed: int) -> Floats:
    """The discrepancy of every device in every round without any training, `[n_rounds, n_devices]`.

    Labels and counts are those of the run with the same settings and seed; sums over devices are `psi_t`, their
    cumulative sums the accumulated discrepancy.
    """
    n_devices, _, n_classes = law.states.shape
    capacity, batch = sizes(settings, n_devices, seed)
    if settings.cache == "full":
        counts = histogram(Store(ideal_labels(law, capacity), capacity), np.arange(n_classes), n_classes)
        return np.tile(discrepancy(counts, law.long_term), (n_rounds, 1))
    keeper = Keeper(capacity, np.arange(n_classes), n_classes, settings.theta)  # a sample is its label
    state = first_state(law, seed)
    first = draw_labels(law, state, int(capacity.max()), seed, SETUP)
    cache = begin(keeper, Store(first, first_fill(settings, capacity)))
    held = histogram(cache.store, keeper.labels, n_classes)
    out = np.empty((n_rounds, n_devices))
    for round in range(n_rounds):
        new = Store(draw_labels(law, state, int(batch.max()), seed, round), batch)
        cache, held = _keep(settings.cache, keeper, cache, held, new)
        out[round] = discrepancy(held, law.long_term)
        state = next_state(law, state, seed, round)
    return out


def _keep(rule: str, keeper: Keeper, cache: Cache, held: Ints, new: Store) -> tuple[Cache, Ints]:
    """One arrival: the ratio rules need counts alone, the others the order of arrival."""
    if rule not in ("srsr", "drsr"):
        cache = RULES[rule](keeper, cache, new, 0, 0)
        return cache, histogram(cache.store, keeper.labels, keeper.n_classes)
    gain = srsr_gain(keeper, new.size) if rule == "srsr" else drsr_gain(keeper, new.size, cache.seen)
    held, shadow = aim(keeper, held, histogram(new, keeper.labels, keeper.n_classes), cache.shadow, gain)
    return cache._replace(shadow=shadow, seen=cache.seen + new.size), held


# ---------------------------------------------------------------- bounds on E[(v - pi)^2] of one class


def fifo_bound(ratio: float, lag: int, delta2: float) -> float:
    """`min(2 Gamma + 1, M) / M * delta2`. Reference: streaming, Proposition 1, Eq. (10)"""
    return min(2 * lag + 1, ratio) / ratio * delta2


def srsr_bound(t: int, theta: float, ratio: float, lag: int, delta2: float, share: float) -> float:
    """`2 b^2t pi^2 + (1 - b^2t) * limit` with `b = 1 - theta / M` and an empty first cache.

    Reference: streaming, Proposition 2, Eq. (14)
    """
    faded = (1 - theta / ratio) ** (2 * t)
    return 2 * faded * share**2 + (1 - faded) * srsr_limit(theta, ratio, lag, delta2)


def srsr_limit(theta: float, ratio: float, lag: int, delta2: float) -> float:
    """`2 (b^-Gamma - b^(Gamma+1)) / (2 - theta / M) * delta2`. Reference: streaming, Corollary 1, Eq. (15)"""
    b = 1 - theta / ratio
    return 2 * (b**-lag - b ** (lag + 1)) / (2 - theta / ratio) * delta2


def drsr_bound(t: int, lag: int, delta2: float) -> float:
    """`(2 Gamma + 1) / t * delta2`, from `t = 1`. Reference: streaming, Proposition 3, Eq. (17)"""
    return (2 * lag + 1) / t * delta2


# ---------------------------------------------------------------- exact values of a Markov stream


def label_covariance(law: LabelLaw, batch: int, n_lags: int) -> Floats:
    """`c_r(h)`: covariance of the share of class `r` in rounds `h` apart, `[n_lags + 1, n_devices, n_classes]`.

    `sum_s rho_s p_sr (P^h p_r)_s - pi_r^2`, and at `h = 0` the sampling noise `sum_s rho_s p_sr (1 - p_sr) / b`.
    """
    p, weighted = law.states, law.stationary[:, :, None] * law.states
    out = np.empty((n_lags + 1, *law.long_term.shape))
    ahead = p
    for h in range(n_lags + 1):
        out[h] = np.sum(weighted * ahead, axis=1) - law.long_term**2
        ahead = law.transition @ ahead
    out[0] += np.sum(weighted * (1 - p), axis=1) / batch
    return out


def effective_lag(covariance: Floats, tolerance: float = 0.05) -> int:
    """The smallest lag beyond which all covariances stay below `tolerance * delta2`, with `delta2` the largest.

    Deviation: the paper asks for covariances that end; those of a Markov chain decay and never end.
    """
    size = np.abs(covariance).reshape(len(covariance), -1).max(axis=1)
    return int(np.flatnonzero(size >= tolerance * size.max())[-1])


def mean_discrepancy(covariance: Floats, n: int) -> Floats:
    """`E[(v - pi)^2]` where `v` is the mean of `n` successive rounds, `[n_devices, n_classes]`.

    `(n c(0) + 2 sum_h (n - h) c(h)) / n^2`. FIFO is `n = M` (a whole number), DRSR from an empty cache `n = t`.
    """
    h = np.arange(1, n).reshape(-1, 1, 1)
    if n > len(covariance):
        raise BadInput(f"{len(covariance)} lags do not reach over {n} rounds: ask label_covariance for {n - 1}")
    return np.asarray((n * covariance[0] + 2 * np.sum((n - h) * covariance[1:n], axis=0)) / n**2)


def srsr_discrepancy(covariance: Floats, gain: float) -> Floats:
    """`E[(v - pi)^2]` of SRSR long after the start, `gain = theta / M`, `[n_devices, n_classes]`.

    `gain / (2 - gain) * (c(0) + 2 sum_h (1 - gain)^h c(h))` over the lags given.
    """
    decay = (1 - gain) ** np.arange(1, len(covariance)).reshape(-1, 1, 1)
    return np.asarray(gain / (2 - gain) * (covariance[0] + 2 * np.sum(decay * covariance[1:], axis=0)))


# ---------------------------------------------------------------- convergence


class Training(NamedTuple):
    """The constants of Theorem 1."""

    n_rounds: int
    steps: int  # local steps E
    lr: float  # local rate
    n_clients: int
    n_classes: int
    gap: float  # f(w_0) - f_*
    smoothness: float = 1.0  # L
    largest_share: float = 1.0  # the largest long-term share of any class at any client
    dissimilarity: float = 0.0  # sigma_G^2
    dissimilarity_slope: float = 0.0  # A^2
    moment: float = 1.0  # sigma_M^2
    server_lr: float = 1.0


class Bound(NamedTuple):
    """The terms of Theorem 1; `total` is the printed bound, `dropped` what its proof loses on the way."""

    start: float
    dissimilarity: float  # Phi_G, Eq. (26)
    moment: float  # Phi_M, Eq. (27)
    cache: float  # Phi_L, Eq. (28), the only one that depends on the cache rule
    dropped: float

    @property
    def total(self) -> float:
        return self.start + self.dissimilarity + self.moment + self.cache


def convergence_bound(training: Training, bounds: Floats) -> Bound:
    """A bound on the least squared gradient norm within the rounds.

    Deviation: `E L` stands outside the root in the step-size condition, and the term that vanishes between Eqs. (86)
    and (87) is reported as `dropped`. The proof treats dependent gradients as independent, so this is a diagnostic.

    Args:
        training: the constants.
        bounds: `lambda_t^2`, bounds on `E[(v - pi)^2]` or measured maxima, `[n_rounds]`; capped at 1.

    Reference: streaming, Theorem 1, Eqs. (25)-(28)
    """
    t = training
    c = _slack(t)
    work, classes = t.lr * t.steps * t.smoothness, t.n_classes**2 * t.moment
    spread = classes * t.largest_share**2
    mean = float(np.minimum(bounds, 1.0).sum()) / t.n_rounds
    return Bound(
        start=t.gap / (c * t.server_lr * t.lr * t.steps * t.n_rounds),
        dissimilarity=30 * work**2 * t.dissimilarity / c,
        moment=60 * work**2 * spread / c,
        cache=(5 * work * t.lr * t.smoothness + 3 * t.server_lr * work + 1) * classes / c * mean,
        dropped=2 * t.smoothness * t.server_lr * t.lr * spread / (c * t.n_clients),
    )


def decreasing_steps(n_rounds: int, steps: int, n_clients: int) -> tuple[float, float]:
    """(local, server) rates `1 / (sqrt(T) E)` and `sqrt(E K)`. Reference: streaming, Corollary 2

    Deviation: the printed local rate `1 / sqrt(T E)` does not give the printed order.
    """
    return 1 / (sqrt(n_rounds) * steps), sqrt(steps * n_clients)


def _slack(training: Training) -> float:
    """`c = 1/2 - 30 (A^2 + 1) (lr E L)^2`; refuses step sizes outside the theorem."""
    work = training.lr * training.steps * training.smoothness
    slope = training.dissimilarity_slope + 1
    c = 0.5 - 30 * slope * work**2
    most = min(1 / sqrt(60 * slope), 1 / 8)
    if c <= 0 or work > most or training.server_lr * work > 1 / 4:
        raise BadInput(
            f"lr * steps * smoothness = {work:g} with server_lr = {training.server_lr:g} is outside Theorem 1: "
            f"lower lr until it is at most {most:g}, and at most 0.25 when multiplied by server_lr"
        )
    return c
