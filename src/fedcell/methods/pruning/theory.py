"""AMP-FL: the ages of units, which its scheduler keeps low, and the outputs of thin networks.

The convergence bound (chen-ch6, Eqs. (6.12) and (6.13)) grows with `A_t`, the squared ages after round `t`. Its proof
goes region by region and ignores what pruning does to the gradient of the regions that are kept. With the hundreds of
regions of a network its constants are meaningless. A scheduler can change only `A_t`, so rows record that.

Reference: chen-ch6, Eq. (6.9)
"""

import numpy as np
from numpy.typing import ArrayLike

from ...types import Bools, Floats, Ints


def next_age(age: Ints, trained: Bools) -> Ints:
    """`(1 - alpha m) (age + 1)`: 0 if a unit was trained and heard. Reference: chen-ch6, Eq. (6.9)

    >>> next_age(np.array([[0, 4], [2, 1]]), np.array([[False, True], [False, False]])).tolist()
    [[1, 0], [3, 2]]
    """
    return np.where(trained, 0, age + 1)


def age_cost(age: Ints) -> float:
    """`A_t = (1/K) sum_{k,i} age^2` after the round, `[n_devices, n_units]`; exact, as nothing is lost to outage.

    Reference: chen-ch6, section 4.2
    """
    return float((age.astype(np.float64) ** 2).sum() / max(len(age), 1))


def output_scale(keep: ArrayLike) -> Floats:
    """Standard deviation of the outputs of an untrained sub-model, relative to those of the untrained full network.

    A unit adds up inputs of independent weights, so with the share `psi_l` of the units of layer `l` kept its variance
    falls to `psi_l`, and after all layers to their product: `sqrt(prod_l psi_l)`. Weights that make up for it in the
    sub-models are too large for the full network by as much. Biases, which start at 0 or small, are ignored.

    Args:
        keep: `[..., n_layers]`, share of units kept in every layer that is cut.

    >>> [round(float(output_scale([0.43] * layers)), 3) for layers in (3, 9)]
    [0.282, 0.022]
    """
    return np.sqrt(np.asarray(keep, dtype=np.float64).prod(axis=-1))
