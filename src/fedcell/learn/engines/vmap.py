"""All clients of a chunk at once through `torch.func.vmap`: any module, meant for a GPU."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from ...types import Ints
from ..architecture import unroll
from ..work import Objective, cross_entropy
from .chunks import in_chunks
from .common import Batches, Job


def train(job: Job) -> None:
    """Fill `job.out` with what every row's training moved."""
    batches = Batches(job)
    module = job.architecture.replica(job.device)
    unroll(module)
    gradients = vmap(grad(_Loss(module, job.work.objective or cross_entropy, job.architecture.names)))
    order = np.argsort(-job.work.steps, kind="stable")
    in_chunks(job, order, lambda rows: _train_chunk(job, gradients, batches, rows))


class _Loss:
    """The objective as a function of a tuple of parameters."""

    def __init__(self, module: nn.Module, objective: Objective, names: tuple[str, ...]) -> None:
        self.wrapped = _WithObjective(module, objective)
        self.names = [f"module.{name}" for name in names]

    def __call__(self, parameters: tuple[Tensor, ...], x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        return functional_call(self.wrapped, dict(zip(self.names, parameters, strict=True)), (x, y, weight))


class _WithObjective(nn.Module):
    """Hands the objective a real module whose parameters `functional_call` has swapped."""

    def __init__(self, module: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.module, self._objective = module, objective

    def forward(self, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        return self._objective(self.module, x, y, weight)


def _train_chunk(job: Job, gradients: Any, batches: Batches, rows: Ints) -> None:
    work, steps = job.work, job.work.steps[rows]
    chosen = job.points[torch.from_numpy(job.of_row[rows]).to(job.device)]
    start = _split(job, chosen)
    weights = [part.clone() for part in start]
    velocity = [torch.zeros_like(part) for part in start] if work.momentum else []
    mask: list[Tensor] = []
    if work.mask is not None:
        entries = work.mask if work.mask.dim() == 1 else work.mask[torch.from_numpy(rows)]
        mask = _split(job, entries.to(chosen).expand_as(chosen))
    fixed = batches.gather(rows, 0) if batches.full else None
    for step in range(int(steps[0])):
        live = int(np.searchsorted(-steps, -step, side="left"))  # rows with more than `step` steps
        batch = [part[:live] for part in fixed] if fixed else batches.gather(rows[:live], step)
        now = [part[:live] for part in weights]
        change = list(gradients(tuple(now), *batch))
        if work.prox:
            change = [g + work.prox * (w - s[:live]) for g, w, s in zip(change, now, start, strict=True)]
        if mask:
            change = [g * m[:live] for g, m in zip(change, mask, strict=True)]
        if velocity:
            change = [v[:live].mul_(work.momentum).add_(g) for v, g in zip(velocity, change, strict=True)]
        torch._foreach_add_(now, change, alpha=-work.lr)
    moved = [(w - s).flatten(1) for w, s in zip(weights, start, strict=True)]
    job.out[torch.from_numpy(rows).to(job.device)] = torch.cat(moved, dim=1)


def _split(job: Job, rows: Tensor) -> list[Tensor]:
    """Each parameter as a contiguous `[n_rows, *shape]` tensor: vmap is slow over slices of one vector."""
    sizes = [int(np.prod(shape)) for shape in job.architecture.shapes]
    parts = torch.split(rows, sizes, dim=1)
    return [part.reshape(-1, *shape) for part, shape in zip(parts, job.architecture.shapes, strict=True)]
