"""OBDA: devices send the signs of their updates at once, and the sign of what arrives is the vote.

    y = sqrt(eta) sum_k sign(u_k) + z,   v = sign(y),   eta = min_k R_k / (|sign(u_k)|^2 / m)

Two signs make a symbol (4-QAM), so `|sign(u)|^2 / m` is 2 for an update without zeros. A method that asks for the sum
with weights `q_k` gets `air_step (sum_k q_k) v`: FedAvg moves every parameter by `air_step`, and devices count alike.

Reference: Zhu, Du, Gunduz, Huang, One-Bit Over-the-Air Aggregation for Communication-Efficient Federated Edge Learning,
2021.
# Deviation: a zero is not voted on, instead of counting as one of the signs.
"""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from ..types import Floats
from . import AirRule, Burst, largest_scale

if TYPE_CHECKING:
    from ..world.settings import WorldConfig


def build(settings: "WorldConfig") -> AirRule:
    return AirRule(scale, signs, np.ones_like, partial(vote, settings.air_step))


def scale(burst: Burst) -> float:
    """`eta`: what the weakest channel can carry."""
    return largest_scale(burst.reach_watt, burst.power)


def signs(rows: Tensor) -> Tensor:
    """-1, 0 or 1; a number that is not finite becomes none, so that it is noticed."""
    return rows.sign() + 0.0 * rows


def vote(step: float, total: Tensor, weights: Floats) -> Tensor:
    """The majority of every entry, as long as a step."""
    return total.sign() * (step * float(weights.sum()))
