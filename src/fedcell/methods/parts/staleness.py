"""How much an old update counts: a weight by its staleness, the server steps since its device got the model.

    constant     s(tau) = 1
    polynomial   s(tau) = (1 + tau)^-a
    hinge        s(tau) = 1 up to b, 1 / (1 + a (tau - b)) beyond

Not a method itself: it has no `build`.

Reference: Xie, Koyejo, Gupta, Asynchronous Federated Optimization, 2019, section 5.2
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...options import Checked, option
from ...types import Floats, Ints


def constant(tau: Ints, slope: float, free: float) -> Floats:
    """1 whatever the staleness."""
    return np.ones(len(tau))


def polynomial(tau: Ints, slope: float, free: float) -> Floats:
    """`(1 + tau)^-a`."""
    return np.asarray((1.0 + tau) ** -slope)


def hinge(tau: Ints, slope: float, free: float) -> Floats:
    """1 up to `b`, then `1 / (1 + a (tau - b))`."""
    return 1 / (1 + slope * np.maximum(tau - free, 0.0))


RULES: dict[str, Callable[[Ints, float, float], Floats]] = {
    "constant": constant,
    "polynomial": polynomial,
    "hinge": hinge,
}


@dataclass(frozen=True)
class StalenessConfig(Checked):
    """Settings of the weight."""

    staleness: str = option("polynomial", "how the weight of an update falls with its staleness", choices=tuple(RULES))
    staleness_slope: float = option(0.5, "a, how fast it falls", least=0, needs="staleness!=constant")
    staleness_free: float = option(4.0, "b, server steps that cost nothing", least=0, needs="staleness=hinge")


def weight(config: StalenessConfig, tau: Ints) -> Floats:
    """`s(tau)` of every update, `[n_rows]`, in 0..1 and 1 for fresh ones.

    >>> weight(StalenessConfig(), np.array([0, 3])).tolist()
    [1.0, 0.5]
    >>> weight(StalenessConfig(staleness="hinge", staleness_slope=10.0), np.array([4, 5])).round(3).tolist()
    [1.0, 0.091]
    """
    return RULES[config.staleness](tau, config.staleness_slope, config.staleness_free)
