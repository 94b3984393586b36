"""FedAvg: local SGD, then the average of the models that arrive.

`w <- w + server_lr * sum_k p_k (w_k - w)` over the devices heard, `p_k` proportional to the samples
they hold (or equal).

Reference: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, 2017.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from ..options import option
from ..types import Floats, Ints, Method, Observation, Problem, Round, of_means
from .parts.defaults import LocalConfig, default, mean_update


@dataclass(frozen=True)
class Config(LocalConfig):
    """Settings of FedAvg."""

    weights: str = option("samples", "weight of a device in the average", choices=("samples", "equal"))
    server_lr: float = option(1.0, "step of the server along the averaged update", above=0)


def build(config: Config) -> Method:
    return default(config)._replace(aggregate=partial(aggregate, config), shares=partial(shares, config.weights))


@of_means
def aggregate(config: Config, problem: Problem, params: Tensor, state: Any, played: Round) -> tuple[Tensor, Any]:
    share = shares(config.weights, played.observation, played.heard())
    return mean_update(params, config.server_lr * share, played), state


def shares(weights: str, observation: Observation, device: Ints) -> Floats:
    """Aggregation weights of the devices heard, `[n_rows]`, summing to one."""
    size = observation.store.size[device].astype(np.float64) if weights == "samples" else np.ones(len(device))
    return size / max(size.sum(), 1.0)
