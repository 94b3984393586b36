"""All local steps of clients of a softmax regression in one kernel.

A step of such a client takes some microseconds, less than launching its kernels one by one. Here one program
trains one client: it reads samples by their numbers, computes the scores of a batch, and moves its weights by
`rate x^T (softmax - label)` before the next step. The weights stay in the caches of the GPU.
"""

from math import prod
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from .....types import Ints
from ....samples import Samples
from ...common import Job
from ..draws import DrawnThere, batches_of
from .pooled_conv import precision

MOST_CLASSES, MOST_BATCH = 64, 64  # one tile holds the scores of a batch


@triton.jit(do_not_specialize=["n_rows"])
def _train(
    x, y, index, rows, start, out, rate, n_rows,
    batch: tl.constexpr, n_in: tl.constexpr, n_out: tl.constexpr, at_weight: tl.constexpr, at_bias: tl.constexpr,
    n_params: tl.constexpr, has_bias: tl.constexpr,
    tile_batch: tl.constexpr, tile_out: tl.constexpr, tile_in: tl.constexpr, products: tl.constexpr,
):  # fmt: skip
    """Train one client; `rows` has, for every program, its row of `out`, its start point and its number of steps."""
    own = rows + tl.program_id(0)
    to = out + tl.load(own) * n_params
    start += tl.load(own + n_rows) * n_params
    index += tl.load(own) * batch
    sample, label = tl.arange(0, tile_batch), tl.arange(0, tile_out)
    known = (label < n_out)[None, :] & (sample < batch)[:, None]
    bias = tl.load(start + at_bias + label, mask=(label < n_out) & has_bias, other=0.0)
    begun = bias
    for first in range(0, n_in * n_out, 1024):
        entry = first + tl.arange(0, 1024)
        there = entry < n_in * n_out
        tl.store(to + at_weight + entry, tl.load(start + at_weight + entry, mask=there), mask=there)
    for step in range(tl.load(own + 2 * n_rows).to(tl.int32)):
        number = tl.load(index + step * n_rows * batch + sample, mask=sample < batch, other=0)
        tl.debug_barrier()  # all weights are written before some are read
        scores = tl.zeros((tile_batch, tile_out), tl.float32)
        for first in range(0, n_in, tile_in):
            entry = first + tl.arange(0, tile_in)
            there = (entry < n_in)[:, None] & (label < n_out)[None, :]
            weight = tl.load(to + at_weight + label[None, :] * n_in + entry[:, None], mask=there, other=0.0)
            seen = tl.load(x + number[:, None] * n_in + entry[None, :], mask=(entry < n_in)[None, :], other=0.0)
            scores = tl.dot(seen, weight, scores, input_precision=products)
        scores = tl.where((label < n_out)[None, :], scores + bias[None, :], float("-inf"))
        share = tl.exp(scores - tl.max(scores, 1)[:, None])
        share = share / tl.sum(share, 1)[:, None]
        right = tl.load(y + number)
        towards = tl.where(known, (share - (label[None, :] == right[:, None])) * (rate / batch), 0.0)
        if has_bias:
            bias -= tl.sum(towards, 0)
        tl.debug_barrier()  # and read before some are written
        for first in range(0, n_in, tile_in):
            entry = first + tl.arange(0, tile_in)
            there = (label < n_out)[:, None] & (entry < n_in)[None, :]
            at = to + at_weight + label[:, None] * n_in + entry[None, :]
            seen = tl.load(x + number[:, None] * n_in + entry[None, :], mask=(entry < n_in)[None, :], other=0.0)
            by = tl.dot(tl.trans(towards), seen, input_precision=products)
            tl.store(at, tl.load(at, mask=there, other=0.0) - by, mask=there)
    tl.debug_barrier()
    for first in range(0, n_in * n_out, 1024):
        entry = first + tl.arange(0, 1024)
        there = entry < n_in * n_out
        at = to + at_weight + entry
        tl.store(at, tl.load(at, mask=there) - tl.load(start + at_weight + entry, mask=there), mask=there)
    tl.store(to + at_bias + label, bias - begun, mask=(label < n_out) & has_bias)


def serves(job: Job, n_out: int) -> bool:
    """Whether the kernel can train a job whose network is one dense layer."""
    work, samples = job.work, job.samples
    plain = work.plain and not work.augment and 0 < work.batch_size <= MOST_BATCH and n_out <= MOST_CLASSES
    flat = type(samples) is Samples and (len(samples.shape) != 3 or samples.shape[0] == 1)  # else channels lie last
    return plain and flat and samples.inputs is None


def train(job: Job, order: Ints, n_out: int, weight: int, bias: int | None, **how: Any) -> None:
    """Fill the rows `order` of `job.out` with the updates of clients; those with most steps come first.

    Args:
        job: the job to train.
        order: its rows, those with most steps first.
        n_out: number of classes.
        weight: index of the first weight in a flat row.
        bias: index of the first bias; None: there are none.
    """
    work, samples = job.work, job.samples
    batches, every = batches_of(job), np.arange(len(work.steps))
    drawn = batches.index if isinstance(batches, DrawnThere) else batches.feed(every, 0, int(work.steps.max())).sample
    index = torch.as_tensor(drawn).to(job.device)  # [n_steps, n_rows, batch]
    rows = torch.from_numpy(np.stack([order, job.of_row[order], work.steps[order]])).to(job.device)
    tile = {
        "tile_batch": _power(work.batch_size),
        "tile_out": _power(n_out),
        "tile_in": 64,
        "products": precision(),
        "num_warps": 1,
    }
    _train[(len(order),)](
        samples.rows, samples.y, index, rows, job.points, job.out, float(work.lr), len(order),
        work.batch_size, prod(samples.shape), n_out, weight, bias or 0, job.architecture.n_params, bias is not None,
        **(tile | how),
    )  # fmt: skip


def _power(n: int) -> int:
    return int(max(16, triton.next_power_of_2(n)))
