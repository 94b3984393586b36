"""Dropout in C++: these kernels draw the same numbers as PyTorch, 624 at a time instead of one by one."""

from collections.abc import Callable
from functools import cache
from math import ceil
from typing import Any

import torch
from torch import Tensor

from ..fusion import users
from ..trace import Op, Ref, aten
from . import SEQUENCES, Native, floats, library
from .vectors import lie_alike

DRAWN = aten.bernoulli_.float
DIVIDED = {aten.div_.Scalar, aten.div_.Tensor}
STATE = 2 * 624 + 1  # numbers, as draws.h has it
HALF = 0.5  # the default chance of a draw, which a recorded kernel leaves out
TRIED = 1000


class DropoutStream:
    """A worker's random numbers: a generator for PyTorch's kernels, and a state for ours that draws the same."""

    def __init__(self) -> None:
        self.generator, self.state, self.drawn = torch.Generator(), torch.zeros(STATE, dtype=torch.int32), False

    def manual_seed(self, seed: int) -> None:
        self.generator.manual_seed(seed)
        if self.drawn:
            Native(SEQUENCES, "seeded", [seed & 0xFFFFFFFF], self.state)()

    def take_over(self, ops: list[Op]) -> list[Op]:
        """Let our kernels draw the random numbers of a list, if they can draw all: there is one stream."""
        random = [op for op in ops if op.random]
        self.drawn = bool(random) and all(_fits(op) for op in random) and agrees()
        return scaled(ops) if self.drawn else ops

    def calls(self, mask: Tensor, chance: float = HALF, divisor: float = 1.0) -> list[Any]:
        """Return the call that sets entries of a mask to `1 / divisor` with probability `chance`, else to 0."""
        numbers = [mask.numel(), ceil(chance * 2**53)]
        return [Native(SEQUENCES, "dropout", numbers, self.state, floats(1 / divisor), mask)]


def _fits(op: Op) -> bool:
    return op.func is DRAWN and not op.kwargs.get("generator") and lie_alike(op.args[0].blank())


def scaled(ops: list[Op]) -> list[Op]:
    """Let draws divide masks by the probability to stay, and drop the kernels that did so."""
    for op in [one for one in ops if one.func is DRAWN]:
        mask, chance = (*op.args, HALF)[:2]
        at = next(place for place, one in enumerate(ops) if one is op)
        later = [place for place in users(ops, mask.memory) if place > at]
        then = ops[later[0]] if later else op
        if then.func in DIVIDED and then.args[0] == mask and not isinstance(then.args[1], Ref):
            drawn = op._replace(args=(mask, chance, then.args[1]))
            ops = [*ops[:at], drawn, *(one for one in ops[at + 1 :] if one is not then)]
    return ops


@cache
def agrees() -> bool:
    """Whether our kernels draw as PyTorch does here: on some processors it uses the library of their maker."""
    if library(SEQUENCES) is None:
        return False
    stream, found, wanted = DropoutStream(), torch.zeros(TRIED), torch.zeros(TRIED)
    stream.drawn = True
    stream.manual_seed(2**40 + 7)
    for chance in (0.9, 0.3):
        wanted.bernoulli_(chance, generator=stream.generator)
        run: Callable[[], None] = stream.calls(found, chance)[0]
        run()
        if not torch.equal(found, wanted):
            return False
    return True
