"""Semi-asynchronous: the server steps at fixed times with whatever has arrived, and old updates count less.

Every `period_s` seconds, with `A` the updates that arrived in the period, `tau_k` the server steps that device `k`
missed while it trained and `p_k` its share of the samples in `A`

    w <- w + server_lr * sum_{k in A} p_k s(tau_k) (w_k - w_start of k)

Free devices get the new model when a period begins; slow ones keep training. A period in which nothing arrives changes
nothing. A period longer than the slowest device is FedAvg with rounds of that length.

Deviation: the paper's weights sum to one; these fall with staleness, so that a step of stale updates alone is small.

Reference: Hu, Chen, Larsson, Scheduling and Aggregation Design for Asynchronous Federated Learning over Wireless
Networks, 2023.
"""

from dataclasses import dataclass

from ..options import option
from ..types import Method
from .fedbuff import BufferedConfig, buffered
from .parts.flights import Stepping
from .parts.over_time import over_time


@dataclass(frozen=True)
class Config(BufferedConfig):
    """Settings of the semi-asynchronous server."""

    weights: str = option("samples", "weight of a device in the average", choices=("samples", "equal"))
    period_s: float | None = option(
        None, "seconds between server steps; none: what half of the devices that start first need", above=0
    )


def build(config: Config) -> Method:
    return over_time(config, buffered(config), Stepping(period_s=config.period_s))
