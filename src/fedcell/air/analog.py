"""Analog FedAvg: devices send their weighted updates at once, at the largest scale that all of them can afford.

    eta = min_k R_k / (q_k^2 max(|u_k|^2, n s^2) / m)

over the devices that send, with `R_k` the most that may arrive of device `k`, `n` entries, `m` symbols and `s` the
`air_full_scale`. With `s = 0` the device that needs most power for its update sends at its limit. With `s > 0` the
scale is kept for updates whose entries are `s` in the root mean square: it does not rise when updates shrink, like that
of an amplifier which is set once.

The error of the sum is `sigma^2 / (2 eta)` in every entry.

Reference: Amiri, Gunduz, Machine Learning at the Wireless Edge, 2020 (A-DSGD, here without sparsification and
projection); Zhu, Wang, Huang, Broadband Analog Aggregation for Low-Latency Federated Edge Learning, 2020.
# Deviation: in A-DSGD each device scales its update to its own power, which makes the mean one with weights that depend
# on lengths; here the scale is common, so that without noise the sum is exact.
"""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from . import AirRule, Burst, largest_scale

if TYPE_CHECKING:
    from ..world.settings import WorldConfig


def build(settings: "WorldConfig") -> AirRule:
    return AirRule(partial(scale, settings.air_full_scale))


def scale(full_scale: float, burst: Burst) -> float:
    """`eta`: what the device that is nearest to its limit can afford."""
    square = np.maximum(burst.square, burst.n_entries * full_scale**2)
    return largest_scale(burst.reach_watt, burst._replace(square=square).power)
