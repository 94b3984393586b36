"""Max-pools of 2 x 2 as kernels over many clients. Without Triton, networks stay as they are."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .conv_relu_pool import halves
from .kernels import kernels
from .over_rows import OverRows, channels_first, channels_last


def fuse_pools(module: nn.Module, device: torch.device) -> None:
    """Have the max-pools of a private copy of a module compute by kernels."""
    if (way := kernels("max_pool", device)) is None:
        return
    for part in module.modules():
        if halves(part) and "forward" not in vars(part):
            part.forward = partial(_pooled, way)


def _pooled(way: Any, x: Tensor) -> Tensor:
    if x.dtype != torch.float32 or x.dim() != 4:
        return torch.max_pool2d(x, 2, 2)
    found: Tensor = _Halved.apply(x, way)[0]  # type: ignore[no-untyped-call]
    return found


class _Halved(OverRows):
    """Forward pass: (largest value of every window, its place)."""

    @staticmethod
    def over_rows(x: Tensor, way: Any) -> tuple[Tensor, ...]:
        found = way.forward(channels_last(x).flatten(0, 1))
        return tuple(channels_first(one.unflatten(0, x.shape[:2])) for one in found)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.way = inputs
        ctx.size = tuple(x.shape[-2:])
        ctx.save_for_backward(output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _Spread.apply(gradients[0], *ctx.saved_tensors, ctx.size, ctx.way)[0], None  # type: ignore[no-untyped-call]


class _Spread(OverRows):
    """Backward pass: the gradient of the images."""

    @staticmethod
    def over_rows(gradient: Tensor, place: Tensor, size: tuple[int, int], way: Any) -> tuple[Tensor, ...]:
        towards, where = (channels_last(one).flatten(0, 1) for one in (gradient, place))
        return (channels_first(way.backward(towards, where, *size).unflatten(0, gradient.shape[:2])),)
