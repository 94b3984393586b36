"""Train any module by autograd: the way if no quicker one works, and the source of traces.

A worker owns a copy of the module whose parameters are views into the client's row of the result, so a step is one
`autograd.grad` and one fused update, with no copies.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ... import streams
from ...architecture import trainable
from ...work import cross_entropy
from ..common import Batches, Job, draw_seed, draws
from .series import put_ways
from .steps import RowLayout, Step


class AutogradClient:
    """A worker's copy of any module and the way it takes a step."""

    def __init__(self, job: Job, layout: RowLayout) -> None:
        self.job, self.layout = job, layout
        self.module = quickest(job.architecture.replica(job.device))
        self.parameters = trainable(self.module)
        self.objective = job.work.objective or cross_entropy

    def at(self, row: Tensor) -> None:
        """Make the parameters views into a packed row."""
        for parameter, view in zip(self.parameters, self.layout.views(row), strict=True):
            parameter.data = view

    def gradient(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(self.objective(self.module, x, y, None), self.parameters, materialize_grads=True)

    def train(self, row: int, start: Tensor, batches: Batches) -> None:
        job, work = self.job, self.job.work
        out = job.out[row]
        out.copy_(start)
        self.at(out)
        if job.tail is not None:
            job.architecture.tail.put(self.module, job.tail[row])
        step = Step(work, row, self.layout.views, out, start, self.layout)
        n_steps, size = int(work.steps[row]), int(batches.size[row])
        index = batches.of_row(row, n_steps)
        batch = batches.take(index[:size])
        if draws(job):
            streams.begin(draw_seed(job, row))
        for number in range(n_steps):
            if number and not batches.full:
                batch = batches.take(index[number * size : (number + 1) * size])
            step.apply(self.gradient(*batch))
        out.sub_(start)
        if job.tail is not None:
            job.architecture.tail.take(self.module, job.tail[row])

    def close(self) -> None:
        """Do nothing: this worker leaves nothing to others."""


def quickest(module: nn.Module) -> nn.Module:
    """Make the layers of a module run the quickest way and return it; nobody else may use the module."""
    on_cpu = all(one.is_cpu for one in module.parameters())
    for part in module.modules():
        if isinstance(part, nn.Conv2d):  # one input channel leaves the layout open, and pooling needs it last
            part.register_forward_hook(_channels_last)
        elif on_cpu:
            put_ways(part)
    return module


def _channels_last(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    return output.contiguous(memory_format=torch.channels_last)
