"""Updates of a large cohort that are trained when they are asked for, and added up without lying in memory together.

Rows are trained in blocks, those with most steps first, and added up in groups. Blocks are made of whole groups, and
groups of rows that an engine computes together, so neither an update nor the sum depends on the size of the blocks.
"""

from collections.abc import Callable, Sequence
from copy import copy
from math import inf

import numpy as np
import torch
from torch import Tensor

from ..types import Bools, Floats, Ints, finite_rows
from .memory import gpu_free_bytes

BLOCK_BYTES = 32 << 20  # of updates that are trained before they are added up
GPU_BLOCK_BYTES = 8 << 30  # the same on a GPU, which is fast with large cohorts only
GPU_PART = 4  # of the free memory of a GPU that such a block may take
GROUP = 8  # rows that are added up together at least: the sum is written to memory once for all of them
PER_WORKER = 8  # rows of a block that each worker has at least, so that few wait for the last
CPU = torch.device("cpu")
Question = tuple[Bools, Floats]  # chosen rows [n_rows], weights of the chosen [n_chosen] or [m, n_chosen]


class Deferred:
    """One update per row, not trained yet.

    Args:
        train: from rows (None: all) to their updates, `[n_rows, n_params]`.
        steps: `[n_rows]`, local steps.
        n_params: numbers of an update.
        together: rows that are computed together.
        block: rows that are trained at a time, or some more, in groups.
        device: where they are trained.
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
        order = np.argsort(-steps, kind="stable")  # as the engines have it
        self._blocks = np.split(order, range(size, len(order) - 1, size))  # no block of one row: it has all cores
        self._matrix: Tensor | None = None
        self._finite: Bools | None = None  # [n_rows]; None: not known

    def matrix(self) -> Tensor:
        """All rows together, `[n_rows, n_params]`, trained once."""
        if self._matrix is None:
            self._matrix = self._train(None)
            self._finite = finite_rows(self._matrix)
        return self._matrix

    def finite(self) -> Bools:
        """Which rows hold finite numbers alone, `[n_rows]`; trains them if nobody has."""
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
        """The answers of `add_up` to several questions, from training every row once."""
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
        """Rows that are made otherwise, such as by decoding, and added up in the same blocks and groups."""
        other = copy(self)
        other._train, other._matrix, other._finite = make, None, None
        return other

    def watched(
        self, change: Callable[[Tensor], Tensor], measure: Callable[[Tensor], Tensor]
    ) -> tuple["Deferred", Floats]:
        """Rows that are changed once they are trained, and a number of each as changed, `[n_rows]`, known by then."""
        found, train = np.zeros(self._n_rows), self._train

        def make(rows: Ints | None) -> Tensor:
            delta = change(train(rows))
            found[slice(None) if rows is None else rows] = measure(delta).cpu().numpy()
            return delta

        return self.remade(make), found

    def mapped(self, change: Callable[[Ints | None, Tensor], Tensor], n_params: int) -> "Deferred":
        """Rows that are changed when they are trained: `change(rows, delta)` is `[n_rows, n_params]`."""
        other = self.remade(lambda rows: change(rows, self._train(rows)))
        other.n_params = n_params
        return other

    def visit(self, look: Callable[[Ints, Tensor], None]) -> None:
        """Train all rows, show them group by group, and note which are finite."""
        known = np.zeros(self._n_rows, dtype=np.bool_)
        for block in self._blocks:
            self._train_block(block, known, look)  # a call of its own: the memory of a block serves the next one
        self._finite = known

    def _train_block(self, block: Ints, known: Bools, look: Callable[[Ints, Tensor], None]) -> None:
        delta = self._train(block)
        for first in range(0, len(block), self._group):
            rows, part = block[first : first + self._group], delta[first : first + self._group]
            known[rows] = finite_rows(part)
            look(rows, part)


class _Sum:
    """One weighted sum on its way."""

    def __init__(self, chosen: Bools, weights: Floats, of: Deferred) -> None:
        self.chosen = chosen
        self.factor = np.zeros(len(chosen), dtype=np.float32)
        self.factor[chosen] = weights
        self.total = torch.zeros(of.n_params, device=of.device)

    def add(self, rows: Ints, delta: Tensor) -> None:
        """Take in a group of rows."""
        use = self.chosen[rows]
        part = delta if use.all() else delta[torch.from_numpy(use).to(delta.device)]
        self.total.addmv_(part.T, torch.from_numpy(self.factor[rows[use]]).to(delta.device))


def block_bytes(device: torch.device, most_bytes: float = inf) -> int:
    """Bytes of updates that are trained before they are added up; on a GPU no more than it has room for now."""
    if device.type == "cpu":
        return BLOCK_BYTES
    room = int(min(gpu_free_bytes(device), most_bytes)) // GPU_PART
    return min(GPU_BLOCK_BYTES, 1 << max(room, 1).bit_length() - 1)  # of two: a little more or less changes nothing


def defers(n_rows: int, n_params: int, room_bytes: int) -> bool:
    """Whether a cohort has more updates than that; the number of workers has no say, as it has none in results."""
    return 4 * n_rows * n_params > room_bytes


def block_rows(n_params: int, workers: int) -> int:
    """Rows of a block on a CPU: as many as make its bytes, and some for every worker."""
    return max(BLOCK_BYTES // (4 * n_params), PER_WORKER * workers)
