"""Edge models: any method run at every base station, and the average of the stations' models every few rounds.

With `w_b` the edge model of cell `b`, a round of the method moves `w_b` by the updates of the cell's own devices, and
every `world.edge_rounds` rounds

    w <- sum_b a_b w_b,   w_b <- w for every b

where `a_b` is `1/B`, or the share of devices or samples (`world.edge_weights`). Between, `w` stays what it was. Every
cell is a network of its own to the method: it has a state of its own, weights such as 1/U count the devices of the
cell, and random choices differ from cell to cell. A cell in which nobody is heard keeps its edge model; a cell without
devices keeps the last `w` and is averaged with its weight. With one cell and `edge_rounds = 1` a run is that of the
method without edges, bit for bit.

Reference: rawhfl, Algorithm 1 and Eqs. (15), (17)
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import BadInput, ContractError
from ..radio import as_decision
from ..types import Decision, Floats, Method, Observation, Problem, Round, Start, Updates, Uplink, as_is, is_stateless
from .cell_views import (
    Cell,
    averaged,
    cells_of,
    decided,
    merged_decision,
    merged_start,
    merged_updates,
    observed,
    played,
    trained,
)

SCOPES = ("cell", "network", "server")
Foretell = Callable[[Problem, Tensor, Any, Tensor], Floats]


class Edges(NamedTuple):
    """One entry per cell."""

    models: tuple[Tensor, ...]  # [n_params] each; the same tensor if cells have the same model
    states: tuple[Any, ...]  # of the method; None in a cell without devices


def over_edges(problem: Problem, method: Method) -> Method:
    """Lift a method over the edge models; returns it as it is if the world has none, or if it wants one server."""
    if method.scope not in SCOPES:
        raise ContractError(f"scope of the method is {method.scope!r}: use one of {', '.join(SCOPES)}")
    if len(problem.learner.architectures) > 1 and not method.own_networks:
        raise BadInput(
            f"model.widths gives {len(problem.learner.architectures)} architectures and the method shares one model: "
            "unset model.widths, or use a method in which devices keep their own networks (knowledge, fedkd)"
        )
    edge_rounds = problem.world.settings.edge_rounds
    if not edge_rounds or method.scope == "server":
        return method
    if method.own_networks:
        raise BadInput(
            f"world.edge_rounds = {edge_rounds} averages models and devices keep their own in methods such as "
            "knowledge and fedkd: set world.edge_rounds=0, or use a method that shares one model"
        )
    cells = cells_of(problem)
    return Method(
        init=partial(init, cells, method),
        decide=partial(decide, cells, method),
        broadcast=partial(broadcast, cells, method),
        local=partial(local, cells, method),
        aggregate=partial(aggregate, cells, method),
        evaluate=partial(evaluate, cells, method),
        encode=as_is if method.encode is as_is else partial(encode, cells, method),
        foretell=partial(foretell, cells, method.foretell) if method.foretell else None,
        scope="server",  # lifted once is enough
        statistics=method.statistics,
        name=method.name,
    )


def relayed(problem: Problem, decision: Decision, uplink: Uplink) -> dict[str, float]:
    """Column `backhaul_bit`, if base stations have a server to send to: they relay every update or sum they got."""
    if problem.world.n_cells == 1 and not problem.world.settings.edge_rounds:
        return {}
    if uplink.sums is not None:  # a station has one sum to relay, whoever made it
        numbers = 2 * uplink.sums["symbols"]
        return {"backhaul_bit": numbers * problem.world.settings.bits_per_parameter}
    return {"backhaul_bit": float(decision.payload_bit[uplink.delivered].sum())}


# ---------------------------------------------------------------- the seams of the lifted method


def init(cells: Sequence[Cell], method: Method, problem: Problem, params: Tensor) -> Edges:
    n_cells = problem.world.n_cells
    states = {cell.number: method.init(cell.problem, params) for cell in cells}
    return Edges((params,) * n_cells, tuple(states.get(number) for number in range(n_cells)))


def decide(cells: Sequence[Cell], method: Method, problem: Problem, state: Edges, observation: Observation) -> Decision:
    """Decide cell by cell, or for all cells at once; count the edge models that stations send to be averaged."""
    if method.scope == "network":
        decision = as_decision(method.decide(problem, state.states, observation))
    else:
        parts = [method.decide(c.problem, state.states[c.number], observed(c, observation)) for c in cells]
        decision = merged_decision(cells, [as_decision(part) for part in parts])
    bit = problem.world.payload_bit * len(cells) if _averages(problem, observation) else 0.0
    return decision._replace(info={**decision.info, "backhaul_bit": bit})


def broadcast(
    cells: Sequence[Cell],
    method: Method,
    problem: Problem,
    params: Tensor,
    state: Edges,
    observation: Observation,
    decision: Decision,
) -> Start:
    """Broadcast cell by cell; give the edge models if the method starts fewer devices than it selects, as cafe may.

    Training that needs states takes its starts from `local`, which broadcasts as the method does.
    """
    starts = _starts(cells, method, state, observation, decision)
    if sum(len(start.of_row) for start in starts) < np.count_nonzero(decision.selected):
        return Start(torch.stack(state.models), observation.topology.cell[decision.selected])
    return merged_start(cells, starts, decision)


def local(
    cells: Sequence[Cell],
    method: Method,
    problem: Problem,
    state: Edges,
    start: Start,
    observation: Observation,
    decision: Decision,
) -> Updates:
    """Train all cells in one call if training needs no state; else each with its own state."""
    if is_stateless(method.local):
        return method.local(problem, None, start, observation, decision)
    parts = [
        method.local(cell.problem, state.states[cell.number], own, observed(cell, observation), decided(cell, decision))
        for cell, own in zip(cells, _starts(cells, method, state, observation, decision), strict=True)
    ]
    return merged_updates(cells, parts)


def _starts(
    cells: Sequence[Cell], method: Method, state: Edges, observation: Observation, decision: Decision
) -> list[Start]:
    return [
        method.broadcast(
            cell.problem,
            state.models[cell.number],
            state.states[cell.number],
            observed(cell, observation),
            decided(cell, decision),
        )
        for cell in cells
    ]


def encode(
    cells: Sequence[Cell],
    method: Method,
    problem: Problem,
    state: Edges,
    updates: Updates,
    observation: Observation,
    decision: Decision,
) -> Updates:
    """Encode cell by cell, each with its own state."""
    parts = [
        method.encode(
            cell.problem,
            state.states[cell.number],
            trained(cell, updates),
            observed(cell, observation),
            decided(cell, decision),
        )
        for cell in cells
    ]
    return merged_updates(cells, parts)


def aggregate(
    cells: Sequence[Cell], method: Method, problem: Problem, params: Tensor, state: Edges, whole: Round
) -> tuple[Tensor, Edges]:
    """Move every edge model by the method, and average them when it is time."""
    models, states = list(state.models), list(state.states)
    for cell in cells:
        b = cell.number
        models[b], states[b] = method.aggregate(cell.problem, models[b], states[b], played(cell, whole))
    if not _averages(problem, whole.observation):
        return params, Edges(tuple(models), tuple(states))
    mean = average(params, models, tier_weights(problem, whole.observation))
    return mean, Edges((mean,) * len(models), tuple(states))


def evaluate(
    cells: Sequence[Cell], method: Method, problem: Problem, params: Tensor, state: Edges
) -> Mapping[str, float]:
    """The global model, evaluated once; columns of the method are means over the cells."""
    return averaged(method.evaluate(cell.problem, params, state.states[cell.number]) for cell in cells)


def foretell(
    cells: Sequence[Cell], by_method: Foretell, problem: Problem, params: Tensor, state: Edges, x: Tensor
) -> Floats:
    """Foretell cell by cell, each with its own model and state."""
    places = [torch.from_numpy(cell.device).to(x.device) for cell in cells]
    parts = [
        by_method(cell.problem, state.models[cell.number], state.states[cell.number], x[place])
        for cell, place in zip(cells, places, strict=True)
    ]
    order = np.argsort(np.concatenate([cell.device for cell in cells]))
    return np.asarray(np.concatenate(parts)[order])


# ---------------------------------------------------------------- the upper tier


def tier_weights(problem: Problem, observation: Observation) -> Floats:
    """`a_b`, `[n_cells]`, summing to one."""
    kind, n_cells = problem.world.settings.edge_weights, problem.world.n_cells
    size = observation.store.size if kind == "samples" else None
    weight = np.bincount(observation.topology.cell, weights=size, minlength=n_cells)
    if kind == "equal" or not weight.any():
        return np.full(n_cells, 1 / n_cells)
    return np.asarray(weight / weight.sum())


def average(params: Tensor, models: Sequence[Tensor], weights: Floats) -> Tensor:
    """`sum_b a_b w_b`, taken as `w + sum_b a_b (w_b - w)`, which leaves `w` as it is if no cell moved.

    Reference: rawhfl, Eq. (17)
    """
    if len(models) == 1:
        return models[0]
    mean = params.clone()
    for weight, model in zip(weights.tolist(), models, strict=True):
        mean.add_(model - params, alpha=weight)
    return mean


def _averages(problem: Problem, observation: Observation) -> bool:
    return (observation.round + 1) % problem.world.settings.edge_rounds == 0
