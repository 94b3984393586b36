"""FedOpt: FedAvg whose server steps with Adam, Yogi or Adagrad along the averaged update.

With `d` the averaged update of the devices heard, `m <- beta1 m + (1 - beta1) d` and

    adagrad  v <- v + d^2
    yogi     v <- v - (1 - beta2) d^2 sign(v - d^2)
    adam     v <- beta2 v + (1 - beta2) d^2

the server moves by `w <- w + server_lr m / (sqrt(v) + tau)`. A round in which nobody is heard changes nothing.

Deviation: the paper begins with any `v >= tau^2`; here `v` begins at `second_start`, 0 unless set.

Reference: Reddi et al., Adaptive Federated Optimization, 2021, Algorithm 2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ..options import option
from ..types import Method, Problem, Round, of_means
from . import fedavg


def adagrad(second: Tensor, square: Tensor, beta2: float) -> Tensor:
    """The sum of all squares."""
    return second + square


def yogi(second: Tensor, square: Tensor, beta2: float) -> Tensor:
    """Move towards the square by a step that does not grow with the distance."""
    return second - (1 - beta2) * square * torch.sign(second - square)


def adam(second: Tensor, square: Tensor, beta2: float) -> Tensor:
    """A moving average of squares."""
    return beta2 * second + (1 - beta2) * square


RULES: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {"adam": adam, "yogi": yogi, "adagrad": adagrad}


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of FedAdam, FedYogi and FedAdagrad."""

    rule: str = option("adam", "how the server remembers squared updates", choices=tuple(RULES))
    server_lr: float = option(0.03, "step of the server", above=0)
    beta1: float = option(0.9, "momentum of the server; the paper has 0 for adagrad", least=0, most=0.999)
    beta2: float = option(0.99, "memory of squared updates", least=0, most=0.9999, needs="rule!=adagrad")
    tau: float = option(1e-3, "keeps steps of small updates small", above=0)
    second_start: float = option(0.0, "squared update that the server begins with; tau^2 is the paper's least", least=0)


class State(NamedTuple):
    """Moments of the averaged update, each [n_params]."""

    first: Tensor
    second: Tensor


def build(config: Config) -> Method:
    return fedavg.build(config)._replace(init=partial(init, config), aggregate=partial(aggregate, config))


def init(config: Config, problem: Problem, params: Tensor) -> State:
    return State(torch.zeros_like(params), torch.full_like(params, config.second_start))


@of_means
def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    device = played.heard()
    if not len(device):
        return params, state
    update = played.add_up(fedavg.weights_of(config, problem, played))
    first = config.beta1 * state.first + (1 - config.beta1) * update
    second = RULES[config.rule](state.second, update.square(), config.beta2)
    return params + config.server_lr * first / (second.sqrt() + config.tau), State(first, second)
