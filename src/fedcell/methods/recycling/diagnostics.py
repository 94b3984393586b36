"""What FL-GR may look up that no server could: every device's gradient, and the errors of reusing old ones.

Not a method itself: it has no `build`.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...types import Floats, Observation, Problem, Round, Start, Updates
from ..m_fedavg import with_models
from ..parts import defaults
from ..parts.contributions import Contributions, nothing, remember, weighted_sum
from ..parts.defaults import mean_update, rate, setting
from ..parts.gradients import COHORT, gradients, squares


class Memory(NamedTuple):
    """The last gradient and the last model of every device, and the errors of the last round."""

    gradients: Contributions
    models: Contributions
    origin: Tensor  # [n_params]
    gap_gradients: float  # squared error of the step that recycles gradients
    gap_models: float  # squared error of the step that reuses models

    def columns(self) -> dict[str, float]:
        return {"gap_gradients": self.gap_gradients, "gap_models": self.gap_models}


def begin(n_devices: int, params: Tensor) -> Memory:
    """Make the memory before the first round."""
    empty = nothing(n_devices, len(params))
    return Memory(empty, empty, params, 0.0, 0.0)


def measure(config: Any, problem: Problem, memory: Memory, params: Tensor, played: Round) -> Memory:
    """How far the steps that reuse gradients, and models, are from the step with everyone's present gradient.

    `|(1/K) sum_k (lr G_k - lr g_k)|^2` and `|(1/K) sum_k (w + d_k - W_k)|^2` over the devices not heard, with
    `d_k = -lr g_k` the update that training gives now, `G_k` the last gradient and `W_k` the last model of device `k`.

    Deviation: the source claims the second is never smaller; there are counter-examples, so both are recorded.

    Reference: chen-ch5, section 3.4
    """
    lr = rate(config, problem, played.observation.round)
    weight = np.where(played.uplink.delivered, 0.0, 1 / problem.world.n_devices)
    present = everyone(config, problem, params, played)
    moved = mean_update(torch.zeros_like(params), weight[present.device], present.delta)
    by_gradients = moved + lr * weighted_sum(memory.gradients, weight, params)
    never = float(weight[~memory.models.seen].sum())
    reused = weighted_sum(memory.models, weight, params) + never * memory.origin
    by_models = moved + float(weight.sum()) * params - reused
    device, rows = played.received()
    scale = np.full(len(device), -1.0 / lr)
    return memory._replace(
        gradients=remember(memory.gradients, device, rows, played.decision.steps[device], scale),
        models=with_models(memory.models, params, played),
        gap_gradients=float(by_gradients.double().square().sum()),
        gap_models=float(by_models.double().square().sum()),
    )


def everyone(config: Any, problem: Problem, params: Tensor, played: Round) -> Updates:
    """Train every device that holds data, scheduled or not, and return the updates."""
    holds = played.observation.store.size > 0
    start = Start(params[None], np.zeros(int(holds.sum()), dtype=np.int64))
    decision = played.decision._replace(selected=holds)
    return defaults.local(config, problem, None, start, played.observation, decision, prox=config.prox)


def gradient_norms(config: Any, problem: Problem, params: Tensor, observation: Observation) -> Floats:
    """Norm of one mini-batch gradient of every available device, `[n_devices]`; 0 for the others."""
    norm, batch = np.zeros(problem.world.n_devices), setting(config, problem, "batch_size")
    there = np.flatnonzero(observation.available)
    for first in range(0, len(there), COHORT):
        device = there[first : first + COHORT]
        rows = gradients(problem, params, observation.store, device, observation.round, batch)
        norm[device] = np.sqrt(squares(rows))
    return norm
