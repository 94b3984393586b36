"""What all engines share: the job that an engine gets, and the batches of its rows."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...machine import one_thread
from ...rng import stream
from ...types import Ints
from .. import streams
from ..architecture import Architecture
from ..augment import Changes
from ..batches import draw_batches
from ..samples import Samples
from ..work import Work

if TYPE_CHECKING:
    from .gpu.cuda_graphs import Replays

DISTINCT_ON_GPU = 64  # batch size from which removing repeated inputs saves more time on a GPU than it costs
GROWTH = 8  # least difference between the padded sizes of cohorts and batches on a GPU
DISTINCT_GROWTH = 16  # the same for distinct inputs, whose number changes every round


def padded(n: int, apart: int = GROWTH) -> int:
    """Round `n` up to one of few sizes, so that shapes occur again on a GPU and recorded graphs serve them.

    Sizes differ by at least `apart`, and by about the root of `n`, as random sizes vary by that much.

    >>> [padded(n) for n in (3, 8, 43, 80, 100, 200, 1000)], [padded(n, 16) for n in (43, 72, 88)]
    ([8, 8, 48, 80, 104, 208, 1024], [48, 80, 96])
    """
    step = max(apart, 1 << (n - 1).bit_length() // 2)
    return -(-n // step) * step


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
    replays: "Replays"  # memory and graphs of earlier rounds
    tail: Tensor | None = None  # [n_rows, tail.n], running statistics on the training device; training replaces them

    @property
    def device(self) -> torch.device:
        return self.out.device


Batch = tuple[Tensor, Tensor, Tensor]  # x, y and the weight of every sample


class Feed(NamedTuple):
    """The samples of several rows and steps; one batch serves every step if each takes the whole store.

    `number` is given if draws that share an input were merged into one sample. It says for every draw to which label of
    which sample of the batch it adds its share: `(row * width + sample) * n_labels + label`.
    """

    sample: Ints | Tensor  # [n_batches, n_rows, width]; a tensor if a GPU drew them
    share: NDArray[np.float32]  # [n_rows, n_draws], weight of a draw in the loss of its row; zero on padding
    number: Ints | None = None  # [n_batches, n_rows, n_draws]


def draws(job: Job) -> bool:
    """Whether a network draws random numbers in training: dropout, or noise in a user's own layer."""
    found = job.replays.draws
    if job.architecture not in found:
        found[job.architecture] = job.architecture.stochastic or (not job.architecture.known and _moves_streams(job))
    return found[job.architecture]


@torch.no_grad()
def _moves_streams(job: Job) -> bool:
    """Whether calling the network changes the state of a random stream."""
    module, x = job.architecture.replica(job.device), job.samples.take(np.arange(min(2, len(job.samples))))[0]
    with streams.lent(job.device), one_thread():
        before = streams.stand(job.device)
        module(x)
        return before != streams.stand(job.device)


def draw_seed(job: Job, row: int, purpose: str = "dropout") -> int:
    """The seed of the random streams for a device's forward passes in a round."""
    return int(stream(job.seed, job.work.round, f"{purpose} {job.work.device[row]}").integers(2**63))


