"""Run layers on series fast on a CPU: convolutions and norms as channels-last images, recurrent layers as a whole."""

from collections.abc import Callable
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...norms import BatchNorm, GroupNorm, RunningNorm
from .native import cells, sequences


def put_ways(layer: nn.Module) -> None:
    """Replace `forward` of a layer that works on series by a quicker way; nobody else may use its module."""
    if type(layer) in (nn.GRU, nn.RNN) and sequences.win(sum(one.numel() for one in layer.parameters())):
        layer.forward = _bound(cells.way, layer)
    way = WAYS.get(type(layer))
    usual = not isinstance(layer, nn.Conv1d) or (layer.padding_mode == "zeros" and isinstance(layer.padding, tuple))
    if way is not None and usual:
        layer.forward = _bound(way, layer)


def _bound(way: Callable[..., Any], layer: nn.Module) -> Callable[..., Any]:
    """Return a way of a layer, without a reference that keeps the layer and its parameters alive."""
    found = ref(layer)
    return lambda *args, **kwargs: way(found(), *args, **kwargs)


def _convolution(layer: Any, x: Tensor) -> Tensor:
    if x.dim() != 3:
        return type(layer).forward(layer, x)
    image = x.unsqueeze(2).contiguous(memory_format=torch.channels_last)
    how = (1, *layer.stride), (0, *layer.padding), (1, *layer.dilation)
    found = functional.conv2d(image, layer.weight.unsqueeze(2), layer.bias, *how, layer.groups)
    return found.contiguous(memory_format=torch.channels_last).squeeze(2)


def _norm(layer: Any, x: Tensor) -> Tensor:
    """Normalise series as images if they already lie channels-last; else leave them to the layer itself."""
    if x.dim() != 3 or x.is_contiguous() or not x.transpose(1, 2).is_contiguous():
        return type(layer).forward(layer, x)
    return type(layer).forward(layer, x.unsqueeze(2)).squeeze(2)


WAYS: dict[type[nn.Module], Callable[[Any, Tensor], Tensor]] = {
    nn.Conv1d: _convolution,
    GroupNorm: _norm,
    BatchNorm: _norm,
    RunningNorm: _norm,
}
