"""Cohorts in pieces that fit into a GPU's memory."""

from collections.abc import Callable
from math import prod

import numpy as np
import torch

from ...types import Ints
from .common import Job

COPIES = 4  # weights, start, gradient and velocity of a row
ACTIVATIONS = 16  # floats kept for the backward pass per input value, a first guess


def in_chunks(job: Job, rows: Ints, train: Callable[[Ints], None]) -> None:
    """Call `train` on groups of rows, sized by free memory and halved where the guess was too bold."""
    pending = _guess(job, rows) if job.device.type == "cuda" else [rows]
    while pending:
        chunk = pending.pop(0)
        try:
            train(chunk)
        except torch.cuda.OutOfMemoryError:
            if len(chunk) == 1:
                raise
            torch.cuda.empty_cache()
            pending[:0] = np.array_split(chunk, 2)


def _guess(job: Job, rows: Ints) -> list[Ints]:
    free, _ = torch.cuda.mem_get_info(job.device)
    batch = job.work.batch_size or int(job.work.store.size.max(initial=1))
    per_row = 4 * (COPIES * job.architecture.n_params + ACTIVATIONS * batch * prod(job.samples.shape))
    size = max(1, int(0.8 * free / per_row))
    return [rows[first : first + size] for first in range(0, len(rows), size)]
