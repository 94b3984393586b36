"""A method whose server gets the sum of what devices send and nothing else: the seam of `coding.AtSum`.

Its `aggregate` must take a mean of rows alone (`types.of_means`). It is called with one row, the mean that the coding
makes of the sum, as if one device had been heard. So neither who was heard, nor how many, nor what they hold reaches
it. Not a method itself: it has no `build`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...coding import AtSum, Coding, Sampling
from ...errors import BadInput
from ...learn.deferred import Deferred
from ...rng import stream
from ...types import (
    Decision,
    Ints,
    Method,
    Observation,
    Problem,
    Round,
    Updates,
    as_is,
    is_stateless,
    stateless,
    takes_means,
)
from . import defaults
from .one_row import as_one
from .resources import sending
from .sampling import draws, sampling
from .surcharge import charged
from .turns import CODED, refuse_air


class SummedState(NamedTuple):
    """The method's state, and the memory of the coding's server."""

    own: Any
    memory: Any


def summed(method: Method, coding: Coding, name: str = "this method") -> Method:
    """The method with a coding whose server gets a sum; raises BadInput if the method needs more than a mean."""
    if not takes_means(method.aggregate) or method.sends != "updates" or method.encode is not as_is:
        raise BadInput(
            f"{coding.name} does not go with {name}: its server gets the sum of a round alone and {name} needs more "
            "than a mean of updates, so use a method that takes the mean, such as fedavg, fedprox or fedopt"
        )
    assert coding.at_sum is not None
    config = draws(method, coding.name, name)
    if getattr(config, "weights", None) == "unbiased":
        raise BadInput(f"{coding.name} does not go with weights = 'unbiased': it takes a plain mean, so set equal")
    given = (method, coding.at_sum, config)
    return method._replace(
        init=partial(init, coding.name, *given),
        decide=partial(decide, coding.at_sum, config),
        broadcast=inside(method.broadcast),
        local=inside(method.local),
        encode=partial(encode, coding.at_sum),
        aggregate=partial(aggregate, *given),
        evaluate=inside(method.evaluate),
        foretell=inside(method.foretell) if method.foretell else None,
        personal=inside(method.personal) if method.personal else None,
    )


def inside(seam: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of the method so that it gets the method's own state."""

    def call(problem: Problem, *given: Any) -> Any:
        return seam(problem, *(one.own if isinstance(one, SummedState) else one for one in given))

    return stateless(call) if is_stateless(seam) else call


def init(name: str, method: Method, at_sum: AtSum, config: Any, problem: Problem, params: Tensor) -> SummedState:
    world, learner = problem.world, problem.learner
    refuse_air(problem, name, CODED)
    if world.settings.edge_rounds:
        raise BadInput(
            f"{name} has one server and world.edge_rounds = {world.settings.edge_rounds} one at every base station: "
            "set edge_rounds=0"
        )
    if learner.n_own and learner.architectures[0].tail.sent:
        raise BadInput(
            f"{name} does not go with running statistics (batch norm), which devices send beside their updates as they "
            "are: set model.buffers=local or frozen, or use GroupNorm"
        )
    everyone = np.ones(world.n_devices, dtype=np.bool_)
    memory = at_sum.start(problem, sampling(config, problem, world.topology.cell, everyone))
    return SummedState(method.init(problem, params), memory)


def drawn(config: Any, problem: Problem, observation: Observation) -> Sampling:
    return sampling(config, problem, observation.topology.cell, observation.available)


def decide(at_sum: AtSum, config: Any, problem: Problem, state: SummedState, observation: Observation) -> Decision:
    """FedAvg's decision, planned and charged with what the coding adds to the bits, cycles and columns of a round."""
    n = problem.learner.n_params
    bit = at_sum.now(state.memory).most_bit(n, problem.world.settings.bits_per_parameter)
    everyone, few = problem.world.n_devices, config.n_selected * problem.world.n_cells
    most = at_sum.extra(everyone if config.scheduler in ("all", "poisson") else min(few, everyone), n)
    planned = sending(problem, bit + most.up_bit, problem.world.model_bit + most.down_bit)
    decision = defaults.decide(config, planned, state.own, observation, cycles=most.cycles)  # `draws` lets no other in
    memory = at_sum.noted(state.memory, drawn(config, problem, observation), decision.selected)
    decision = decision._replace(info={**decision.info, **at_sum.columns(memory)})
    return charged(problem, observation, decision, bit, at_sum.extra(int(np.count_nonzero(decision.selected)), n))


def encode(
    at_sum: AtSum, problem: Problem, state: SummedState, updates: Updates, observation: Observation, decision: Decision
) -> Updates:
    """Encode updates as the rows that are added up; those of a large cohort are encoded as they are trained."""
    now, seed, round = at_sum.now(state.memory), problem.seed, observation.round

    def sent(rows: Ints | None, delta: Tensor) -> Tensor:
        device = updates.device if rows is None else updates.device[rows]
        payloads = (now.encode(u, stream(seed, round, f"coding {k}")) for k, u in zip(device, delta, strict=True))
        made = [at_sum.numbers(payload) for payload in payloads]
        return torch.stack(made) if made else delta

    rows = updates.rows
    if isinstance(rows, Deferred):
        return updates._replace(rows=rows.mapped(sent, at_sum.n_summed(problem.learner.n_params)))
    return updates._replace(rows=sent(None, updates.delta))


def aggregate(
    method: Method, at_sum: AtSum, config: Any, problem: Problem, params: Tensor, state: SummedState, played: Round
) -> tuple[Tensor, SummedState]:
    """The method's step along the mean that the coding makes of the sum."""
    device, found = played.heard(), drawn(config, problem, played.observation)
    memory = at_sum.noted(state.memory, found, played.decision.selected)
    nothing = params.new_zeros(at_sum.n_summed(len(params)))
    total = played.add_up(np.ones(len(device))) if len(device) else nothing
    rng = stream(problem.seed, played.observation.round, "coding sum")
    mean, memory = at_sum.mean(memory, total, found, len(device), rng)
    if mean is None:
        return params, SummedState(state.own, memory)
    after, own = method.aggregate(problem, params, state.own, as_one(played, mean))
    return after, SummedState(own, memory)
