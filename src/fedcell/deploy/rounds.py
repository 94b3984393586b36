"""Rounds on real devices: the environment of a federation, and one that rehearses a round with made-up answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import Tensor

from .. import radio, world
from ..errors import BadInput, Diverged
from ..lifting import lifted
from ..methods.parts.robust import robust
from ..simulate import SIMULATED, begin, play_round
from ..types import (
    Bools,
    Decision,
    Environment,
    Method,
    Observation,
    Outcome,
    Problem,
    Round,
    Row,
    Snapshot,
    Start,
    Uplink,
    WorldState,
    as_is,
    at_once,
)
from .accepting import PATIENCE, Accepting, judge
from .bounds import after, capped, held_back, left_out, shortened, told_left_out
from .measuring import columns, joules, told_again
from .remote import Remote, Reported, measured, tally
from .settings import FederationConfig, robust_rule
from .tasks import Answer, MessageError, Task

if TYPE_CHECKING:  # a rehearsal needs no Flower
    from .exchange import Exchange


class Federation(NamedTuple):
    """The devices of a federation, reached over Flower, and how to treat their answers."""

    exchange: "Exchange"
    settings: FederationConfig
    longest_s: float  # longest wait for answers
    quorum: int | None  # answers that are enough; None: all
    accepting: Accepting


def play(
    federation: Federation, problem: Problem, method: Method, snapshot: Snapshot
) -> Iterator[tuple[Row, Snapshot]]:
    """Play every remaining round on real devices, as `simulate` does in a simulation."""
    roster = federation.exchange.roster
    roster.counts = np.where(roster.counts.sum(axis=1, keepdims=True) > 0, roster.counts, snapshot.world.memory.counts)
    roster.scores = np.where(roster.scores[:, 1:] > 0, roster.scores, snapshot.world.memory.scores)
    if rule := robust_rule(federation.settings.robust):
        method = robust(method, rule)
    federation.exchange.watched = snapshot.world.memory.watched
    if method.own_networks or remote(problem).keeps_statistics:  # devices test these models themselves
        method = method._replace(evaluate=partial(told_scores, federation))
    blind, first = problem._replace(learner=remote(problem).blind()), snapshot.round
    method = lifted(blind, method)
    while snapshot.round < problem.n_rounds:
        row, snapshot = play_round(environment(federation, first, snapshot), blind, method, snapshot)
        yield row, snapshot


def remote(problem: Problem) -> Remote:
    """The learner of a federation."""
    assert isinstance(problem.learner, Remote)
    return problem.learner


def told_scores(federation: Federation, problem: Problem, params: Tensor, state: Any) -> Mapping[str, float]:
    """Accuracy of the models that devices keep, as they reported; empty if none has test samples."""
    right, tested = federation.exchange.roster.scores.sum(axis=0)
    return {"accuracy": float(right / tested), "tested": float(tested)} if tested else {}


# ---------------------------------------------------------------- the environment of a federation


def environment(federation: Federation, first: int, before: Snapshot) -> Environment:
    """The environment for the round after a snapshot; before round `first`, it waits for `min_devices` devices."""
    return Environment(
        observe=partial(observe, federation, first),
        carry_out=partial(carry_out, federation, before),
        settle=partial(settle, federation),
    )


def observe(federation: Federation, first: int, problem: Problem, before: Snapshot) -> tuple[Observation, WorldState]:
    """Observe the world of the settings, with the devices that are connected and the samples that they report.

    Answer times that a simulation would draw are not known beforehand: they are all 0.
    """
    exchange, settings = federation.exchange, federation.settings
    n_allowed = int((~left_out(settings, exchange.watched)).sum())
    wanted = min(settings.min_devices or n_allowed, n_allowed) if before.round == first else 1
    exchange.gather(before.round, wanted, settings.join_s)
    counts = exchange.roster.counts.copy()
    known = before.world._replace(store=tally(counts), memory=before.world.memory._replace(counts=counts))
    observation, state = SIMULATED.observe(problem, before._replace(world=known))
    here = exchange.free & (observation.store.size > 0)
    shared = capped(observation.store, np.flatnonzero(here), settings.max_share)
    return unforeseen(observation._replace(store=shared), here), state


def carry_out(
    federation: Federation,
    before: Snapshot,
    problem: Problem,
    method: Method,
    state: Any,
    start: Start,
    observation: Observation,
    decision: Decision,
) -> Round:
    """Have devices train, measure how long it takes, and leave out whoever breaks the model."""
    radio.check_decision(problem.world, observation, decision)
    exchange = federation.exchange

    def ask(tasks: Sequence[Task]) -> list[Answer]:
        return exchange.ask(tasks, min(decision.deadline_s, federation.longest_s), federation.quorum)

    asked = accepted(
        federation, problem, method, before, asked_of(ask, problem, method, state, start, observation, decision)
    )
    lasted_s = exchange.clock() - exchange.begun_s
    uplink, answers = asked.uplink._replace(round_s=lasted_s), remote(problem).answers
    told = told_again(problem, method, state, observation, decision, answers, uplink)
    there = {"n_connected": exchange.roster.present, "n_left_out": left_out(federation.settings, exchange.watched)}
    info = {**told, **{name: float(devices.sum()) for name, devices in there.items()}, **columns(answers)}
    info |= joules(problem.world, observation, decision, answers)
    return asked._replace(decision=decision._replace(info=info), uplink=uplink)


def accepted(federation: Federation, problem: Problem, method: Method, before: Snapshot, sent: Round) -> Round:
    """Cap the shares of devices, leave out updates that break the model, and report them; raises Diverged if all do."""
    learner, exchange, settings = remote(problem), federation.exchange, federation.settings
    held = capped(sent.observation.store, sent.heard(), settings.max_share)
    sent = sent._replace(observation=sent.observation._replace(store=held))
    if method.sends_updates:
        sent = shortened(held_back(sent, learner.tasks, settings.max_stretch), settings.max_pull)
    made = federation.accepting.trial(problem, method, before, settings.max_loss, learner.guessing)
    found = judge(made, sent)
    round, whose = sent.observation.round, {one.device: row for row, one in enumerate(learner.answers)}
    for device, loss in found.named.items():
        error = MessageError(
            f"it breaks the model: with it the test loss is {loss:.3g} (deploy.max_loss = {settings.max_loss:g})",
            "breaks the model",
            loss,
        )
        learner.answers[whose[device]] = exchange.turn_away(round, learner.answers[whose[device]], error)
    if found.whole:
        exchange.say(f"round {round} is not accepted: any half of its updates breaks the model, which stays as it was")
        for device in sent.heard():
            learner.answers[whose[device]] = learner.answers[whose[device]]._replace(outcome=Outcome.INVALID)
    if federation.accepting.settle(found) >= PATIENCE or not made.accepts(found.loss):
        raise Diverged(f"round {round}: every update breaks the model: lower the learning rate")
    return found.sent


def settle(federation: Federation, problem: Problem, state: WorldState, uplink: Uplink) -> WorldState:
    """The state of the world after a round: the clock, and what devices reported."""
    response_s = state.memory.response_s.copy()
    for answer in remote(problem).answers:
        response_s[answer.device] = answer.response_s
    exchange, learner = federation.exchange, remote(problem)
    roster, before = exchange.roster, exchange.watched
    exchange.watched = after(before, learner.tasks, learner.answers)
    for text in told_left_out(federation.settings, before, exchange.watched):
        exchange.say(text)
    memory = Reported(roster.counts.copy(), response_s, roster.scores.copy(), exchange.watched)
    return world.settle(problem.world, state._replace(store=tally(memory.counts), memory=memory), uplink)


def asked_of(
    ask: Callable[[Sequence[Task]], list[Answer]],
    problem: Problem,
    method: Method,
    state: Any,
    start: Start,
    observation: Observation,
    decision: Decision,
) -> Round:
    """Run a method's local(), with `ask` doing the training; devices encode what they send."""
    learner = remote(problem)
    if method.encode is not as_is and not learner.coding:
        raise BadInput("this method encodes by a function of its own, which devices do not have: choose another one")
    with learner.asking(ask):
        updates = method.local(problem, state, start, observation, decision)
    return Round(observation, decision, updates, measured(problem.world.n_devices, learner.answers, 0.0))


