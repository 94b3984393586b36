"""Taking turns: FedAvg that asks the devices that wait longest, those with the strongest channels first among them.

With `a_k` the rounds since device `k` was asked, the highest `a_k + g_k / (2 max g)` are asked; `g` are channel gains.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from torch import Tensor

from fedcell.methods import fedavg
from fedcell.methods.parts.defaults import setting
from fedcell.methods.parts.resources import plan
from fedcell.methods.parts.schedulers import pick
from fedcell.options import option
from fedcell.types import Decision, Ints, Method, Observation, Problem, Round


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of FedAvg, and how many train."""

    n_asked: int = option(5, "devices per cell and round", least=1)


class State(NamedTuple):
    """What the server remembers between rounds."""

    waits: Ints  # [n_devices], rounds since each was asked


def build(config: Config) -> Method:
    return fedavg.build(config)._replace(
        init=init, decide=partial(decide, config), aggregate=partial(aggregate, config)
    )


def init(problem: Problem, params: Tensor) -> State:
    return State(np.zeros(problem.world.n_devices, dtype=np.int64))


def decide(config: Config, problem: Problem, state: State, observation: Observation) -> Decision:
    scores = state.waits + 0.5 * observation.gain / observation.gain.max()  # the channel decides among equals
    selected = pick(problem, observation, scores, config.n_asked)
    steps, batch_size = (int(setting(config, problem, name)) for name in ("steps", "batch_size"))
    return plan(problem, observation, selected, steps, batch_size)


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    params, _ = fedavg.aggregate(config, problem, params, None, played)
    return params, State(np.where(played.decision.selected, 0, state.waits + 1))
