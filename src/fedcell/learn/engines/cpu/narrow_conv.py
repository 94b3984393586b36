"""Convolutions as many small products, for channels that do not fill the vectors of a processor.

Images lie as `[height, channels, width, n]`. With what the kernel sees sideways spelled out, `[height, wide * channels,
width * n]`, the rows that one row of the output looks at are one matrix. These overlap and need no copies.

The products are NumPy's: its library has kernels for small matrices, which were up to 2.5 times as fast as PyTorch's.
"""

import numpy as np
import torch
from torch import Tensor, nn

from .kernels import Calls, Made, Slot
from .products import SMALL

NARROW = 16  # columns below which a product is not worth its call
VECTOR = 16  # numbers that a processor works on at once
WASTE = 1.3  # lanes over channels from which on windows won: not at 1.1, as quick at 1.4, 1.6 to 2.2 times at 1.6


def wins(layer: nn.Conv2d, shape: torch.Size, first: bool) -> bool:
    """Whether windows can serve and should win, for images of a shape."""
    assert isinstance(layer.padding, tuple)
    if layer.stride != (1, 1) or layer.dilation != (1, 1) or layer.groups != 1:
        return False
    wasted = [_lanes(layer.out_channels)] * 2 + [_lanes(layer.in_channels)] * (not first)  # there, weight, and back
    columns = shape[0] * (shape[3] + 2 * layer.padding[1] - layer.kernel_size[1] + 1)
    return sum(wasted) > WASTE * len(wasted) and _columns(columns, layer.weight.numel()) >= NARROW


def _lanes(channels: int) -> float:
    """Lanes of vectors that channels take, over those they fill."""
    return -(-channels // VECTOR) * VECTOR / channels


def windows(calls: Calls, x: Tensor, layer: nn.Conv2d, weight: Slot, bias: Slot | None, first: bool) -> Made:
    assert isinstance(layer.padding, tuple)
    (high, wide), (down, right) = layer.kernel_size, layer.padding
    planes = x.permute(2, 1, 3, 0)
    if down or right or not planes.is_contiguous():
        planes = _padded(calls, planes, down, right)
    spread = planes.unfold(2, wide, 1).permute(0, 4, 1, 2, 3)  # [height, wide, channels, width, n]
    rows = torch.empty(spread.shape)
    calls.add(rows.copy_, spread)
    width, n = spread.shape[3:]
    flat = rows.view(len(rows), -1, width * n)
    seen = _stacked(flat, high)  # [height, high, wide * channels, width * n]
    y = torch.empty(len(seen), layer.out_channels, width * n)
    matrix = weight.value.permute(0, 2, 3, 1).view(layer.out_channels, -1)
    _product(calls, matrix, seen.view(len(seen), -1, width * n), y)
    if bias is not None:
        calls.add(y.add_, bias.value[:, None])

    def back(towards: Tensor) -> Tensor:
        sent = towards.permute(2, 1, 3, 0)
        if not sent.is_contiguous():
            sent = torch.empty(sent.shape)
            calls.add(sent.copy_, towards.permute(2, 1, 3, 0))
        _weight_gradient(calls, sent.flatten(2), seen, weight)
        if bias is not None:
            calls.add(torch.sum, sent, (0, 2, 3), out=bias.gradient)
        if first:
            return towards
        found = _input_gradient(calls, sent, weight.value, planes.shape, down)
        return found[down : len(found) - down, :, right : found.shape[2] - right].permute(3, 1, 0, 2)

    return y.view(len(y), -1, width, n).permute(3, 1, 0, 2), back


def _stacked(rows: Tensor, high: int) -> Tensor:
    """What `high` rows in turn hold, `[n_rows - high + 1, high, ...]`, without a copy."""
    return rows.unfold(0, high, 1).permute(0, 3, 1, 2)


def _padded(calls: Calls, planes: Tensor, down: int, right: int) -> Tensor:
    height, channels, width, n = planes.shape
    padded = torch.zeros(height + 2 * down, channels, width + 2 * right, n)
    calls.add(padded[down : down + height, :, right : right + width].copy_, planes)
    return padded


def _product(calls: Calls, left: Tensor, right: Tensor, out: Tensor) -> None:
    """`left [a, b] @ right [..., b, columns]`, cut into products that are small."""
    size = _columns(right.shape[-1], left.numel())
    right, out = (torch.unflatten(part, -1, (-1, size)).transpose(-3, -2) for part in (right, out))
    calls.add(np.matmul, left.numpy(), right.numpy(), out=out.numpy())


def _columns(total: int, each: int) -> int:
    """The largest divisor of `total` for which products with `each` multiplications per column stay small."""
    most = max(1, SMALL // each)
    return next(size for size in range(min(most, total), 0, -1) if total % size == 0)


def _weight_gradient(calls: Calls, sent: Tensor, seen: Tensor, weight: Slot) -> None:
    """The sum over places of (what is sent back) times (what was seen)."""
    size = _columns(sent.shape[2], sent.shape[1] * seen.shape[2])
    left = torch.unflatten(sent, 2, (-1, size)).transpose(1, 2)[:, None]  # [height, 1, n_pieces, out, size]
    right = torch.unflatten(seen, 3, (-1, size)).permute(0, 1, 3, 4, 2)  # [height, high, n_pieces, size, ...]
    parts = torch.empty(*right.shape[:3], left.shape[3], right.shape[4])
    calls.add(np.matmul, left.numpy(), right.numpy(), out=parts.numpy())
    assert weight.gradient is not None
    into = weight.gradient.permute(2, 0, 3, 1).view(parts.shape[1], *parts.shape[3:])
    calls.add(torch.sum, parts, (0, 2), out=into)


def _input_gradient(calls: Calls, sent: Tensor, weight: Tensor, shape: torch.Size, down: int) -> Tensor:
    """Every row gets from the rows of the output that saw it; then what lies side by side is added up."""
    height, channels, _, n = shape
    out_height, n_out, width, _ = sent.shape
    high, wide = weight.shape[2:]
    turned = torch.empty(wide, channels, high, n_out)  # with the kernel upside down, as the rows of the output come
    calls.add(lambda: turned.copy_(weight.flip(2).permute(3, 1, 2, 0)))
    matrix = turned.view(wide * channels, high * n_out)
    found = torch.zeros(height, wide * channels, width * n)  # nobody asks for the rows of the padding
    inner = slice(high - 1, out_height)  # rows that as many rows of the output saw as the kernel is high
    if inner.start < inner.stop:
        _product(calls, matrix, _stacked(sent.flatten(2), high).view(-1, high * n_out, width * n), found[inner])
    for row in range(down, height - down):
        if inner.start <= row < inner.stop:
            continue
        begin, end = max(0, row - high + 1), min(row + 1, out_height)
        skip = begin - (row - high + 1)
        part = matrix[:, skip * n_out : (skip + end - begin) * n_out]
        _product(calls, part, sent[begin:end].view(-1, width * n), found[row])
    found = found.view(height, wide, channels, width, n)
    planes = torch.empty(shape)
    calls.add(planes.zero_)
    for place in range(wide):
        calls.add(planes[:, :, place : place + width].add_, found[:, place])
    return planes
