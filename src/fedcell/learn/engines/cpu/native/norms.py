"""Norms of channels-last images in C++, and the backward pass of ReLUs whose gradients have another layout.

One more argument than PyTorch's norm has is the upper bound of a ReLU that follows the norm. The backward pass then has
the output of the ReLU, too; or None and the shift of the norm, from which a batch norm computes the output again.
"""

from functools import partial
from math import inf, prod
from typing import Any

import torch
from torch import Tensor

from . import IMAGES, Lowered, Native, floats

HALF = 8  # channels that fill half of the longest vectors
LEAST_CHANNELS, MOST_CHANNELS = 4, 4096  # of images that the kernels work on
NO_RELU, RELU_FOUND, RELU_ANEW = range(3)  # as batch_norm.h has it


def as_images(one: Tensor) -> Tensor:
    """Series as images of one row, rows as images of one pixel."""
    while one.dim() < 4:
        one = one.unsqueeze(2)
    return one


def fits(one: Tensor) -> bool:
    """Whether a tensor holds images, series or rows that the kernels work on."""
    alike = one.dtype == torch.float32 and 2 <= one.dim() <= 4
    return alike and LEAST_CHANNELS <= one.shape[1] <= MOST_CHANNELS


def is_images(*tensors: Tensor) -> bool:
    """Whether all tensors fit the kernels and lie channels-last."""
    return all(fits(one) and as_images(one).permute(0, 2, 3, 1).is_contiguous() for one in tensors)


def in_order(one: Tensor) -> tuple[list[Any], Tensor]:
    """Return (calls, images): channels-last images, and the calls that copy them there if `one` lies otherwise."""
    if as_images(one).permute(0, 2, 3, 1).is_contiguous():
        return [], one
    room = torch.empty(as_images(one).shape, memory_format=torch.channels_last)
    return [partial(room.copy_, as_images(one))], room.view(one.shape)


def group_norm(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    x, gamma, beta, n, channels, pixels, groups, eps, *then = args
    y, mean, rstd = outs
    if not is_images(x) or y is None or not is_images(y):
        return None
    numbers = [n, pixels, channels, groups, bool(then)]
    return [Native(IMAGES, "group_norm", numbers, floats(*(then or [inf]), eps), x, gamma, beta, y, mean, rstd)]


def group_norm_backward(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    sent, x, mean, rstd, gamma, n, channels, pixels, groups, _, *then = args
    found, by_gamma, by_beta = outs
    if found is None or not is_images(sent, x, found):
        return None
    most, masked = then or (inf, None)
    tensors = floats(most), sent, x, mean, rstd, gamma, masked, found, by_gamma, by_beta
    return [Native(IMAGES, "group_norm_by_input", [n, pixels, channels, groups], *tensors)]


def batch_norm(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    x, gamma, beta, level, spread, training, momentum, eps, *then = args
    y, mean, rstd = outs
    if y is None or not is_images(x, y):
        return None
    numbers = [*_images_pixels_channels(x), bool(then)]
    if not training:
        bounds = floats(*(then or [inf]), eps)
        return [Native(IMAGES, "batch_norm_by_running", numbers, bounds, x, gamma, beta, level, spread, y)]
    tensors = floats(*(then or [inf]), eps, momentum), x, gamma, beta, level, spread, y, mean, rstd
    return [Native(IMAGES, "batch_norm", numbers, *tensors)]


def batch_norm_backward(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    sent, x, gamma, _, _, mean, rstd, training, _, _, *then = args
    found, by_gamma, by_beta = outs
    given = [one for one in (x, found) if one is not None]
    if not training or not is_images(*given) or not fits(sent):
        return None
    calls, sent = in_order(sent)
    most, masked, beta = (*then, None, None, None)[:3]
    tensors = floats(inf if most is None else most), sent, x, mean, rstd, gamma, beta, masked, found
    relu = NO_RELU if most is None else RELU_ANEW if masked is None else RELU_FOUND
    numbers = [*_images_pixels_channels(x), relu]
    return [*calls, Native(IMAGES, "batch_norm_by_input", numbers, *tensors, by_gamma, by_beta)]


def _images_pixels_channels(x: Tensor) -> list[int]:
    """How many images, pixels and channels there are; rows count as the pixels of one image."""
    return [1, *x.shape] if x.dim() == 2 else [len(x), prod(x.shape[2:]), x.shape[1]]


def relu_backward(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    sent, out, threshold = args
    found = outs[0]
    if threshold or found is None or not is_images(out, found) or sent.dtype != torch.float32:
        return None
    if is_images(sent):
        return None  # PyTorch is quick if everything lies alike
    n, channels, height, width = as_images(out).shape
    numbers = [n, height, width, channels, *(as_images(sent).stride(axis) for axis in (0, 2, 3, 1))]
    return [Native(IMAGES, "relu_by_input", numbers, sent, out, found)]
