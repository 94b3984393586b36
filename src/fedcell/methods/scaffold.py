"""SCAFFOLD: control variates take out of local SGD what pulls devices with other data apart.

With `c_k` the control variate of device `k` and `c` that of the server, all zero at first, a local step is

    y <- y - lr (grad F_k(y) - c_k + c)

and after `K` of them, from `x` to `y`, the device has `c_k' = c_k - c + (x - y) / (K lr)` (option II). Over the devices
`S` heard of `N`, the server moves by

    x <- x + server_lr sum_S p_k (y_k - x),   c <- c + (1/N) sum_S (c_k' - c_k)

An upload that is lost leaves `c_k` as it was, so `c` is always the mean of all `c_k`. With momentum, `K` is the weight
of all gradients in an update, as in FedNova.

Deviation: the paper's devices send `y - x` and `c_k' - c_k`. The server knows the second from the first, `c`, `K` and
`lr`, so one vector is sent.

Reference: Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, 2020.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..options import option
from ..types import Decision, Method, Observation, Problem, Round, Start, Updates
from . import fedavg
from .fednova import gradient_weight
from .parts.contributions import Contributions, nothing, remember, rows_of
from .parts.defaults import mean_update, needs_sgd, rate, setting, work_of


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of SCAFFOLD."""

    weights: str = option("equal", "weight of a device in the average", choices=("samples", "equal"))


class State(NamedTuple):
    """Control variates."""

    common: Tensor  # [n_params], c
    own: Contributions  # [n_devices, n_params], c_k


def build(config: Config) -> Method:
    return fedavg.build(config)._replace(
        init=partial(init, config),
        local=partial(local, config),
        aggregate=partial(aggregate, config),
        needs_rows=True,
    )


def init(config: Config, problem: Problem, params: Tensor) -> State:
    needs_sgd(config, problem)
    return State(torch.zeros_like(params), nothing(problem.world.n_devices, len(params)))


def local(
    config: Config, problem: Problem, state: State, start: Start, observation: Observation, decision: Decision
) -> Updates:
    """Local SGD with `c - c_k` added to every gradient."""
    work = work_of(config, problem, observation, decision)
    shift = state.common - rows_of(state.own, work.device, state.common)
    return problem.learner.train(start, work._replace(shift=shift))


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    device, rows = played.received()
    steps, lr = played.decision.steps[device], rate(config, problem, played.observation.round)
    pull = lr * gradient_weight(steps, setting(config, problem, "momentum"))
    moved = rows / torch.from_numpy(pull.astype(np.float32)).to(rows.device)[:, None]
    before = rows_of(state.own, device, params)
    after = before - state.common - moved  # option II
    common = state.common + (after - before).sum(dim=0) / problem.world.n_devices
    own = remember(state.own, device, after, steps, np.ones(len(device)))
    share = config.server_lr * fedavg.shares(config.weights, played.observation, device)
    return mean_update(params, share, rows), State(common, own)
