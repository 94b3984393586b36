"""How a method draws its devices, as far as anybody can say without looking at what they hold.

Not a method itself: it has no `build`.
"""

from functools import partial
from typing import Any

import numpy as np

from ...coding import Sampling
from ...errors import BadInput
from ...types import Bools, Ints, Method, Problem
from . import defaults
from .schedulers import most_at_once, poisson_rate


def draws(method: Method, what: str, name: str) -> Any:
    """The settings of a method that draws its devices by a scheduler; raises BadInput if it has a rule of its own."""
    decide = method.decide
    if not isinstance(decide, partial) or decide.func is not defaults.decide:
        raise BadInput(
            f"{what} does not go with {name}, which chooses devices by a rule of its own, so that nobody can say how "
            "much a round tells of one: use a method that draws them, such as fedavg"
        )
    return decide.args[0]


def sampling(config: Any, problem: Problem, cell: Ints, available: Bools) -> Sampling:
    """How a round draws devices by `config.scheduler`.

    Args:
        config: of a method, with `scheduler` and `n_selected`.
        problem: how many can send at once.
        cell: `[n_devices]`, the base station of each.
        available: `[n_devices]`, who is there.
    """
    rule, n_cells = config.scheduler, problem.world.n_cells
    there = np.bincount(cell[available], minlength=n_cells)  # [n_cells]
    if rule == "poisson":
        if problem.world.settings.access == "block":
            raise BadInput(
                "scheduler = 'poisson' draws any number of devices and world.access = 'block' has room for so many: "
                "use random, or another access"
            )
        rates = poisson_rate(problem, cell, config.n_selected)[available]
        return Sampling(rule, float(rates.max(initial=0.0)), float(rates.sum()))
    most = most_at_once(problem, problem.world.n_devices if rule == "all" else config.n_selected)
    asked = np.minimum(there, most)
    rate = float((asked / np.maximum(there, 1)).max()) if rule == "random" else 1.0
    return Sampling(rule, rate, float(asked.sum()))
