"""Batch norms as kernels over many clients, each with the ReLU behind it in the same kernel.

A norm by the statistics of its batch cancels the bias of the convolution before it, so that bias is not added at all.

Without Triton, networks stay as they are.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...norms import NORMS, BatchNorm, RunningNorm
from .convolutions import convolve
from .kernels import kernels
from .over_rows import OverRows, channels_first, channels_last

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def fuse_norms(module: nn.Module, device: torch.device) -> None:
    """Have the batch norms of a private copy of a module compute by kernels, with the same parameters.

    When a `Sequential` runs as a whole, the kernel of a norm also does the ReLU right behind it, and a convolution
    right before a norm leaves out its bias. The layers themselves do not change: called one by one, they give the same
    values as before.
    """
    way = kernels("batch_norm", device)
    if way is None:
        return
    for part in module.modules():
        if isinstance(part, BatchNorm | RunningNorm) and type(part) in NORMS and "forward" not in vars(part):
            part.forward = partial(_normed, way, part)  # type: ignore[method-assign]
    for part in module.modules():
        if type(part) is nn.Sequential and "forward" not in vars(part) and any(map(_saves, *_beside(part))):
            part.forward = partial(_in_turn, part)  # type: ignore[method-assign]


def _beside(chain: nn.Sequential) -> tuple[list[nn.Module], list[nn.Module]]:
    layers = list(chain)
    return layers, layers[1:]


def _in_turn(chain: nn.Sequential, x: Tensor) -> Tensor:
    """Run the chain without each ReLU that a norm does itself, and without each bias that a norm cancels."""
    layers = iter([*pairwise(chain), (chain[-1], None)])
    for layer, behind in layers:
        if _joins(layer, behind):
            x = layer.forward(x, relu=True)
            next(layers)
        elif _shifts_in_vain(layer, behind) and _is_ours(layer, convolve):
            found = layer.forward(x, biased=False)
            x = layer(x) if found[:, 0].numel() == 1 else found  # a single value has no variance, and keeps its bias
        else:
            x = layer(x)
    return x


def _saves(layer: nn.Module, behind: nn.Module) -> bool:
    return _joins(layer, behind) or _shifts_in_vain(layer, behind)


def _joins(layer: nn.Module, behind: nn.Module | None) -> bool:
    """Whether a norm with kernels can do the ReLU behind it: no hook sees the value between them."""
    return _is_ours(layer, _normed) and type(behind) is nn.ReLU and not watched(layer, behind)


def _shifts_in_vain(layer: nn.Module, behind: nn.Module | None) -> bool:
    """Whether a norm by the mean of its batch directly follows a convolution with a bias."""
    biased = type(layer) is nn.Conv2d and layer.bias is not None
    if not biased or type(behind) is not BatchNorm or behind.share is not None:
        return False
    return _is_ours(behind, _normed) and not watched(layer, behind)


def _is_ours(layer: nn.Module, way: Callable[..., Tensor]) -> bool:
    own = vars(layer).get("forward")
    return isinstance(own, partial) and own.func is way


def watched(*layers: nn.Module) -> bool:
    """Whether a layer has hooks, which may look at its values."""
    return any(getattr(layer, hooks) for layer in layers for hooks in HOOKS)


def _normed(way: Any, layer: BatchNorm | RunningNorm, x: Tensor, relu: bool = False) -> Tensor:
    """Compute the layer, then a ReLU if asked; by the layer's own forward where the kernels do not apply."""
    m = x.numel() // x.shape[1]
    running = isinstance(layer, RunningNorm)
    if x.dtype != torch.float32 or layer.share is not None or m == 0 or (running and (m == 1 or not layer.training)):
        found: Tensor = type(layer).forward(layer, x)  # type: ignore[arg-type]
        return functional.relu(found) if relu else found
    found, mean, rstd = _Norm.apply(x, layer.weight, layer.bias, layer.eps, relu, way)  # type: ignore[no-untyped-call]
    if isinstance(layer, RunningNorm):
        _move(layer, mean.detach(), rstd.detach(), m)
    return found


def _move(layer: RunningNorm, mean: Tensor, rstd: Tensor, m: int) -> None:
    """`running <- (1 - momentum) running + momentum batch`, with the unbiased variance."""
    assert layer.running_mean is not None
    assert layer.running_var is not None
    variance = (rstd.square().reciprocal() - layer.eps).clamp(min=0) * (m / (m - 1))
    for running, now in ((layer.running_mean, mean), (layer.running_var, variance)):
        running.add_(now - running, alpha=layer.momentum or 0.0)


class _Norm(OverRows):
    """Forward pass: (normalised values, through the ReLU if asked; mean; one over the standard deviation)."""

    @staticmethod
    def over_rows(
        x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, relu: bool, way: Any
    ) -> tuple[Tensor, ...]:
        values = channels_last(x)
        found, mean, rstd = way.forward(_flat(values), _whole(weight), _whole(bias), eps, relu)
        return channels_first(found.view(values.shape)), mean, rstd

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, weight, bias, _, ctx.relu, ctx.way = inputs
        ctx.save_for_backward(x, weight, bias, *output[1:])
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        _, weight, bias, *_ = given = ctx.saved_tensors
        found = _NormBack.apply(gradients[0], *given, ctx.relu, ctx.way)  # type: ignore[no-untyped-call]
        return found[0], None if weight is None else found[1], None if bias is None else found[2], None, None, None


class _NormBack(OverRows):
    """Backward pass: gradients of the values, of weights and of biases."""

    @staticmethod
    def over_rows(
        gradient: Tensor,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        rstd: Tensor,
        relu: bool,
        way: Any,
    ) -> tuple[Tensor, ...]:
        values, towards = channels_last(x), channels_last(gradient)
        given = (_whole(part) for part in (weight, bias, mean, rstd))
        found, by_weight, by_bias = way.backward(_flat(towards), _flat(values), *given, relu)
        return channels_first(found.view(values.shape)), by_weight, by_bias


def _flat(values: Tensor) -> Tensor:
    """`[n_models, values of a channel, channels]`"""
    return values.view(len(values), -1, values.shape[-1])


def _whole(part: Tensor | None) -> Tensor | None:
    return None if part is None else part.contiguous()