class Batches:
    """The samples of every step of every row, as indices.

    If samples are known to share inputs, a batch holds each input once, with the shares of its labels as `y`: the
    same gradient for a fraction of the work.
    """

    def __init__(self, job: Job) -> None:
        work = job.work
        self._samples = job.samples
        merges = job.samples.inputs is not None and work.objective is None and not job.architecture.trains_on_batches
        self._inputs = job.samples.inputs if merges and not draws(job) else None  # each draw has noise of its own
        self._pads = job.device.type != "cpu"
        whole, changes = work.batch_size == 0, getattr(job.samples, "changes", None)
        self.full = whole and changes is None  # every step takes the whole store as it is
        self.size = work.store.size if whole else np.full(len(work.steps), work.batch_size)
        if self.full:
            self._store = work.store.items
            return
        n_draws = work.steps * self.size
        sampling = "store" if whole else job.sampling
        self._flat, self._start = draw_batches(work.store, work.device, n_draws, sampling, job.seed, work.round)
        if changes is not None:
            self._flat = self._flat + len(job.samples) * self._changed(job, changes)

    def _changed(self, job: Job, changes: Changes) -> Ints:
        """Draw the change of every sample drawn, by its device and its place among the draws of the device."""
        n_draws = np.diff(self._start, append=len(self._flat))
        place = np.arange(len(self._flat)) - np.repeat(self._start, n_draws)
        return changes.draw(job.seed, job.work.round, np.repeat(job.work.device, n_draws), place)

    @property
    def shares_inputs(self) -> bool:
        """Whether batches hold distinct inputs, so that their sizes differ."""
        return self._inputs is not None

    @property
    def flat(self) -> tuple[Ints, Ints]:
        """(draws of all rows in one array, where each row begins); of a single step if all take the whole store."""
        if self.full:
            n_rows, width = self._store.shape
            return self._store.reshape(-1), width * np.arange(n_rows)
        return self._flat, self._start

    def of_row(self, row: int, n_steps: int) -> Ints:
        """Indices of all steps of one row, `[n_steps * batch]`, or of its one full batch `[size]`."""
        if self.full:
            return self._store[row, : self.size[row]]
        return self._flat[self._start[row] : self._start[row] + n_steps * self.size[row]]

    def take(self, index: Ints) -> tuple[Tensor, Tensor]:
        """(x, y) of one step of one row, given its sample indices."""
        if self._inputs is None:
            return self._samples.take(index)
        share = np.full((1, len(index)), 1 / len(index), dtype=np.float32)
        x, y, _ = self._batch(self._distinct(index[None, None], share, self._inputs[index]))
        return x[0], y[0]

    def gather(self, rows: Ints, step: int) -> Batch:
        """One step of several rows: x `[n_rows, width, ...]`, y and the weight of each sample, as `batch_of` says."""
        return self._batch(self.feed(rows, step, step + 1))

    def drawn(self, rows: Ints, n_steps: int) -> Batch | None:
        """Like `gather` for all steps at once, with sample numbers for x; these and y are `[n_steps, n_rows, width]`.

        `inputs` turns numbers into x. None if every step takes the whole store, or each input once.
        """
        if self.full or self._inputs is not None:
            return None
        feed = self.feed(rows, 0, n_steps)
        index = self._there(feed.sample)
        return index, self._samples.y_at(index), self._there(feed.share)

    def inputs(self, index: Tensor) -> Tensor:
        """x of numbered samples as rows, `[*index.shape, n_in]`."""
        return self._samples.at(index.reshape(-1)).reshape(*index.shape, -1)

    def _batch(self, feed: Feed) -> Batch:
        sample, share = self._there(feed.sample[0]), self._there(feed.share)
        return batch_of(self._samples, sample, share, None if feed.number is None else self._there(feed.number[0]))

    def _there(self, values: NDArray[Any] | Tensor) -> Tensor:
        return torch.as_tensor(values).to(self._samples.y.device)

    def feed(self, rows: Ints, first: int, end: int) -> Feed:
        """The steps from `first` to before `end`. Full batches are padded to the largest store."""
        size = self.size[rows]
        width = int(size.max())
        real = np.arange(width) < size[:, None]
        share = (real / size[:, None]).astype(np.float32)
        if self.full:
            draws = np.where(real, self._store[rows, :width], self._store[rows, :1])[None]
        else:
            at = np.arange(first, end)[:, None, None] * size[:, None] + np.where(real, np.arange(width), 0)
            at += self._start[rows][:, None]
            draws = self._flat[np.minimum(at, len(self._flat) - 1)]  # beyond the steps of a row: any, nobody uses it
        if self._inputs is None or (width < DISTINCT_ON_GPU and self._pads):
            return Feed(draws, share)
        return self._distinct(draws, share, self._inputs[draws])

    def _distinct(self, draws: Ints, share: NDArray[np.float32], inputs: NDArray[np.integer]) -> Feed:
        """Keep each input of a row and step once, padded to the largest number of inputs of a row."""
        n_batches, n_rows, n_draws = draws.shape
        group = np.arange(n_batches * n_rows)
        key = group[:, None] * (int(inputs.max()) + 1) + inputs.reshape(len(group), n_draws)
        _, first, distinct = np.unique(key, return_index=True, return_inverse=True)
        of = first // n_draws  # ascending, so the inputs of a group are contiguous
        place = np.arange(len(of)) - np.searchsorted(of, of)
        width = int(place.max()) + 1
        width = padded(width, DISTINCT_GROWTH) if self._pads else width
        index = np.repeat(draws.reshape(len(group), n_draws)[:, :1], width, axis=1)
        index[of, place] = draws.reshape(-1)[first]
        slot = np.arange(n_rows)[:, None] * width + place[distinct].reshape(draws.shape)
        number = slot * self._samples.n_labels + self._samples.labels[draws]
        return Feed(index.reshape(n_batches, n_rows, width), share, number)


def batch_of(samples: Samples, index: Tensor, share: Tensor, number: Tensor | None) -> Batch:
    """x `[n_rows, width, ...]` of samples, and their `targets`; `index`, `share` and `number` are as in a `Feed`."""
    x, y = samples.take(index.reshape(-1))
    n_labels = 0 if number is None else samples.n_labels
    return x.reshape(*index.shape, *x.shape[1:]), *targets(y.view(*index.shape, *y.shape[1:]), share, number, n_labels)


def targets(y: Tensor, share: Tensor, number: Tensor | None, n_labels: int) -> tuple[Tensor, Tensor]:
    """(y, weight of each sample `[n_rows, width]`).

    If `number` is given, y becomes shares of labels, `[n_rows, width, n_labels]`.
    """
    if number is None:
        return y, share
    flat = torch.zeros(y.numel() * n_labels, device=share.device)
    shares = flat.index_add_(0, number.reshape(-1), share.reshape(-1)).view(*y.shape, n_labels)
    return shares, shares.sum(2)
