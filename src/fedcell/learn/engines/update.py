"""The update rule of local training: what every engine does with the gradients it found.

Weights, gradients and what acts on them are lists of tensors of equal length: one flat vector, the parameters of a
client, or those of many clients with an axis of rows in front.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ..work import Work

Parts = list[Tensor] | tuple[Tensor, ...]
Memory = tuple[Parts, ...]  # what a row carries from step to step; starts as zeros in every round


class Rule(NamedTuple):
    """`v <- momentum v + (gradient + prox (w - start) + shift) mask`, then `w <- w - lr v`."""

    momentum: float = 0.0
    prox: float = 0.0

    @staticmethod
    def of(work: Work) -> "Rule":
        """The rule of some work."""
        return Rule(work.momentum, work.prox)

    @property
    def n_memory(self) -> int:
        """Vectors like the weights that a row carries from step to step."""
        return int(self.momentum > 0)

    def memory(self, weights: Parts) -> Memory:
        """The memory before the first step."""
        return tuple([torch.zeros_like(part) for part in weights] for _ in range(self.n_memory))


class Terms(NamedTuple):
    """What acts on the gradients of a row in every step; each is like the weights, or empty."""

    start: Parts = ()  # where prox pulls to
    shift: Parts = ()
    mask: Parts = ()


def direction(rule: Rule, gradients: Parts, now: Parts, terms: Terms, memory: Memory) -> tuple[Parts, Memory]:
    """What the weights `now` move against in a step, and the memory after it. Changes nothing in place."""
    if rule.prox:
        gradients = torch._foreach_add(gradients, torch._foreach_sub(now, terms.start), alpha=rule.prox)
    if terms.shift:
        gradients = torch._foreach_add(gradients, terms.shift)
    if terms.mask:
        gradients = torch._foreach_mul(gradients, terms.mask)
    if not memory:
        return gradients, memory
    velocity = torch._foreach_add(gradients, memory[0], alpha=rule.momentum)
    return velocity, (velocity,)


def move(now: Parts, against: Parts, rate: float | Tensor) -> None:
    """`w -= rate * against` in place; a tensor of rates has one for every row."""
    if isinstance(rate, Tensor):
        torch._foreach_sub_(now, [part * rate.view(-1, *[1] * (part.dim() - 1)) for part in against])
    else:
        torch._foreach_add_(now, against, alpha=-rate)
