"""q-FedAvg: devices with a larger loss weigh more, so that accuracy is more even among them.

With `F_k` the loss of device `k` at the model `w` that it got, `L = 1 / lr` and `d_k = L (w - w_k)`,

    w <- w - sum_k F_k^q d_k / sum_k (q F_k^(q - 1) ||d_k||^2 + L F_k^q)

over the devices heard; `q = 0` is FedAvg with equal weights. A device computes its loss on all its samples, which
costs a forward pass, and sends it along, one number more.

Reference: Li, Sanjabi, Beirami, Smith, Fair Resource Allocation in Federated Learning, 2020, Algorithm 2.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..options import option
from ..types import Decision, Method, Observation, Problem, Round
from .parts import defaults
from .parts.defaults import LocalConfig, default, rate
from .parts.losses import LossConfig, heard_losses, with_loss

LEAST = 1e-10  # loss, of which powers are taken


@dataclass(frozen=True)
class Config(LossConfig, LocalConfig):
    """Settings of q-FedAvg."""

    q: float = option(1.0, "how much fairness counts", least=0)


def build(config: Config) -> Method:
    return default(config)._replace(
        decide=partial(decide, config),
        aggregate=partial(aggregate, config),
        sends="updates with a loss beside them",
        needs_rows=True,
    )


def decide(config: Config, problem: Problem, state: Any, observation: Observation) -> Decision:
    """FedAvg's choice, with the cost of a loss."""
    longer, samples = with_loss(config, problem, observation.store)
    return defaults.decide(config, longer, state, observation, samples)


def aggregate(config: Config, problem: Problem, params: Tensor, state: Any, played: Round) -> tuple[Tensor, Any]:
    device, rows = played.received()
    if not len(device):
        return params, state
    lipschitz, q = 1 / rate(config, problem, played.observation.round), config.q
    loss = torch.from_numpy(heard_losses(problem, params, played) + LEAST).to(params)
    moved = -lipschitz * rows
    step = (loss**q) @ moved
    bound = (q * loss ** (q - 1) * moved.square().sum(dim=1) + lipschitz * loss**q).sum()
    return params - step / bound, state
