"""FedKD (FedMD): devices with networks of their own agree on what these say of public samples.

With `z_k` the scores of device `k` on the public samples and `z` their mean over the devices heard, a device first
lowers the mean squared distance of its scores from `z`, then its loss on its own data, and uploads its new scores.
Public samples are training samples that nobody trains on otherwise.

Reference: Li, Wang, FedMD: Heterogenous Federated Learning via Model Distillation, 2019; chen-ch4, section 5 (FedKD)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..learn.work import Work
from ..options import option
from ..rng import SETUP, stream
from ..types import Decision, Ints, Method, Observation, Problem, Round, Start, Store, Updates
from .parts import defaults
from .parts.classes import held_classes, n_classes_of
from .parts.contributions import Contributions, nothing
from .parts.defaults import LocalConfig, samples_of, steps_of, work_of
from .parts.personal import judge_own, own_models, own_starts, remembered, starts
from .parts.resources import sending


@dataclass(frozen=True)
class Config(LocalConfig):
    """Settings of FedKD."""

    batch_size: int | None = option(0, "samples per local step on own data; 0: the whole store", least=0)
    effort: str = option("fixed", "every device does `steps`", choices=("fixed",))
    public_per_class: int = option(50, "public samples of each class, half of a class at most", least=1)
    digest_steps: int | None = option(None, "local steps on the public samples; none: as many as on own data", least=1)


class State(NamedTuple):
    """What devices and server remember between rounds."""

    own: Contributions  # models of devices that have trained
    origin: Tensor  # [n_architectures, n_params], models of those that have not
    public: Ints  # [n_public], training samples that all see
    scores: Tensor  # [n_public, n_outputs], the mean of the last round with an upload
    agreed: bool  # whether there was one
    labels: Ints  # [n_devices, n_classes], samples that devices hold


def build(config: Config) -> Method:
    return Method(
        init=partial(init, config),
        decide=partial(decide, config),
        broadcast=broadcast,
        local=partial(local, config),
        aggregate=aggregate,
        evaluate=evaluate,
        own_networks=True,
        sends="scores of public samples",
        needs_rows=True,
        personal=own_models,
        needs_labels=True,
    )


def init(config: Config, problem: Problem, params: Tensor) -> State:
    n, learner = problem.world.n_devices, problem.learner
    public, origin = public_samples(config.public_per_class, problem), starts(problem)
    n_outputs = scores_of(problem, origin[:1], np.zeros(1, dtype=np.int64), public[:1]).shape[2]
    return State(
        own=nothing(n, learner.n_params),
        origin=origin,
        public=public,
        scores=torch.zeros(len(public), n_outputs, device=learner.device),
        agreed=False,
        labels=np.zeros((n, n_classes_of(problem)), dtype=np.int64),
    )


def public_samples(per_class: int, problem: Problem) -> Ints:
    """Training samples that all devices see, ascending: so many of each class, half of the class at most."""
    labels, chosen = problem.learner.train_samples.labels, []
    for label in np.unique(labels):
        of_class = np.flatnonzero(labels == label)
        size = min(per_class, len(of_class) // 2)
        chosen.append(stream(problem.seed, SETUP, f"public {label}").permutation(of_class)[:size])
    return np.sort(np.concatenate(chosen))


def private(store: Store, public: Ints) -> Store:
    """The stores without public samples; the others keep their order."""
    inside = np.arange(store.items.shape[1]) < store.size[:, None]
    mine = inside & ~np.isin(store.items, public)
    order = np.argsort(~mine, axis=1, kind="stable")
    return Store(np.take_along_axis(store.items, order, axis=1), mine.sum(axis=1).astype(np.int64))


def decide(config: Config, problem: Problem, state: State, observation: Observation) -> Decision:
    """Schedule devices that hold private samples; charge training on the public ones, and the bits of the scores."""
    mine = private(observation.store, state.public)
    seen = observation._replace(store=mine, available=observation.available & (mine.size > 0))
    samples, bit = samples_of(config, problem, mine), state.scores.numel() * problem.world.settings.bits_per_parameter
    if state.agreed:
        steps = np.asarray(steps_of(config, problem, mine))
        samples = samples + len(state.public) * _digest_steps(config, steps) / steps
    decision = defaults.decide(config, sending(problem, bit, bit), state, seen, samples)
    return decision._replace(download_bit=decision.payload_bit)  # scores go both ways


def _digest_steps(config: Config, steps: Ints) -> Ints:
    return steps if config.digest_steps is None else np.full_like(steps, config.digest_steps)


def broadcast(problem: Problem, params: Tensor, state: State, observation: Observation, decision: Decision) -> Start:
    """Every device continues from its own model."""
    return own_starts(problem, state.own, state.origin, decision)


def distance(target: Tensor, module: nn.Module, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
    """Mean squared distance of scores from the agreed ones; `x` are all public samples in their order, then padding."""
    return (module(x)[: len(target)] - target).square().mean()


def local(
    config: Config, problem: Problem, state: State, start: Start, observation: Observation, decision: Decision
) -> Updates:
    """Train on public, then on own samples. Devices send scores, `[n_rows, n_public n_outputs]`, and keep models."""
    learner = problem.learner
    mine = observation._replace(store=private(observation.store, state.public))
    work, points = work_of(config, problem, mine, decision), start.points
    if state.agreed and len(work.device):
        points = points + learner.train(start, _digest(config, state, work, decision)).delta
    after = points + learner.train(start._replace(points=points), work).delta
    scores = scores_of(problem, after, work.device, state.public)
    return Updates(work.device, scores.flatten(1), kept=after)


def _digest(config: Config, state: State, work: Work, decision: Decision) -> Work:
    """Full-batch steps on the public samples towards the agreed scores."""
    n, n_public = len(work.device), len(state.public)
    store = Store(np.tile(state.public, (n, 1)), np.full(n, n_public))
    steps = _digest_steps(config, decision.steps)[work.device]
    return work._replace(
        store=store, steps=steps, batch_size=0, objective=partial(distance, state.scores), augment=False
    )


@torch.no_grad()
def scores_of(problem: Problem, models: Tensor, device: Ints, public: Ints) -> Tensor:
    """Scores that some devices' models give the public samples, `[n_rows, n_public, n_outputs]`."""
    learner = problem.learner
    nets, x = (
        [one.replica(learner.device).eval() for one in learner.architectures],
        learner.train_samples.take(public)[0],
    )
    found = [nets[0](x)[None][:0]]
    for model, one, kind in zip(models, device.tolist(), learner.kinds(device), strict=True):
        learner.architectures[kind].load(nets[kind], model, learner.own_of(one))
        found.append(nets[kind](x)[None])
    return torch.cat(found)


def aggregate(problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """Average the scores that arrived; devices keep their models, heard or not."""
    device, rows = played.received()
    scores = rows.mean(dim=0).view_as(state.scores) if len(device) else state.scores
    store = private(played.observation.store, state.public)
    return params, state._replace(
        own=remembered(state.own, played),
        scores=scores,
        agreed=state.agreed or len(device) > 0,
        labels=held_classes(problem, store),
    )


def evaluate(problem: Problem, params: Tensor, state: State) -> Mapping[str, float]:
    """Evaluate every device's own model on its own test samples."""
    return judge_own(problem, state.labels, state.own, state.origin)
