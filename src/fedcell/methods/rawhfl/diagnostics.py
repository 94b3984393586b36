"""Theorem 1 of RawHFL measured along a run: gradients of the clients that train, at the model they start from.

    sigma^2   mean squared error of one local step's gradient
    beta      largest |grad f_u(w^k) - grad f_u(w^{k-1})| / |w^k - w^{k-1}| so far
    eps_0^2   largest over the cells of sum_u alpha_u |grad f_u - grad f_b|^2
    eps_1^2   sum_b alpha_b |sum_u alpha_u L_u grad f_u - the same over all cells|^2

Every round counts as a global one of a single edge round. If base stations keep edge models (`world.edge_rounds`)
a cell is a network of its own, and the columns are means over the cells. Not a method itself: it has no `build`.

Reference: rawhfl, section 4.1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...types import Floats, Ints, Problem, Round
from ..parts.defaults import rate, setting
from ..parts.gradients import client_losses, gradients, squares
from ..parts.mini_batches import samples_per_step
from . import theory

if TYPE_CHECKING:
    from . import Config


class Memory(NamedTuple):
    """What the estimates of the next round need, and the columns of this round."""

    params: Tensor  # w^{k-1}
    loss: float | None  # f(w^{k-1}); None before the first round
    smoothness: float  # largest so far
    columns: dict[str, float]


class RawhflEstimates(NamedTuple):
    """Gradients of one round, and constants estimated from them; rows are the clients that train."""

    device: Ints
    full: Tensor  # [n_rows, n_params], grad f_u
    sampled: Floats  # [n_rows], |g_u|^2 of one local step
    noise: float
    smoothness: float


def begin(params: Tensor) -> Memory:
    """Make the memory before the first round."""
    return Memory(params, None, 0.0, {})


def measure(config: Config, problem: Problem, memory: Memory, params: Tensor, played: Round, success: Floats) -> Memory:
    """Estimate the constants at the model of this round, and put the terms of the bound into columns.

    Args:
        config: rate and mini-batches.
        problem: data and networks.
        memory: of the round before.
        params: the model before this round's step.
        played: the round.
        success: probability that an upload arrives, `[n_devices]`.
    """
    losses = client_losses(problem, params, played.observation.store)
    loss = float(losses[played.observation.store.size > 0].mean()) if losses.any() else 0.0
    device = np.flatnonzero(played.decision.selected)
    if not len(device):
        return memory._replace(params=params, loss=loss, columns={})
    found = _estimate(config, problem, memory, params, played, device)
    steps = played.decision.steps[device]
    weight, cell_weight = shares(played.observation.topology.cell[device])
    lr = rate(config, problem, played.observation.round)
    edge, overall = divergences(found.full, played.observation.topology.cell[device], steps)
    constants = theory.Constants(lr, found.smoothness, found.noise, edge, overall)
    former, most = loss if memory.loss is None else memory.loss, setting(config, problem, "steps")
    terms = theory.bound(
        constants,
        most,
        cell_weight,
        weight[None, None],
        steps[None, None],
        [former, loss],
        success[device],
        steps * found.sampled,
    )
    both = torch.from_numpy((weight * cell_weight).astype(np.float32)).to(found.full.device)
    columns = {f"bound_{name}": float(value[0]) for name, value in terms._asdict().items() if not terms.void}
    columns |= {
        "bound_void": float(terms.void),
        "bound_rates_hold": float(constants.hold(most, 1)),
        "gradient_squared": float(squares((both @ found.full)[None])[0]),
        "smoothness": found.smoothness,
        "gradient_noise": found.noise,
    }
    return Memory(params, loss, found.smoothness, columns if terms.void else {**columns, "bound": terms.total})


def shares(cell: Ints) -> tuple[Floats, Floats]:
    """`alpha_u` and the `alpha_b` of its cell for every client that trains; the product is the same for all."""
    in_cell = np.bincount(cell)[cell]
    return 1 / in_cell, in_cell / len(cell)


def divergences(full: Tensor, cell: Ints, steps: Ints) -> tuple[float, float]:
    """`eps_0^2` and `eps_1^2` of gradients `[n_rows, n_params]`. Reference: rawhfl, Eqs. (19), (20)"""
    rows = full.double()
    loaded = rows * torch.from_numpy(steps).to(rows.device)[:, None]
    mean, edge, overall = loaded.mean(dim=0), 0.0, 0.0
    for number in np.unique(cell):
        here = torch.from_numpy(np.flatnonzero(cell == number)).to(rows.device)
        edge = max(edge, float(squares(rows[here] - rows[here].mean(dim=0)).mean()))
        overall += len(here) / len(cell) * float(squares((loaded[here].mean(dim=0) - mean)[None])[0])
    return edge, overall


def _estimate(
    config: Config, problem: Problem, memory: Memory, params: Tensor, played: Round, device: Ints
) -> RawhflEstimates:
    """Estimate from full and sampled gradients of the clients that train, at this model and at the one before."""
    store, round = played.observation.store, played.observation.round
    full = gradients(problem, params, store, device, round, 0)
    sampled = gradients(problem, params, store, device, round, samples_per_step(config, problem))
    noise, size = float(squares(sampled - full).mean()), squares(sampled)
    moved, steepest = float((params - memory.params).norm()), memory.smoothness
    if moved > 0:
        before = gradients(problem, memory.params, store, device, round, 0)
        steepest = max(steepest, float(np.sqrt(squares(full - before).max())) / moved)
    return RawhflEstimates(device, full, size, noise, steepest)
