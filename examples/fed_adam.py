"""FedAdam: FedAvg whose server steps with Adam along the averaged update.

With `d` the averaged update of the devices heard, `m <- beta1 m + (1 - beta1) d`, `v <- beta2 v + (1 - beta2) d^2` and
`w <- w + server_lr m / (sqrt(v) + tau)`. A round in which nobody is heard changes nothing.

Reference: Reddi et al., Adaptive Federated Optimization, 2021.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from fedcell.methods import fedavg
from fedcell.options import option
from fedcell.types import Method, Problem, Round


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of FedAdam."""

    server_lr: float = option(0.03, "step of the server", above=0)
    beta1: float = option(0.9, "momentum of the server", least=0, most=0.999)
    beta2: float = option(0.99, "memory of squared updates", least=0, most=0.9999)
    tau: float = option(1e-3, "keeps steps of small updates small", above=0)


class State(NamedTuple):
    """Moments of the averaged update, each [n_params]."""

    first: Tensor
    second: Tensor


def build(config: Config) -> Method:
    return fedavg.build(config)._replace(init=init, aggregate=partial(aggregate, config))


def init(problem: Problem, params: Tensor) -> State:
    return State(torch.zeros_like(params), torch.zeros_like(params))


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    device = played.heard()
    if not len(device):
        return params, state
    update = played.add_up(fedavg.shares(config.weights, played.observation, device))
    first = config.beta1 * state.first + (1 - config.beta1) * update
    second = config.beta2 * state.second + (1 - config.beta2) * update**2
    return params + config.server_lr * first / (second.sqrt() + config.tau), State(first, second)
