"""What the engines share: the batches of a row and the shape of an engine."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...types import Ints
from ..architecture import Architecture
from ..batches import draw_batches
from ..samples import Samples
from ..work import Work


class Job(NamedTuple):
    """One architecture's rows of a cohort, with everything an engine needs to train them."""

    architecture: Architecture
    samples: Samples
    points: Tensor  # [n_points, n_params] on the training device
    of_row: Ints  # [n_rows]
    work: Work
    sampling: str
    seed: int
    out: Tensor  # [n_rows, n_params] on the training device; becomes end - start

    @property
    def device(self) -> torch.device:
        return self.out.device


class Batches:
    """The samples of every step of every row, as indices."""

    def __init__(self, job: Job) -> None:
        work = job.work
        self._samples = job.samples
        self.full = work.batch_size == 0
        self.size = work.store.size if self.full else np.full(len(work.steps), work.batch_size)
        if self.full:
            self._store = work.store.items
        else:
            n_draws = work.steps * work.batch_size
            self._flat, self._start = draw_batches(work.store, work.device, n_draws, job.sampling, job.seed, work.round)

    def of_row(self, row: int, n_steps: int) -> Ints:
        """Indices of all steps of one row, `[n_steps * batch]`, or of its one full batch `[size]`."""
        if self.full:
            return self._store[row, : self.size[row]]
        return self._flat[self._start[row] : self._start[row] + n_steps * self.size[row]]

    def gather(self, rows: Ints, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """One step of several rows: x `[n_rows, batch, ...]`, y and the weight of each sample, `[n_rows, batch]`.

        Full batches are padded to the largest store; padding has weight zero.
        """
        width = int(self.size[rows].max())
        real = np.arange(width) < self.size[rows][:, None]
        if self.full:
            index = np.where(real, self._store[rows, :width], 0)
        else:
            index = self._flat[(self._start[rows] + step * width)[:, None] + np.arange(width)]
        x, y = self._samples.take(index.reshape(-1))
        weight = torch.from_numpy((real / self.size[rows][:, None]).astype(np.float32))
        return x.reshape(*index.shape, *x.shape[1:]), y.view(index.shape), weight.to(x.device)
