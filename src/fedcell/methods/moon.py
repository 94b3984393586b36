"""MOON: a contrastive loss draws the features of a device's model to those of the global one, away from its last own.

With `z`, `z_glob` and `z_prev` the features of a sample in the model that trains, in the global model that the device
got and in the model with which it ended when it trained last (at first the initial one), the local objective is

    F_k(w) + mu mean_x log(1 + exp((cos(z, z_prev) - cos(z, z_glob)) / temperature))

and only `w` moves. The server averages as FedAvg does; what a device ended with stays there, whether or not its
upload arrived. Three networks are carried through training as one, two of them frozen. Their forward passes are charged
as two thirds of training.

Deviation: the paper puts a projection head before the last layer; here features are what the last dense layer gets. A
network without hidden layers has features that do not depend on its parameters, and MOON is then FedAvg.

Reference: Li, He, Song, Model-Contrastive Federated Learning, 2021, Eq. (3) and Algorithm 1.
"""

from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..learn.architecture import Architecture
from ..learn.features import features, features_and_scores, split
from ..options import option
from ..types import Decision, Method, Observation, Problem, Round, Start, Updates
from . import fedavg
from .parts.contributions import Contributions, nothing
from .parts.defaults import work_of
from .parts.personal import dearer, models_of, remembered


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of MOON."""

    effort: str = option("fixed", "every device does `steps`", choices=("fixed",))
    mu: float = option(1.0, "weight of the contrastive loss", least=0)
    temperature: float = option(0.5, "the smaller, the more close features count", above=0)
    cost: float = option(5 / 3, "computing per sample, in units of training one model", above=0)


class State(NamedTuple):
    """What devices keep."""

    own: Contributions  # models with which devices ended last
    origin: Tensor  # [1, n_params], the model of those that have not trained


def build(config: Config) -> Method:
    return fedavg.build(config)._replace(
        init=init,
        decide=partial(dearer, config),
        local=partial(local, config),
        aggregate=partial(aggregate, config),
        statistics="refused",
        needs_labels=True,
    )


def init(problem: Problem, params: Tensor) -> State:
    split(problem.learner.architectures[0].module)  # refuses networks that have no features
    return State(nothing(problem.world.n_devices, len(params)), params[None])


class Trio(nn.Module):
    """Three networks of one kind: the one that trains, the global one, and that of last time."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.now, self.whole, self.last = deepcopy(network), deepcopy(network), deepcopy(network)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.now(x), self.whole(x), self.last(x)


@lru_cache(maxsize=4)
def trio_of(architecture: Architecture) -> Architecture:
    """The architecture of a trio, whose flat vector is those of its networks, one after the other."""
    return Architecture.of(Trio(architecture.module))


def contrastive(mu: float, temperature: float, trio: nn.Module, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
    """`F + mu l_con`, a function of the first network alone.

    Reference: Eqs. (2) and (3)
    """
    assert isinstance(trio, Trio)
    z, scores = features_and_scores(trio.now, x)
    near, far = (
        functional.cosine_similarity(z, features(other, x).detach(), dim=1) for other in (trio.whole, trio.last)
    )
    each = functional.cross_entropy(scores, y, reduction="none") + mu * functional.softplus((far - near) / temperature)
    frozen = sum(entry.sum() for other in (trio.whole, trio.last) for entry in other.parameters())
    loss = each.mean() if weight is None else (each * weight).sum()
    return loss + 0.0 * frozen  # engines ask for the gradients of all entries


def local(
    config: Config, problem: Problem, state: State, start: Start, observation: Observation, decision: Decision
) -> Updates:
    """Train the first network. Devices send its update and keep the model with which it ended."""
    learner, n = problem.learner, state.origin.shape[1]
    work = work_of(
        config, problem, observation, decision, objective=partial(contrastive, config.mu, config.temperature)
    )
    whole = start.points[torch.from_numpy(start.of_row).to(state.origin.device)]
    points = torch.cat([whole, whole, models_of(problem, state.own, state.origin, work.device)], dim=1)
    moves = torch.arange(3 * n, device=points.device) < n
    trio = learner.with_network(trio_of(learner.architectures[0]))
    moved = trio.train(Start(points, np.arange(len(points))), work._replace(mask=moves)).delta[:, :n]
    return Updates(work.device, moved, kept=whole + moved)


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """FedAvg's average; devices remember the models with which they ended, heard or not."""
    after, _ = fedavg.aggregate(config, problem, params, None, played)
    return after, state._replace(own=remembered(state.own, played))
