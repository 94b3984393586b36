"""The update rule of local training: what every engine does with the gradients it found.

Weights, gradients and what acts on them are lists of tensors of equal length: one flat vector, the parameters of a
client, or those of many clients with an axis of rows in front.

One step needs no rule: a plain one (`Work.plain`), `w <- w - lr gradient`, which dense layers may take inside their
backward pass, `W -= lr (a @ b)`, so that the gradient of a wide layer is never written out.
"""

from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from ..optimiser import Adam, Optimiser
from ..work import Work

Parts = list[Tensor] | tuple[Tensor, ...]
Memory = tuple[Parts, ...]  # what a row carries from step to step; starts as zeros in every round
TINY = 1e-6  # added to a norm before clipping divides by it, as PyTorch does


class Rule(NamedTuple):
    """`g <- clip(gradient) + prox (w - start) + shift + weight_decay w`, `v <- momentum v + g`, `w <- w - lr v`.

    All of it on the entries that a mask leaves, which alone count for the norm that is clipped. With AdamW `g` has no
    decay, and `w <- w - lr (m / (sqrt(s) + eps) + weight_decay w)` of corrected averages `m` of `g` and `s` of `g^2`.
    """

    momentum: float = 0.0
    prox: float = 0.0
    optimiser: Optimiser = Optimiser()

    @staticmethod
    def of(work: Work) -> "Rule":
        """The rule of some work."""
        return Rule(0.0 if work.optimiser.adam else work.momentum, work.prox, work.optimiser)

    def memory(self, weights: Parts) -> Memory:
        """The memory before the first step: nothing, a velocity, or two averages."""
        n = 2 if self.optimiser.adam else int(self.momentum > 0)
        return tuple([torch.zeros_like(part) for part in weights] for _ in range(n))


class Terms(NamedTuple):
    """What acts on the gradients of a row in every step; each is like the weights, or empty."""

    start: Parts = ()  # where prox pulls to
    shift: Parts = ()
    mask: Parts = ()


def direction(
    rule: Rule, gradients: Parts, now: Parts, terms: Terms, memory: Memory, step: int | Tensor, by_row: bool
) -> tuple[Parts, Memory]:
    """What the weights `now` move against in a step, and the memory after it. Changes nothing in place.

    Args:
        rule: of the work.
        gradients: of the loss.
        now: the weights.
        terms: what acts on them.
        memory: before the step.
        step: its number, from 0; as a tensor of one value if kernels are recorded.
        by_row: the first axis of every tensor counts clients.
    """
    _, _, (decay, most, adam) = rule
    if most:
        gradients = clipped(torch._foreach_mul(gradients, terms.mask) if terms.mask else gradients, most, by_row)
    if rule.prox:
        gradients = torch._foreach_add(gradients, torch._foreach_sub(now, terms.start), alpha=rule.prox)
    if terms.shift:
        gradients = torch._foreach_add(gradients, terms.shift)
    if decay and not adam:
        gradients = torch._foreach_add(gradients, now, alpha=decay)
    if terms.mask:
        gradients = torch._foreach_mul(gradients, terms.mask)
    if adam:
        against, memory = _adam(adam, gradients, memory, step)
        decayed = torch._foreach_mul(now, terms.mask) if terms.mask else now
        return torch._foreach_add(against, decayed, alpha=decay) if decay else against, memory
    if not memory:
        return gradients, memory
    velocity = torch._foreach_add(gradients, memory[0], alpha=rule.momentum)
    return velocity, (velocity,)


def clipped(gradients: Parts, most: float, by_row: bool) -> Parts:
    """Gradients times `min(1, most / norm)`, by the norm of each row over all its parts."""
    if not by_row:
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        return torch._foreach_mul(gradients, (most / (norm + TINY)).clamp(max=1.0))
    norms = torch.stack([torch.linalg.vector_norm(part.flatten(1), dim=1) for part in gradients])
    factor = (most / (torch.linalg.vector_norm(norms, dim=0) + TINY)).clamp(max=1.0)
    return _times(gradients, factor)


def _adam(adam: Adam, gradients: Parts, memory: Memory, step: int | Tensor) -> tuple[Parts, Memory]:
    """`m / (sqrt(s) + eps)` of averages that are corrected for their start at zero, and the averages."""
    mean = torch._foreach_lerp(memory[0], gradients, 1 - adam.beta1)
    square = torch._foreach_mul(memory[1], adam.beta2)
    torch._foreach_addcmul_(square, gradients, gradients, value=1 - adam.beta2)
    first, second = _correction(adam.beta1, step, 1.0), _correction(adam.beta2, step, 0.5)
    return [m / first / (s.sqrt() / second + adam.eps) for m, s in zip(mean, square, strict=True)], (mean, square)


def _correction(beta: float, step: int | Tensor, power: float) -> float | Tensor:
    """`(1 - beta^(step + 1))^power`, in double precision until it is known."""
    if isinstance(step, Tensor):
        return ((1 - beta ** (step.double() + 1)) ** power).float()
    left = 1 - beta ** (step + 1)
    return left if power == 1.0 else sqrt(left)


def move(now: Parts, against: Parts, rate: float | Tensor) -> None:
    """`w -= rate * against` in place; a tensor of rates has one for every row."""
    if isinstance(rate, Tensor):
        for part, slope in zip(now, against, strict=True):
            part.addcmul_(slope, _of_rows(rate, slope), value=-1)
    else:
        torch._foreach_add_(now, against, alpha=-rate)


def _times(parts: Parts, by_row: Tensor) -> list[Tensor]:
    return [part * _of_rows(by_row, part) for part in parts]


def _of_rows(values: Tensor, part: Tensor) -> Tensor:
    """A value for every row, in as many axes as the part has."""
    return values.view(-1, *[1] * (part.dim() - 1))
