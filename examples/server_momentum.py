"""FedAvgM: FedAvg whose server keeps a momentum of the averaged updates.

With `d` the averaged update of the devices heard, `v <- beta v + d` and `w <- w + server_lr v`.
A round in which nobody is heard leaves `w` and `v` as they are.

Reference: Hsu, Qi, Brown, Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification, 2019.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from fedcell.methods import fedavg
from fedcell.methods.parts.defaults import mean_update
from fedcell.options import option
from fedcell.types import Method, Problem, Round


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of FedAvgM: those of FedAvg and one more."""

    beta: float = option(0.9, "momentum of the server; 0 is FedAvg", least=0, most=0.999)


class State(NamedTuple):
    """What the server remembers between rounds."""

    velocity: Tensor  # [n_params]


def build(config: Config) -> Method:
    return fedavg.build(config)._replace(init=init, aggregate=partial(aggregate, config))


def init(problem: Problem, params: Tensor) -> State:
    return State(torch.zeros_like(params))


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    device = played.heard()
    if not len(device):
        return params, state
    share = fedavg.shares(config.weights, played.observation, device)
    velocity = mean_update(config.beta * state.velocity, share, played)
    return params + config.server_lr * velocity, State(velocity)
