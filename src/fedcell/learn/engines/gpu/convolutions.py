"""Convolutions of many models as patches times matrices: one batched product per layer for all models.

vmap turns the convolutions of many models into one with groups, which GPUs do slowly if channels are many. With `P` the
patches of the images of a model, a row for every place that its kernels see, and `W` its filters,

    forward   Y = P W + b
    backward  dW = P^T dY,   db = sum of dY over places,   dX = P' W'

`P'` are the patches of `dY`, spread by the stride, and `W'` the filters turned around. Images are stored channels last,
as products write them, so that a patch consists of long runs of memory.
"""

from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .kernels import kernels
from .over_rows import OverRows, channels_first, channels_last

Size = tuple[int, int]
ALL = (1, 1)  # down and right: no stride, no spread, or a kernel of one pixel
TILE = 64  # side of the tile of a product that a GPU computes at a time
ENOUGH = 264  # tiles that fill a GPU
LEAST = 256  # least terms of each piece of a sum


def multiply(module: nn.Module) -> None:
    """Have the convolutions of a private copy of a module compute as matrix products, with the same parameters."""
    for part in module.modules():
        if type(part) is nn.Conv2d and "forward" not in vars(part) and _fits(part):
            part.forward = partial(convolve, part)  # type: ignore[method-assign]


def _fits(layer: nn.Conv2d) -> bool:
    plain = layer.groups == 1 and layer.dilation == (1, 1) and layer.padding_mode == "zeros"
    return plain and not isinstance(layer.padding, str)


def convolve(layer: nn.Conv2d, x: Tensor, biased: bool = True) -> Tensor:
    """Compute the layer as a matrix product, with or without its bias."""
    if x.dim() != 4 or not len(x):
        return nn.Conv2d.forward(layer, x) if biased else layer._conv_forward(x, layer.weight, None)
    given: tuple[Tensor | None, ...] = x, layer.weight, layer.bias if biased else None
    kind = x.device.type
    if torch.is_autocast_enabled(kind):  # round as autocast rounds the arguments of a convolution
        given = tuple(None if one is None else one.to(torch.get_autocast_dtype(kind)) for one in given)
    found: Tensor = _Convolved.apply(*given, layer.stride, layer.padding)[0]  # type: ignore[no-untyped-call]
    return found


