"""What devices would predict now, each with the model that it has.

The model of a device is the one it would start training from: the global one, the edge model of its cell, or its own.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from .learn.prediction import probabilities
from .methods.parts.resources import plan
from .types import Floats, Method, Observation, Problem


def foretold_by(
    problem: Problem, method: Method, params: Tensor, state: Any, observation: Observation
) -> Callable[[Tensor], Floats]:
    """Return a function of one input per device that computes class probabilities, `[n_devices, n_classes]`.

    Args:
        problem: networks and data.
        method: as `lifted` gives it.
        params: the global model before the round.
        state: of the method.
        observation: of the round.
    """

    def ask(x: Tensor) -> Floats:
        if method.foretell:
            return method.foretell(problem, params, state, x)
        everyone = plan(problem, observation, np.ones(problem.world.n_devices, dtype=np.bool_), 1, 1.0)
        return probabilities(problem.learner, method.broadcast(problem, params, state, observation, everyone), x)

    return ask
