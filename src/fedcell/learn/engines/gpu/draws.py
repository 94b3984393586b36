"""The batches of a cohort on a GPU: drawn there if they are plain ones, else on the CPU."""

import numpy as np
import torch
from torch import Tensor

from ....types import Ints
from ...memory import gpu_is_full
from ..common import DISTINCT_ON_GPU, Batches, Feed, Job
from .kernels import kernels


def batches_of(job: Job) -> Batches:
    """The batches of a job; if the GPU has no room for draws, a CPU makes them."""
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
    """Batches of one size whose samples are a tensor.

    Args:
        job: whose they are.
        index: samples of every step of every row, `[n_steps, n_rows, batch]`.
    """

    def __init__(self, job: Job, index: Tensor) -> None:
        self._samples, self._inputs, self._pads = job.samples, None, False
        self.full, self.size, self.index = False, np.full(len(job.work.steps), job.work.batch_size), index

    def feed(self, rows: Ints, first: int, end: int) -> Feed:
        """As that of `Batches`, with a tensor of samples."""
        sample = self.index[first:end].index_select(1, torch.from_numpy(rows).to(self.index.device))
        return Feed(sample, np.full((len(rows), self.index.shape[2]), 1 / self.index.shape[2], dtype=np.float32))
