"""Which clients of every cell train: the best `z`, at most `psi` of whom were chosen in the round before.

For a given number of repeated clients it is optimal to take the best of those and the best of the others, so every
number is tried. If resource blocks differ, clients and blocks are matched. Not a method itself: it has no `build`.

Reference: rawhfl, Eqs. (28b), (28c); section 4.4
"""

from typing import NamedTuple

import numpy as np

from ...solve.matching import assign
from ...types import Bools, Floats, Ints


class Cells(NamedTuple):
    """The cell of every client, and the limits that a selection keeps to."""

    cell: Ints  # [n]
    n_cells: int
    available: Bools  # [n]
    previous: Bools  # [n], chosen the last time
    z: int  # clients to choose in every cell
    psi: int  # the most of them that may be chosen twice in a row; z or more: no limit


def select(value: Floats, cells: Cells) -> Bools:
    """The selection of the largest total value, `[n]`: `z` per cell, or all that are eligible if they are fewer.

    A cell that cannot fill `z` places within the overlap limit ignores the limit. Ties go to fewer repetitions, then to
    the lower index.

    Args:
        value: `[n]`, minus infinity for clients that are not eligible.
        cells: who is where, and the limits.
    """
    eligible = np.isfinite(value) & cells.available
    again = _Ranking.of(value, eligible & cells.previous, cells)
    fresh = _Ranking.of(value, eligible & ~cells.previous, cells)
    total = again.sums + fresh.sums[:, ::-1]  # [n_cells, z + 1], by how many are chosen again
    total[:, cells.psi + 1 :] = -np.inf
    n_again = total.argmax(axis=1)
    within = np.isfinite(total.max(axis=1))
    chosen = (again.place < n_again[cells.cell]) | (fresh.place < cells.z - n_again[cells.cell])
    unlimited = _Ranking.of(value, eligible, cells).place < cells.z
    return np.where(within[cells.cell], chosen, unlimited)


class _Ranking(NamedTuple):
    """Members of every cell, best first."""

    place: Ints  # [n], from 0 in every cell; the largest integer for clients that are no members
    sums: Floats  # [n_cells, z + 1], total value of the best so many; minus infinity if there are fewer

    @staticmethod
    def of(value: Floats, member: Bools, cells: Cells) -> "_Ranking":
        who = np.flatnonzero(member)
        order = who[np.lexsort((-value[who], cells.cell[who]))]
        cell = cells.cell[order]
        in_cell = np.arange(len(order)) - np.searchsorted(cell, cell)
        place = np.full(len(value), np.iinfo(np.int64).max)
        place[order] = in_cell
        best = np.full((cells.n_cells, cells.z), -np.inf)
        top = in_cell < cells.z
        best[cell[top], in_cell[top]] = value[order[top]]
        return _Ranking(place, np.concatenate([np.zeros((cells.n_cells, 1)), best.cumsum(axis=1)], axis=1))


# ---------------------------------------------------------------- blocks that differ


def select_blocks(value: Floats, cells: Cells) -> Ints:
    """The resource block of every client chosen, -1 for the others, with the largest total value, `[n]`.

    Args:
        value: `[n_blocks, n]`, minus infinity if a client cannot use a block.
        cells: who is where, and the limits; `z` is at most the number of blocks.
    """
    block = np.full(len(cells.cell), -1)
    for number in range(cells.n_cells):
        here = np.flatnonzero((cells.cell == number) & cells.available)
        if len(here):
            worth = value[:, here].T
            found = _match(worth, cells.z, cells.previous[here], cells.psi)
            if (found >= 0).sum() < cells.z:
                unlimited = _match(worth, cells.z, cells.previous[here], len(here))
                found = unlimited if (unlimited >= 0).sum() > (found >= 0).sum() else found
            block[here] = found
    return block


def _match(value: Floats, z: int, previous: Bools, psi: int) -> Ints:
    """The block of each of `[m]` clients, -1 for none: as many as possible up to `z`, then the best.

    Two kinds of dummies take part, worth so much that all of them are matched: idlers occupy all but `z` of the blocks,
    and benches take all but `psi` of the clients chosen in the round before.
    """
    m, n_blocks = value.shape
    usable = np.isfinite(value)
    taking_part = (2 * min(m, n_blocks) + 1) * (1 + np.abs(value[usable]).max(initial=0.0))
    stranger = 2 * (m + n_blocks) * taking_part
    idlers, benches = max(n_blocks - z, 0), max(int(previous.sum()) - psi, 0)
    weight = np.zeros((m + idlers, n_blocks + benches))
    weight[:m, :n_blocks] = np.where(usable, np.where(usable, value, 0.0) + taking_part, 0.0)
    weight[m:, :n_blocks] = stranger
    weight[:m, n_blocks:] = np.where(previous, stranger, 0.0)[:, None]
    found = assign(weight)[:m]
    return np.where(found < n_blocks, found, -1)
