"""The bounds of knowledge-aided learning and of its scheduler, as numbers.

The learning bound is a diagnostic. It lets devices that were not chosen train, too, and takes upper bounds of gradients
where a lower one would be needed. The energy bound holds for every policy that never takes a set worse than nobody.

Reference: chen-ch4, section 4
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from ...types import Bools, Floats, Ints


@dataclass(frozen=True)
class Constants:
    """Smoothness and sizes that the bounds are made of."""

    smooth_body: float  # L_u
    smooth_head: float  # L_v
    cross: float  # max(L_uv, L_vu)
    gradient_body: float  # G_1, bound of the norm
    gradient_head: float  # G_2
    feature_slope: float  # vartheta, bound of the norm of the extractor's gradient
    feature_norm: float  # varsigma, bound of the norm of features

    @property
    def coupling(self) -> float:
        """`chi = max(L_uv, L_vu) / sqrt(L_u L_v)`"""
        return self.cross / sqrt(self.smooth_body * self.smooth_head)


@dataclass(frozen=True)
class Rates:
    """Local training."""

    body: float  # eta_u
    head: float  # eta_v
    steps: int  # tau
    pull: float  # lambda of Eq. (4.6), which sums over features


def highest_rates(constants: Constants, steps: int) -> tuple[float, float]:
    """The largest `eta_u` and `eta_v` that the bound allows. Reference: chen-ch4, Lemma 7"""
    scale = steps * (1 + constants.coupling)
    return 1 / (4 * scale * constants.smooth_body), 1 / (2 * scale * constants.smooth_head)


def drift(constants: Constants, rates: Rates) -> float:
    """`A_1`: what several local steps in a row may add in a round. Reference: chen-ch4, Eq. (4.18)"""
    c, u, v, tau = constants, rates.body, rates.head, rates.steps
    mixed = (2 / 3 * u * c.gradient_body**2 + v * c.gradient_head**2 / 2) * u * v
    mixed *= c.coupling**2 * c.smooth_body * c.smooth_head
    own = u**3 * c.gradient_body**2 * c.smooth_body**2 + v**3 * c.gradient_head**2 * c.smooth_head**2 / 3
    return tau * (tau + 1) * (2 * tau + 1) * (own + mixed)


def pull_cost(constants: Constants, rates: Rates) -> float:
    """`A_2`: what the pull may add in a round. Reference: chen-ch4, Eq. (4.19)"""
    c, u, v, tau = constants, rates.body, rates.head, rates.steps
    size = rates.pull**2 * c.feature_slope**2 * c.feature_norm**2
    coupled = 3 * u * c.smooth_body**2 + 2 * v * c.coupling**2 * c.smooth_body * c.smooth_head
    return 10 * u * tau * size + 8 * u**2 * size * coupled * tau * (tau + 1)


def contraction(constants: Constants, rates: Rates) -> float:
    """`A_3`: what is left of the distance to the optimum after a round; 1 at the highest rates, less inside.

    Reference: chen-ch4, Eq. (4.19)
    """
    c, u, v, tau = constants, rates.body, rates.head, rates.steps
    square = 4 * c.smooth_body**2 * u**2 + 2 * c.smooth_head**2 * v**2
    return 1 + square * (1 + c.coupling) * tau**2 - (u * c.smooth_body + v * c.smooth_head) * tau


def missed_knowledge(counts: Ints, scheduled: Bools) -> float:
    """`(C / D) sum_k (1 / D_k) sum_c D_kc^2 (1 - sum_{j in S} D_jc / D_c)^2`: 0 where everybody was heard.

    Args:
        counts: `[n_devices, n_classes]`, `D_kc`.
        scheduled: `[n_devices]`, `S`.

    Reference: chen-ch4, Eq. (B.21)
    """
    of_class, of_device = counts.sum(axis=0), counts.sum(axis=1)
    gap = 1 - counts[scheduled].sum(axis=0) / np.maximum(of_class, 1)
    each = (counts**2 * gap**2).sum(axis=1) / np.maximum(of_device, 1)
    return float(counts.shape[1] / max(int(counts.sum()), 1) * each.sum())


def recursion(constants: Constants, rates: Rates, counts: Ints, scheduled: Bools, distance: float) -> Floats:
    """The bound of the distance to the optimum before and after every round, `[n_rounds + 1]`.

    `u <- A_3 u + A_1 + A_2 (1 + missed knowledge of the round before)`, without that term in the first round.

    Args:
        constants, rates: of the problem and of training.
        counts: `[n_devices, n_classes]`.
        scheduled: `[n_rounds, n_devices]`.
        distance: `F(W_0) - F*`.

    Reference: chen-ch4, Eq. (B.21)
    """
    a1, a2, a3 = drift(constants, rates), pull_cost(constants, rates), contraction(constants, rates)
    out = [distance]
    for t in range(len(scheduled)):
        missed = missed_knowledge(counts, scheduled[t - 1]) if t else 0.0
        out.append(a3 * out[-1] + a1 + a2 * (1 + missed))
    return np.array(out)


def final_bound(constants: Constants, rates: Rates, counts: Ints, scheduled: Bools, distance: float) -> float:
    """The bound of `F(W_T) - F*` after all rounds.

    Args: as for `recursion`; two rounds at least.

    Reference: chen-ch4, Theorem 2
    """
    a1, a2, a3 = drift(constants, rates), pull_cost(constants, rates), contraction(constants, rates)
    n_rounds, (n_devices, n_classes) = len(scheduled), counts.shape
    of_class, of_device, total = counts.sum(axis=0), counts.sum(axis=1), max(int(counts.sum()), 1)
    weight = a3 ** np.arange(n_rounds - 2, -1, -1.0)
    shares = counts**2 / np.maximum(of_device, 1)[:, None] / np.maximum(of_class, 1) ** 2
    spread = shares.sum(axis=0) @ (counts**2).sum(axis=0)
    heard = float(weight @ (scheduled[: n_rounds - 1] @ of_device))
    geometric = n_rounds if a3 == 1 else (1 - a3**n_rounds) / (1 - a3)
    helped = heard**2 / (total * n_devices * (n_rounds - 1) * max(int(of_device.max()), 1))
    missed = n_classes * n_devices / total * float(weight.sum()) * float(spread)
    return float(a3**n_rounds * distance + geometric * (a1 + a2) + a2 * (missed - helped))


# ---------------------------------------------------------------- the scheduler


def deviations(joule: Floats, budget_joule: Floats) -> Floats:
    """`zeta_k`, `[n_devices]`: the largest distance of a round's energy from the mean budget.

    Args:
        joule: `[n_rounds, n_devices]`, spent.
        budget_joule: `[n_devices]`, of the run.

    Reference: chen-ch4, Proposition 2
    """
    return np.asarray(np.abs(joule - budget_joule / len(joule)).max(axis=0))


def energy_bound(joule: Floats, budget_joule: Floats, trade: float, weights: Floats, n_samples: int) -> float:
    """The most energy that all devices together spend, `sum E_k + sqrt(2 K (T zeta_0 + V sum_t gamma_t D))`.

    Holds for every policy with `Y(S_t) <= 0` in every round.

    Args:
        joule: `[n_rounds, n_devices]`, spent, for the deviations.
        budget_joule: `[n_devices]`.
        trade: `V`.
        weights: `[n_rounds]`, `gamma_t`.
        n_samples: `D`.

    Reference: chen-ch4, Eq. (4.31)
    """
    n_rounds, n_devices = joule.shape
    half_square = 0.5 * float((deviations(joule, budget_joule) ** 2).sum())
    room = 2 * n_devices * (n_rounds * half_square + trade * float(weights.sum()) * n_samples)
    return float(budget_joule.sum()) + sqrt(room)


def reward_gap(joule: Floats, budget_joule: Floats, trade: float) -> float:
    """How far the weighted samples may stay behind the best policy, `T zeta_0 / V + T (T - 1) / (2 V) sum zeta_k^2`.

    It presumes that every round is minimised exactly, which Algorithm 6 does not.

    Reference: chen-ch4, Eq. (4.30)
    """
    n_rounds, squares = len(joule), float((deviations(joule, budget_joule) ** 2).sum())
    return n_rounds * 0.5 * squares / trade + n_rounds * (n_rounds - 1) / (2 * trade) * squares
