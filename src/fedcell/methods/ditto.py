"""Ditto: every device trains the global model, and a model of its own that is pulled to the global one.

With `w` the global model that device `k` gets and `v_k` its own model, which begins as the first global one, a device
does as many steps of each of

    w_k <- w_k - lr grad F_k(w_k),   v_k <- v_k - lr (grad F_k(v_k) + mu (v_k - w))

on the same mini-batches. The server averages the `w_k` as FedAvg does; the `v_k` stay where they are and are what
devices use. Training two models is charged twice the computing. `mu = 0` is training alone; a large `mu` keeps own
models at the global one.

Reference: Li, Hu, Beirami, Smith, Ditto: Fair and Robust Federated Learning Through Personalization, 2021, Algorithm 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..learn.prediction import probabilities
from ..options import option
from ..types import Decision, Floats, Ints, Method, Observation, Problem, Round, Start, Updates
from . import fedavg
from .parts.classes import held_classes, n_classes_of
from .parts.contributions import Contributions, nothing
from .parts.defaults import work_of
from .parts.personal import dearer, judge_own, models_of, own_models, remembered


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of Ditto."""

    effort: str = option("fixed", "every device does `steps`", choices=("fixed",))
    mu: float = option(0.1, "strength of the pull of own models to the global one, the paper's lambda", least=0)
    cost: float = option(2.0, "computing per sample, in units of training one model", above=0)
    judged: str = option(
        "global",
        "global: `accuracy` is the global model's, columns `personal_...` are of the own models, on a split of the "
        "test set over the devices; own: `accuracy` is the own models', columns `global_...` are of the global model",
        choices=("global", "own"),
    )


class State(NamedTuple):
    """What devices keep."""

    own: Contributions  # models of devices that have trained, v_k
    origin: Tensor  # [1, n_params], the model of those that have not
    labels: Ints  # [n_devices, n_classes], samples that devices hold


def build(config: Config) -> Method:
    return fedavg.build(config)._replace(
        init=init,
        decide=partial(dearer, config),
        local=partial(local, config),
        aggregate=partial(aggregate, config),
        evaluate=partial(evaluate, config),
        foretell=foretell,
        statistics="refused",
        personal=own_models,
        needs_labels=True,
    )


def init(problem: Problem, params: Tensor) -> State:
    n = problem.world.n_devices
    return State(nothing(n, len(params)), params[None], np.zeros((n, n_classes_of(problem)), dtype=np.int64))


def local(
    config: Config, problem: Problem, state: State, start: Start, observation: Observation, decision: Decision
) -> Updates:
    """Train both models. Devices send the update of the global one and keep their own.

    Training pulls to where it starts, `mu (v - v_k)`, so a constant `mu (v_k - w)` makes it a pull to the global model.
    """
    work = work_of(config, problem, observation, decision)
    own = models_of(problem, state.own, state.origin, work.device)
    shift = config.mu * (own - start.points[torch.from_numpy(start.of_row).to(own.device)])
    pulled = work._replace(prox=config.mu, shift=shift)
    moved = problem.learner.train(Start(own, np.arange(len(own))), pulled).delta
    return problem.learner.train(start, work)._replace(kept=own + moved)


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """Average the global models that arrived; own models are kept by their devices, heard or not."""
    params, _ = fedavg.aggregate(config, problem, params, None, played)
    labels = held_classes(problem, played.observation.store)
    return params, state._replace(own=remembered(state.own, played), labels=labels)


def evaluate(config: Config, problem: Problem, params: Tensor, state: State) -> Mapping[str, float]:
    """Evaluate the global model on the test set, and the own models on a split of it over the devices."""
    whole = problem.learner.evaluate(params)
    own = judge_own(problem, state.labels, state.own, state.origin)
    if config.judged == "own":
        return {**own, **{f"global_{name}": value for name, value in whole.items()}}
    return {**whole, **{f"personal_{name}": value for name, value in own.items()}}


def foretell(problem: Problem, params: Tensor, state: State, x: Tensor) -> Floats:
    """Class probabilities by the own models, `[n_devices, n_classes]`."""
    device = np.arange(len(x))
    return probabilities(problem.learner, Start(own_models(problem, params, state, device), device), x)
