"""Power-of-choice: of devices drawn by lot, those with the largest last known loss train.

Of the available devices of a cell, `n_candidates` are drawn without replacement, device `k` with a chance proportional
to the samples it holds; the `n_selected` of them with the largest loss train, and the server averages as FedAvg does. A
device that was never heard has an infinite loss.

What losses cost: this is the paper's rpow-d, which asks candidates for nothing. A device that trains computes the
loss of the model it gets on all its samples, a forward pass (`loss_cost`), and sends one number more. The paper's pow-d
asks all candidates for a fresh loss before each round; candidates that are not picked would spend energy and time that
no round charges, so it is left out.

Deviation: the paper's devices send the mean loss over their local steps; here it is that of the model they got.

Reference: Cho, Wang, Joshi, Towards Understanding Biased Client Selection in Federated Learning, 2022, section 3.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from torch import Tensor

from ..errors import BadInput
from ..options import option
from ..rng import stream
from ..types import Bools, Decision, Floats, Method, Observation, Problem, Round
from . import fedavg
from .parts.defaults import steps_of
from .parts.losses import LossConfig, heard_losses, with_loss
from .parts.resources import plan
from .parts.schedulers import pick


@dataclass(frozen=True)
class Config(LossConfig, fedavg.Config):
    """Settings of power-of-choice."""

    weights: str = option("equal", "weight of a device in the average", choices=("samples", "equal"))
    scheduler: str = option("largest-loss", "who trains", choices=("largest-loss",))
    n_selected: int = option(10, "devices picked per cell and round", least=1)
    n_candidates: int = option(20, "devices per cell and round that they are picked from, the paper's d", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_candidates < self.n_selected:
            raise BadInput(
                f"power_of_choice.n_candidates = {self.n_candidates} is below n_selected = {self.n_selected}: draw at "
                "least as many as are picked"
            )


class State(NamedTuple):
    """What the server knows."""

    loss: Floats  # [n_devices], the last of each device; inf if it was never heard


def build(config: Config) -> Method:
    return fedavg.build(config)._replace(
        init=init,
        decide=partial(decide, config),
        aggregate=partial(aggregate, config),
        sends="updates with a loss beside them",
    )


def init(problem: Problem, params: Tensor) -> State:
    return State(np.full(problem.world.n_devices, np.inf))


def decide(config: Config, problem: Problem, state: State, observation: Observation) -> Decision:
    """Select the candidates with the largest loss; among equal ones, those drawn first."""
    draw = lots(problem, observation)
    drawn = observation._replace(available=candidates(observation, draw, config.n_candidates))
    place = np.empty(len(draw))
    place[np.lexsort((draw, state.loss))] = np.arange(len(draw))
    selected = pick(problem, drawn, place, config.n_selected)
    steps = steps_of(config, problem, observation.store)
    longer, samples = with_loss(config, problem, observation.store)
    return plan(longer, observation, selected, steps, samples, config.blocks)


def lots(problem: Problem, observation: Observation) -> Floats:
    """Draws whose `d` largest are `d` devices without replacement, by the samples they hold: `log(u_k) / n_k`."""
    u = stream(problem.seed, observation.round, "power of choice").random(problem.world.n_devices)
    with np.errstate(divide="ignore"):
        return np.log(1 - u) / observation.store.size


def candidates(observation: Observation, draw: Floats, n: int) -> Bools:
    """The `n` available devices of every cell with the largest draws, `[n_devices]`."""
    cell, chosen = observation.topology.cell, np.zeros(len(draw), dtype=np.bool_)
    for number in np.unique(cell):
        here = np.flatnonzero(observation.available & (cell == number))
        chosen[here[np.argsort(-draw[here], kind="stable")[:n]]] = True
    return chosen


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """FedAvg's average; the losses of devices heard replace those known before."""
    loss = state.loss.copy()
    if len(device := played.heard()):
        loss[device] = heard_losses(problem, params, played)
    after, _ = fedavg.aggregate(config, problem, params, None, played)
    return after, State(loss)
