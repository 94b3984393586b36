"""One client after another in one single-threaded worker per core: the fast way on a CPU.

Chains of known layers train without autograd (`planned`). For any other module every worker owns a
copy whose parameters are views into the client's row of the result, so a step is one
`autograd.grad` and one fused update, with no copies. Convolution weights lie channels-last inside
the row while it trains and are put back into canonical order at the end.
"""

from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ....machine import cores, for_each
from ....rng import stream
from ...architecture import trainable
from ...work import cross_entropy
from ..common import Batches, Job
from .planned import PlannedClient, chain_of
from .steps import RowLayout, Step


def train(job: Job, workers: int = 0) -> None:
    """Fill `job.out` with what every row's training moved; the result does not depend on `workers`."""
    n_rows = len(job.work.steps)
    wanted = 1 if job.architecture.stochastic else workers or cores()
    layout = RowLayout(job.architecture)
    batches, chain = Batches(job), chain_of(job)
    points = layout.pack(job.points.clone())
    heaviest_first = np.argsort(-job.work.steps, kind="stable")
    ticket = count()  # next() is atomic, so idle workers just take the next client

    def work_through(_: int) -> None:
        client = _Client(job, layout) if chain is None else PlannedClient(job, layout, chain)
        while (turn := next(ticket)) < n_rows:
            row = int(heaviest_first[turn])
            client.train(row, points[job.of_row[row]], batches)

    with torch.random.fork_rng(devices=[], enabled=job.architecture.stochastic):
        if job.device.type == "cpu" and n_rows > 1:
            for_each(work_through, range(min(wanted, n_rows)), wanted)
        else:  # a GPU, or a single client that may as well have every core
            work_through(0)
    layout.unpack(job.out)


class _Client:
    """A worker's copy of any module and the way it takes a step."""

    def __init__(self, job: Job, layout: RowLayout) -> None:
        self.job, self.layout = job, layout
        self.module = job.architecture.replica(job.device)
        for part in self.module.modules():
            if isinstance(part, nn.Conv2d):  # one input channel leaves the layout open, and pooling needs it last
                part.register_forward_hook(_channels_last)
        self.parameters = trainable(self.module)
        self.objective = job.work.objective or cross_entropy

    def train(self, row: int, start: Tensor, batches: Batches) -> None:
        job, work = self.job, self.job.work
        out = job.out[row]
        out.copy_(start)
        for parameter, view in zip(self.parameters, self.layout.views(out), strict=True):
            parameter.data = view
        if job.tail is not None:
            job.architecture.tail.put(self.module, job.tail[row])
        step = Step(work, row, self.layout.views, out, start, self.layout)
        n_steps, size = int(work.steps[row]), int(batches.size[row])
        index = batches.of_row(row, n_steps)
        batch = batches.take(index[:size])
        if job.architecture.stochastic:
            torch.manual_seed(int(stream(job.seed, work.round, f"dropout {work.device[row]}").integers(2**63)))
        for number in range(n_steps):
            if number and not batches.full:
                batch = batches.take(index[number * size : (number + 1) * size])
            step.apply(torch.autograd.grad(self.objective(self.module, *batch, None), self.parameters))
        out.sub_(start)
        if job.tail is not None:
            job.architecture.tail.take(self.module, job.tail[row])


def _channels_last(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    return output.contiguous(memory_format=torch.channels_last)
