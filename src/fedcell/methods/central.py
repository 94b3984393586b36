"""Central SGD, the genie: one server trains on the union of what all devices hold, at no radio cost.

An upper reference for every federated method; devices compute and send nothing.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from ..learn.work import Work
from ..options import option
from ..types import Decision, Method, Observation, Problem, Round, Start, Store
from .parts.defaults import LocalConfig, TrainingConfig, default, optimiser_of, rate, setting, steps_of
from .parts.resources import plan


@dataclass(frozen=True)
class Config(TrainingConfig):
    """Settings of central SGD."""

    batch_size: int | None = option(
        None, "samples per step; none: train.batch_size of every device together; 0: all of them", least=0
    )
    lr_cuts: tuple[int, ...] = option((), "rounds after which the rate is cut for good")
    lr_cut: float = option(0.3, "share of the rate that each cut takes away", least=0, most=0.999)


def build(config: Config) -> Method:
    return default(LocalConfig())._replace(
        decide=decide, aggregate=partial(aggregate, config), scope="server", sends="nothing"
    )


def decide(problem: Problem, state: Any, observation: Observation) -> Decision:
    """Select nobody: devices do not train."""
    return plan(problem, observation, np.zeros(problem.world.n_devices, dtype=bool), 1, 1.0)


def aggregate(config: Config, problem: Problem, params: Tensor, state: Any, played: Round) -> tuple[Tensor, Any]:
    """`steps` steps of SGD on the union of the stores."""
    held, round = played.observation.store, played.observation.round
    union = held.items[np.arange(held.items.shape[1]) < held.size[:, None]]
    batch_size = config.batch_size
    if batch_size is None:
        batch_size = problem.train.batch_size * problem.world.n_devices
    store, batch_size = Store(union[None], np.array([len(union)])), min(batch_size, len(union))
    work = Work(
        device=np.zeros(1, dtype=np.int64),
        store=store,
        steps=np.full(1, steps_of(replace(config, batch_size=batch_size), problem, store), dtype=np.int64),
        lr=rate(config, problem, round) * (1 - config.lr_cut) ** sum(round >= cut for cut in config.lr_cuts),
        batch_size=batch_size,
        round=round,
        momentum=setting(config, problem, "momentum"),
        optimiser=optimiser_of(config, problem),
        augment=problem.train.augment != "none",
    )
    moved = problem.learner.train(Start(params[None], np.zeros(1, dtype=np.int64)), work)
    return params + moved.delta[0], state
