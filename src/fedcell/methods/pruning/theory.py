"""AMP-FL: ages of units and the convergence bound that leads to its scheduler.

With `I` regions, `lambda` local steps of rate `eta` and `A_t` the squared ages after round `t`,

    E[F(w_{t+1}) - F(w_t)] <= (-eta/2 + L eta^2 lambda) lambda |grad F(w_t)|^2 + c1 + (15/4) eta^2 L c2 A_t

The proof moves region by region and passes over what pruning does to the gradient of the regions that are kept; it
holds where regions do not meet in the loss. With the hundreds of regions of a network its constants say nothing;
`A_t` is what a scheduler can change, and the diagnostic to record.

Reference: chen-ch6, Eqs. (6.9)-(6.13)
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...types import Bools, Floats, Ints


class Constants(NamedTuple):
    """Rates, and what the assumptions bound."""

    lr: float  # eta
    steps: int  # lambda
    regions: int  # I
    smoothness: float  # L
    noise: float  # sigma^2, variance of a stochastic gradient
    gradient: float  # G^2, bound of the squared norm of a device's gradient

    def hold(self) -> bool:
        """Whether the rate is small enough, `eta <= 1 / (2 lambda L)`."""
        return bool(2 * self.lr * self.steps * self.smoothness <= 1)


# ---------------------------------------------------------------- ages


def next_age(age: Ints, trained: Bools) -> Ints:
    """`(1 - alpha m) (age + 1)`: 0 where a unit was trained and heard. Reference: chen-ch6, Eq. (6.9)

    >>> next_age(np.array([[0, 4], [2, 1]]), np.array([[False, True], [False, False]])).tolist()
    [[1, 0], [3, 2]]
    """
    return np.where(trained, 0, age + 1)


def age_cost(age: Ints) -> float:
    """`A_t = (1/K) sum_{k,i} age^2` after the round, `[n_devices, n_units]`; exact, as nothing is lost to outage.

    Reference: chen-ch6, section 4.2
    """
    return float((age.astype(np.float64) ** 2).sum() / max(len(age), 1))


# ---------------------------------------------------------------- what is kept


def output_scale(keep: ArrayLike) -> Floats:
    """Outputs of a new sub-model over those of the new full network, as a standard deviation.

    A unit adds up inputs of independent weights, so with the share `psi_l` of the units of layer `l` kept its variance
    falls to `psi_l`, and after all layers to their product: `sqrt(prod_l psi_l)`. Weights that make up for it in the
    sub-models are too large for the full network by as much. Biases, which start at 0 or small, are passed over.

    Args:
        keep: `[..., n_layers]`, share of units kept in every layer that is cut.

    >>> [round(float(output_scale([0.43] * layers)), 3) for layers in (3, 9)]
    [0.282, 0.022]
    """
    return np.sqrt(np.asarray(keep, dtype=np.float64).prod(axis=-1))


# ---------------------------------------------------------------- lemmas


def local_drift(constants: Constants) -> float:
    """Bound of `1/(K lambda) sum_{k,l,i} E |w_k^i - w_{k,l}^i|^2`. Reference: chen-ch6, Eq. (6.10), Lemma 11"""
    n, eta = constants.steps, constants.lr
    return 4 * (n - 1) * constants.regions * eta**2 * (2 * n * constants.gradient + constants.noise)


def global_drift(constants: Constants, squared_ages: ArrayLike) -> Floats:
    """Bound of `sum_{k,i} E |w_t^i - w_{t-age}^i|^2`, with `squared_ages` the sum of `age^2`.

    Reference: chen-ch6, Eq. (6.11), Lemma 12
    """
    return 3 * constants.lr**2 * _spread(constants) * np.asarray(squared_ages, dtype=np.float64)


def _spread(constants: Constants) -> float:
    """`c2 = lambda^2 (sigma^2 + G^2) + (lambda - 1) I (sigma^2 + 2 lambda G^2)`."""
    n, noise, gradient = constants.steps, constants.noise, constants.gradient
    return n**2 * (noise + gradient) + (n - 1) * constants.regions * (noise + 2 * n * gradient)


# ---------------------------------------------------------------- theorem and corollary


class Coefficients(NamedTuple):
    """The factors of one round's bound."""

    gradient: float  # of |grad F|^2
    constant: float  # c1
    age: float  # 15/4 eta^2 L c2, of A_t


def coefficients(constants: Constants) -> Coefficients:
    """The factors of Theorem 5. Reference: chen-ch6, Eq. (6.12)"""
    eta, n, smooth, regions = constants.lr, constants.steps, constants.smoothness, constants.regions
    drift = 4 * eta * (n - 1) * regions * constants.gradient
    noise = (4 * eta**2 * smooth * (n - 1) * regions + 0.75 * eta * n) * constants.noise
    return Coefficients(
        gradient=(-eta / 2 + smooth * eta**2 * n) * n,
        constant=drift + noise,
        age=15 / 4 * eta**2 * smooth * _spread(constants),
    )


def round_bound(constants: Constants, squared_gradient: ArrayLike, age_cost: ArrayLike) -> Floats:
    """Bound of the loss change in one round, entry by entry, for `|grad F(w_t)|^2` and `A_t`.

    Reference: chen-ch6, Eq. (6.12), Theorem 5
    """
    by = coefficients(constants)
    return by.gradient * np.asarray(squared_gradient) + by.constant + by.age * np.asarray(age_cost)


def contraction(constants: Constants, convexity: float) -> float:
    """`phi = 1 - eta lambda mu + 2 L eta^2 lambda^2 mu`, below 1 exactly when `eta lambda < 1 / (2 L)`."""
    reach = constants.lr * constants.steps
    return 1 - reach * convexity + 2 * constants.smoothness * reach**2 * convexity


def final_bound(constants: Constants, gap: float, age_costs: ArrayLike, convexity: float) -> float:
    """Bound of `E[F(w_T) - F*]`: `phi^T gap + sum_t phi^(T-1-t) (c1 + (15/4) eta^2 L c2 A_t)`.

    Args:
        constants: rates and assumptions.
        gap: `F(w_0) - F*`.
        age_costs: `A_t` of every round, `[n_rounds]`.
        convexity: `mu`.

    Reference: chen-ch6, Eq. (6.13), Corollary 3
    """
    costs = np.asarray(age_costs, dtype=np.float64)
    by, phi = coefficients(constants), contraction(constants, convexity)
    power = phi ** np.arange(len(costs) - 1, -1, -1)
    return float(phi ** len(costs) * gap + power @ (by.constant + by.age * costs))
