"""Updates of a large cohort that are trained on demand and added up without all being in memory at once.

Rows are trained in blocks, those with most steps first, and added up in groups. A block consists of whole groups, and
a group of whole chunks that an engine computes together, so neither an update nor a sum depends on the block size.
"""

from collections.abc import Callable, Sequence
from copy import copy
from math import inf

import numpy as np
import torch
from torch import Tensor

from ..types import Bools, Floats, Ints, finite_rows
from .memory import gpu_free_bytes

BLOCK_BYTES = 32 << 20  # of updates that are trained, and held in memory, before they are added up
GPU_BLOCK_BYTES = 8 << 30  # the same on a GPU, which is fast only with large cohorts
GPU_PART = 4  # a block may take one part in so many of a GPU's free memory
GROUP = 8  # least rows to add up together: the sum is written to memory once for all of them
PER_WORKER = 8  # least rows of a block for each worker, so that few workers wait for the last row
CPU = torch.device("cpu")
Question = tuple[Bools, Floats]  # chosen rows [n_rows], weights of the chosen [n_chosen] or [m, n_chosen]


class Deferred:
    """One update per row, not trained yet.

    Args:
        train: function from row numbers (None: all) to their updates, `[n_rows, n_params]`.
        steps: `[n_rows]`, local steps.
        n_params: length of an update.
        together: rows that an engine computes together.
        block: rows to train at a time, rounded up to whole groups.
        device: where rows are trained.
    """

    def __init__(
        self,
        train: Callable[[Ints | None], Tensor],
        steps: Ints,
        n_params: int,
        together: int,
        block: int,
        device: torch.device = CPU,
    ) -> None:
        self._train, self._group, self._n_rows = train, -(-GROUP // together) * together, len(steps)
        self.n_params, self.device = n_params, device
        size = -(-block // self._group) * self._group
        order = np.argsort(-steps, kind="stable")  # the order that the engines use
        self._blocks = np.split(order, range(size, len(order) - 1, size))  # no block of one row: it would use all cores
        self._matrix: Tensor | None = None
        self._finite: Bools | None = None  # [n_rows]; None: not known

    def matrix(self) -> Tensor:
        """All rows together, `[n_rows, n_params]`, trained once."""
        if self._matrix is None:
            self._matrix = self._train(None)
            self._finite = finite_rows(self._matrix)
        return self._matrix

    def finite(self) -> Bools:
        """Which rows hold only finite numbers, `[n_rows]`; trains all rows if they were not trained before."""
        if self._finite is None:
            self.visit(lambda rows, delta: None)
        assert self._finite is not None
        return self._finite

    def add_up(self, chosen: Bools, weights: Floats) -> Tensor:
        """`sum_k weights[k] * row[k]` over the chosen rows, `[n_params]`, or `[m, n_params]` for `m` vectors.

        Args:
            chosen: `[n_rows]`, one at least.
            weights: `[n_chosen]` or `[m, n_chosen]`.
        """
        return self.add_all([(chosen, weights)])[0]

    def add_all(self, questions: Sequence[Question]) -> list[Tensor]:
        """Answer several questions as `add_up` would, but train every row only once."""
        sums = [_Sum(chosen, one, self) for chosen, weights in questions for one in np.atleast_2d(weights)]

        def add(rows: Ints, delta: Tensor) -> None:
            for one in sums:
                one.add(rows, delta)

        self.visit(add)
        found = iter(sums)
        shaped = [[next(found).total for _ in np.atleast_2d(weights)] for _, weights in questions]
        return [
            totals[0] if weights.ndim == 1 else torch.stack(totals)
            for totals, (_, weights) in zip(shaped, questions, strict=True)
        ]

    def remade(self, make: Callable[[Ints | None], Tensor]) -> "Deferred":
        """The same rows made by another function, such as a decoder, in the same blocks and groups."""
        other = copy(self)
        other._train, other._matrix, other._finite = make, None, None
        return other

    def watched(
        self, change: Callable[[Tensor], Tensor], measure: Callable[[Tensor], Tensor]
    ) -> tuple["Deferred", Floats]:
        """Rows that `change` alters when trained, and `measure` of each altered row, `[n_rows]`, filled then."""
        found, train = np.zeros(self._n_rows), self._train

        def make(rows: Ints | None) -> Tensor:
            delta = change(train(rows))
            found[slice(None) if rows is None else rows] = measure(delta).cpu().numpy()
            return delta

        return self.remade(make), found

    def mapped(self, change: Callable[[Ints | None, Tensor], Tensor], n_params: int) -> "Deferred":
        """Rows that `change(rows, delta)`, `[n_rows, n_params]`, alters as they are trained."""
        other = self.remade(lambda rows: change(rows, self._train(rows)))
        other.n_params = n_params
        return other

    def visit(self, look: Callable[[Ints, Tensor], None]) -> None:
        """Train all rows, call `look` on each group, and note which rows are finite."""
        known = np.zeros(self._n_rows, dtype=np.bool_)
        for block in self._blocks:
            self._train_block(block, known, look)  # a call of its own, so that the next block can use its memory
        self._finite = known

    def _train_block(self, block: Ints, known: Bools, look: Callable[[Ints, Tensor], None]) -> None:
        delta = self._train(block)
        for first in range(0, len(block), self._group):
            rows, part = block[first : first + self._group], delta[first : first + self._group]
            known[rows] = finite_rows(part)
            look(rows, part)


class _Sum:
    """A weighted sum of rows that arrive group by group."""

    def __init__(self, chosen: Bools, weights: Floats, of: Deferred) -> None:
        self.chosen = chosen
        self.factor = np.zeros(len(chosen), dtype=np.float32)
        self.factor[chosen] = weights
        self.total = torch.zeros(of.n_params, device=of.device)

    def add(self, rows: Ints, delta: Tensor) -> None:
        """Add a group of rows to the sum."""
        use = self.chosen[rows]
        part = delta if use.all() else delta[torch.from_numpy(use).to(delta.device)]
        self.total.addmv_(part.T, torch.from_numpy(self.factor[rows[use]]).to(delta.device))


def block_bytes(device: torch.device, most_bytes: float = inf) -> int:
    """Bytes of updates to train before they are added up; on a GPU limited by the memory that is free now."""
    if device.type == "cpu":
        return BLOCK_BYTES
    room = int(min(gpu_free_bytes(device), most_bytes)) // GPU_PART
    return min(GPU_BLOCK_BYTES, 1 << max(room, 1).bit_length() - 1)  # of two, so that small differences do not matter


def defers(n_rows: int, n_params: int, room_bytes: int) -> bool:
    """Whether the updates of a cohort exceed `room_bytes`; never depends on the number of workers, as no result may."""
    return 4 * n_rows * n_params > room_bytes


def block_rows(n_params: int, workers: int) -> int:
    """Rows of a block on a CPU: as many as fit into `BLOCK_BYTES`, but at least `PER_WORKER` for every worker."""
    return max(BLOCK_BYTES // (4 * n_params), PER_WORKER * workers)
