"""All clients of a chunk at once, for any module, meant for a GPU.

`torch.func.vmap` runs one kernel per layer for all clients. If the convolutions of a single client can fill the GPU in
float32, every client has kernels of its own instead, on parallel streams: the fast float32 convolutions cannot be
batched over models.
"""

from contextlib import nullcontext
from functools import lru_cache, partial
from math import prod
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from ...architecture import Architecture
from ...norms import counting, padded_norms
from ...work import Objective, cross_entropy
from ..common import Job
from ..objectives import Held, signature
from ..update import Parts
from .batchable import rewrite
from .chunks import in_chunks
from .conv_relu_pool import fuse
from .cuda_graphs import Kernel, train_rows
from .draws import batches_of
from .joining import ChannelsLast
from .norms import fuse_norms
from .pools import fuse_pools

BUSY = 1.5e9  # operations of a client's forward pass; 1.9 times as fast by itself at 1.8e9, 1.7 times at 20e9 (H200)
TOGETHER = 128  # clients of one graph that have kernels of their own
STREAMS = 8


def train(job: Job) -> None:
    """Fill `job.out` with the update of every row."""
    batches = batches_of(job)
    order = np.argsort(-job.work.steps, kind="stable")
    alone = _busy_alone(job)
    for rows in np.array_split(order, -(-len(order) // TOGETHER)) if alone else [order]:
        in_chunks(job, rows, lambda rows: train_rows(job, lambda: _kernel(job, alone), batches, rows))


def _busy_alone(job: Job) -> bool:
    """Whether each client should run its own kernels: its convolutions alone keep a GPU busy, in float32.

    TensorFloat-32 products batch well instead. Kernels of its own pay only in recorded graphs, which hardly serve twice
    if clients have different steps, and never if the objective may change every round.
    """
    work, convolutions = job.work, cast(Any, torch.backends.cudnn)
    if convolutions.allow_tf32:
        return False
    if signature(work.objective) is None or work.steps.min() < work.steps.max():
        return False
    if not any(type(part) is nn.Conv2d for part in job.architecture.module.modules()):
        return False
    batch = work.batch_size or int(work.store.size.max(initial=0))
    return batch * _operations(job.architecture, job.samples.shape, job.samples.dtype) >= BUSY


@lru_cache(maxsize=8)
def _operations(architecture: Architecture, shape: tuple[int, ...], dtype: torch.dtype) -> float:
    return architecture.flops_per_sample(torch.zeros(shape, dtype=dtype))


def _kernel(job: Job, alone: bool) -> Kernel:
    module, objective = job.architecture.replica(job.device), job.work.objective
    held = Held(objective) if isinstance(objective, partial) and signature(objective) is not None else None
    split = partial(_split, job.architecture, not alone)
    padded = job.work.batch_size == 0
    loss = _Loss(module, held or objective or cross_entropy, job.architecture, padded)
    if alone:
        return Kernel(split, _Beside(loss, job.device), grain=1, held=held)
    if objective is None:  # an objective could see the values between fused layers
        fuse(module, job.device)
    fuse_norms(module, job.device)
    fuse_pools(module, job.device)
    rewrite(module)
    return Kernel(split, _Together(loss), held=held)


class _Together:
    """Gradients of all clients by the same kernels."""

    def __init__(self, loss: "_Loss") -> None:
        self.gradients = vmap(grad(loss, has_aux=True))

    def __call__(self, parts: list[Tensor], x: Tensor, y: Tensor, weight: Tensor, tail: list[Tensor]) -> Parts:
        with ChannelsLast():
            found, after = self.gradients(tuple(parts), x, y, weight, tuple(tail))
        for room, value in zip(tail, after, strict=True):
            room.copy_(value)
        gradients: Parts = found
        return gradients


class _Beside:
    """Gradients of each client by kernels of its own; their graph has a branch per stream."""

    def __init__(self, loss: "_Loss", device: torch.device) -> None:
        self.loss = loss
        self.streams = [torch.cuda.Stream(device) for _ in range(STREAMS if device.type == "cuda" else 0)]  # type: ignore[no-untyped-call]

    def __call__(self, parts: list[Tensor], x: Tensor, y: Tensor, weight: Tensor, tail: list[Tensor]) -> list[Tensor]:
        found = [torch.empty_like(part) for part in parts]
        for stream in self.streams:
            stream.wait_stream(torch.cuda.current_stream())
        for row in range(len(x)):
            with torch.cuda.stream(self.streams[row % STREAMS]) if self.streams else nullcontext():
                values = tuple(part[row].detach().requires_grad_() for part in parts)
                own = tuple(part[row] for part in tail)
                loss, after = self.loss(values, x[row], y[row], weight[row], own)
                for room, gradient in zip(
                    found, torch.autograd.grad(loss, values, materialize_grads=True), strict=True
                ):
                    room[row] = gradient
                for room, value in zip(own, after, strict=True):
                    if value.data_ptr() != room.data_ptr():  # new, not moved in place
                        room.copy_(value)
        for stream in self.streams:
            torch.cuda.current_stream().wait_stream(stream)
        return found


class _Loss:
    """The objective as a function of tuples of parameters and running statistics; also returns the new statistics.

    `padded` says whether batches may hold padding.
    """

    def __init__(self, module: nn.Module, objective: Objective, layout: Architecture, padded: bool) -> None:
        self.wrapped = _WithObjective(module, objective, layout.tail.names, padded)
        self.names = [f"module.{name}" for name in (*layout.names, *layout.tail.names)]

    def __call__(
        self, parameters: tuple[Tensor, ...], x: Tensor, y: Tensor, weight: Tensor, tail: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        values = dict(zip(self.names, (*parameters, *tail), strict=True))
        found: tuple[Tensor, tuple[Tensor, ...]] = functional_call(self.wrapped, values, (x, y, weight))
        return found


class _WithObjective(nn.Module):
    """Calls the objective with a real module whose parameters and buffers `functional_call` has swapped.

    Batch norms leave padding out of their statistics.
    """

    def __init__(self, module: nn.Module, objective: Objective, moved: tuple[str, ...], padded: bool) -> None:
        super().__init__()
        self._moved = [(module.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in moved]
        self.module, self._objective = module, objective
        self._norms = padded_norms(module) if padded else []

    def forward(self, x: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        with counting(self._norms, weight):
            loss = self._objective(self.module, x, y, weight)
        return loss, tuple(getattr(owner, name).detach() for owner, name in self._moved)


def _split(architecture: Architecture, last: bool, rows: Tensor) -> list[Tensor]:
    """Each parameter as a `[n_rows, *shape]` tensor by itself: vmap is slow over slices of one vector.

    Filters lie with channels `last` if asked, so that no step has to turn them.
    """
    parts = torch.split(rows, [prod(shape) for shape in architecture.shapes], dim=1)
    found = [part.reshape(-1, *shape) for part, shape in zip(parts, architecture.shapes, strict=True)]
    return [part.movedim(2, -1).contiguous().movedim(-1, 2) if last and part.dim() == 5 else part for part in found]
