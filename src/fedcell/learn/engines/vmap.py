"""All clients of a chunk at once through `torch.func.vmap`: any module, meant for a GPU."""

from functools import partial
from math import prod

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from ..architecture import Architecture
from ..work import Objective, cross_entropy
from .batchable import rewrite
from .chunks import in_chunks
from .cohort import Kernel, train_rows
from .common import Batches, Job


def train(job: Job) -> None:
    """Fill `job.out` with what every row's training moved."""
    batches = Batches(job)
    order = np.argsort(-job.work.steps, kind="stable")
    in_chunks(job, order, lambda rows: train_rows(job, lambda: _kernel(job), batches, rows))


def _kernel(job: Job) -> Kernel:
    module = job.architecture.replica(job.device)
    rewrite(module)
    gradients = vmap(grad(_Loss(module, job.work.objective or cross_entropy, job.architecture.names)))
    return Kernel(partial(_split, job.architecture), lambda parts, x, y, weight: gradients(tuple(parts), x, y, weight))


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


def _split(architecture: Architecture, rows: Tensor) -> list[Tensor]:
    """Each parameter as a contiguous `[n_rows, *shape]` tensor: vmap is slow over slices of one vector."""
    parts = torch.split(rows, [prod(shape) for shape in architecture.shapes], dim=1)
    return [part.reshape(-1, *shape) for part, shape in zip(parts, architecture.shapes, strict=True)]
