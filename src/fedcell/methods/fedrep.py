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

from ..learn.architecture import Architecture
from ..learn.features import head_entries
from ..options import option
from ..types import Decision, Ints, Method, Observation, Problem, Round, Start, Updates
from . import fedavg
from .parts.classes import held_classes, n_classes_of
from .parts.contributions import Contributions, nothing
from .parts.defaults import mean_update, work_of
from .parts.personal import dearer, judge, models_of, remembered
from .parts.resources import sending


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of FedRep."""

    effort: str = option("fixed", "every device does `steps`", choices=("fixed",))
    head_layers: int = option(2, "dense layers of the head, as far as there are; one layer at least is shared", least=1)
    cost: float = option(2.0, "computing per sample, in units of training the network once", above=0)


class State(NamedTuple):
    """What devices keep."""

    heads: Contributions  # of devices that have trained, [n_devices, n_head]
    origin: Tensor  # [1, n_head], the head that all began with
    labels: Ints  # [n_devices, n_classes], samples that devices hold


def build(config: Config) -> Method:
    return Method(
        init=partial(init, config),
        decide=partial(decide, config),
        broadcast=partial(broadcast, config),
        local=partial(local, config),
        aggregate=partial(aggregate, config),
        evaluate=partial(evaluate, config),
        sends="the body of a model",
        shares=fedavg.plain_shares(config),
        personal=partial(personal, config),
        needs_labels=True,
    )


def init(config: Config, problem: Problem, params: Tensor) -> State:
    n, head = problem.world.n_devices, params[_head(config, problem)]
    return State(nothing(n, len(head)), head[None], np.zeros((n, n_classes_of(problem)), dtype=np.int64))


@lru_cache(maxsize=4)
def head_of(architecture: Architecture, n_layers: int, device: torch.device) -> Tensor:
    """Which entries are the head's, bool `[n_params]`."""
    return head_entries(architecture, n_layers).to(device)


def _head(config: Config, problem: Problem) -> Tensor:
    return head_of(problem.learner.architectures[0], config.head_layers, problem.learner.device)


def decide(config: Config, problem: Problem, state: State, observation: Observation) -> Decision:
    """FedAvg's choice; every step costs `cost` times as much, and the body alone is sent."""
    decision = dearer(config, _shared(config, problem), state, observation)
    return decision._replace(download_bit=decision.payload_bit)


def _shared(config: Config, problem: Problem) -> Problem:
    """The problem with the body alone on the air, both ways."""
    n_shared = problem.learner.n_sent - int(_head(config, problem).sum())
    bit = n_shared * problem.world.settings.bits_per_parameter
    return sending(problem, bit, bit)


def personal(config: Config, problem: Problem, params: Tensor, state: State, device: Ints) -> Tensor:
    """The models of some devices, `[n_rows, n_params]`: the shared body with their heads."""
    models = params.expand(len(device), -1).clone()
    models[:, _head(config, problem)] = models_of(problem, state.heads, state.origin, device)
    return models


def broadcast(
    config: Config, problem: Problem, params: Tensor, state: State, observation: Observation, decision: Decision
) -> Start:
    """Start every selected device from the shared body with its own head."""
    device = np.flatnonzero(decision.selected)
    return Start(personal(config, problem, params, state, device), np.arange(len(device)))


def local(
    config: Config, problem: Problem, state: State, start: Start, observation: Observation, decision: Decision
) -> Updates:
    """Train the head for `steps`, then the body. Devices send the body, `[n_rows, n_body]`, and keep their heads."""
    head, work = _head(config, problem), work_of(config, problem, observation, decision)
    if head.any():
        start = start._replace(points=start.points + problem.learner.train(start, work._replace(mask=head)).delta)
    moved = problem.learner.train(start, work._replace(mask=~head)).delta
    return Updates(work.device, moved[:, ~head], kept=start.points[:, head])


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """Average the bodies that arrived; heads are kept by their devices, heard or not."""
    body, after = ~_head(config, problem), params.clone()
    weights = config.server_lr * fedavg.weights_of(config, _shared(config, problem), played)
    after[body] = mean_update(params[body], weights, played)
    labels = held_classes(problem, played.observation.store)
    return after, state._replace(heads=remembered(state.heads, played), labels=labels)


def evaluate(config: Config, problem: Problem, params: Tensor, state: State) -> Mapping[str, float]:
    """Evaluate the body with every device's head on the test samples of that device."""

    def model_of(device: int) -> Tensor:
        return personal(config, problem, params, state, np.array([device]))[0]

    return judge(problem, state.labels, state.heads.seen, model_of)
