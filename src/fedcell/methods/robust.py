"""Robust FedAvg: the mean of updates is replaced by a rule that a few wrong ones cannot move.

`w <- w + server_lr * R(u_1 ... u_n)` with `R` the median or the trimmed mean of every entry, the geometric median, or
the weighted mean of those that Krum keeps or of rows clipped to the median length. A centre gives every device the same
weight, whatever it says it holds.

Reference: Yin et al., 2018; Blanchard et al., 2017; Sun et al., 2019; Pillutla et al., 2022.
"""

from dataclasses import dataclass

from ..options import option
from ..types import Method
from . import fedavg
from .parts.robust import RobustConfig, robust


@dataclass(frozen=True)
class Config(RobustConfig, fedavg.Config):
    """Settings of robust FedAvg: those of FedAvg and of the rule."""

    weights: str = option("samples", "weight of a device in the average", choices=("samples", "equal"))


def build(config: Config) -> Method:
    return robust(fedavg.build(config), config, "robust")
