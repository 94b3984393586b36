"""The base class of workers that train in one packed row of parameters and keep the gradient in another."""

from collections.abc import Collection

import torch
from torch import Tensor

from ...architecture import Architecture
from ..common import Batches, Job, draw_seed
from .native.dropout import DropoutStream
from .steps import RowLayout, Step


class RowClient:
    """Train one client after another; subclasses define how a batch becomes a gradient."""

    weights: Tensor  # [n_params], packed
    gradient: Tensor
    tail: Tensor | None = None  # [n], the running statistics
    stream: DropoutStream | None = None  # the forward pass's random numbers
    spans: list[slice]  # parts of the row that the update rule moves

    def __init__(self, job: Job, layout: RowLayout) -> None:
        self.job, self.layout = job, layout

    def backward(self, x: Tensor, y: Tensor) -> None:
        """Write the gradient of a batch to `gradient`; move parameters that have no place there at once."""
        raise NotImplementedError

    @torch.inference_mode()  # spares every kernel some of the time until it runs
    def train(self, row: int, start: Tensor, batches: Batches) -> None:
        """Train the client of a row from the packed point `start` and write its update to `job.out[row]`."""
        work = self.job.work
        self.weights.copy_(start)
        if self.tail is not None and self.job.tail is not None:
            self.tail.copy_(self.job.tail[row])
        if self.stream is not None:
            self.stream.manual_seed(draw_seed(self.job, row))
        step = Step(work, row, self._cut, self.weights, start, self.layout)
        gradients = self._cut(self.gradient)
        n_steps, size = int(work.steps[row]), int(batches.size[row])
        index = batches.of_row(row, n_steps)
        x, y = batches.take(index[:size])
        for number in range(n_steps):
            if number and not batches.full:
                x, y = batches.take(index[number * size : (number + 1) * size])
            self.backward(x, y)
            step.apply(gradients)
        torch.sub(self.weights, start, out=self.job.out[row])
        if self.tail is not None and self.job.tail is not None:
            self.job.tail[row].copy_(self.tail)

    def close(self) -> None:
        """Release what this worker holds, once it has no more clients to train."""

    def _cut(self, row: Tensor) -> list[Tensor]:
        return [row[span] for span in self.spans]


def spans_without(architecture: Architecture, alone: Collection[int]) -> list[slice]:
    """Return the spans of a row that remain when the parameters with the places `alone` are left out."""
    ends = [*architecture.offsets[1:], architecture.n_params]
    spans, begin = [], 0
    for place in sorted(alone):
        spans.append(slice(begin, architecture.offsets[place]))
        begin = ends[place]
    spans.append(slice(begin, architecture.n_params))
    return [span for span in spans if span.start < span.stop]
