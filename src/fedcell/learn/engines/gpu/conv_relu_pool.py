"""Fuse convolutions with the ReLU and the max-pool behind them, for many clients at once.

Without Triton, networks stay as they are.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .kernels import kernels
from .norms import watched
from .over_rows import OverRows, channels_first, channels_last

MOST_KERNEL, MOST_CHANNELS = 7, 64  # of a convolution; larger ones were not measured
MOST_ENTRIES = 512  # of a patch: long ones are faster made once, as in `convolutions` (H200)


def fuse(module: nn.Module, device: torch.device) -> None:
    """Fuse each convolution with a ReLU and a 2x2 max-pool right behind it, in a private copy of a chain of layers.

    Nothing else may see the values between these layers, so the chain must be the whole network, without hooks there.
    """
    way = kernels("pooled_conv", device)
    parts = [part for part in module.modules() if part is not module and isinstance(part, nn.Sequential)]
    chain = list(_layers(module)) if way and not watched(*parts) else []
    used = [id(layer) for _, _, layer in chain]
    for at, (_, _, layer) in enumerate(chain):
        behind = [part for _, _, part in chain[at + 1 : at + 3]]
        if type(layer) is not nn.Conv2d or not _fits(layer) or used.count(id(layer)) > 1 or len(behind) < 2:
            continue
        if watched(layer, *behind):
            continue
        if any(map(halves, behind)) and any(type(part) is nn.ReLU for part in behind):
            layer.forward = partial(_pooled, way, layer, at == 0)  # type: ignore[method-assign]
            for owner, name, _ in chain[at + 1 : at + 3]:
                owner._modules[name] = nn.Identity()


def _layers(module: nn.Module) -> Any:
    """Yield (owner, name, layer) in running order for nested Sequentials; nothing for any other network."""
    if type(module) is nn.Sequential:
        for name, part in module._modules.items():
            assert part is not None
            if type(part) is nn.Sequential:
                yield from _layers(part)
            else:
                yield module, name, part


def _fits(layer: nn.Conv2d) -> bool:
    kernel, padding = layer.kernel_size, layer.padding
    plain = layer.stride == layer.dilation == (1, 1) and layer.groups == 1 and layer.padding_mode == "zeros"
    square = kernel[0] == kernel[1] <= MOST_KERNEL and not isinstance(padding, str) and padding[0] == padding[1]
    short = layer.in_channels * kernel[0] * kernel[1] <= MOST_ENTRIES
    return plain and square and short and max(layer.in_channels, layer.out_channels) <= MOST_CHANNELS


def halves(layer: nn.Module) -> bool:
    """Whether a layer is a max-pool of 2 x 2."""
    if type(layer) is not nn.MaxPool2d:
        return False
    fixed = (layer.padding, layer.dilation, layer.ceil_mode, layer.return_indices) == (0, 1, False, False)
    return fixed and layer.kernel_size in (2, (2, 2)) and layer.stride in (2, (2, 2))


def _pooled(way: Any, layer: nn.Conv2d, first: bool, x: Tensor) -> Tensor:
    bias = layer.weight.new_zeros(layer.out_channels) if layer.bias is None else layer.bias
    assert isinstance(layer.padding, tuple)
    found: Tensor = _Pooled.apply(x, layer.weight, bias, layer.padding[0], first, way)[0]  # type: ignore[no-untyped-call]
    return found


class _Pooled(OverRows):
    """Forward pass: (convolution through ReLU and pool, place of the largest value in its window)."""

    @staticmethod
    def over_rows(x: Tensor, weight: Tensor, bias: Tensor, padding: int, first: bool, way: Any) -> tuple[Tensor, ...]:
        return tuple(
            channels_first(value)
            for value in way.forward(channels_last(x), weight.contiguous(), bias.contiguous(), padding)
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, weight, _, *ctx.rest = inputs
        ctx.save_for_backward(x, weight, *output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        found = _PooledBack.apply(gradients[0], *ctx.saved_tensors, *ctx.rest)  # type: ignore[no-untyped-call]
        return found[2] if len(found) > 2 else None, found[0], found[1], None, None, None


class _PooledBack(OverRows):
    """Gradients of weights and biases, and of the images unless the layer is the first one."""

    @staticmethod
    def over_rows(
        gradient: Tensor,
        x: Tensor,
        weight: Tensor,
        out: Tensor,
        place: Tensor,
        padding: int,
        first: bool,
        way: Any,
    ) -> tuple[Tensor, ...]:
        kept = torch.ops.aten.threshold_backward(channels_last(gradient), channels_last(out), 0)
        towards, weight = way.spread(kept, channels_last(place)), weight.contiguous()
        found = way.towards_weight(channels_last(x), weight, towards, padding), kept.sum((1, 2, 3))
        if first:
            return found
        return *found, channels_first(way.towards_input(towards, weight, padding, *x.shape[3:]))
