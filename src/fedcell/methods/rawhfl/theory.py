"""RawHFL's convergence bound term by term, and the learning rate that it asks for.

Arrays over rounds and clients are `[n_rounds, n_edge_rounds, n_clients]`, global rounds first. A client that is not
selected has weight 0; the weights of a cell sum to 1. `L` is the most local steps, `L_u` those taken, `E` the edge
rounds of a global round, `q_u` the probability that an upload arrives.

Reference: rawhfl (Pervej, Molisch: Resource-Aware Hierarchical Federated Learning in Wireless Video Caching Networks),
Theorem 1 (Eq. (21))
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...types import Floats


class Constants(NamedTuple):
    """The learning rate, and the constants of the theorem's assumptions."""

    lr: float  # eta
    smoothness: float  # beta
    noise: float  # sigma^2, variance of a stochastic gradient
    edge_divergence: float  # eps_0^2, of client gradients in a cell, Eq. (19)
    global_divergence: float  # eps_1^2, of the cells' gradients times steps, Eq. (20)

    def hold(self, most_steps: float, n_edge_rounds: int) -> bool:
        """Whether the rate is small enough for the proof."""
        return self.lr < most_lr(self.smoothness, most_steps, n_edge_rounds)


class Bound(NamedTuple):
    """Theorem 1, one entry per global round."""

    progress: Floats  # 2 (f^k - f^{k+1}) / (eta Omega^k)
    noise: Floats
    edge_divergence: Floats
    global_divergence: Floats
    wireless: Floats  # of uploads that may be lost; 0 if all arrive

    @property
    def void(self) -> bool:
        """Whether the bound is meaningless: in some round nobody trains, or some upload cannot arrive."""
        return not bool(np.isfinite(self).all())

    @property
    def total(self) -> float:
        """The bound on the mean squared gradient norm, infinite if it is void."""
        return float(sum(np.mean(term) for term in self)) if not self.void else np.inf


def bound(
    constants: Constants,
    most_steps: float,
    cell_weight: Floats,
    weight: Floats,
    steps: ArrayLike,
    loss: ArrayLike,
    success: ArrayLike = 1.0,
    gradient_squared: ArrayLike = 0.0,
) -> Bound:
    """The terms of Theorem 1.

    Args:
        constants: rate and assumptions.
        most_steps: `L`.
        cell_weight: `alpha_b` of every client's cell, `[n_clients]`.
        weight: `alpha_u`, `[n_rounds, n_edge_rounds, n_clients]`, 0 for clients that are not selected.
        steps: `L_u`.
        loss: `f(w^k)`, `[n_rounds + 1]`.
        success: `q_u`.
        gradient_squared: `sum_l E |g_u(w_u^l)|^2` over the local steps of a client.

    Reference: rawhfl, Eq. (21)
    """
    c, n_edge, most, be = constants, weight.shape[1], most_steps, constants.smoothness * constants.lr
    both = cell_weight * weight
    mean_steps = (both * np.asarray(steps)).sum(axis=(1, 2))  # Omega^k
    arriving = both * heard_factor(c, most, n_edge, weight) * np.asarray(gradient_squared)
    lost = np.where(arriving > 0, _over(1.0, np.broadcast_to(success, weight.shape)) - 1, 0.0)
    n2 = 1 + 20 * be**2 * n_edge**2 * most**2
    return Bound(
        progress=_over(-2 * np.diff(np.asarray(loss, dtype=np.float64)) / c.lr, mean_steps),
        noise=_over(2 * be * most * c.noise * noise_factor(c, most, cell_weight, weight), mean_steps),
        edge_divergence=_over(18 * n_edge * be**2 * c.edge_divergence * most**3 * n2, mean_steps),
        global_divergence=_over(20 * most * be**2 * c.global_divergence * n_edge**3, mean_steps),
        wireless=_over(2 * be * most * (arriving * lost).sum(axis=(1, 2)), mean_steps),
    )


def noise_factor(constants: Constants, most_steps: float, cell_weight: Floats, weight: Floats) -> Floats:
    """`N_1^k`, `[n_rounds]`.

    `60 (beta eta E L)^3 + 3 beta eta E L + sum_e sum_b alpha_b (alpha_b + 4 E L beta eta) sum_u alpha_u^2`
    """
    load = constants.smoothness * constants.lr * weight.shape[1] * most_steps
    squares = (cell_weight * (cell_weight + 4 * load) * weight**2).sum(axis=(1, 2))
    return np.asarray(60 * load**3 + 3 * load + squares)


def heard_factor(constants: Constants, most_steps: float, n_edge_rounds: int, weight: Floats) -> Floats:
    """`N_u = E + 3 beta eta L + 4 beta eta E (alpha_u + 15 E beta^2 eta^2 L^3)`, shaped like `weight`."""
    be, n_edge = constants.smoothness * constants.lr, n_edge_rounds
    return np.asarray(n_edge + 3 * be * most_steps + 4 * be * n_edge * (weight + 15 * n_edge * be**2 * most_steps**3))


def most_lr(smoothness: float, most_steps: float, n_edge_rounds: int) -> float:
    """`1 / (2 sqrt(5) beta E L)`, below which the proof holds; infinite for a loss of no curvature.

    Deviation: the theorem states the larger `min(1 / (2 sqrt(5) beta L), 1 / (beta E L))`; its proof needs this one.
    """
    load = smoothness * n_edge_rounds * most_steps
    return 1 / (2 * sqrt(5) * load) if load > 0 else np.inf


def _over(value: ArrayLike, by: ArrayLike) -> Floats:
    """`value / by`, infinite if `by` is 0."""
    below = np.asarray(by, dtype=np.float64)
    return np.divide(value, below, out=np.full(below.shape, np.inf), where=below > 0)
