"""The update rule of local training, which every engine applies to its gradients.

Weights, gradients and the terms that act on them are lists of tensors of equal length: one flat vector, the parameters
of a client, or those of many clients with an axis of rows in front.

A plain step (`Work.plain`), `w <- w - lr gradient`, needs no rule: dense layers may apply it inside their backward
pass, `W -= lr (a @ b)`, so that the gradient of a wide layer is never written to memory.
"""

from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from ..optimiser import Adam, Optimiser
from ..work import Work

Parts = list[Tensor] | tuple[Tensor, ...]
Memory = tuple[Parts, ...]  # the state of a row between steps (velocity or averages); zeros at the start of a round
TINY = 1e-6  # added to a norm before clipping divides by it, as PyTorch does


class Rule(NamedTuple):
    """`g <- clip(gradient) + prox (w - start) + shift + weight_decay w`, `v <- momentum v + g`, `w <- w - lr v`.

    All of it applies only to the entries that a mask leaves; only these count in the norm for clipping. With AdamW `g`
    has no decay, and `w <- w - lr (m / (sqrt(s) + eps) + weight_decay w)` of corrected averages `m` of `g` and `s` of
    `g^2`.
    """

    momentum: float = 0.0
    prox: float = 0.0
    optimiser: Optimiser = Optimiser()

    @staticmethod
    def of(work: Work) -> "Rule":
        """The update rule that the settings of a `Work` describe; AdamW replaces momentum."""
        return Rule(0.0 if work.optimiser.adam else work.momentum, work.prox, work.optimiser)

    def memory(self, weights: Parts) -> Memory:
        """The memory before the first step, of zeros: nothing, a velocity, or the two averages of AdamW."""
        n = 2 if self.optimiser.adam else int(self.momentum > 0)
        return tuple([torch.zeros_like(part) for part in weights] for _ in range(n))


class Terms(NamedTuple):
    """Terms that act on the gradients in every step; each has the shapes of the weights, or is empty."""

    start: Parts = ()  # the weights that `prox` pulls to
    shift: Parts = ()
    mask: Parts = ()


def direction(
    rule: Rule, gradients: Parts, now: Parts, terms: Terms, memory: Memory, step: int | Tensor, by_row: bool
) -> tuple[Parts, Memory]:
    """The direction that a step subtracts from the weights `now`, and the memory after it. Changes nothing in place.

    Args:
        rule: the update rule.
        gradients: gradients of the loss.
        now: the weights before the step.
        terms: prox, shift and mask, where used.
        memory: the memory before the step.
        step: number of the step, from 0; a tensor of one value if kernels are recorded.
        by_row: whether the first axis of every tensor counts clients.
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
    """`m / (sqrt(s) + eps)` of the averages, corrected for their start at zero; and the averages themselves."""
    mean = torch._foreach_lerp(memory[0], gradients, 1 - adam.beta1)
    square = torch._foreach_mul(memory[1], adam.beta2)
    torch._foreach_addcmul_(square, gradients, gradients, value=1 - adam.beta2)
    first, second = _correction(adam.beta1, step, 1.0), _correction(adam.beta2, step, 0.5)
    return [m / first / (s.sqrt() / second + adam.eps) for m, s in zip(mean, square, strict=True)], (mean, square)


def _correction(beta: float, step: int | Tensor, power: float) -> float | Tensor:
    """`(1 - beta^(step + 1))^power`, computed in double precision."""
    if isinstance(step, Tensor):
        return ((1 - beta ** (step.double() + 1)) ** power).float()
    left = 1 - beta ** (step + 1)
    return left if power == 1.0 else sqrt(left)


def move(now: Parts, against: Parts, rate: float | Tensor) -> None:
    """`w -= rate * against` in place; a tensor of rates holds one for every row."""
    if isinstance(rate, Tensor):
        for part, slope in zip(now, against, strict=True):
            part.addcmul_(slope, _of_rows(rate, slope), value=-1)
    else:
        torch._foreach_add_(now, against, alpha=-rate)


def _times(parts: Parts, by_row: Tensor) -> list[Tensor]:
    return [part * _of_rows(by_row, part) for part in parts]


def _of_rows(values: Tensor, part: Tensor) -> Tensor:
    """Reshape one value per row so that it broadcasts over the axes of the part."""
    return values.view(-1, *[1] * (part.dim() - 1))
