"""Write the patches that a convolution sees at each of its places, with zeros where images end.

Images `[n_models, n, height, width, channels]`; a patch is a row of `taps * channels` numbers. Zeros around the images
and between their pixels are made on the way and never lie in memory.
"""

from math import prod

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import at_once

TILE = 2048  # numbers that a program moves per row of taps
UNLIKE = ["n_places", "height", "width", "rows", "columns", "above", "left"]  # no recompiling for these


@triton.jit(do_not_specialize=UNLIKE)
def _gather(
    images, out, n_places, height, width, quarters, rows, columns, above, left,
    high: tl.constexpr, wide: tl.constexpr, down: tl.constexpr, right: tl.constexpr,
    apart_down: tl.constexpr, apart_right: tl.constexpr, quarter: tl.constexpr,
    tile_places: tl.constexpr, tile_entries: tl.constexpr,
):  # fmt: skip
    """Copy all rows of taps of some places; the taps of a row are contiguous in images and in patches."""
    channels = quarters * quarter
    place = tl.program_id(0) * tile_places + tl.arange(0, tile_places)
    entry = (tl.program_id(1) * tile_entries + tl.arange(0, tile_entries))[None, :]
    there = (place < n_places)[:, None] & (entry < wide * channels)
    image, at = (place // (rows * columns)).to(tl.int64), place % (rows * columns)
    first_y, first_x = at // columns * down - above, (at % columns * right - left)[:, None]
    to = out + (place.to(tl.int64) * (high * wide * channels))[:, None] + entry
    if apart_right > 1:
        x = first_x + entry // channels
        seen = there & (x >= 0) & (x % apart_right == 0) & (x // apart_right < width)
        before = x // apart_right * channels + entry % channels
    else:
        seen = there & (entry >= -first_x * channels) & (entry < (width - first_x) * channels)
        before = first_x * channels + entry
    for tap in tl.static_range(high):
        y = first_y + tap
        known = (y >= 0) & (y % apart_down == 0) & (y // apart_down < height)
        line = ((image * height + y // apart_down) * width * channels)[:, None]
        value = tl.load(images + line + before, mask=seen & known[:, None], other=0.0)
        tl.store(to + tap * wide * channels, value, mask=there)


def patches(
    images: Tensor,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    around: tuple[int, int, int, int],
    apart: tuple[int, int],
) -> Tensor:
    """`[n_models, n * places, taps * channels]`; the arguments are those of `convolutions.patches`."""
    n_models, n, height, width, channels = images.shape
    wide = [(side - 1) * apart[d] + 1 + around[2 * d] + around[2 * d + 1] for d, side in enumerate((height, width))]
    rows, columns = ((wide[d] - kernel[d]) // stride[d] + 1 for d in (0, 1))
    n_places = n_models * n * rows * columns
    out = torch.empty(n_models, n * rows * columns, prod(kernel) * channels, dtype=images.dtype, device=images.device)
    quarter = at_once(channels)
    entries = kernel[1] * channels
    tile_entries = max(quarter, min(128, triton.next_power_of_2(entries)))
    tile_places = TILE // tile_entries
    _gather[triton.cdiv(n_places, tile_places), triton.cdiv(entries, tile_entries)](
        images, out, n_places, height, width, channels // quarter, rows, columns, around[0], around[2],
        *kernel, *stride, *apart, quarter, tile_places, tile_entries, num_warps=4,
    )  # fmt: skip
    return out
