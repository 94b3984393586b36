"""Oort-like selection: devices whose samples still have large losses and that are fast enough; some are tried anew.

With `B_k` the samples of device `k`, `l` their losses at the model it got last, `L_k` the round in which it was heard
last, `R` the present one (both from 1), `t_k` its expected time and `T` a time that suits, the utility of a device is

    U_k = (|B_k| sqrt(mean of l^2) + sqrt(0.1 log R / L_k)) * (T / t_k)^penalty if t_k > T, without the last factor else

Of the `n_selected` devices of a cell, a share that falls from `explore` by `explore_decay` every round to
`explore_least` are the fastest of those never heard; the others are those of the largest utility. The server averages
as FedAvg does.

`T` is the time within which a share of the available devices end. The share begins with `pace`. Its pacer looks every
`pace_window` rounds at what the devices heard were worth: if it was less in these rounds than in as many before them,
fast devices have given what they have, and the share grows by `pace_step`, so that slower ones lose less.

What losses cost: a device that trains computes them on all its samples, a forward pass (`loss_cost`), and sends one
number more.

Deviation: Oort draws at random among utilities near the best, has a pacer that moves `T` itself, and measures `t_k` in
the past; here the best are picked, the pacer moves the share behind `T`, since what a second is worth differs from
world to world, and `t_k` is foreseen from this round's channels.

Reference: Lai, Zhu, Madhyastha, Chowdhury, Oort: Efficient Federated Learning via Guided Participant Selection, 2021.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from torch import Tensor

from ..options import option
from ..types import Bools, Decision, Floats, Ints, Method, Observation, Problem, Round
from . import fedavg
from .parts.defaults import steps_of
from .parts.losses import LossConfig, heard_losses, with_loss
from .parts.resources import Wanted, plan
from .parts.schedulers import fastest, most_at_once


@dataclass(frozen=True)
class Config(LossConfig, fedavg.Config):
    """Settings of Oort-like selection."""

    weights: str = option("samples", "weight of a device in the average", choices=("samples", "equal"))
    scheduler: str = option("utility", "who trains", choices=("utility",))
    n_selected: int = option(10, "devices picked per cell and round", least=1)
    penalty: float = option(2.0, "how much slow devices lose; 0: nothing", least=0)
    pace: float = option(0.5, "share of the available devices that are fast enough, at first", least=0, most=1)
    pace_step: float = option(
        0.05, "what the share grows by when rounds are worth less than before; 0: it stays", least=0, most=1, before=0.0
    )
    pace_window: int = option(20, "rounds that the pacer compares", least=1, needs="pace_step!=0")
    explore: float = option(0.9, "share of devices never heard among those picked in the first round", least=0, most=1)
    explore_decay: float = option(0.98, "factor of that share every round", above=0, most=1)
    explore_least: float = option(0.2, "least share, as long as there are devices never heard", least=0, most=1)


class State(NamedTuple):
    """What the server knows."""

    worth: Floats  # [n_devices], |B_k| sqrt(mean of l^2)
    last: Ints  # [n_devices], round in which each was heard last, from 1; 0: never
    grown: float = 0.0  # of the share of devices that are fast enough
    gained: tuple[float, ...] = ()  # what those heard were worth, of the last rounds


def build(config: Config) -> Method:
    return fedavg.build(config)._replace(
        init=init,
        decide=partial(decide, config),
        aggregate=partial(aggregate, config),
        sends="updates with a loss beside them",
    )


def init(problem: Problem, params: Tensor) -> State:
    n = problem.world.n_devices
    return State(np.zeros(n), np.zeros(n, dtype=np.int64))


def decide(config: Config, problem: Problem, state: State, observation: Observation) -> Decision:
    steps = steps_of(config, problem, observation.store)
    longer, samples = with_loss(config, problem, observation.store)
    seconds = -fastest(longer, observation, Wanted(config.n_selected, steps, samples))
    selected = choose(config, problem, state, observation, seconds)
    return plan(longer, observation, selected, steps, samples, config.blocks)


def utility(config: Config, state: State, observation: Observation, seconds: Floats) -> Floats:
    """`U_k` of devices that were heard, `[n_devices]`; 0 of others."""
    there = np.sort(seconds[observation.available])
    if not len(there):
        return np.zeros(len(seconds))
    suits = there[int(min(config.pace + state.grown, 1.0) * (len(there) - 1))]
    slow = seconds > suits  # such a time is not 0
    factor = np.divide(suits, seconds, out=np.ones_like(seconds), where=slow) ** config.penalty
    overlooked = np.sqrt(0.1 * np.log(observation.round + 1) / np.maximum(state.last, 1))
    return np.where(state.last > 0, (state.worth + overlooked) * factor, 0.0)


def choose(config: Config, problem: Problem, state: State, observation: Observation, seconds: Floats) -> Bools:
    """The best of those heard before and the fastest of the others, `[n_devices]`, cell by cell."""
    worth, chosen = utility(config, state, observation, seconds), np.zeros(len(seconds), dtype=np.bool_)
    share = max(config.explore * config.explore_decay**observation.round, config.explore_least)
    most = most_at_once(problem, config.n_selected)
    for cell in range(problem.world.n_cells):
        here = np.flatnonzero(observation.available & (observation.topology.cell == cell))
        old, new = here[state.last[here] > 0], here[state.last[here] == 0]
        n_old = min(most - min(round(share * most), len(new)), len(old))
        chosen[old[np.argsort(-worth[old], kind="stable")[:n_old]]] = True
        chosen[new[np.argsort(seconds[new], kind="stable")[: most - n_old]]] = True
    return chosen


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """FedAvg's average; the server notes what the devices heard are worth now."""
    worth, last, device = state.worth.copy(), state.last.copy(), played.heard()
    if len(device):
        size = played.observation.store.size[device]
        worth[device] = size * np.sqrt(heard_losses(problem, params, played, power=2.0))
        last[device] = played.observation.round + 1
    after, _ = fedavg.aggregate(config, problem, params, None, played)
    grown, gained = paced(config, state, float(worth[device].sum()))
    return after, State(worth, last, grown, gained)


def paced(config: Config, state: State, gain: float) -> tuple[float, tuple[float, ...]]:
    """Run the pacer after a round: (what the share has grown by so far, what the rounds still compared were worth)."""
    window, gained = config.pace_window, (*state.gained, gain)
    if len(gained) < 2 * window:
        return state.grown, gained
    stalls = sum(gained[window:]) < sum(gained[:window])
    return state.grown + config.pace_step * stalls, gained[window:]
