"""Batch norm, with the ReLU behind it if there is one, for many clients with statistics of their own.

`out = gamma y + beta` with `y = (x - mean) / sqrt(variance + eps)`, mean and variance over the `m` values of a channel.
With `g` the gradient of `out`, zero where the ReLU stopped it, `dbeta = sum g`, `dgamma = sum g y` and
`dx = gamma (g - dbeta / m - y dgamma / m) / sqrt(variance + eps)`. A single value has no variance:
`out = gamma x + beta`.

The forward pass reads values twice and writes them once. The backward pass reads them and `g` twice, and recomputes
where the ReLU was active. Sums over the values of a client are computed in pieces, so that few clients fill a GPU, too.
Pieces are merged by their means and the squares around these, so that nothing cancels however large the mean is.

Shapes: values, results and gradients `[n_rows, m, channels]`, contiguous float32; all else `[n_rows, channels]`.

Reference: Chan, Golub, LeVeque, Algorithms for Computing the Sample Variance, 1983.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import at_once

ENOUGH = 2048  # programs that fill a GPU
TILE = 2048  # values of a tile
UNLIKE = ["m", "tiles", "pieces"]  # arguments for whose values no kernel is recompiled


class Tiles(NamedTuple):
    """How the values of a client are cut into tiles; kernels are compiled only for the last three numbers."""

    m: int  # values of a channel
    channels: int
    tiles: int  # of a piece
    pieces: int
    tile_m: int
    tile_channels: int
    quarter: int  # how many channels are read and written at once

    @property
    def blocks(self) -> int:
        return -(-self.channels // self.tile_channels)

    @property
    def small(self) -> tuple[int, ...]:
        """The numbers for kernels that do not cut values into pieces."""
        return self.m, self.channels, *self[-3:]


@triton.jit
def _channels(channels, tile_channels: tl.constexpr):
    return tl.program_id(1) * tile_channels + tl.arange(0, tile_channels)


@triton.jit(do_not_specialize=UNLIKE)
def _moments(
    x, mean, spread, eps,
    m, channels, tiles, pieces, tile_m: tl.constexpr, tile_channels: tl.constexpr, quarter: tl.constexpr,
    whole: tl.constexpr,
):  # fmt: skip
    """Mean of a piece and sum of squares around it; if it is the only piece, mean and `1 / sqrt(variance + eps)`."""
    channels = channels // quarter * quarter  # unchanged, but now the compiler knows that reads are aligned
    row, piece = (tl.program_id(0) // pieces).to(tl.int64), tl.program_id(0) % pieces
    channel, place = _channels(channels, tile_channels), piece * tiles * tile_m + tl.arange(0, tile_m)
    x += row * m * channels
    centre = tl.zeros((tile_m, tile_channels), tl.float32)  # of what every place of the tile has seen
    squares = tl.zeros((tile_m, tile_channels), tl.float32)
    for turn in range(tiles):
        at = place + turn * tile_m
        there = (at < m)[:, None] & (channel < channels)[None, :]
        value = tl.load(x + at[:, None] * channels + channel[None, :], mask=there, other=0.0)
        apart = tl.where(there, value - centre, 0.0)
        centre += apart / (turn + 1)
        squares += apart * tl.where(there, value - centre, 0.0)
    seen = tl.minimum(tl.maximum((m - place + tile_m - 1) // tile_m, 0), tiles).to(tl.float32)[:, None]
    n = tl.minimum(m - piece * tiles * tile_m, tiles * tile_m).to(tl.float32)
    found = tl.sum(centre * seen, 0) / n
    apart = centre - found[None, :]
    total = tl.sum(squares + seen * apart * apart, 0)
    if whole:
        total = 1.0 / tl.sqrt(total / m + eps)
    to = tl.program_id(0).to(tl.int64) * channels + channel
    tl.store(mean + to, found, mask=channel < channels)
    tl.store(spread + to, total, mask=channel < channels)


@triton.jit(do_not_specialize=UNLIKE)
def _merge(
    means, spreads, mean, rstd, eps,
    m, channels, tiles, pieces, tile_m: tl.constexpr, tile_channels: tl.constexpr, quarter: tl.constexpr,
    tile_pieces: tl.constexpr,
):  # fmt: skip
    """Mean and `1 / sqrt(variance + eps)` of a client from those of its pieces."""
    channels = channels // quarter * quarter  # unchanged, but now the compiler knows that reads are aligned
    row, channel = tl.program_id(0).to(tl.int64), _channels(channels, tile_channels)
    centre = tl.zeros((tile_channels,), tl.float32)
    for first in range(0, pieces, tile_pieces):
        piece = first + tl.arange(0, tile_pieces)
        n = tl.maximum(tl.minimum(m - piece * (tiles * tile_m), tiles * tile_m), 0).to(tl.float32)[:, None]
        there = (piece < pieces)[:, None] & (channel < channels)[None, :]
        at = (row * pieces + piece)[:, None] * channels + channel[None, :]
        centre += tl.sum(tl.load(means + at, mask=there, other=0.0) * (n / m), 0)
    total = tl.zeros((tile_channels,), tl.float32)
    for first in range(0, pieces, tile_pieces):
        piece = first + tl.arange(0, tile_pieces)
        n = tl.maximum(tl.minimum(m - piece * (tiles * tile_m), tiles * tile_m), 0).to(tl.float32)[:, None]
        there = (piece < pieces)[:, None] & (channel < channels)[None, :]
        at = (row * pieces + piece)[:, None] * channels + channel[None, :]
        apart = tl.load(means + at, mask=there, other=0.0) - centre[None, :]
        total += tl.sum(tl.load(spreads + at, mask=there, other=0.0) + n * apart * apart, 0)
    tl.store(mean + row * channels + channel, centre, mask=channel < channels)
    tl.store(rstd + row * channels + channel, 1.0 / tl.sqrt(total / m + eps), mask=channel < channels)


@triton.jit
def _normalised(value, centre, scale, shift):
    """Normalise a value; both passes share this code, so that the ReLU stops exactly the same values in both."""
    return (value - centre[None, :]) * scale[None, :] + shift[None, :]


@triton.jit(do_not_specialize=UNLIKE)
def _apply(
    x, weight, bias, mean, rstd, out,
    m, channels, tile_m: tl.constexpr, tile_channels: tl.constexpr, quarter: tl.constexpr,
    has_weight: tl.constexpr, has_bias: tl.constexpr, relu: tl.constexpr,
):  # fmt: skip
    channels = channels // quarter * quarter  # unchanged, but now the compiler knows that reads are aligned
    pieces = (m + tile_m - 1) // tile_m
    row, channel = (tl.program_id(0) // pieces).to(tl.int64), _channels(channels, tile_channels)
    known, own = channel < channels, row * channels + channel
    centre = tl.load(mean + own, mask=known, other=0.0)
    scale = tl.load(rstd + own, mask=known, other=0.0)
    if has_weight:
        scale *= tl.load(weight + own, mask=known, other=0.0)
    shift = tl.load(bias + own, mask=known & has_bias, other=0.0)
    place = tl.program_id(0) % pieces * tile_m + tl.arange(0, tile_m)
    there = (place < m)[:, None] & known[None, :]
    at = row * m * channels + place[:, None] * channels + channel[None, :]
    value = _normalised(tl.load(x + at, mask=there, other=0.0), centre, scale, shift)
    if relu:
        value = tl.where(value <= 0, 0.0, value)  # NaN stays NaN
    tl.store(out + at, value, mask=there)


@triton.jit(do_not_specialize=UNLIKE)
def _sums(
    g, x, weight, bias, mean, rstd, to_weight, to_bias,
    m, channels, tiles, pieces, tile_m: tl.constexpr, tile_channels: tl.constexpr, quarter: tl.constexpr,
    has_weight: tl.constexpr, has_bias: tl.constexpr, relu: tl.constexpr,
):  # fmt: skip
    """The sums of `g y` and of `g` over a piece."""
    channels = channels // quarter * quarter  # unchanged, but now the compiler knows that reads are aligned
    row, piece = (tl.program_id(0) // pieces).to(tl.int64), tl.program_id(0) % pieces
    channel, place = _channels(channels, tile_channels), piece * tiles * tile_m + tl.arange(0, tile_m)
    known, own = channel < channels, row * channels + channel
    centre, inverse = tl.load(mean + own, mask=known, other=0.0), tl.load(rstd + own, mask=known, other=0.0)
    scale = inverse
    if has_weight:
        scale *= tl.load(weight + own, mask=known, other=0.0)
    shift = tl.load(bias + own, mask=known & has_bias, other=0.0)
    by_weight = tl.zeros((tile_m, tile_channels), tl.float32)
    by_bias = tl.zeros((tile_m, tile_channels), tl.float32)
    for turn in range(tiles):
        at = place + turn * tile_m
        there = (at < m)[:, None] & known[None, :]
        at = row * m * channels + at[:, None] * channels + channel[None, :]
        value, slope = tl.load(x + at, mask=there, other=0.0), tl.load(g + at, mask=there, other=0.0)
        if relu:
            slope = tl.where(_normalised(value, centre, scale, shift) <= 0, 0.0, slope)
        by_bias += slope
        by_weight += slope * (value - centre[None, :])
    to = tl.program_id(0).to(tl.int64) * channels + channel
    tl.store(to_weight + to, tl.sum(by_weight, 0) * inverse, mask=known)
    tl.store(to_bias + to, tl.sum(by_bias, 0), mask=known)


@triton.jit(do_not_specialize=UNLIKE)
def _towards_input(
    g, x, weight, bias, mean, rstd, by_weight, by_bias, out,
    m, channels, tile_m: tl.constexpr, tile_channels: tl.constexpr, quarter: tl.constexpr,
    has_weight: tl.constexpr, has_bias: tl.constexpr, relu: tl.constexpr, alone: tl.constexpr,
):  # fmt: skip
    channels = channels // quarter * quarter  # unchanged, but now the compiler knows that reads are aligned
    pieces = (m + tile_m - 1) // tile_m
    row, channel = (tl.program_id(0) // pieces).to(tl.int64), _channels(channels, tile_channels)
    known, own = channel < channels, row * channels + channel
    centre, inverse = tl.load(mean + own, mask=known, other=0.0), tl.load(rstd + own, mask=known, other=0.0)
    scale = inverse
    if has_weight:
        scale *= tl.load(weight + own, mask=known, other=0.0)
    shift = tl.load(bias + own, mask=known & has_bias, other=0.0)
    place = tl.program_id(0) % pieces * tile_m + tl.arange(0, tile_m)
    there = (place < m)[:, None] & known[None, :]
    at = row * m * channels + place[:, None] * channels + channel[None, :]
    value, slope = tl.load(x + at, mask=there, other=0.0), tl.load(g + at, mask=there, other=0.0)
    if relu:
        slope = tl.where(_normalised(value, centre, scale, shift) <= 0, 0.0, slope)
    if not alone:  # a single value is no part of any statistics
        lean = tl.load(by_weight + own, mask=known, other=0.0) * inverse / m
        level = tl.load(by_bias + own, mask=known, other=0.0) / m
        slope -= (value - centre[None, :]) * lean[None, :] + level[None, :]
    tl.store(out + at, slope * scale[None, :], mask=there)


def forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """(out, mean, `1 / sqrt(variance + eps)`); for a single value the last two are 0 and 1."""
    size = _size(x)
    mean, rstd = _statistics(x, size, eps)
    out = torch.empty_like(x)
    grid = len(x) * triton.cdiv(size.m, size.tile_m), size.blocks
    _apply[grid](x, *_given(mean, weight, bias), mean, rstd, out, *size.small, *_flags(weight, bias, relu), num_warps=4)
    return out, mean, rstd


def backward(
    g: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, rstd: Tensor, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `x`, of the weight and of the bias, given that of `out`."""
    size, flags = _size(x), _flags(weight, bias, relu)
    given = g, x, *_given(mean, weight, bias), mean, rstd
    sums = x.new_empty(2, len(x), size.pieces, size.channels)
    _sums[len(x) * size.pieces, size.blocks](*given, *sums, *size, *flags, num_warps=4)
    by_weight, by_bias = sums.sum(2) if size.pieces > 1 else sums[:, :, 0]
    out = torch.empty_like(x)
    grid = len(x) * triton.cdiv(size.m, size.tile_m), size.blocks
    _towards_input[grid](*given, by_weight, by_bias, out, *size.small, *flags, size.m == 1, num_warps=4)
    return out, by_weight, by_bias


