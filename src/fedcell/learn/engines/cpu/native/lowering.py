"""Turn recorded kernels of PyTorch on images into calls of quicker ones in C++."""

from collections.abc import Callable
from enum import Enum
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..trace import aten
from . import IMAGES, Lowered, Native, library
from .norms import (
    batch_norm,
    batch_norm_backward,
    fits,
    group_norm,
    group_norm_backward,
    in_order,
    is_images,
    relu_backward,
)
from .pools import max_pool, max_pool_backward

MOST_TAPS = 128
ROW = 512  # pixels that are worked on at a time if a convolution looks at one
WINOGRAD, DEPTHWISE, CONVOLUTION = "winograd", "depthwise", "convolution"
LEAST_GROUPED = 12  # channels of a group from which on these kernels are quicker than those of PyTorch
LEAST_CHANNELS, LEAST_SIDE = 16, 4  # of images from which on fewer products are worth the transforms
TILED, TILED_BY_WEIGHT = 2048, 4096  # tiles times channels that are worked on at a time: they stay in the cache
LEAST_TILES = 16
MOST_LANES = 16  # numbers in the longest vectors
APART = 16  # numbers between entries of tiles
_TILED_3, _TILED_5 = ((kernel, kernel, 1, 1, 1, 1) for kernel in (3, 5))  # sizes, strides and dilations
Way = Enum("Way", ["FORTH", "BY_INPUT", "BY_WEIGHT"])  # what a kernel of a convolution computes


class How(NamedTuple):
    """The settings of a convolution."""

    stride: Any
    padding: Any
    dilation: Any
    groups: int


