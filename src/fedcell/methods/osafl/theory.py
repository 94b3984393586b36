"""OSAFL's convergence bound term by term, the scores that minimise it, and estimators of its constants.

Arrays over rounds and clients are `[n_rounds, n_clients]`; one round is `[1, n_clients]`. The bound holds if
`lr * server_lr <= 1 / beta` and `lr < 1 / (2 sqrt(2) beta kappa)`, which published rates seldom meet: a diagnostic.

Its proof adds and subtracts the similarity, so `score^2 <= 2 B` always; the tighter bound has `score^2` in place of
`2 B` and is least for scores of zero. That scores should follow similarity is a heuristic.

Reference: osafl, Theorem 1 (Eq. (24)), Eqs. (25)-(35)
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...types import Floats, Ints


class Constants(NamedTuple):
    """Learning rates, and the constants of the theorem's assumptions."""

    lr: float  # eta
    server_lr: float  # eta tilde
    smoothness: float  # beta
    noise: float  # sigma^2, variance of a stochastic gradient
    rho1: float = 1.0  # |grad f_u|^2 <= rho1 |grad f|^2 + rho2 delta_u, Eq. (22)
    rho2: float = 1.0

    def hold(self, steps: ArrayLike) -> bool:
        """Whether the rates are small enough for the theorem, for the most local steps given."""
        work = self.lr * self.smoothness
        return bool(work * self.server_lr <= 1 and work * np.max(steps) < 1 / (2 * sqrt(2)))


class Bound(NamedTuple):
    """Theorem 1, one entry per round; the terms stand inside its bracket, before the division by `slack`."""

    loss_change: Floats  # 2 (f^t - f^{t+1}) / (eta eta tilde)
    noise: Floats
    shift: Floats  # of the data between rounds
    heterogeneity: Floats
    slack: Floats  # A^t

    @property
    def void(self) -> bool:
        """Whether the bound is meaningless because some `A^t` is not positive."""
        return bool((self.slack <= 0).any())

    @property
    def total(self) -> float:
        """The bound on the mean squared gradient norm, infinite if it is void."""
        if self.void:
            return float("inf")
        bracket = self.loss_change + self.noise + self.shift + self.heterogeneity
        return float((bracket / self.slack).mean())


def spread(score: ArrayLike, similarity: ArrayLike) -> Floats:
    """`B = (Delta - lambda)^2 + lambda^2`. Reference: osafl, Theorem 1"""
    score, similarity = np.asarray(score, dtype=np.float64), np.asarray(similarity)
    return np.asarray((score - similarity) ** 2 + similarity**2)


def bound(
    constants: Constants,
    alpha: Floats,
    steps: ArrayLike,
    score: ArrayLike,
    similarity: ArrayLike,
    shift: ArrayLike,
    heterogeneity: ArrayLike,
    loss: ArrayLike,
) -> Bound:
    """The terms of Theorem 1.

    Args:
        constants: rates and assumptions.
        alpha: `alpha_u`, `[n_clients]`.
        steps: `kappa_u^t`; that of a straggler is the one stored with its stale gradient.
        score: `Delta_u^t`; 1 gives Eq. (25).
        similarity: `lambda_u^t`.
        shift: `Phi_u^t`, Eq. (23).
        heterogeneity: `delta_u^t`, Eq. (22).
        loss: `f(w^t | D^t)`, `[n_rounds + 1]`.

    Reference: osafl, Eq. (24)
    """
    c, b = constants, spread(score, similarity)
    be, kappa = c.smoothness * c.lr, np.asarray(steps, dtype=np.float64)
    squared = alpha * b * kappa**2
    noise = alpha * (c.server_lr * alpha * np.asarray(score) ** 2 + 4 * be * kappa * b)
    return Bound(
        loss_change=-2 * np.diff(np.asarray(loss)) / (c.lr * c.server_lr),
        noise=be * c.noise * noise.sum(axis=-1),
        shift=32 * be**2 * (squared * np.asarray(shift)).sum(axis=-1),
        heterogeneity=16 * c.rho2 * be**2 * (squared * np.asarray(heterogeneity)).sum(axis=-1),
        slack=slack(c, alpha, kappa, b),
    )


def slack(constants: Constants, alpha: Floats, steps: ArrayLike, b: Floats) -> Floats:
    """`A^t = 1 - 16 rho1 beta^2 eta^2 sum_u alpha_u kappa_u^2 B_u`."""
    be = constants.smoothness * constants.lr
    return np.asarray(1 - 16 * constants.rho1 * be**2 * (alpha * np.asarray(steps) ** 2 * b).sum(axis=-1))


# ---------------------------------------------------------------- scores


def best_scores(
    constants: Constants,
    alpha: Floats,
    steps: ArrayLike,
    similarity: Floats,
    shift: ArrayLike,
    heterogeneity: ArrayLike,
    psi: float = 1.0,
) -> Floats:
    """The scores that minimise the bracket of the bound less `psi A^t` in one round, arrays `[n_clients]`.

    `score_u = C_u lambda_u / (2 beta eta eta~ sigma^2 alpha_u^2 + C_u)` with
    `C_u = alpha_u beta^2 eta^2 (8 kappa sigma^2 + 64 Phi kappa^2 + 32 rho2 delta kappa^2 + 32 psi rho1 kappa^2)`.
    If both are zero every score is as good, and the similarity is taken.

    Deviation: the paper drops `psi` in the last term of `C_u`.

    Reference: osafl, Eqs. (31), (33)-(34)
    """
    c, kappa = constants, np.asarray(steps, dtype=np.float64)
    per_square = 64 * np.asarray(shift) + 32 * c.rho2 * np.asarray(heterogeneity) + 32 * psi * c.rho1
    gain = alpha * (c.smoothness * c.lr) ** 2 * (8 * kappa * c.noise + per_square * kappa**2)
    price = 2 * c.smoothness * c.lr * c.server_lr * c.noise * alpha**2
    share = np.divide(gain, price + gain, out=np.ones_like(similarity), where=price + gain > 0)
    return np.asarray(share * similarity)


# ---------------------------------------------------------------- estimators


def label_distance(counts: Ints) -> Floats:
    """`delta_u`: squared distance of each client's label shares from those of all together, `[n_clients]`.

    Args:
        counts: `[n_clients, n_classes]`; a client without samples has distance 0.
    """
    size = counts.sum(axis=1, keepdims=True)
    share = counts / np.maximum(size, 1)
    overall = counts.sum(axis=0) / max(int(size.sum()), 1)
    return np.where(size[:, 0] > 0, ((share - overall) ** 2).sum(axis=1), 0.0)


def least_rho2(squared_norm: Floats, overall: float, heterogeneity: Floats, rho1: float = 1.0) -> float:
    """The least `rho2` with `|grad f_u|^2 <= rho1 |grad f|^2 + rho2 delta_u` for all clients with `delta_u > 0`.

    Args:
        squared_norm: `|grad f_u|^2`, `[n_clients]`.
        overall: `|grad f|^2`.
        heterogeneity: `delta_u`.
        rho1: as in the bound.

    Reference: osafl, Eq. (22)
    """
    excess = np.maximum(squared_norm - rho1 * overall, 0.0)
    differs = heterogeneity > 1e-12
    return float(np.max(excess[differs] / heterogeneity[differs], initial=0.0))