def _statistics(x: Tensor, size: Tiles, eps: float) -> tuple[Tensor, Tensor]:
    n, pieces = len(x), size.pieces
    if size.m == 1:
        return x.new_zeros(n, size.channels), x.new_ones(n, size.channels)
    mean, spread = (x.new_empty(n, pieces, size.channels) for _ in range(2))
    _moments[n * pieces, size.blocks](x, mean, spread, eps, *size, pieces == 1, num_warps=4)
    if pieces == 1:
        return mean[:, 0], spread[:, 0]
    whole, rstd = (x.new_empty(n, size.channels) for _ in range(2))
    tile = min(32, triton.next_power_of_2(pieces))
    _merge[n, size.blocks](mean, spread, whole, rstd, eps, *size, tile, num_warps=4)
    return whole, rstd


def _size(x: Tensor) -> Tiles:
    """Choose tiles that waste few channels, and pieces of as many tiles as still leave enough programs."""
    n, m, channels = x.shape
    widths = [width for width in (64, 32) if width <= max(32, channels)]
    tile_channels = min(widths, key=lambda width: -(-channels // width) * width)  # 32 are a line of the cache
    tile_channels = min(tile_channels, triton.next_power_of_2(channels))
    tile_m = max(4, min(TILE // tile_channels, triton.next_power_of_2(m)))
    n_tiles, blocks = -(-m // tile_m), -(-channels // tile_channels)
    tiles = -(-n_tiles // max(1, min(n_tiles, ENOUGH // (n * blocks))))
    quarter = at_once(channels)
    return Tiles(m, channels, tiles, -(-n_tiles // tiles), tile_m, tile_channels, quarter)


def _given(instead: Tensor, *values: Tensor | None) -> list[Tensor]:
    """Replace absent tensors by `instead`, a valid pointer that no kernel reads."""
    return [instead if value is None else value for value in values]


def _flags(weight: Tensor | None, bias: Tensor | None, relu: bool) -> tuple[bool, bool, bool]:
    return weight is not None, bias is not None, relu
