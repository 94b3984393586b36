"""Statistics that stay on their devices, with the scale and the shift of norm layers: what FedBN does."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ....learn.statistics import Carried
from ....types import (
    Decision,
    Floats,
    Ints,
    Method,
    Observation,
    Problem,
    Round,
    Start,
    Updates,
    as_is,
)
from ..classes import held_classes, n_classes_of
from ..contributions import Contributions, nothing, rows_of
from ..personal import judge, remembered
from .averaged import training_of


class StatisticsState(NamedTuple):
    """The method's state, and what devices keep."""

    own: Any
    kept: Contributions  # [n_devices, n_own], of devices that have trained
    labels: Ints  # [n_devices, n_classes], samples that devices hold


class StatisticsKept(NamedTuple):
    """What trained devices keep, of the method and of their statistics."""

    own: Any
    rows: Tensor  # [n_rows, n_own]


def kept(method: Method) -> Method:
    """The method for whole vectors, whose tail is what a device has before it trains."""
    return method._replace(
        init=partial(init, method),
        decide=partial(decide, method),
        broadcast=partial(broadcast, method),
        local=training_of(method, local),
        encode=as_is if method.encode is as_is else partial(encode, method),
        aggregate=partial(aggregate, method),
        evaluate=partial(evaluate, method),
        foretell=partial(foretell, method) if method.foretell else None,
        personal=partial(personal, method),
        statistics="within",
    )


def own_rows(problem: Problem, whole: Tensor, state: StatisticsState, device: Ints) -> Tensor:
    """The own rows of devices, `[n_rows, n_own]`: as last kept, or those of the start."""
    first = problem.learner.architectures[0].own_of(whole)
    trained = torch.from_numpy(state.kept.seen[device]).to(first.device)[:, None]
    return torch.where(trained, rows_of(state.kept, device, first), first)


def bound(problem: Problem, whole: Tensor, state: StatisticsState) -> tuple[Problem, Tensor]:
    """The problem for devices with their statistics, and the parameters of a whole vector."""
    common = problem.learner.architectures[0].own_of(whole)

    def of_device(device: int) -> Tensor:
        return own_rows(problem, whole, state, np.array([device]))[0]

    learner = problem.learner.carrying(Carried(common, of_device=of_device))
    return problem._replace(learner=learner), whole[: problem.learner.n_params]


def init(method: Method, problem: Problem, whole: Tensor) -> StatisticsState:
    n, learner = problem.world.n_devices, problem.learner
    labels = np.zeros((n, n_classes_of(problem)), dtype=np.int64)
    before = StatisticsState(None, nothing(n, learner.n_own), labels)
    return before._replace(own=method.init(*bound(problem, whole, before)))


def decide(method: Method, problem: Problem, state: Any, observation: Observation) -> Decision:
    """The method's decision; a method that decides for all cells at once gets all their states."""
    own = tuple(one and one.own for one in state) if type(state) is tuple else state.own
    return method.decide(problem, own, observation)


def broadcast(
    method: Method,
    problem: Problem,
    whole: Tensor,
    state: StatisticsState,
    observation: Observation,
    decision: Decision,
) -> Start:
    """The method's start, and the own row of every selected device."""
    here, params = bound(problem, whole, state)
    start = method.broadcast(here, params, state.own, observation, decision)
    return start._replace(own=own_rows(problem, whole, state, np.flatnonzero(decision.selected)))


def local(
    method: Method, problem: Problem, state: Any, start: Start, observation: Observation, decision: Decision
) -> Updates:
    """Train as the method does; devices keep the own rows that training left."""
    assert start.own is not None
    common = problem.learner.architectures[0].own_of(problem.learner.whole())
    carried = Carried(common, start.own, np.flatnonzero(decision.selected))
    here = problem._replace(learner=problem.learner.carrying(carried))
    updates = method.local(here, state and state.own, start, observation, decision)
    assert carried.rows is not None
    if len(updates.device) == len(carried.rows):
        return updates._replace(kept=StatisticsKept(updates.kept, carried.rows))
    at = torch.from_numpy(carried.at(updates.device)).to(carried.rows.device)
    return updates._replace(rows=updates.delta, kept=StatisticsKept(updates.kept, carried.rows[at]))


def encode(
    method: Method,
    problem: Problem,
    state: StatisticsState,
    updates: Updates,
    observation: Observation,
    decision: Decision,
) -> Updates:
    sent, rest = _apart(updates)
    coded = method.encode(problem, state.own, sent, observation, decision)
    return coded if rest is None else coded._replace(kept=StatisticsKept(coded.kept, rest))


def _apart(updates: Updates) -> tuple[Updates, Tensor | None]:
    """The method's updates, and the own rows; None from real devices, which keep them themselves."""
    found = updates.kept
    if not isinstance(found, StatisticsKept):
        return updates, None
    return updates._replace(kept=found.own), found.rows


def aggregate(
    method: Method, problem: Problem, whole: Tensor, state: StatisticsState, played: Round
) -> tuple[Tensor, StatisticsState]:
    """The method's step; all that trained keep their statistics, heard or not, as far as they are finite."""
    here, params = bound(problem, whole, state)
    updates, rows = _apart(played.updates)
    after, own = method.aggregate(here, params, state.own, played._replace(updates=updates))
    kept = state.kept if rows is None else remembered(state.kept, played, rows)
    labels = held_classes(problem, played.observation.store)
    return torch.cat([after, whole[len(params) :]]), StatisticsState(own, kept, labels)


def evaluate(method: Method, problem: Problem, whole: Tensor, state: StatisticsState) -> Mapping[str, float]:
    """The method's columns; a shared model is judged with the own norm layers of each device."""
    here, params = bound(problem, whole, state)
    learner = here.learner
    assert learner.carried is not None

    def judged(model: Tensor) -> dict[str, float]:
        return dict(judge(here, state.labels, state.kept.seen, lambda device: model))

    return method.evaluate(here._replace(learner=learner.carrying(learner.carried, judged)), params, state.own)


def foretell(method: Method, problem: Problem, whole: Tensor, state: StatisticsState, x: Tensor) -> Floats:
    assert method.foretell is not None
    here, params = bound(problem, whole, state)
    return method.foretell(here, params, state.own, x)


def personal(method: Method, problem: Problem, whole: Tensor, state: StatisticsState, device: Ints) -> Tensor:
    """The models that devices predict with, `[n, n_params + n_tail]`: the shared one, or their own, with own norms."""
    here, params = bound(problem, whole, state)
    models = params.expand(len(device), -1)
    if method.personal is not None:
        models = method.personal(here, params, state.own, device)
    rows, layout = own_rows(problem, whole, state, device), problem.learner.architectures[0]
    return torch.stack([layout.with_own(model, own) for model, own in zip(models, rows, strict=True)])