def unforeseen(observation: Observation, available: Bools) -> Observation:
    """The observation for real devices: which are available; how long their answers will take is unknown."""
    unknown_s = None if observation.response_s is None else np.zeros(len(available))
    return observation._replace(available=available, response_s=unknown_s)


# ---------------------------------------------------------------- a rehearsal


def rehearse(problem: Problem, method: Method) -> None:
    """Play a round with made-up answers of all devices; raises BadInput if a method needs more than devices send."""
    refuse_asynchronous(method)
    everyone = np.ones(problem.world.n_devices, dtype=np.bool_)

    def observe(problem: Problem, before: Snapshot) -> tuple[Observation, WorldState]:
        observation, state = SIMULATED.observe(problem, before)
        return unforeseen(observation, everyone), state

    scope = method.scope  # before it is lifted

    def carry_out(
        problem: Problem, method: Method, state: Any, start: Start, observation: Observation, decision: Decision
    ) -> Round:
        if scope == "server" and not decision.selected.any():
            raise BadInput("this method has no device train anything: choose another one")
        return asked_of(made_up, problem, method, state, start, observation, decision)

    blind, unjudged = problem._replace(learner=remote(problem).blind()), method._replace(evaluate=lambda *_: {})
    whole = lifted(blind, unjudged)
    play_round(Environment(observe, carry_out, SIMULATED.settle), blind, whole, begin(blind, whole))


def refuse_asynchronous(method: Method, name: str = "this method") -> None:
    """Refuse a method whose server steps while devices are still at work."""
    if method.collect is not at_once:
        what = f"the server of {name} steps while devices still train"
        raise BadInput(f"{what}, and rounds of a federation are synchronous: choose another one, such as fedavg")


def made_up(tasks: Sequence[Task]) -> list[Answer]:
    """Made-up answers for a rehearsal: updates of zeros, at once."""
    return [
        Answer(task.device, Outcome.DELIVERED, np.zeros(task.n_values, dtype=np.float32), 0.0, 0.0, 0.0, 0.0)
        for task in tasks
    ]
