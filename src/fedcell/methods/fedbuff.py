"""FedBuff: the server steps whenever so many updates have arrived, and old ones count less.

Devices train from the model they were given last and continue as soon as the server has a new one. With `B` the updates
of the last `buffer` arrivals, `tau_k` the server steps that device `k` missed meanwhile and `p_k` its weight (equal)

    w <- w + server_lr * sum_{k in B} p_k s(tau_k) (w_k - w_start of k),   s(tau) = 1 / sqrt(1 + tau)

A buffer as large as all devices, or larger, is FedAvg. `n_selected` with a scheduler is the paper's concurrency.

Deviation: the paper gives a slot that becomes free to another device at once; here with the next server step.

Reference: Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, 2022, Algorithm 1.
"""

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from ..options import option
from ..types import Method, Problem, Round
from . import fedavg
from .parts.defaults import default, mean_update
from .parts.flights import Flights, OverTimeConfig, Stepping
from .parts.over_time import over_time
from .parts.staleness import weight


@dataclass(frozen=True)
class BufferedConfig(OverTimeConfig):
    """Settings of a server that averages the updates that arrived."""

    weights: str = option("equal", "weight of a device in the average", choices=("samples", "equal"))
    server_lr: float = option(1.0, "step of the server along the averaged update", above=0)


@dataclass(frozen=True)
class Config(BufferedConfig):
    """Settings of FedBuff."""

    buffer: int = option(10, "arrivals that make a server step, K", least=1)


def build(config: Config) -> Method:
    return over_time(config, buffered(config), Stepping(n_arrivals=config.buffer))


def buffered(config: BufferedConfig) -> Method:
    """A method whose server averages the updates that arrived."""
    return default(config)._replace(aggregate=partial(aggregate, config), shares=partial(fedavg.shares, config.weights))


def aggregate(
    config: BufferedConfig, problem: Problem, params: Tensor, state: Flights, played: Round
) -> tuple[Tensor, Flights]:
    device = played.heard()
    share = fedavg.shares(config.weights, played.observation, device) * weight(config, state.staleness[device])
    return mean_update(params, config.server_lr * share, played), state
