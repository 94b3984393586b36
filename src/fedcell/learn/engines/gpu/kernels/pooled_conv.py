"""A convolution with its bias, ReLU and max-pool as one kernel, for many clients with weights of their own.

Batched over clients, a small convolution becomes one with groups, whose kernels leave most of a GPU idle. Its result is
also four times as large as the result of the pool. Here a program takes some pooled pixels of a client, makes the
patches of the images on the fly, and writes only the largest value of every window and its place.

Shapes: images and results `[n_rows, batch, height, width, channels]`, weights `[n_rows, n_out, n_in, kernel, kernel]`.
Stride 1, square kernels, zeros as padding. Each float32 product is made of three TensorFloat-32 products, which
is as exact; with `train.tf32` it is one.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

ENOUGH = 1024  # programs that fill a GPU


class Size(NamedTuple):
    """The sizes of a kernel; it is compiled for all of them but the first."""

    batch: int
    n_in: int
    n_out: int
    height: int
    width: int
    kernel: int
    padding: int
    rows: int  # of pixels that are computed
    columns: int


@triton.jit
def _patches(
    x, pixel, entry, y, z, batch, n_in, height, width, kernel, padding, rows, columns, stride: tl.constexpr
):  # fmt: skip
    """The patch at offset `(y, z)` from each pixel, `[pixels, entries]`; an entry is a tap and a channel."""
    image, at = pixel // (rows * columns), pixel % (rows * columns)
    tap, channel = entry // n_in, entry % n_in
    y = (at // columns * stride + y - padding)[:, None] + (tap // kernel)[None, :]
    z = (at % columns * stride + z - padding)[:, None] + (tap % kernel)[None, :]
    there = (image < batch)[:, None] & (tap < kernel * kernel)[None, :]
    there &= (y >= 0) & (y < height) & (z >= 0) & (z < width)
    return tl.load(x + ((image[:, None] * height + y) * width + z) * n_in + channel[None, :], mask=there, other=0.0)


@triton.jit(do_not_specialize=["batch"])
def _convolve(
    x, weight, bias, out, place,
    batch, n_in: tl.constexpr, n_out: tl.constexpr, height: tl.constexpr, width: tl.constexpr,
    kernel: tl.constexpr, padding: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
    back: tl.constexpr,
    tile_pixels: tl.constexpr, tile_out: tl.constexpr, tile_entries: tl.constexpr, products: tl.constexpr,
):  # fmt: skip
    """Forward pass with bias, ReLU and pool. With `back`: gradient of the images, by turned weights, without these."""
    n_entries: tl.constexpr = n_in * kernel * kernel
    blocks = (batch * rows * columns + tile_pixels - 1) // tile_pixels
    row = (tl.program_id(0) // blocks).to(tl.int64)
    pixel = tl.program_id(0) % blocks * tile_pixels + tl.arange(0, tile_pixels)
    channel = tl.program_id(1) * tile_out + tl.arange(0, tile_out)
    x += row * batch * height * width * n_in
    weight += row * n_out * n_entries
    best = tl.full((tile_pixels, tile_out), float("-inf"), tl.float32)
    where = tl.zeros((tile_pixels, tile_out), tl.int32)
    for window in range(1 if back else 4):
        found = tl.zeros((tile_pixels, tile_out), tl.float32)
        for first in range(0, n_entries, tile_entries):
            entry = first + tl.arange(0, tile_entries)
            seen = _patches(
                x, pixel, entry, window // 2, window % 2,
                batch, n_in, height, width, kernel, padding, rows, columns, 1 if back else 2,
            )  # fmt: skip
            tap, into = entry // n_in, entry % n_in
            if back:  # rows of the weights are channels of the gradients, and taps run the other way
                at = (into[:, None] * n_out + channel[None, :]) * (kernel * kernel) + kernel * kernel - 1 - tap[:, None]
            else:
                at = (channel[None, :] * n_in + into[:, None]) * (kernel * kernel) + tap[:, None]
            there = (entry < n_entries)[:, None] & (channel < n_out)[None, :]
            own = tl.load(weight + at, mask=there, other=0.0)
            found = tl.dot(seen, own, found, input_precision=products)
        larger = (found > best) | (found != found)  # what is not a number stays so
        best = tl.where(larger, found, best)
        where = tl.where(larger, window, where)
    there = (pixel < batch * rows * columns)[:, None] & (channel < n_out)[None, :]
    to = pixel[:, None] * n_out + channel[None, :]
    begin = row * batch * rows * columns * n_out
    if not back:
        best += tl.load(bias + row * n_out + channel, mask=channel < n_out, other=0.0)[None, :]
        best = tl.where(best <= 0, 0.0, best)
        tl.store(place + begin + to, where.to(tl.int8), mask=there)
    tl.store(out + begin + to, best, mask=there)


@triton.jit
def _spread(towards, place, out, n, n_out: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr, tile: tl.constexpr):
    """Gradients of pooled pixels at the places of their windows that they came from, zeros elsewhere."""
    item = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    slope = tl.load(towards + item, mask=item < n, other=0.0)
    where = tl.load(place + item, mask=item < n, other=0)
    pixel, channel = item // n_out, item % n_out
    to = (pixel // columns * 4 * columns + pixel % columns * 2) * n_out + channel
    for window in tl.static_range(4):
        beside = (window // 2 * 2 * columns + window % 2) * n_out
        tl.store(out + to + beside, tl.where(where == window, slope, 0.0), mask=item < n)


@triton.jit(do_not_specialize=["batch", "parts"])
def _towards_weight(
    x, towards, found,
    batch, n_in: tl.constexpr, n_out: tl.constexpr, height: tl.constexpr, width: tl.constexpr,
    kernel: tl.constexpr, padding: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
    parts,
    tile_pixels: tl.constexpr, tile_out: tl.constexpr, tile_entries: tl.constexpr, products: tl.constexpr,
):  # fmt: skip
    """Sum the gradient of the weights over every `parts`-th block of pixels."""
    n_entries: tl.constexpr = n_in * kernel * kernel
    n_pixels = batch * rows * columns
    blocks: tl.constexpr = (n_entries + tile_entries - 1) // tile_entries
    piece = tl.program_id(0) // blocks
    row = (piece // parts).to(tl.int64)
    entry = tl.program_id(0) % blocks * tile_entries + tl.arange(0, tile_entries)
    channel = tl.program_id(1) * tile_out + tl.arange(0, tile_out)
    x += row * batch * height * width * n_in
    towards += row * n_pixels * n_out
    total = tl.zeros((tile_out, tile_entries), tl.float32)
    for first in range(0, n_pixels, parts * tile_pixels):
        pixel = first + piece % parts * tile_pixels + tl.arange(0, tile_pixels)
        there = (channel < n_out)[:, None] & (pixel < n_pixels)[None, :]
        slope = tl.load(towards + pixel[None, :] * n_out + channel[:, None], mask=there, other=0.0)
        seen = _patches(x, pixel, entry, 0, 0, batch, n_in, height, width, kernel, padding, rows, columns, 1)
        total = tl.dot(slope, seen, total, input_precision=products)
    tap, into = entry // n_in, entry % n_in
    at = (channel[:, None] * n_in + into[None, :]) * (kernel * kernel) + tap[None, :]
    there = (channel < n_out)[:, None] & (entry < n_entries)[None, :]
    tl.store(found + piece.to(tl.int64) * n_out * n_entries + at, total, mask=there)


def forward(x: Tensor, weight: Tensor, bias: Tensor, padding: int, **how: Any) -> tuple[Tensor, Tensor]:
    """(largest value of every window after bias and ReLU, its place in the window)."""
    n, batch, height, width, n_in = x.shape
    n_out, kernel = weight.shape[1], weight.shape[-1]
    rows, columns = ((side + 2 * padding - kernel + 1) // 2 for side in (height, width))
    out = torch.empty(n, batch, rows, columns, n_out, device=x.device)
    place = torch.empty_like(out, dtype=torch.int8)
    size = Size(batch, n_in, n_out, height, width, kernel, padding, rows, columns)
    _run(x, weight, bias, out, place, size, False, how)
    return out, place


def spread(towards: Tensor, place: Tensor) -> Tensor:
    """The gradient of the input of the pool, given that of its output."""
    n, batch, rows, columns, n_out = towards.shape
    found = torch.empty(n, batch, 2 * rows, 2 * columns, n_out, device=towards.device)
    _spread[(triton.cdiv(towards.numel(), 1024),)](
        towards, place, found, towards.numel(), n_out, rows, columns, 1024, num_warps=4
    )
    return found


def towards_input(towards: Tensor, weight: Tensor, padding: int, height: int, width: int, **how: Any) -> Tensor:
    """The gradient of the images, given that of the input of the pool."""
    n, batch, rows, columns, n_out = towards.shape
    n_in, kernel = weight.shape[2], weight.shape[-1]
    found = torch.empty(n, batch, height, width, n_in, device=towards.device)
    size = Size(batch, n_out, n_in, rows, columns, kernel, kernel - 1 - padding, height, width)
    _run(towards, weight, weight, found, found, size, True, how)
    return found


def towards_weight(x: Tensor, weight: Tensor, towards: Tensor, padding: int, **how: Any) -> Tensor:
    """The gradient of the weights, given that of the input of the pool; in several parts if clients are few."""
    n, batch, height, width, n_in = x.shape
    n_out, kernel = weight.shape[1], weight.shape[-1]
    size = Size(batch, n_in, n_out, height, width, kernel, padding, *towards.shape[2:4])
    tile = {
        "tile_pixels": 32,
        "tile_out": _power(n_out),
        "tile_entries": 32,
        "products": precision(),
        "num_warps": 4,
    } | how
    n_blocks = _parts(n_in * kernel**2, tile["tile_entries"]), _parts(n_out, tile["tile_out"])
    pieces = _parts(batch * size.rows * size.columns, tile["tile_pixels"])
    parts = max(1, min(pieces, ENOUGH // (n * n_blocks[0] * n_blocks[1])))
    found = torch.empty(n, parts, *weight.shape[1:], device=x.device)
    _towards_weight[n * parts * n_blocks[0], n_blocks[1]](x, towards, found, *size, parts, **tile)
    return found.sum(1) if parts > 1 else found[:, 0]


def _run(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    out: Tensor,
    place: Tensor,
    size: Size,
    back: bool,
    how: dict[str, Any],
) -> None:
    tile = {
        "tile_pixels": 128 if size.n_out <= 16 else 64,
        "tile_out": _power(size.n_out),
        "tile_entries": 16 if size.n_in * size.kernel**2 > 32 >= size.n_out else 32,
        "products": precision(),
        "num_warps": 4,
    } | how
    n_blocks = _parts(size.batch * size.rows * size.columns, tile["tile_pixels"]), _parts(size.n_out, tile["tile_out"])
    _convolve[len(x) * n_blocks[0], n_blocks[1]](x, weight, bias, out, place, *size, back, **tile)


def precision() -> str:
    """The precision of products: as exact as float32, unless `train.tf32` allows rounding."""
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "tf32x3"


def _power(n: int) -> int:
    """The width of a tile for `n` values: a power of two from 16 to 64, as tensor cores need."""
    return int(min(64, max(16, triton.next_power_of_2(n))))


def _parts(n: int, size: Any) -> int:
    return -(-n // int(size))
