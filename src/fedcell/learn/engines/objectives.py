"""Objectives that come with other tensors in every round, held so that a recorded step sees the new values."""

from collections.abc import Hashable
from functools import partial

from torch import Tensor, nn

from ..work import Objective


def signature(objective: Objective | None) -> Hashable | None:
    """What must be equal for a recorded step to serve another objective, too; None if that cannot be known.

    It is known of a `partial` of a function with positional arguments: of its tensors the shapes must be equal, of
    anything else the values.
    """
    if objective is None:
        return ()
    if not isinstance(objective, partial) or objective.keywords:
        return None
    given = [(*value.shape, value.dtype) if isinstance(value, Tensor) else value for value in objective.args]
    return (objective.func, *given) if all(isinstance(value, Hashable) for value in given) else None


class Held:
    """An objective with tensors of its own."""

    def __init__(self, objective: partial[Tensor]) -> None:
        self.func = objective.func
        self.given = [value.clone() if isinstance(value, Tensor) else value for value in objective.args]

    def take(self, objective: partial[Tensor]) -> None:
        """Take over the values of an objective with the same signature."""
        for room, value in zip(self.given, objective.args, strict=True):
            if isinstance(room, Tensor):
                room.copy_(value)

    def __call__(self, module: nn.Module, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        return self.func(*self.given, module, x, y, weight)
