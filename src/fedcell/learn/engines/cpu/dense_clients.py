"""Train chains of dense layers by a kernel of our own: all steps of a client in one call, its weights in the cache.

With a small network, PyTorch's overhead is longer than a whole round of a few clients takes here. The kernel trains
one client after another, so the result depends neither on who else trains nor on the number of workers.
"""

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from ....machine import for_each
from ....types import Ints
from ..common import Batches, Job
from .native import DENSE, Native, library
from .native.vectors import WIDE_VECTORS, widest

if TYPE_CHECKING:
    from ..batched import DenseLayer

WORTH = 4_000  # parameters from which on the kernels are worth a compiler's time
MOST = 64  # samples of a batch up to which they were quicker on processors with shorter vectors, too
HANDED = 16_000_000  # multiplications, about a millisecond: less is not worth another thread


def wins(job: Job, layers: "list[DenseLayer]") -> bool:
    """Whether the clients of a job should train by this kernel."""
    return (
        job.work.plain
        and job.architecture.n_params >= WORTH
        and all(layer.activation in (None, nn.ReLU) for layer in layers)
        and job.samples.inputs is None  # batches of distinct inputs have labels in shares
        and job.samples.flat is not None
        and library(DENSE) is not None
        and (0 < job.work.batch_size <= MOST or widest(DENSE) >= WIDE_VECTORS)
    )


def train(job: Job, layers: "list[DenseLayer]", batches: Batches, workers: int) -> None:
    """Train every row and write its update, end minus start, to `job.out`."""
    order = np.argsort(-job.work.steps, kind="stable")
    per_row = int(job.work.steps.max()) * int(batches.size.max()) * job.architecture.n_params
    size = max(HANDED // max(per_row, 1), 1)
    parts = [order[first : first + size] for first in range(0, len(order), size)]
    if len(parts) == 1:  # the kernel has one thread whatever PyTorch is set to
        _call(job, layers, batches, order)()
    else:
        for_each(lambda rows: _call(job, layers, batches, rows)(), parts, workers)


def _call(job: Job, layers: "list[DenseLayer]", batches: Batches, rows: Ints) -> Native:
    """Return the call that trains some rows."""
    samples, points, work = job.samples, job.points, job.work
    assert samples.flat is not None
    most, broadest = int(batches.size[rows].max()), max(layer.n_out for layer in layers)
    sides = [
        (one.n_in, one.n_out, one.weight, -1 if one.bias is None else one.bias, one.activation is nn.ReLU)
        for one in layers
    ]
    numbers = [len(rows), job.architecture.n_params, points.stride(0), most, batches.full, len(layers)]
    numbers += chain.from_iterable(sides)
    room = torch.empty(most * (layers[0].n_in + sum(layer.n_out for layer in layers) + 2 * broadest))
    given = [_numbers(one) for one in (job.of_row, *batches.flat, batches.size, work.steps, rows)]
    rooms = room, torch.empty(most, dtype=torch.int64), torch.from_numpy(np.array([work.lr], dtype=np.float32))
    return Native(DENSE, "clients", numbers, samples.flat, samples.y, points, *given, job.out, *rooms)


def _numbers(values: Ints) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64))
