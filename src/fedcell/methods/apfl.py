"""APFL: every device trains the global model and one of its own, and uses a mixture of both.

With `w_k` the global model as trained on device `k`, `v_k` its own model and `a` the mixture, a local step is

    w_k <- w_k - lr grad F_k(w_k)
    v_k <- v_k - lr grad_v F_k(a v_k + (1 - a) w_k)

on one mini-batch. The server averages the `w_k`; the `v_k` stay where they are. Both are trained at once, as one
network of twice the parameters. Training two models is charged twice the computing.

Reference: Deng, Kamani, Mahdavi, Adaptive Personalized Federated Learning, 2020; chen-ch6, section 5.3
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import vector_to_parameters

from ..errors import BadInput
from ..learn.architecture import Architecture, trainable
from ..learn.prediction import probabilities
from ..learn.work import cross_entropy
from ..options import option
from ..rng import SETUP, stream
from ..types import Decision, Floats, Ints, Method, Observation, Problem, Round, Start, Updates
from . import fedavg
from .parts import defaults
from .parts.classes import held_classes, n_classes_of
from .parts.contributions import Contributions, nothing, rows_of
from .parts.defaults import mean_update, work_of
from .parts.personal import chance, dearer, judge, remembered


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of APFL."""

    weights: str = option("equal", "weight of a device in the average", choices=("samples", "equal"))
    effort: str = option("fixed", "every device does `steps`", choices=("fixed",))
    mixture: float = option(0.5, "share of the own model in what a device uses, a", least=0, most=1)
    cost: float = option(2.0, "computing per sample, in units of training one model", above=0)
    judged: int = option(100, "test samples on which each device's mixture is judged (tests=drawn)", least=1)
    tests: str = option(
        "drawn",
        "drawn: `accuracy` is the global model's, mixtures are judged on samples drawn for each device; split: "
        "`accuracy` is the mixtures', on a split of the test set over the devices",
        choices=("drawn", "split"),
    )


class State(NamedTuple):
    """What devices keep: their own models, as differences from the initial one."""

    own: Contributions  # v_k - v_0
    origin: Tensor  # [n_params], v_0
    labels: Ints  # [n_devices, n_classes], samples they hold


def build(config: Config) -> Method:
    return Method(
        init=init,
        decide=partial(dearer, config),
        broadcast=defaults.broadcast,
        local=partial(local, config),
        aggregate=partial(aggregate, config),
        evaluate=partial(evaluate, config),
        foretell=partial(foretell, config),
        statistics="refused",
        personal=partial(mixtures, config),
        needs_labels=True,
    )


def init(problem: Problem, params: Tensor) -> State:
    if problem.train.clip:
        raise BadInput(
            f"train.clip = {problem.train.clip:g} does not go with apfl, whose steps move two networks at once: set "
            "train.clip=0"
        )
    n = problem.world.n_devices
    return State(nothing(n, len(params)), params, np.zeros((n, n_classes_of(problem)), dtype=np.int64))


# ---------------------------------------------------------------- local


