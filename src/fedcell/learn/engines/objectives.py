"""Objectives whose tensors change every round, kept in fixed memory so that recorded graphs see the new values."""

from collections.abc import Hashable
from functools import partial

from torch import Tensor, nn

from ..work import Objective


def signature(objective: Objective | None) -> Hashable | None:
    """A key that is equal for objectives that one recorded step can serve; None if that cannot be known.

    The key is known for a `partial` of a function with positional arguments. It holds the shapes and types of tensors,
    and the values of other arguments.
    """
    if objective is None:
        return ()
    if not isinstance(objective, partial) or objective.keywords:
        return None
    given = [(*value.shape, value.dtype) if isinstance(value, Tensor) else value for value in objective.args]
    found = objective.func, *given
    try:
        hash(found)
    except TypeError:  # it has a list in it, say, perhaps inside a tuple
        return None
    return found


class Held:
    """An objective with private copies of its tensors, whose values can be replaced."""

    def __init__(self, objective: partial[Tensor]) -> None:
        self.func = objective.func
        self.given = [value.clone() if isinstance(value, Tensor) else value for value in objective.args]

    def take(self, objective: partial[Tensor]) -> None:
        """Copy the tensor values of an objective with the same signature."""
        for room, value in zip(self.given, objective.args, strict=True):
            if isinstance(room, Tensor):
                room.copy_(value)

    def __call__(self, module: nn.Module, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        return self.func(*self.given, module, x, y, weight)
