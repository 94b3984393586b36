"""SCAFFOLD: control variates take out of local SGD what pulls devices with other data apart.

A local step is `y <- y - lr (grad F_k(y) - c_k + c)`, without momentum. After `K` of them a device has moved by `d` and
has `c_k' = c_k - c - d / (K lr)`; the server adds the mean `d` to the model and `sum_k (c_k' - c_k) / N` to `c`.

Reference: Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, 2020, option II.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedcell.methods.parts.contributions import Contributions, nothing, remember, rows_of
from fedcell.methods.parts.defaults import LocalConfig, default, needs_sgd, rate, work_of
from fedcell.types import Decision, Method, Observation, Problem, Round, Start, Updates


@dataclass(frozen=True)
class Config(LocalConfig):
    """Settings of SCAFFOLD."""


class State(NamedTuple):
    """Control variates, all zero at first."""

    common: Tensor  # [n_params], c
    own: Contributions  # [n_devices, n_params], c_k


def build(config: Config) -> Method:
    own = default(config)._replace(init=partial(init, config), local=partial(local, config), needs_rows=True)
    return own._replace(aggregate=partial(aggregate, config))


def init(config: Config, problem: Problem, params: Tensor) -> State:
    needs_sgd(config, problem)
    return State(torch.zeros_like(params), nothing(problem.world.n_devices, len(params)))


def local(
    config: Config, problem: Problem, state: State, start: Start, observation: Observation, decision: Decision
) -> Updates:
    work = work_of(config, problem, observation, decision)
    shift = state.common - rows_of(state.own, work.device, state.common)
    return problem.learner.train(start, work._replace(shift=shift))


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    device, rows = played.received()
    steps, lr = played.decision.steps[device], rate(config, problem, played.observation.round)
    change = -state.common - rows / rows.new_tensor(lr * steps)[:, None]  # c_k' - c_k
    own = remember(state.own, device, rows_of(state.own, device, params) + change, steps, np.ones(len(device)))
    after = params + rows.sum(dim=0) / max(len(device), 1)
    return after, State(state.common + change.sum(dim=0) / problem.world.n_devices, own)
