"""M-FedAvg: OSAFL's clients, and the average of the last model of every one of them.

`w <- (1/U) sum_u w[u]` with `w[u]` the model last heard from client `u`, or the present `w` if it was never heard.

Reference: osafl, Algorithm 6
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from ..types import Floats, Method, Problem, Round
from .parts.client_planning.plan import ClientConfig, check_world, planned
from .parts.contributions import Contributions, nothing, remember, weighted_sum


@dataclass(frozen=True)
class Config(ClientConfig):
    """Settings of M-FedAvg."""


def build(config: Config) -> Method:
    return planned(config)._replace(init=init, aggregate=aggregate)


def init(problem: Problem, params: Tensor) -> Contributions:
    check_world(problem)
    return nothing(problem.world.n_devices, len(params))


def aggregate(problem: Problem, params: Tensor, state: Contributions, played: Round) -> tuple[Tensor, Contributions]:
    kept = with_models(state, params, played)
    return average(kept, params, np.full(len(kept.seen), 1 / len(kept.seen))), kept


def with_models(kept: Contributions, params: Tensor, played: Round) -> Contributions:
    """The buffer with the local model `w + delta` of every client heard."""
    device, rows = played.received()
    return remember(kept, device, rows, played.decision.steps[device], scale=np.ones(len(device)), offset=params)


def average(kept: Contributions, params: Tensor, weights: Floats) -> Tensor:
    """`sum_u weights[u] w[u]`, the present model standing for the clients never heard; weights sum to one."""
    if not kept.seen.any():
        return params
    return weighted_sum(kept, weights, params).add_(params, alpha=float(weights[~kept.seen].sum()))
