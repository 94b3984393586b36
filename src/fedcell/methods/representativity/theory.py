"""Scheduling by representativity and latency: the bound behind it, and the marginal of the common finish time.

One round of SGD with `tau` local steps and a step `g~` in place of everyone's `g` obeys

    E[F(w+) - F(w)] <= -(L/2) lr^2 |grad F|^2 + L lr^2 ((tau-1)^2 chi^2 + (2 tau^2 - 2 tau + 1) G^2 + |g~ - g|^2)

for `lr <= 1 / L`. Only the last term depends on who is scheduled, and it is at most `(H(S) / K)^2`. The proof drops an
inner product that need not be positive, and the bound over many rounds puts an upper bound of the gradient where a
lower one is needed: both are diagnostics, never guarantees.

Reference: chen-ch3, Theorem 1, Corollary 1, sections 4.1 and 4.2
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...types import Floats


class Constants(NamedTuple):
    """Rates, and what the assumptions bound."""

    lr: float  # eta
    steps: int  # tau
    smoothness: float  # L
    noise: float  # G^2, variance of a mini-batch gradient
    gradient: float  # chi^2, bound of its squared norm

    def hold(self) -> bool:
        """Whether the rate is small enough for the theorem, `lr <= 1 / L`."""
        return bool(self.lr * self.smoothness <= 1)

    @property
    def drift(self) -> float:
        """`(2 tau^2 - 2 tau + 1) G^2 + (tau - 1)^2 chi^2`: what is left when everyone is heard."""
        tau = self.steps
        return (2 * tau**2 - 2 * tau + 1) * self.noise + (tau - 1) ** 2 * self.gradient


def round_bound(constants: Constants, gradient_square: float, gap_square: float) -> float:
    """Bound of `E[F(w+) - F(w)]`.

    Args:
        constants: rates and assumptions.
        gradient_square: `|grad F(w)|^2`.
        gap_square: `|g~ - g|^2`; `(H(S) / K)^2` bounds it where weights and distances are of the same gradients.

    >>> round_bound(Constants(0.1, 1, 2.0, 3.0, 5.0), gradient_square=0.0, gap_square=0.0)  # L lr^2 G^2
    0.06000000000000001

    Reference: chen-ch3, Eq. (3.12), and (3.17) with the 1/K that it lacks
    """
    step = constants.smoothness * constants.lr**2
    return step * (constants.drift + gap_square - gradient_square / 2)


def final_bound(constants: Constants, first: float, gap_square: Sequence[float], contraction: float) -> Floats:
    """Bound of `E[F(w_t) - F*]` after every round, `[n_rounds + 1]`.

    `u_{t+1} = a u_t + L lr^2 (drift + |g~_t - g_t|^2)`. Deviation: the recursion itself instead of the printed closed
    form, which weighs round `t` by `a^t` where `a^(T-1-t)` is due.

    Args:
        constants: rates and assumptions.
        first: `F(w_0) - F*`.
        gap_square: of every round.
        contraction: `a`; `1 - L mu lr^2` under a Polyak-Lojasiewicz inequality of constant `mu`. Printed:
            `1 - L^2 lr^2`.

    Reference: chen-ch3, Eq. (3.13), section 4.2
    """
    step, out = constants.smoothness * constants.lr**2, [first]
    for gap in gap_square:
        out.append(contraction * out[-1] + step * (constants.drift + gap))
    return np.array(out)


def added_latency(
    fixed: Floats, full: Floats, before: float, fixed_more: float, full_more: float, after: float
) -> float:
    """How much later a set ends when one more job joins, from both finish times.

    `c_h / (1 + sum_k c_k / (T - a_k) (a_k - a_h) / (T' - a_k))` with `a` the fixed and `c` the full times.

    Args:
        fixed, full: `[n]`, of the set.
        before: `T` of the set.
        fixed_more, full_more: `a_h` and `c_h` of the job that joins.
        after: `T'` of both.

    Reference: chen-ch3, Eq. (A.13)
    """
    share = full / (before - fixed)
    return float(full_more / (1.0 + np.sum(share * (fixed - fixed_more) / (after - fixed))))
