"""Theorem 1 measured along a run: gradients of all clients at the present model, on present and former data.

    sigma^2   mean squared error of one mini-batch gradient
    Phi_u     |grad f_u(w^t | D^{t-1}) - grad f_u(w^t | D^t)|^2
    beta      largest |grad f_u(w^t) - grad f_u(w^{t-1})| / |w^t - w^{t-1}| so far, on D^{t-1}
    delta_u   squared distance of label shares;  rho2: the least that Eq. (22) allows

Not a method itself: it has no `build`.

Reference: osafl, section 4.7
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...types import Floats, Ints, Observation, Problem, Store
from ..parts.classes import held_classes
from ..parts.defaults import rate, setting
from ..parts.gradients import COHORT, client_losses, gradients, squares
from . import theory

if TYPE_CHECKING:
    from . import Config


class Memory(NamedTuple):
    """What the estimates of the next round need, and the columns of this round."""

    params: Tensor  # w^{t-1}
    store: Store  # D^{t-1}
    loss: float | None  # f(w^{t-1} | D^{t-1}); None before the first round
    smoothness: float  # largest so far
    columns: dict[str, float]


class OsaflEstimates(NamedTuple):
    """Constants of the bound, estimated from the gradients of one round."""

    squared_norm: Floats  # [n_devices], |grad f_u|^2
    overall: float  # |grad f|^2
    noise: float
    shift: Floats  # [n_devices]
    smoothness: float


def begin(n_devices: int, params: Tensor) -> Memory:
    """Make the memory before the first round, which has no former data."""
    return Memory(params, Store(np.zeros((n_devices, 1), dtype=np.int64), np.zeros(n_devices, np.int64)), None, 0.0, {})


def measure(
    config: Config,
    problem: Problem,
    memory: Memory,
    params: Tensor,
    observation: Observation,
    steps: Ints,
    similarity: Floats,
    score: Floats,
) -> Memory:
    """Estimate the constants at the model of this round, and put the terms of the bound into columns.

    Args:
        config: rates and `rho1`.
        problem: data and networks.
        memory: of the round before.
        params: the model before this round's step.
        observation: this round's stores.
        steps: local steps behind each client's last gradient, 0 if it was never heard.
        similarity, score: of every client.
    """
    alpha = np.full(len(score), 1 / len(score))
    distance = theory.label_distance(held_classes(problem, observation.store))
    found = estimate(config, problem, memory, params, observation, alpha * score)
    loss = float((alpha * score) @ client_losses(problem, params, observation.store))  # osafl Eq. (18)
    constants = theory.Constants(
        lr=rate(config, problem, observation.round),
        server_lr=config.server_lr,
        smoothness=found.smoothness,
        noise=found.noise,
        rho1=config.rho1,
        rho2=theory.least_rho2(found.squared_norm, found.overall, distance, config.rho1),
    )
    former = loss if memory.loss is None else memory.loss
    terms = theory.bound(
        constants, alpha, steps[None], score[None], similarity[None], found.shift[None], distance[None], [former, loss]
    )
    columns = bound_columns(constants, terms, found, bool(constants.hold(steps)))
    return Memory(params, observation.store, loss, found.smoothness, columns)


def bound_columns(
    constants: theory.Constants, terms: theory.Bound, found: OsaflEstimates, holds: bool
) -> dict[str, float]:
    """Make the columns of a row: `bound_loss_change` is since the round before, a void `bound` is left out."""
    columns = {f"bound_{name}": float(value[0]) for name, value in terms._asdict().items()}
    columns |= {
        "bound_void": float(terms.void),
        "bound_rates_hold": float(holds),
        "gradient_squared": found.overall,
        "smoothness": constants.smoothness,
        "gradient_noise": constants.noise,
        "rho2": constants.rho2,
    }
    return columns if terms.void else {**columns, "bound": terms.total}


def estimate(
    config: Config, problem: Problem, memory: Memory, params: Tensor, observation: Observation, weights: Floats
) -> OsaflEstimates:
    """Estimate from full and mini-batch gradients of every client that holds data, a few clients at a time.

    `weights`, `[n_devices]`, are those of the clients in the overall gradient.
    """
    now, former, n = observation.store, memory.store, len(weights)
    squared_norm, shift, noise = np.zeros(n), np.zeros(n), np.zeros(n)
    overall, steepest = torch.zeros_like(params), memory.smoothness
    moved = float((params - memory.params).norm())
    batch = setting(config, problem, "batch_size") * config.n_batches
    holders = np.flatnonzero(now.size > 0)
    for first in range(0, len(holders), COHORT):
        device = holders[first : first + COHORT]
        full = gradients(problem, params, now, device, observation.round, 0)
        sampled = gradients(problem, params, now, device, observation.round, batch)
        overall += torch.from_numpy(weights[device].astype(np.float32)).to(full.device) @ full
        squared_norm[device], noise[device] = squares(full), squares(sampled - full)
        both = np.flatnonzero(former.size[device] > 0)
        if len(both):
            before = gradients(problem, params, former, device[both], observation.round, 0)
            shift[device[both]] = squares(before - full[torch.from_numpy(both).to(full.device)])
            if moved > 0:
                older = gradients(problem, memory.params, former, device[both], observation.round, 0)
                steepest = max(steepest, float(np.sqrt(squares(before - older).max())) / moved)
    mean_noise = float(noise[holders].mean()) if len(holders) else 0.0
    return OsaflEstimates(squared_norm, float(squares(overall[None])[0]), mean_noise, shift, steepest)
