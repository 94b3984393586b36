"""Train cohorts in groups of rows that fit into the memory of a GPU."""

from collections.abc import Callable
from math import prod

import numpy as np
import torch

from ....types import Ints
from ...memory import gpu_free_bytes as free_bytes
from ...memory import gpu_is_full
from ..common import Job

COPIES = 4  # weights, start, gradient and velocity of a row
AVERAGES = 4  # more copies with AdamW: two averages, before a step and after it
ACTIVATIONS = 16  # floats kept for the backward pass per input value, a first guess
SHARE = 0.5  # of the free memory that a cohort may take; updates of this round and the next need some, too


def in_chunks(job: Job, rows: Ints, train: Callable[[Ints], None]) -> None:
    """Call `train` on groups of rows of about equal size.

    The size of groups is guessed once per network and learner from the free memory: later the cohorts that are kept for
    the next round hold that memory, and groups of other sizes could not use them. If the GPU runs out of memory, the
    kept cohorts are dropped and groups are halved for good. A single row is then tried once more.
    """
    if job.device.type != "cuda":
        return train(rows)
    room, batch = job.replays.room, job.work.batch_size or int(job.work.store.size.max(initial=1))
    per_row = row_bytes(job.architecture.n_params, batch, job.samples.shape, job.work.optimiser.adam is not None)
    if job.architecture not in room:
        room[job.architecture] = int(SHARE * min(free_bytes(job.device), job.replays.most_bytes))
    pending, last = equal_parts(rows, room[job.architecture] // per_row), -1
    while pending:
        chunk = pending.pop(0)
        try:
            train(chunk)
        except RuntimeError as error:
            if not gpu_is_full(error) or (len(chunk) == 1 and chunk[0] == last):
                raise
            if len(chunk) == 1:
                last = chunk[0]
            job.replays.give_up()
            torch.cuda.empty_cache()
            room[job.architecture] = -(-len(chunk) // 2) * per_row
            pending[:0] = equal_parts(chunk, -(-len(chunk) // 2))


def row_bytes(n_params: int, batch: int, shape: tuple[int, ...], adam: bool = False) -> int:
    """Bytes that a client of a cohort needs: copies of its parameters, and activations for the backward pass."""
    return 4 * ((COPIES + AVERAGES * adam) * n_params + ACTIVATIONS * batch * prod(shape))


def equal_parts(rows: Ints, most: int) -> list[Ints]:
    """Split rows into groups of about equal size, none larger than `most` (or one row)."""
    return np.array_split(rows, -(-len(rows) // max(1, most)))
