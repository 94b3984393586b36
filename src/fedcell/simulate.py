"""The loop: what happens in a federated round, in the order in which it happens.

Everything called here is a pure function of its arguments and of random streams keyed by
(seed, round, purpose). Files, progress bars and clocks live elsewhere.
"""

from collections.abc import Iterator
from math import isfinite

import numpy as np
import torch

from . import radio, world
from .errors import ContractError, Diverged
from .methods.foretelling import foretold_by
from .methods.hearing import aggregate
from .methods.hierarchy import over_edges, relayed
from .types import Decision, Method, Problem, Round, Row, Snapshot, Uplink

HOPELESS_LOSS = 1e6  # nats per sample; guessing costs a few


def simulate(problem: Problem, method: Method, snapshot: Snapshot | None = None) -> Iterator[tuple[Row, Snapshot]]:
    """Play every round that is left, yielding its row and the state after it.

    Args:
        problem: world, data, networks and seed.
        method: the federated-learning method.
        snapshot: where to go on from; None begins anew.

    Raises:
        Diverged: when the model or every update of a round is no longer finite.
    """
    method = over_edges(problem, method)
    snapshot = snapshot or begin(problem, method)
    while snapshot.round < problem.n_rounds:
        row, snapshot = play_round(problem, method, snapshot)
        yield row, snapshot


def begin(problem: Problem, method: Method) -> Snapshot:
    """The state before the first round."""
    params = problem.learner.initial()
    state = over_edges(problem, method).init(problem, params)
    return Snapshot(0, params, state, world.start(problem.world, problem.seed))


def play_round(problem: Problem, method: Method, before: Snapshot) -> tuple[Row, Snapshot]:
    """One round, of a method as `over_edges` gives it: observe, decide, broadcast, train, send, aggregate, settle."""
    place, seed, params, state = problem.world, problem.seed, before.params, before.method

    observation, world_state = world.observe(place, before.world, seed, before.round)
    ask = foretold_by(problem, method, params, state, observation)
    world_state, served = world.serve(place, before.world, world_state, observation, seed, ask)
    decision = radio.as_decision(method.decide(problem, state, observation))
    start = method.broadcast(problem, params, state, observation, decision)
    updates = method.local(problem, state, start, observation, decision)
    sent = Round(observation, decision, updates, radio.transmit(place, observation, decision, seed))
    found, uplink = aggregate(problem, method, params, state, sent)
    params, state = checked(params, found)
    world_state = world.settle(place, world_state, uplink)

    after = Snapshot(before.round + 1, params, state, world_state)
    return measure(problem, method, after, decision._replace(info={**served, **decision.info}), uplink), after


def checked(params: torch.Tensor, found: object) -> tuple[torch.Tensor, object]:
    """What aggregate() returned: a model shaped like the one before, and the method's state."""
    match found:
        case (torch.Tensor(shape=params.shape) as model, state):
            return model, state
    raise ContractError(f"aggregate() returned {str(found)[:50]!r}: return (params {list(params.shape)}, state)")


def measure(problem: Problem, method: Method, after: Snapshot, decision: Decision, uplink: Uplink) -> Row:
    """The row of a finished round; the model is evaluated when due and after the last round."""
    round = after.round - 1
    if not all(map(isfinite, torch.aminmax(after.params))):
        raise Diverged(f"round {round}: the global model left the finite numbers: lower the learning rate")
    metrics = {**relayed(problem, decision, uplink), **decision.info}
    if after.round % problem.eval_every == 0 or after.round == problem.n_rounds:
        metrics |= method.evaluate(problem, after.params, after.method)
        if not metrics.get("loss", 0.0) < HOPELESS_LOSS:
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