def lowered(func: Any, args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    """Return native calls that do what a kernel of PyTorch does, on the given tensors; None if there are none."""
    rule = RULES.get(func)
    return None if rule is None or library(IMAGES) is None else rule(args, outs)


def _convolution(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    x, weight, bias, stride, padding, dilation, transposed, _, groups = args
    y, how = outs[0], How(stride, padding, dilation, groups)
    if y is None or not is_images(y) or x.dim() != 4:
        return None
    calls, x = in_order(x)
    found = _by_input(x, weight, bias, y, how) if transposed else _forth(x, weight, bias, y, how)
    return None if found is None else [*calls, *found]


def _convolution_backward(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    sent, x, weight, _, stride, padding, dilation, transposed, _, groups, wanted = args
    how = How(stride, padding, dilation, groups)
    by_input, by_weight, by_bias = (out if want else None for out, want in zip(outs, wanted, strict=True))
    if sent.dim() != 4 or not fits(sent) or (by_input is not None and not is_images(by_input)):
        return None
    (calls, sent), (copied, x) = in_order(sent), in_order(x)
    parts: list[Lowered] = [calls, copied if by_weight is not None else []]
    seen, back = (sent, x) if transposed else (x, sent)
    apart = transposed or by_weight is None
    if by_weight is not None:
        parts.append(_by_weight(seen, back, by_weight, None if apart else by_bias, how))
    if by_bias is not None and apart:
        numbers = [len(sent), prod(sent.shape[2:]), sent.shape[1]]
        parts.append([Native(IMAGES, "channel_sums", numbers, sent, by_bias)])
    if by_input is not None and transposed:
        parts.append(_forth(sent, weight, None, by_input, how))
    elif by_input is not None:
        parts.append(_by_input(sent, weight, None, by_input, how))
    return _together(parts)


def _forth(x: Tensor, weight: Tensor, bias: Tensor | None, y: Tensor, how: How) -> Lowered:
    """Return calls that write a convolution of `x` to `y`."""
    if not (kind := kind_of(x, weight, how)):
        return None
    x, y = _flat(weight, how, x, y)
    numbers, rooms = _laid_out(kind, x, weight, y, how, Way.FORTH)
    return [Native(IMAGES, kind, numbers, x, weight, bias, y, *rooms)]


def _by_input(sent: Tensor, weight: Tensor, bias: Tensor | None, found: Tensor, how: How) -> Lowered:
    """Return calls that write to `found` a convolution's gradient by its input, or a transposed one's output."""
    kind = kind_of(found, weight, how)
    if not kind or (bias is not None and kind == DEPTHWISE):
        return None
    found, sent = _flat(weight, how, found, sent)
    numbers, rooms = _laid_out(kind, found, weight, sent, how, Way.BY_INPUT)
    return [Native(IMAGES, f"{kind}_by_input", numbers, sent, weight, bias, found, *rooms)]


def _by_weight(x: Tensor, sent: Tensor, found: Tensor, by_bias: Tensor | None, how: How) -> Lowered:
    """Return calls that write a convolution's gradient by its weight to `found`, in whatever layout that has."""
    if not (kind := kind_of(x, found, how)):
        return None
    x, sent = _flat(found, how, x, sent)
    numbers, rooms = _laid_out(kind, x, found, sent, how, Way.BY_WEIGHT)
    return [Native(IMAGES, f"{kind}_by_weight", numbers, x, sent, found, by_bias, *rooms)]


def _together(parts: list[Lowered]) -> Lowered:
    return None if any(part is None for part in parts) else [call for part in parts for call in part or []]


def kind_of(x: Tensor, weight: Tensor, how: How) -> str:
    """The quickest kind of kernels for a convolution of channels-last images; empty if there is none."""
    stride, padding, dilation, groups = how
    if x.dim() != 4 or x.dtype != torch.float32 or weight.shape[2] * weight.shape[3] > MOST_TAPS:
        return ""
    if groups > 1:
        if not fits(x) or groups == x.shape[1] == weight.shape[0]:
            return DEPTHWISE if fits(x) else ""
        return CONVOLUTION if min(weight.shape[1], weight.shape[0] // groups) >= LEAST_GROUPED else ""
    kernel = weight.shape[2]
    simple = (*weight.shape[2:], *stride, *dilation) in (_TILED_3, _TILED_5) and max(padding) < kernel
    simple = simple and weight.stride(1) == 1
    sides = [x.shape[axis] + 2 * padding[axis - 2] - kernel + 1 for axis in (2, 3)]
    worth = min(weight.shape[:2]) >= LEAST_CHANNELS and min(*sides, *x.shape[2:]) >= LEAST_SIDE
    return WINOGRAD if simple and worth else CONVOLUTION


def _flat(weight: Tensor, how: How, *images: Tensor) -> list[Any]:
    """Join images into longer rows of pixels if a convolution takes pixels one by one; else return them as they are."""
    n, _, height, width = images[0].shape
    if how.groups > 1 or (*weight.shape[2:], *how.stride, *how.padding) != (1, 1, 1, 1, 0, 0):
        return [*images]
    together = max(m for m in range(1, n + 1) if n % m == 0 and (m == 1 or m * height * width <= ROW))
    return [one.permute(0, 2, 3, 1).view(n // together, 1, -1, one.shape[1]).permute(0, 3, 1, 2) for one in images]


def _laid_out(
    kind: str, x: Tensor, weight: Tensor, y: Tensor, how: How, way: Way
) -> tuple[list[int], tuple[Tensor | None, ...]]:
    """The numbers of a kernel, and room for packed weights, for an image with its padding, and for tiles."""
    if kind == WINOGRAD:
        return _tiled(x, weight, y, how, way)
    if kind == DEPTHWISE:  # of which all channels are worked on together
        how = how._replace(groups=1)
    numbers, room = (_shape_back if way is Way.BY_INPUT else _shape)(x, weight, y, how)
    n_out, n_in, *taps = weight.shape
    n_out //= how.groups
    packed = how.groups * prod(taps) * max(n_out * filled(n_in), n_in * filled(n_out))
    return numbers, (torch.zeros(packed), room)


def _numbers(x: Tensor, weight: Tensor, y: Tensor, how: How, room: list[int]) -> list[int]:
    n, n_in, height, width = x.shape
    n_out, _, high, wide = weight.shape
    steps = [weight.stride(axis) for axis in range(4)]
    given = *how.stride, *how.padding, *how.dilation
    n_in, n_out = n_in // how.groups, n_out // how.groups
    return [n, height, width, n_in, n_out, high, wide, *given, *steps, *y.shape[2:], *room, how.groups]


def _shape(x: Tensor, weight: Tensor, y: Tensor, how: How) -> tuple[list[int], Tensor | None]:
    """The numbers of a kernel that reads images, and room for one with its padding."""
    (down, right), (_, n_in, height, width) = how.padding, x.shape
    high, wide = height + 2 * down, width + 2 * right
    room = torch.zeros(high * wide * n_in // how.groups) if down or right or how.groups > 1 else None
    return _numbers(x, weight, y, how, [high, wide, down, right]), room


def _shape_back(x: Tensor, weight: Tensor, sent: Tensor, how: How) -> tuple[list[int], Tensor | None]:
    """As `_shape`, for the gradient by the input: the room holds all that the taps of any pixel may reach."""
    before, after = list[int](), list[int]()
    stride, padding, dilation = how[:3]
    for axis in (0, 1):
        reach = [
            (phase + padding[axis] - tap * dilation[axis]) // stride[axis] + place
            for phase in range(min(stride[axis], x.shape[2 + axis]))
            for tap in range(weight.shape[2 + axis])
            for place in (0, (x.shape[2 + axis] - 1 - phase) // stride[axis])
            if (phase + padding[axis] - tap * dilation[axis]) % stride[axis] == 0
        ]
        before.append(max(0, -min(reach, default=0)))
        after.append(max(0, max(reach, default=0) - (sent.shape[2 + axis] - 1)))
    high, wide = (sent.shape[2 + axis] + before[axis] + after[axis] for axis in (0, 1))
    needs = any((*before, *after)) or how.groups > 1
    room = torch.zeros(high * wide * sent.shape[1] // how.groups) if needs else None
    return _numbers(x, weight, sent, how, [high, wide, *before]), room


def _side(kernel: int, sides: Any) -> int:
    """The side of the tiles that cover images with the fewest products."""

    def products(side: int) -> int:
        return (side + kernel - 1) ** 2 * prod(-(-one // side) for one in sides)

    return min((4, 2), key=products) if kernel == 3 else 2


def _tiled(x: Tensor, weight: Tensor, y: Tensor, how: How, way: Way) -> tuple[list[int], tuple[Tensor, ...]]:
    """The numbers of a kernel that works on tiles of outputs, and its rooms: weights, an image, some tiles."""
    read, made = (y, x) if way is Way.BY_INPUT else (x, y)
    kernel = weight.shape[2]
    side = _side(kernel, made.shape[2:])
    high, wide = (side * -(-one // side) + kernel - 1 for one in made.shape[2:])
    before = [kernel - 1 - one for one in how.padding] if way is Way.BY_INPUT else [*how.padding]
    channels, n_entries = x.shape[1] + y.shape[1], (side + kernel - 1) ** 2
    block = max((TILED_BY_WEIGHT if way is Way.BY_WEIGHT else TILED) // channels, LEAST_TILES)
    sizes = (
        n_entries * max(weight.shape[0] * filled(weight.shape[1]), weight.shape[1] * filled(weight.shape[0])),
        high * wide * read.shape[1] + MOST_LANES,
        n_entries * (block * (filled(x.shape[1]) + filled(y.shape[1])) + 2 * APART),
    )
    numbers = [*_numbers(x, weight, y, how, [high, wide, *before]), block, side]
    return numbers, tuple(torch.zeros(size) for size in sizes)


def filled(channels: int) -> int:
    """So many channels, rounded up to whole vectors of any processor."""
    return -(-channels // MOST_LANES) * MOST_LANES


RULES: dict[Any, Callable[[tuple[Any, ...], list[Tensor | None]], Lowered]] = {
    aten.convolution.default: _convolution,
    aten.convolution_backward.default: _convolution_backward,
    aten.max_pool2d_with_indices.default: max_pool,
    aten.max_pool2d_with_indices_backward.default: max_pool_backward,
    aten.threshold_backward.default: relu_backward,
    aten.native_group_norm.default: group_norm,
    aten.native_group_norm_backward.default: group_norm_backward,
    aten.native_batch_norm.default: batch_norm,
    aten.native_batch_norm_backward.default: batch_norm_backward,
}
