"""Draw shuffled mini-batches on the GPU that trains, by the same keys as on a CPU.

Shuffling the stores of a thousand clients takes a CPU as long as their training takes a GPU. A program shuffles one
pass over the store of one client: it sorts the numbers that `rng.uniforms` would give, and keeps the place of each
sample in bits that these numbers do not use.
"""

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from .....rng import COLUMN, MIX, ROW, key_of
from ....work import Work

MOST_HELD = 2048  # most samples of a store: their places fill the 11 bits that a uniform number leaves free
MOST_PASSES = 65_535  # largest second axis of a grid

ROW_: tl.constexpr = tl.constexpr(ROW)
COLUMN_: tl.constexpr = tl.constexpr(COLUMN)
FIRST: tl.constexpr = tl.constexpr(MIX[0])
SECOND: tl.constexpr = tl.constexpr(MIX[1])
SIGN: tl.constexpr = tl.constexpr(1 << 63)


@triton.jit
def _mix(z):
    z = (z ^ (z >> 30)) * tl.full((), FIRST, tl.uint64)
    z = (z ^ (z >> 27)) * tl.full((), SECOND, tl.uint64)
    return z ^ (z >> 31)


@triton.jit(do_not_specialize=["n_rows", "most"])
def _shuffle(items, about, out, n_rows, most, batch: tl.constexpr, tile_held: tl.constexpr):
    """Shuffle one pass of one row; `about` has every row's device, store size and number of draws, and the key."""
    row, held = tl.program_id(0), tl.program_id(1)
    own = about + row
    size, n_draws = tl.load(own + n_rows).to(tl.int32), tl.load(own + 2 * n_rows).to(tl.int32)
    if held * size < n_draws:
        place = tl.arange(0, tile_held)
        device, key = tl.load(own).to(tl.uint64), tl.load(own + 3 * n_rows).to(tl.uint64)
        column = (held * size + place).to(tl.uint64)
        bits = _mix(_mix(device * tl.full((), ROW_, tl.uint64) + key) + column * tl.full((), COLUMN_, tl.uint64))
        bits = ((bits >> 11) << 11 | place.to(tl.uint64)) ^ tl.full((), SIGN, tl.uint64)
        order = tl.sort(tl.where(place < size, bits.to(tl.int64, bitcast=True), 0x7FFFFFFFFFFFFFFF))
        item = tl.load(items + row.to(tl.int64) * most + (order & 2047), mask=place < size, other=0)
        draw = held * size + place
        to = (draw // batch).to(tl.int64) * n_rows * batch + row * batch + draw % batch
        tl.store(out + to, item, mask=(place < size) & (draw < n_draws))


def fits(work: Work) -> bool:
    """Whether the kernel can draw for some work: stores small enough and not empty, passes few enough."""
    size, n_draws = work.store.size, work.batch_size * int(work.steps.max())
    return bool(size.min() > 0 and size.max() <= MOST_HELD and 0 < n_draws <= MOST_PASSES)


def draw(work: Work, seed: int, there: torch.device) -> Tensor:
    """The samples of every step of every row, `[n_steps, n_rows, batch]`; beyond the steps of a row anything."""
    size, n_draws = work.store.size, work.steps * work.batch_size
    key = np.full(len(size), key_of(seed, work.round, "batches"), dtype=np.uint64).view(np.int64)
    about = torch.from_numpy(np.stack([work.device, size, n_draws, key])).to(there)
    items = torch.from_numpy(np.ascontiguousarray(work.store.items)).to(there)
    n_steps, passes = int(work.steps.max()), int((-(-n_draws // size)).max())
    out = torch.zeros(n_steps, len(size), work.batch_size, dtype=torch.int64, device=there)
    held = int(max(32, triton.next_power_of_2(int(size.max()))))
    _shuffle[len(size), passes](
        items, about, out, len(size), items.shape[1], work.batch_size, held, num_warps=4 if held > 256 else 1
    )
    return out
