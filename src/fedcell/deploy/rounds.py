"""The loop of `simulate` with real devices: the same method, measured times and outcomes in place of simulated ones."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from .. import radio, world
from ..simulate import begin, checked, measure
from ..types import Decision, Floats, Method, Observation, Outcome, Problem, Round, Row, Snapshot, Uplink, WorldState
from .exchange import Exchange
from .remote import Remote, Reported, measured, store_of
from .settings import FederationConfig
from .tasks import Answer, Task


class Federation(NamedTuple):
    """Devices that are asked over Flower."""

    exchange: Exchange
    settings: FederationConfig
    longest_s: float  # wait for answers
    quorum: int | None  # answers that are enough; None: all
    clock: Callable[[], float] = time.monotonic


def play(
    federation: Federation, problem: Problem, method: Method, snapshot: Snapshot | None = None
) -> Iterator[tuple[Row, Snapshot]]:
    """Play every round that is left; as `simulate`, which has the same arguments after the first."""
    snapshot, learner = snapshot or begin(problem, method), problem.learner
    assert isinstance(learner, Remote)
    roster = federation.exchange.roster
    roster.counts = np.where(roster.counts.sum(axis=1, keepdims=True) > 0, roster.counts, snapshot.world.memory.counts)
    roster.scores = np.where(roster.scores[:, 1:] > 0, roster.scores, snapshot.world.memory.scores)
    if learner.n_features:
        method = method._replace(evaluate=partial(told_scores, federation))
    wanted = min(federation.settings.min_devices or roster.n_devices, roster.n_devices)
    while snapshot.round < problem.n_rounds:
        federation.exchange.gather(snapshot.round, wanted, federation.settings.join_s)
        with learner.blind():
            row, snapshot = play_round(federation, problem, method, snapshot)
        wanted = 1
        yield row, snapshot


def play_round(federation: Federation, problem: Problem, method: Method, before: Snapshot) -> tuple[Row, Snapshot]:
    """One round: see who is there, decide, broadcast, have it trained, aggregate."""
    learner, params, state, begun_s = problem.learner, before.params, before.method, federation.clock()
    assert isinstance(learner, Remote)

    observation, world_state = observe(federation, problem, before)
    decision = radio.as_decision(method.decide(problem, state, observation))
    radio.check_decision(problem.world, observation, decision)
    start = method.broadcast(problem, params, state, observation, decision)

    def ask(tasks: Sequence[Task]) -> list[Answer]:
        limit_s = min(decision.deadline_s, federation.longest_s)
        return federation.exchange.ask(tasks, limit_s, federation.quorum)

    with learner.asking(ask):
        updates = method.local(problem, state, start, observation, decision)
    answers = learner.answers
    uplink = measured(problem.world.n_devices, answers, federation.clock() - begun_s)
    params, state = checked(
        params, method.aggregate(problem, params, state, Round(observation, decision, updates, uplink))
    )
    after = Snapshot(before.round + 1, params, state, settled(federation, problem, world_state, answers, uplink))
    told = told_again(problem, method, before, observation, decision, answers, uplink)
    decision = decision._replace(info={**told, **columns(federation, answers)})
    return measure(problem, method, after, decision, uplink), after


def observe(federation: Federation, problem: Problem, before: Snapshot) -> tuple[Observation, WorldState]:
    """The world of the settings, with the devices that are there and the samples that they say they hold.

    Where the settings draw answer times, they are not known beforehand here: 0 stands for all.
    """
    counts = federation.exchange.roster.counts.copy()
    known = before.world._replace(store=store_of(counts), memory=before.world.memory._replace(counts=counts))
    observation, state = world.observe(problem.world, known, problem.seed, before.round)
    here = federation.exchange.free & (observation.store.size > 0)
    unknown_s = None if observation.response_s is None else np.zeros(len(here))
    return observation._replace(available=here, response_s=unknown_s), state


def settled(
    federation: Federation, problem: Problem, state: WorldState, answers: Sequence[Answer], uplink: Uplink
) -> WorldState:
    """The clock, and what devices said in their answers."""
    response_s = state.memory.response_s.copy()
    for answer in answers:
        response_s[answer.device] = answer.response_s
    counts = federation.exchange.roster.counts.copy()
    scores = federation.exchange.roster.scores.copy()
    state = state._replace(store=store_of(counts), memory=Reported(counts, response_s, scores))
    return world.settle(problem.world, state, uplink)


def told_again(
    problem: Problem,
    method: Method,
    before: Snapshot,
    observation: Observation,
    decision: Decision,
    answers: Sequence[Answer],
    uplink: Uplink,
) -> dict[str, float]:
    """The columns of a method that foresees answers, with those that really came; else as they were decided."""
    if observation.response_s is None:
        return dict(decision.info)
    place = problem.world
    lasted = place._replace(settings=replace(place.settings, deadline_s=max(uplink.round_s, 1e-9)))
    came = observation._replace(response_s=came_s(len(place.devices.cpu_hz), answers))
    return dict(method.decide(problem._replace(world=lasted), before.method, came).info)


def told_scores(federation: Federation, problem: Problem, params: Tensor, state: Any) -> Mapping[str, float]:
    """Accuracy of the models that devices keep, as they said; nothing where none has test samples."""
    right, tested = federation.exchange.roster.scores.sum(axis=0)
    return {"accuracy": float(right / tested), "tested": float(tested)} if tested else {}


def came_s(n_devices: int, answers: Sequence[Answer]) -> Floats:
    """Seconds to answer `[n_devices]`, without end for devices that were not heard."""
    seconds = np.zeros(n_devices)
    for one in answers:
        seconds[one.device] = one.response_s if one.outcome == Outcome.DELIVERED else np.inf
    return seconds


def columns(federation: Federation, answers: Sequence[Answer]) -> dict[str, float]:
    """What is measured beside a row: devices that are there, mean times of those heard, bits sent to devices."""
    heard = [one for one in answers if one.outcome == Outcome.DELIVERED]
    found = {
        "n_connected": float(federation.exchange.roster.present.sum()),
        "downlink_bit": float(sum(one.down_bit for one in answers)),
    }
    if heard:
        found["compute_s"] = float(np.mean([one.compute_s for one in heard]))
        found["transfer_s"] = float(np.mean([one.response_s - one.compute_s for one in heard]))
    return found