class _Convolved(OverRows):
    """Forward pass: (result, patches)."""

    @staticmethod
    def over_rows(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Size, padding: Size) -> tuple[Tensor, ...]:
        kernel = weight.shape[3], weight.shape[4]
        sides = [(x.shape[3 + d] + 2 * padding[d] - kernel[d]) // stride[d] + 1 for d in (0, 1)]
        rows = patches(_places(x), kernel, stride, (padding[0], padding[0], padding[1], padding[1]))
        filters = channels_last(weight).flatten(2).transpose(1, 2)  # [n_models, taps * channels, channels behind]
        found = torch.bmm(rows, filters) if bias is None else torch.baddbmm(bias[:, None], rows, filters)
        return channels_first(found.view(*x.shape[:2], *sides, -1)), rows

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, weight, bias, *ctx.how = inputs
        ctx.size, ctx.biased = x.shape[-2:], bias is not None
        ctx.save_for_backward(weight, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        weight, rows = ctx.saved_tensors
        inwards = tuple(ctx.size) if ctx.needs_input_grad[0] else None
        found = _Back.apply(gradients[0], weight, rows, *ctx.how, inwards)  # type: ignore[no-untyped-call]
        return found[2] if inwards else None, found[0], found[1] if ctx.biased else None, None, None


class _Back(OverRows):
    """Gradients of filters and biases, and of images of size `inwards`, if any."""

    @staticmethod
    def over_rows(
        gradient: Tensor, weight: Tensor, rows: Tensor, stride: Size, padding: Size, inwards: Size | None
    ) -> tuple[Tensor, ...]:
        towards, filters = _places(gradient), channels_last(weight)
        slopes = towards.flatten(1, 3)  # [n_models, places, channels behind]
        filtered = _long_product(slopes, rows).view(filters.shape)
        found = channels_first(filtered), slopes.sum(1)
        if inwards is None:
            return found
        kernel, around = (weight.shape[3], weight.shape[4]), []
        for d in (0, 1):
            before = kernel[d] - 1 - padding[d]
            unseen = (inwards[d] + 2 * padding[d] - kernel[d]) % stride[d]  # pixels behind the last place
            around += [before, before + unseen]
        seen = patches(towards, kernel, ALL, (around[0], around[1], around[2], around[3]), stride)
        taps = [filters[:, :, y, x] for y in reversed(range(kernel[0])) for x in reversed(range(kernel[1]))]
        turned = torch.stack(taps, dim=1).flatten(1, 2)  # [n_models, taps * channels behind, channels]
        images = torch.bmm(seen, turned).view(*towards.shape[:2], *inwards, -1)
        return *found, channels_first(images)


def _places(images: Tensor) -> Tensor:
    """Images channels last with places at even distances in memory; a slice of channels is not copied."""
    last = images.movedim(2, -1)
    _, down, right, row = last.stride()[1:]
    even = row == 1 and down == last.shape[3] * right and last.stride(1) == last.shape[2] * down
    return last if even else last.contiguous()


def _long_product(left: Tensor, right: Tensor) -> Tensor:
    """`left^T right` of every model; if sums are long and results small, computed in pieces that are added up."""
    n_models, n = left.shape[:2]
    tiles, pieces = -(-left.shape[2] // TILE) * -(-right.shape[2] // TILE), 1
    while n_models * tiles * pieces < ENOUGH and n % (2 * pieces) == 0 and n // (2 * pieces) >= LEAST:
        pieces *= 2
    cut = [part.reshape(n_models * pieces, n // pieces, -1) for part in (left, right)]
    found = torch.bmm(cut[0].transpose(1, 2), cut[1])
    return found if pieces == 1 else found.view(n_models, pieces, *found.shape[1:]).sum(1)


def patches(images: Tensor, kernel: Size, stride: Size, around: tuple[int, int, int, int], apart: Size = ALL) -> Tensor:
    """The patches that a convolution sees at each of its places, `[n_models, n * places, taps * channels]`.

    Args:
        images: `[n_models, n, height, width, channels]`.
        kernel: height and width.
        stride: down and right.
        around: pixels of zeros above, below, left and right; negative numbers cut off as many pixels.
        apart: distance from one pixel to the next, with zeros between.
    """
    if kernel == stride == apart == ALL and not any(around):
        return images.flatten(1, 3)
    images = images.contiguous()
    if way := kernels("patches", images.device):
        found: Tensor = way.patches(images, kernel, stride, around, apart)
        return found
    above, below, left, right = around
    images = functional.pad(_spread(images, apart), (0, 0, left, right, above, below))
    n_models, n, height, width, channels = images.shape
    sides = [(images.shape[2 + d] - kernel[d]) // stride[d] + 1 for d in (0, 1)]
    by_row, by_pixel = width * channels, channels
    view = images.as_strided(
        (n_models * n, *sides, *kernel, channels),
        (height * by_row, stride[0] * by_row, stride[1] * by_pixel, by_row, by_pixel, 1),
    )
    return view.reshape(n_models, n * prod(sides), prod(kernel) * channels)


def _spread(images: Tensor, apart: Size) -> Tensor:
    """Images with zeros between their pixels."""
    if apart == ALL:
        return images
    n_models, n, height, width, channels = images.shape
    found = images.new_zeros(n_models, n, (height - 1) * apart[0] + 1, (width - 1) * apart[1] + 1, channels)
    found[:, :, :: apart[0], :: apart[1]] = images
    return found
