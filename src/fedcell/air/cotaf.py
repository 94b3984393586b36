"""COTAF: updates are sent at a scale that grows as they shrink, which takes the noise away as training converges.

    p_t = P / max_k |u_k|^2,   here   eta = min_k R_k / max_k (q_k^2 |u_k|^2 / m)

over the devices that send, with `R_k` the most that may arrive of device `k` and `m` symbols. Every device divides its
channel away down to the weakest of those that send. The error of the sum, `sigma^2 / (2 eta)` in every entry, falls
with the square of the longest update. With equal weights and channels the scale is that of the paper, per symbol.

Reference: Sery, Shlezinger, Cohen, Eldar, Over-the-Air Federated Learning from Heterogeneous Data, 2021.
# Deviation: the paper takes the expectation of the squared length, which is found beforehand; here it is the longest
# update of the round.
"""

from typing import TYPE_CHECKING

from . import AirRule, Burst, largest_scale

if TYPE_CHECKING:
    from ..world.settings import WorldConfig


def build(settings: "WorldConfig") -> AirRule:
    return AirRule(scale)


def scale(burst: Burst) -> float:
    """`eta`: what the weakest channel can carry of the longest update."""
    return largest_scale(burst.reach_watt.min(keepdims=True), burst.power.max(keepdims=True))
