"""q-FedAvg: devices with a larger loss weigh more, so that accuracy is more even among them.

With `F_k` the loss of device `k` at the model `w` that it got, `L = 1 / lr` and `d_k = L (w - w_k)`,

    w <- w - sum_k F_k^q d_k / sum_k (q F_k^(q - 1) ||d_k||^2 + L F_k^q)

over the devices heard; `q = 0` is FedAvg with equal weights. A device sends its loss along, one number more.

Reference: Li, Sanjabi, Beirami, Smith, Fair Resource Allocation in Federated Learning, 2020.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fedcell.methods import fedavg
from fedcell.methods.parts import defaults
from fedcell.methods.parts.defaults import setting
from fedcell.methods.parts.gradients import client_losses
from fedcell.options import option
from fedcell.types import Decision, Method, Observation, Problem, Round


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of q-FedAvg."""

    q: float = option(1.0, "how much fairness counts", least=0)


def build(config: Config) -> Method:
    return fedavg.build(config)._replace(decide=partial(decide, config), aggregate=partial(aggregate, config))


def decide(config: Config, problem: Problem, state: Any, observation: Observation) -> Decision:
    decision = defaults.decide(config, problem, state, observation)
    return decision._replace(payload_bit=decision.payload_bit + problem.world.settings.bits_per_parameter)


def aggregate(config: Config, problem: Problem, params: Tensor, state: Any, played: Round) -> tuple[Tensor, Any]:
    device, rows = played.received()
    if not len(device):
        return params, state
    rate, q = 1 / setting(config, problem, "lr"), config.q
    losses = client_losses(problem, params, played.observation.store)[device] + 1e-10  # of which powers are taken
    loss = torch.from_numpy(losses).to(params)
    moved = -rate * rows
    step = (loss**q) @ moved
    bound = (q * loss ** (q - 1) * moved.square().sum(dim=1) + rate * loss**q).sum()
    return params - step / bound, state