class Pair(nn.Module):
    """Two networks of one kind: the shared one and the own one."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.shared, self.own = deepcopy(network), deepcopy(network)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.shared(x), self.own(x)


@lru_cache(maxsize=4)
def pair_of(architecture: Architecture) -> Architecture:
    """The architecture of a pair, whose flat vector is that of the shared network, then that of the own one."""
    return Architecture.of(Pair(architecture.module))


def both_losses(mixture: float, pair: nn.Module, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
    """`F(w) + F(a v + (1 - a) w)`; the second term has no gradient in `w`."""
    assert isinstance(pair, Pair)
    shared, own = pair.shared, pair.own
    names = [name for name, _ in own.named_parameters()]
    mixed = [
        mixture * v + (1 - mixture) * w.detach() for v, w in zip(own.parameters(), shared.parameters(), strict=True)
    ]

    def use(inputs: Tensor) -> Tensor:
        return functional_call(own, dict(zip(names, mixed, strict=True)), (inputs,))

    return cross_entropy(shared, x, y, weight) + cross_entropy(use, x, y, weight)


def local(
    config: Config, problem: Problem, state: State, start: Start, observation: Observation, decision: Decision
) -> Updates:
    """Train both models. Devices send the update of the shared one and keep their own, as a difference from `v_0`."""
    learner, n = problem.learner, len(state.origin)
    work = work_of(config, problem, observation, decision, objective=partial(both_losses, config.mixture))
    before = rows_of(state.own, work.device, state.origin)
    shared = start.points[torch.from_numpy(start.of_row).to(before.device)]
    points = torch.cat([shared, state.origin + before], dim=1)
    pair = learner.with_network(pair_of(learner.architectures[0]))
    moved = pair.train(Start(points, np.arange(len(points))), work).delta
    return Updates(work.device, moved[:, :n], kept=moved[:, n:] + before)


# ---------------------------------------------------------------- aggregate, evaluate


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """Average the shared models that arrived; own models are kept by their devices, heard or not."""
    weights = config.server_lr * fedavg.shares(config.weights, played.observation, played.heard())
    params = mean_update(params, weights, played)
    labels = held_classes(problem, played.observation.store)
    return params, state._replace(own=remembered(state.own, played), labels=labels)


def evaluate(config: Config, problem: Problem, params: Tensor, state: State) -> Mapping[str, float]:
    """Evaluate the global model, and the mixtures: their mean accuracy on each device's own class shares and on all."""
    learner, a = problem.learner, config.mixture
    if config.tests == "split":
        return _judge_split(config, problem, params, state)
    network, found = learner.architectures[0].replica(learner.device).eval(), []
    for device in np.flatnonzero(state.labels.sum(axis=1)):
        own = state.origin + rows_of(state.own, np.array([device]), params)[0]
        vector_to_parameters(a * own + (1 - a) * params, trainable(network))
        like, any_ = judged(config, problem, state, int(device))
        luck = chance(learner.test_samples.labels[like], np.zeros_like(like))
        found.append([accuracy(problem, network, like), accuracy(problem, network, any_), luck])
    personal, overall, luck = np.mean(found, axis=0) if found else (0.0, 0.0, 0.0)
    return {
        **learner.evaluate(params),
        "personal_accuracy": float(personal),
        "personal_overall_accuracy": float(overall),
        "personal_chance": float(luck),
    }


def mixtures(config: Config, problem: Problem, params: Tensor, state: State, device: Ints) -> Tensor:
    """The models that some devices use, `[n, n_params]`."""
    own = state.origin + rows_of(state.own, device, params)
    return config.mixture * own + (1 - config.mixture) * params


def foretell(config: Config, problem: Problem, params: Tensor, state: State, x: Tensor) -> Floats:
    """Class probabilities by the mixtures, `[n_devices, n_classes]`."""
    device = np.arange(len(x))
    return probabilities(problem.learner, Start(mixtures(config, problem, params, state, device), device), x)


def _judge_split(config: Config, problem: Problem, params: Tensor, state: State) -> Mapping[str, float]:
    """Evaluate the mixtures on a split of the test set over devices; columns `global_...` are of the global model."""
    a, whole = config.mixture, problem.learner.evaluate(params)

    def model_of(device: int) -> Tensor:
        return a * (state.origin + rows_of(state.own, np.array([device]), params)[0]) + (1 - a) * params

    found = judge(problem, state.labels, state.own.seen, model_of)
    return {**found, **{f"global_{name}": value for name, value in whole.items()}}


@torch.no_grad()
def accuracy(problem: Problem, network: nn.Module, index: Ints) -> float:
    """Accuracy of a network on the test samples `index`."""
    x, y = problem.learner.test_samples.take(index)
    return float((network(x).argmax(1) == y).double().mean())


def judged(config: Config, problem: Problem, state: State, device: int) -> tuple[Ints, Ints]:
    """Indices of a device's test samples, the same in every round: (drawn by its own class shares, drawn from all)."""
    rng, truth = stream(problem.seed, SETUP, f"apfl test {device}"), problem.learner.test_samples.labels
    held = state.labels[device]
    share = np.where(truth < len(held), held[np.minimum(truth, len(held) - 1)], 0) / np.bincount(truth)[truth]
    any_ = rng.integers(len(truth), size=config.judged)
    if not share.any():  # none of its labels is tested
        return any_, any_
    return rng.choice(len(truth), config.judged, p=share / share.sum()), any_
