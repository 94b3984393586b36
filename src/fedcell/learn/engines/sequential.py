"""One client after another in one single-threaded worker per core: the fast way on a CPU.

Every worker owns a copy of the module whose parameters are views into the client's row of the
result, so a step is one `autograd.grad` and one fused update, with no copies. Convolution weights
lie channels-last inside the row while it trains and are put back into canonical order at the end.
"""

from collections.abc import Sequence
from itertools import count
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...rng import stream
from ..architecture import Architecture, trainable
from ..work import Work, cross_entropy
from .common import Batches, Job
from .fused import Anchor, fuse
from .pool import cores, for_each


def train(job: Job, workers: int = 0) -> None:
    """Fill `job.out` with what every row's training moved; the result does not depend on `workers`."""
    n_rows = len(job.work.steps)
    wanted = 1 if job.architecture.stochastic else workers or cores()
    layout = _Layout(job.architecture)
    batches = Batches(job)
    points = layout.pack(job.points.clone())
    heaviest_first = np.argsort(-job.work.steps, kind="stable")
    ticket = count()  # next() is atomic, so idle workers just take the next client

    def work_through(_: int) -> None:
        client = _Client(job, layout)
        while (turn := next(ticket)) < n_rows:
            row = int(heaviest_first[turn])
            client.train(row, points[job.of_row[row]], batches)

    with torch.random.fork_rng(devices=[], enabled=job.architecture.stochastic):
        if job.device.type == "cpu" and n_rows > 1:
            for_each(work_through, range(min(wanted, n_rows)), wanted)
        else:  # a GPU, or a single client that may as well have every core
            work_through(0)
    layout.unpack(job.out)


class _Layout:
    """Moves 4-D weights between canonical order and channels-last order inside flat rows."""

    def __init__(self, architecture: Architecture) -> None:
        self.architecture = architecture
        self._segments = [
            (start, shape)
            for start, shape in zip(architecture.offsets, architecture.shapes, strict=True)
            if len(shape) == 4 and shape[1] > 1 and prod(shape[2:]) > 1
        ]

    def pack(self, rows: Tensor) -> Tensor:
        """Canonical to channels-last, in place."""
        for start, (out, channels, height, width) in self._segments:
            part = rows[:, start : start + out * channels * height * width]
            part.copy_(part.reshape(-1, out, channels, height, width).permute(0, 1, 3, 4, 2).reshape(part.shape))
        return rows

    def unpack(self, rows: Tensor) -> None:
        """Channels-last to canonical, in place, row by row to stay small."""
        for start, (out, channels, height, width) in self._segments:
            for part in rows[:, start : start + out * channels * height * width]:
                part.copy_(part.reshape(out, height, width, channels).permute(0, 3, 1, 2).reshape(-1))

    def views(self, row: Tensor) -> list[Tensor]:
        """The parameters as views into a packed row."""
        packed = {start for start, _ in self._segments}
        views = self.architecture.views(row)
        for position, (start, view) in enumerate(zip(self.architecture.offsets, views, strict=True)):
            if start in packed:
                out, channels, height, width = view.shape
                views[position] = view.view(out, height, width, channels).permute(0, 3, 1, 2)
        return views


class _Client:
    """A worker's module and the way it takes a step."""

    def __init__(self, job: Job, layout: _Layout) -> None:
        self.job, self.layout = job, layout
        self.module = job.architecture.replica(job.device)
        for part in self.module.modules():
            if isinstance(part, nn.Conv2d):  # one input channel leaves the layout open, and pooling needs it last
                part.register_forward_hook(_channels_last)
        self.parameters = trainable(self.module)
        self.anchor = Anchor(job.work.lr)
        self.fused = fuse(self.module, self.anchor) if job.work.plain else set()
        self.objective = job.work.objective or cross_entropy

    def train(self, row: int, start: Tensor, batches: Batches) -> None:
        job, work = self.job, self.job.work
        out = job.out[row]
        out.copy_(start)
        views = self.layout.views(out)
        for parameter, view in zip(self.parameters, views, strict=True):
            parameter.data = view
        step = _Step(work, row, views, self.layout, start)
        n_steps, size = int(work.steps[row]), int(batches.size[row])
        index = batches.of_row(row, n_steps)
        batch = batches.take(index[:size])
        if job.architecture.stochastic:
            torch.manual_seed(int(stream(job.seed, work.round, f"dropout {work.device[row]}").integers(2**63)))
        for number in range(n_steps):
            if number and not batches.full:
                batch = batches.take(index[number * size : (number + 1) * size])
            step.apply(self._gradients(self.objective(self.module, *batch, None)))
        out.sub_(start)

    def _gradients(self, loss: Tensor) -> Sequence[Tensor | None]:
        if not self.fused:
            return torch.autograd.grad(loss, self.parameters)
        rest = [parameter for parameter in self.parameters if id(parameter) not in self.fused]
        got = iter(torch.autograd.grad(loss, [*rest, self.anchor.tensor], allow_unused=True))
        return [None if id(parameter) in self.fused else next(got) for parameter in self.parameters]


class _Step:
    """`v = momentum * v + g + prox * (w - start)`, `w -= lr * v` on the entries the mask leaves."""

    def __init__(self, work: Work, row: int, views: list[Tensor], layout: _Layout, start: Tensor) -> None:
        self.work, self.views = work, views
        self.start = layout.views(start) if work.prox else []
        self.velocity: list[Tensor] = []
        self.mask: list[Tensor] = []
        if work.mask is not None:
            chosen = work.mask if work.mask.dim() == 1 else work.mask[row]
            self.mask = layout.views(layout.pack(chosen.to(start)[None].clone())[0])

    def apply(self, gradients: Sequence[Tensor | None]) -> None:
        work = self.work
        views = [view for view, gradient in zip(self.views, gradients, strict=True) if gradient is not None]
        change = [gradient for gradient in gradients if gradient is not None]
        if not change:
            return
        if work.prox:
            change = list(torch._foreach_add(change, torch._foreach_sub(views, self.start), alpha=work.prox))
        if self.mask:
            change = list(torch._foreach_mul(change, self.mask))
        if self.velocity:
            change = list(torch._foreach_add(change, self.velocity, alpha=work.momentum))
        if work.momentum:
            self.velocity = change
        torch._foreach_add_(views, change, alpha=-work.lr)


def _channels_last(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    return output.contiguous(memory_format=torch.channels_last)
