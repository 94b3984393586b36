"""FedDyn: every device's loss is regularised anew each round, so that local optima agree with the global one.

With `g_k` the gradient that device `k` remembers and `h` the server's mean of them, all zero at first, device `k`
trains from the global model `w` on

    F_k(y) - <g_k, y> + alpha/2 ||y - w||^2

and ends at `y_k`. Over the devices `S` heard of `N`,

    g_k <- g_k - alpha (y_k - w),   h <- h - (alpha/N) sum_S (y_k - w),   w <- (1/|S|) sum_S y_k - h/alpha

An upload that is lost leaves `g_k` as it was, so `h` is always the mean of all `g_k`. A round in which nobody is heard
changes nothing.

Deviation: the paper's devices find the minimum of their objective; here they do local steps towards it.

Reference: Acar et al., Federated Learning Based on Dynamic Regularization, 2021, Algorithm 1.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..options import option
from ..types import Decision, Method, Observation, Problem, Round, Start, Updates
from .parts.contributions import Contributions, nothing, remember, rows_of
from .parts.defaults import LocalConfig, default, work_of


@dataclass(frozen=True)
class Config(LocalConfig):
    """Settings of FedDyn."""

    alpha: float = option(0.1, "strength of the regularisation; small values take many local steps", above=0)


class State(NamedTuple):
    """Gradients that server and devices remember."""

    common: Tensor  # [n_params], h
    own: Contributions  # [n_devices, n_params], g_k


def build(config: Config) -> Method:
    return default(config)._replace(
        init=init, local=partial(local, config), aggregate=partial(aggregate, config), needs_rows=True
    )


def init(problem: Problem, params: Tensor) -> State:
    return State(torch.zeros_like(params), nothing(problem.world.n_devices, len(params)))


def local(
    config: Config, problem: Problem, state: State, start: Start, observation: Observation, decision: Decision
) -> Updates:
    """Local SGD with `-g_k` added to every gradient, and pulled to the global model."""
    work = work_of(config, problem, observation, decision, prox=config.alpha)
    shift = -rows_of(state.own, work.device, state.common)
    return problem.learner.train(start, work._replace(shift=shift))


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    device, rows = played.received()
    if not len(device):
        return params, state
    after = rows_of(state.own, device, params) - config.alpha * rows
    own = remember(state.own, device, after, played.decision.steps[device], np.ones(len(device)))
    common = state.common - config.alpha / problem.world.n_devices * rows.sum(dim=0)
    return params + rows.mean(dim=0) - common / config.alpha, State(common, own)
