"""Draw the batches of a cohort on the GPU if they are plain shuffled ones, else on the CPU."""

import numpy as np
import torch
from torch import Tensor

from ....types import Ints
from ...memory import gpu_is_full
from ..common import DISTINCT_ON_GPU, Batches, Feed, Job
from .kernels import kernels


def batches_of(job: Job) -> Batches:
    """The batches of a job; drawn on the CPU if the GPU cannot draw them or has no memory for them."""
    work, samples, way = job.work, job.samples, kernels("shuffles", job.device)
    distinct = samples.inputs is not None and work.batch_size >= DISTINCT_ON_GPU
    plain = work.batch_size and job.sampling == "shuffle" and getattr(samples, "changes", None) is None
    if way and plain and not distinct and way.fits(work):
        try:
            return DrawnThere(job, way.draw(work, job.seed, job.device))
        except RuntimeError as error:
            if not gpu_is_full(error):
                raise
            job.replays.give_up()
            torch.cuda.empty_cache()
    return Batches(job)


class DrawnThere(Batches):
    """Batches of one size whose sample numbers were drawn on the GPU.

    Args:
        job: the job that they belong to.
        index: sample numbers of every step of every row, `[n_steps, n_rows, batch]`.
    """

    def __init__(self, job: Job, index: Tensor) -> None:
        self._samples, self._inputs, self._pads = job.samples, None, False
        self.full, self.size, self.index = False, np.full(len(job.work.steps), job.work.batch_size), index

    def feed(self, rows: Ints, first: int, end: int) -> Feed:
        """Like `Batches.feed`, with the sample numbers as a tensor."""
        sample = self.index[first:end].index_select(1, torch.from_numpy(rows).to(self.index.device))
        return Feed(sample, np.full((len(rows), self.index.shape[2]), 1 / self.index.shape[2], dtype=np.float32))
