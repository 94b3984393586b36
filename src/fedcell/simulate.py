"""The loop: what happens in a federated round, in the order in which it happens.

Everything called here is a pure function of its arguments and of random streams keyed by
(seed, round, purpose). Files, progress bars and clocks live elsewhere.
"""

from collections.abc import Iterator
from math import isfinite

import numpy as np
import torch

from . import radio, world
from .attacking import attacked
from .errors import Diverged
from .foretelling import foretold_by
from .lifting import lifted
from .screening import aggregate, as_updates
from .tiers.hierarchy import relayed
from .types import Decision, Environment, Method, Observation, Problem, Round, Row, Snapshot, Start, Uplink


def carry_out(
    problem: Problem, method: Method, state: object, start: Start, observation: Observation, decision: Decision
) -> Round:
    """Train, encode and send in the simulated world; attackers change what they trained."""
    found = as_updates(method.local(problem, state, start, observation, decision))
    updates = method.encode(problem, state, attacked(problem, found, observation.round), observation, decision)
    decision = radio.as_sent(decision, updates)
    uplink = radio.transmit(problem.world, observation, decision, problem.seed)
    return Round(observation, decision, updates, uplink)


SIMULATED = Environment(
    observe=lambda problem, before: world.observe(problem.world, before.world, problem.seed, before.round),
    carry_out=carry_out,
    settle=lambda problem, state, uplink: world.settle(problem.world, state, uplink),
)


def simulate(
    problem: Problem, method: Method, snapshot: Snapshot | None = None, environment: Environment = SIMULATED
) -> Iterator[tuple[Row, Snapshot]]:
    """Play every remaining round, from a snapshot or from the start, and yield its row and the state after it.

    Raises Diverged when the model or every update of a round is no longer finite.
    """
    method = lifted(problem, method)
    snapshot = snapshot or begin(problem, method)
    while snapshot.round < problem.n_rounds:
        row, snapshot = play_round(environment, problem, method, snapshot)
        yield row, snapshot


def begin(problem: Problem, method: Method) -> Snapshot:
    """The state before the first round."""
    params = problem.learner.whole()
    return Snapshot(0, params, lifted(problem, method).init(problem, params), world.start(problem.world, problem.seed))


def play_round(environment: Environment, problem: Problem, method: Method, before: Snapshot) -> tuple[Row, Snapshot]:
    """Play one round of a method that `lifted` returned, in any environment; return its row and the state after it."""
    params, state = before.params, before.method
    observation, world_state = environment.observe(problem, before)
    ask = foretold_by(problem, method, params, state, observation)
    world_state, served = world.serve(problem.world, before.world, world_state, observation, problem.seed, ask)
    decision = radio.as_decision(method.decide(problem, state, observation))
    start = method.broadcast(problem, params, state, observation, decision)
    sent = environment.carry_out(problem, method, state, start, observation, decision)
    sent, state = method.collect(problem, params, state, sent)
    params, state, uplink = aggregate(problem, method, params, state, sent)
    after = Snapshot(before.round + 1, params, state, environment.settle(problem, world_state, uplink))

    decision = sent.decision._replace(info={**served, **sent.decision.info})
    return measure(problem, method, after, decision, uplink), after


def measure(problem: Problem, method: Method, after: Snapshot, decision: Decision, uplink: Uplink) -> Row:
    """The row of a finished round; the model is evaluated when due and after the last round."""
    round = after.round - 1
    if not all(map(isfinite, torch.aminmax(after.params))):
        raise Diverged(f"round {round}: the global model left the finite numbers: lower the learning rate")
    metrics = {**relayed(problem, decision, uplink), **uplink.columns, **decision.info}
    if after.round % problem.eval_every == 0 or after.round == problem.n_rounds:
        metrics |= method.evaluate(problem, after.params, after.method)
        if not metrics.get("loss", 0.0) < problem.hopeless_loss:
            raise Diverged(f"round {round}: the test loss is {metrics['loss']:.3g}: lower the learning rate")
    return Row(
        round=round,
        clock_s=after.world.clock_s,
        round_s=uplink.round_s,
        n_selected=int(np.count_nonzero(decision.selected)),
        n_delivered=int(np.count_nonzero(uplink.delivered)),
        compute_joule=float(uplink.compute_joule.sum()),
        radio_joule=float(uplink.radio_joule.sum()),
        uplink_bit=float(uplink.sent_bit.sum()),
        outcome=uplink.letters,
        metrics=metrics,
    )
