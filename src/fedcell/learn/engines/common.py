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
    """The samples of every step of every row, as indices.

    Where samples are known to share inputs, a batch holds each input once, with the shares of its labels as `y`: the
    same gradient for a fraction of the work.
    """

    def __init__(self, job: Job) -> None:
        work = job.work
        self._samples = job.samples
        self._inputs = job.samples.inputs if work.objective is None else None
        self._n_labels = int(job.samples.labels.max()) + 1
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

    def take(self, index: Ints) -> tuple[Tensor, Tensor]:
        """(x, y) of one step of one row, given its sample indices."""
        if self._inputs is None:
            return self._samples.take(index)
        _, first, place = np.unique(self._inputs[index], return_index=True, return_inverse=True)
        return self._samples.take(index[first])[0], self._shares(place, index, len(first), len(index))

    def _shares(self, place: Ints, index: Ints, n_places: int, n_samples: int | Ints) -> Tensor:
        """`[n_places, n_labels]`: which share of the samples has this input and this label."""
        at = torch.from_numpy(place * self._n_labels + self._samples.labels[index])
        share = torch.from_numpy(np.broadcast_to(1 / n_samples, index.shape).astype(np.float32))
        flat = torch.zeros(n_places * self._n_labels, device=self._samples.y.device)
        return flat.index_add_(0, at.to(flat.device), share.to(flat.device)).view(n_places, self._n_labels)

    def gather(self, rows: Ints, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """One step of several rows: x `[n_rows, batch, ...]`, y and the weight of each sample, `[n_rows, batch]`.

        Full batches are padded to the largest store; padding has weight zero.
        """
        if self._inputs is not None:
            return self._gather_distinct(rows, step)
        width = int(self.size[rows].max())
        real = np.arange(width) < self.size[rows][:, None]
        if self.full:
            index = np.where(real, self._store[rows, :width], 0)
        else:
            index = self._flat[(self._start[rows] + step * width)[:, None] + np.arange(width)]
        x, y = self._samples.take(index.reshape(-1))
        weight = torch.from_numpy((real / self.size[rows][:, None]).astype(np.float32))
        return x.reshape(*index.shape, *x.shape[1:]), y.view(index.shape), weight.to(x.device)

    def _gather_distinct(self, rows: Ints, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """As `gather`, each input of a row once and padded to the most that a row has; `y` are label shares."""
        assert self._inputs is not None
        size = self.size[rows]
        row = np.repeat(np.arange(len(rows)), size)
        if self.full:
            index = np.concatenate([self._store[r, :n] for r, n in zip(rows, size, strict=True)])
        else:
            index = self._flat[((self._start[rows] + step * size)[:, None] + np.arange(size[0])).ravel()]
        span = int(self._inputs.max()) + 1
        _, first, distinct = np.unique(row * span + self._inputs[index], return_index=True, return_inverse=True)
        of = row[first]  # ascending, so each row's inputs lie together
        width = int(np.bincount(of, minlength=len(rows)).max())
        slot = of * width + np.arange(len(of)) - np.searchsorted(of, of)
        padded = np.repeat(index[first[np.searchsorted(of, np.arange(len(rows)))]], width)
        padded[slot] = index[first]
        x = self._samples.take(padded)[0]
        y = self._shares(slot[distinct], index, len(rows) * width, size[row])
        return x.reshape(len(rows), width, *x.shape[1:]), y.view(len(rows), width, -1), y.sum(1).view(len(rows), width)
