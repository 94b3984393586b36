"""Max-pools of 2 x 2 over channels-last images, forward and backward.

Images `[n, height, width, channels]`, contiguous float32; `n` counts those of all clients. A pool keeps the first of
the largest values of a window, and its place in it; a last row or column without a partner is left out. NaN stays.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import at_once

TILE = 2048  # numbers that a program pools or spreads
UNLIKE = ["n_pixels", "height", "width"]  # arguments for whose values no kernel is recompiled


@triton.jit(do_not_specialize=UNLIKE)
def _keep(
    images, out, place, n_pixels, height, width, quarters,
    quarter: tl.constexpr, tile_pixels: tl.constexpr, tile_channels: tl.constexpr,
):  # fmt: skip
    """Find the largest value of every window, and its place."""
    channels, rows, columns = quarters * quarter, height // 2, width // 2
    pixel = tl.program_id(0).to(tl.int64) * tile_pixels + tl.arange(0, tile_pixels)
    channel = (tl.program_id(1) * tile_channels + tl.arange(0, tile_channels))[None, :]
    there = (pixel < n_pixels)[:, None] & (channel < channels)
    image, at = pixel // (rows * columns), (pixel % (rows * columns)).to(tl.int32)
    corner = (image * height + at // columns * 2) * width + at % columns * 2
    best = tl.load(images + (corner * channels)[:, None] + channel, mask=there, other=0.0)
    where = tl.zeros((tile_pixels, tile_channels), tl.int32)
    for window in tl.static_range(1, 4):
        beside = corner + window // 2 * width + window % 2
        value = tl.load(images + (beside * channels)[:, None] + channel, mask=there, other=0.0)
        larger = (value > best) | (value != value)
        best, where = tl.where(larger, value, best), tl.where(larger, window, where)
    to = (pixel * channels)[:, None] + channel
    tl.store(out + to, best, mask=there)
    tl.store(place + to, where.to(tl.int8), mask=there)


@triton.jit(do_not_specialize=UNLIKE)
def _spread(
    towards, place, out, n_pixels, height, width, quarters,
    quarter: tl.constexpr, tile_pixels: tl.constexpr, tile_channels: tl.constexpr,
):  # fmt: skip
    """Write the gradient of every pixel: that of its window if the pixel was the largest, else zero."""
    channels, rows, columns = quarters * quarter, height // 2, width // 2
    pixel = tl.program_id(0).to(tl.int64) * tile_pixels + tl.arange(0, tile_pixels)
    channel = (tl.program_id(1) * tile_channels + tl.arange(0, tile_channels))[None, :]
    there = (pixel < n_pixels)[:, None] & (channel < channels)
    image, at = pixel // (height * width), (pixel % (height * width)).to(tl.int32)
    y, x = at // width, at % width
    inside = there & ((y // 2 < rows) & (x // 2 < columns))[:, None]
    begin = (((image * rows + y // 2) * columns + x // 2) * channels)[:, None] + channel
    slope = tl.load(towards + begin, mask=inside, other=0.0)
    kept = tl.load(place + begin, mask=inside, other=-1).to(tl.int32) == (y % 2 * 2 + x % 2)[:, None]
    tl.store(out + (pixel * channels)[:, None] + channel, tl.where(kept, slope, 0.0), mask=there)


def forward(images: Tensor) -> tuple[Tensor, Tensor]:
    """(largest value of every window, its place in the window)."""
    n, height, width, channels = images.shape
    out = torch.empty(n, height // 2, width // 2, channels, device=images.device)
    place = torch.empty_like(out, dtype=torch.int8)
    _run(_keep, (images, out, place), out, height, width)
    return out, place


def backward(towards: Tensor, place: Tensor, height: int, width: int) -> Tensor:
    """The gradient of images of that size, given the gradient of the pooled values."""
    out = torch.empty(len(towards), height, width, towards.shape[3], device=towards.device)
    _run(_spread, (towards, place, out), out, height, width)
    return out


def _run(kernel: triton.JITFunction, given: tuple[Tensor, ...], written: Tensor, height: int, width: int) -> None:
    channels = written.shape[3]
    n_pixels = written.numel() // max(channels, 1)
    if not written.numel():
        return
    quarter = at_once(channels)
    tile_channels = max(quarter, min(64, triton.next_power_of_2(channels)))
    tile_pixels = TILE // tile_channels
    kernel[triton.cdiv(n_pixels, tile_pixels), triton.cdiv(channels, tile_channels)](
        *given, n_pixels, height, width, channels // quarter, quarter, tile_pixels, tile_channels, num_warps=4
    )
