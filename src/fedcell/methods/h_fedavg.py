"""Hierarchical FedAvg: everyone trains at full clock and power; three rules for how long, and one server as a fourth.

At its highest clock and power a device can do `L_u = floor(min(L, (e_bd - e_up) / e_step, (t_th - t_up) / t_step))`
local steps, `L` being `steps`. Of all available devices,

- `m1`: everyone does the least of these numbers; if it is 0, nobody trains in this round.
- `m2`: those who can do no step stay out, the others do their least.
- `ub`: everyone does `L` steps, whatever deadline and energy budget say: an upper bound that no network reaches.
- `relay`: as `ub` without edge models: base stations relay to one server, and devices train and send only in the last
  of every `world.edge_rounds` rounds.

The edge model (the server's with `relay`) moves by `(1/n) sum_u (w_u - w)` over the updates that arrive, `n` being the
devices asked in its cell. Edge models come from `world.edge_rounds`; without it there is one server.

Reference: rawhfl (Pervej, Molisch: Resource-Aware Hierarchical Federated Learning in Wireless Video Caching
Networks), section VI (baselines H-FedAvg-M1, M2, UB and FedAvg-UB)
"""

from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import numpy as np
from torch import Tensor

from .. import radio
from ..options import option
from ..types import Bools, Decision, Ints, Method, Observation, Problem, Round
from .parts.defaults import LocalConfig, default, mean_update, most_steps
from .parts.mini_batches import StepConfig, full_speed, local, samples_per_step
from .parts.schedulers import schedule


@dataclass(frozen=True)
class Config(StepConfig):
    """Settings of hierarchical FedAvg."""

    steps: int | None = option(None, "most local steps of a round, L", least=1)
    n_batches: int = option(10, "mini-batches that make one local step", least=1)

    mode: str = option("m2", "how long devices train, and through whom", choices=("m1", "m2", "ub", "relay"))
    all_of: str = option(
        "network", "who must agree on the steps (m1, m2): all devices, or those of a cell", choices=("network", "cell")
    )


def build(config: Config) -> Method:
    return default(LocalConfig())._replace(
        init=partial(init, config),
        decide=partial(decide, config),
        local=partial(local, config),
        aggregate=aggregate,
        scope="server" if config.mode == "relay" else "network",
    )


def init(config: Config, problem: Problem, params: Tensor) -> None:
    most_steps(config, problem)


def decide(config: Config, problem: Problem, state: Any, observation: Observation) -> Decision:
    """Devices at full speed, with the steps of the mode. Column `eligible`: how many can do a step, per cell."""
    most = most_steps(config, problem)
    everyone = schedule("all", 1, problem, observation, most, samples_per_step(config, problem))
    draft = full_speed(config, problem, observation, everyone)
    can = np.where(everyone, np.minimum(radio.most_steps(problem.world, observation, draft), most), 0)
    info = {"eligible": float(np.count_nonzero(can) / problem.world.n_cells)}
    if config.mode in ("ub", "relay"):
        on = everyone if config.mode == "ub" or sends(problem, observation) else np.zeros_like(everyone)
        return unlimited(problem, full_speed(config, problem, observation, on))._replace(info=info)
    kept = everyone if config.mode == "m1" else can > 0
    group = observation.topology.cell if config.all_of == "cell" else np.zeros_like(observation.topology.cell)
    steps = common_steps(can, kept, group)
    decision = full_speed(config, problem, observation, kept & (steps > 0))
    return decision._replace(steps=np.maximum(steps, 1), info=info)


def unlimited(problem: Problem, decision: Decision) -> Decision:
    """Lift deadline and energy budget from a decision; with `world.clock = deadline` the round still lasts until it."""
    fixed_s = decision.deadline_s if problem.world.settings.clock == "deadline" else None
    return decision._replace(deadline_s=inf, round_s=fixed_s, budget_joule=inf)


def sends(problem: Problem, observation: Observation) -> bool:
    """Whether `relay` trains in this round: in the last of every `world.edge_rounds`, which has the newest data."""
    return (observation.round + 1) % max(problem.world.settings.edge_rounds, 1) == 0


def common_steps(can: Ints, kept: Bools, group: Ints) -> Ints:
    """Fewest steps that a kept device of the group can do, for every device, `[n_devices]`; 0 if none is kept.

    >>> common_steps(np.array([3, 0, 5, 4]), np.array([True, False, True, True]), np.array([0, 0, 1, 1])).tolist()
    [3, 3, 4, 4]
    """
    least = np.full(int(group.max(initial=0)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, group[kept], can[kept])
    return np.where(np.bincount(group[kept], minlength=len(least)) > 0, least, 0)[group]


def aggregate(problem: Problem, params: Tensor, state: Any, played: Round) -> tuple[Tensor, Any]:
    """`w + (1/n) sum_u (w_u - w)`; the share of a lost update is missing. Reference: rawhfl, Eq. (15)"""
    asked = max(int(played.decision.selected.sum()), 1)
    return mean_update(params, np.full(len(played.heard()), 1 / asked), played), state
