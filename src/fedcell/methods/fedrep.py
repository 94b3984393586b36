"""FedRep: a shared body, and a head on every device that never leaves it.

A device trains its head with the body it received, then the body with that head; the server averages the bodies,
`w_body <- sum_k p_k w_k,body` with `p_k` by samples. Training two parts in turn is charged twice the computing.

Reference: Collins, Hassani, Mokhtari, Shakkottai, Exploiting Shared Representations for Personalized Federated
Learning, 2021; chen-ch4, section 5
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..labels import histogram
from ..learn.architecture import Architecture
from ..learn.features import head_entries
from ..options import option
from ..types import Decision, Ints, Method, Observation, Problem, Round, Start, Updates
from . import defaults, fedavg
from .contributions import Contributions, nothing
from .defaults import mean_update, work_of
from .personal import judge, kept, models_of, n_classes_of


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of FedRep."""

    effort: str = option("fixed", "every device does `steps`", choices=("fixed",))
    head_layers: int = option(2, "dense layers of the head, as far as there are; one layer at least is shared", least=1)
    cost: float = option(2.0, "computing per sample, in units of training the network once", above=0)


class State(NamedTuple):
    """What devices keep."""

    heads: Contributions  # of devices that have trained; the entries of the body are not used
    origin: Tensor  # [1, n_params], where all began
    labels: Ints  # [n_devices, n_classes], samples that devices hold


def build(config: Config) -> Method:
    return Method(
        init=init,
        decide=partial(decide, config),
        broadcast=partial(broadcast, config),
        local=partial(local, config),
        aggregate=partial(aggregate, config),
        evaluate=partial(evaluate, config),
    )


def init(problem: Problem, params: Tensor) -> State:
    n = problem.world.n_devices
    return State(nothing(n, len(params)), params[None], np.zeros((n, n_classes_of(problem)), dtype=np.int64))


@lru_cache(maxsize=4)
def head_of(architecture: Architecture, n_layers: int, device: torch.device) -> Tensor:
    """Which entries are the head's, bool `[n_params]`."""
    return head_entries(architecture, n_layers).to(device)


def _head(config: Config, problem: Problem) -> Tensor:
    return head_of(problem.learner.architectures[0], config.head_layers, problem.learner.device)


def decide(config: Config, problem: Problem, state: State, observation: Observation) -> Decision:
    """FedAvg's choice; every step costs `cost` times as much, and the body alone is sent."""
    decision = defaults.decide(config, problem, state, observation)
    n_shared = problem.learner.n_params - int(_head(config, problem).sum())
    return decision._replace(
        samples_per_step=decision.samples_per_step * config.cost,
        payload_bit=np.full(problem.world.n_devices, n_shared * problem.world.settings.bits_per_parameter),
    )


def personal(config: Config, problem: Problem, params: Tensor, state: State, device: Ints) -> Tensor:
    """The models of some devices, `[n_rows, n_params]`: the shared body with their heads."""
    return torch.where(_head(config, problem), models_of(problem, state.heads, state.origin, device), params)


def broadcast(
    config: Config, problem: Problem, params: Tensor, state: State, observation: Observation, decision: Decision
) -> Start:
    """The shared body with the device's own head."""
    device = np.flatnonzero(decision.selected)
    return Start(personal(config, problem, params, state, device), np.arange(len(device)))


def local(
    config: Config, problem: Problem, state: State, start: Start, observation: Observation, decision: Decision
) -> Updates:
    """`steps` of the head, then `steps` of the body."""
    head, moved = _head(config, problem), None
    work = work_of(config, problem, observation, decision)
    if head.any():
        moved = problem.learner.train(start, work._replace(mask=head)).delta.clone()
        start = start._replace(points=start.points + moved)
    updates = problem.learner.train(start, work._replace(mask=~head))
    return updates if moved is None else updates._replace(rows=updates.delta + moved)


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """Average the bodies that arrived; heads are kept by their devices, heard or not."""
    head = _head(config, problem)
    heads = kept(problem, state.heads, state.origin, played)
    device, rows = played.received()
    weights = config.server_lr * fedavg.shares(config.weights, played.observation, device)
    params = torch.where(head, params, mean_update(params, weights, rows))
    labels = histogram(played.observation.store, problem.learner.train_samples.labels, state.labels.shape[1])
    return params, state._replace(heads=heads, labels=labels)


def evaluate(config: Config, problem: Problem, params: Tensor, state: State) -> Mapping[str, float]:
    """The body with every device's head, on the device's own test samples."""

    def model_of(device: int) -> Tensor:
        return personal(config, problem, params, state, np.array([device]))[0]

    return judge(problem, state.labels, state.heads.seen, model_of)
