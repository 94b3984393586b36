"""Native convolutions and max-pools as layers of a chain."""

from typing import Any

import torch
from torch import Tensor, nn

from ..kernels import Calls, Made, Slot, convolved, max_pool
from ..trace import aten
from . import IMAGES, library
from .lowering import WINOGRAD, How, kind_of, lowered
from .norms import HALF


def wins(layer: nn.Conv2d, x: Tensor, first: bool) -> bool:
    """Whether the kernels were measured to be quicker than PyTorch's, which are slow on images of few channels."""
    if library(IMAGES) is None or layer.out_channels % HALF:
        return False
    how = How(layer.stride, layer.padding, layer.dilation, layer.groups)
    kind = kind_of(x, layer.weight.contiguous(memory_format=torch.channels_last), how)
    return kind in (WINOGRAD, "depthwise") or (first and kind != "" and layer.in_channels < HALF)


def convolution(calls: Calls, x: Tensor, layer: nn.Conv2d, weight: Slot, bias: Slot | None, first: bool) -> Made:
    shift, size = (None, None) if bias is None else (bias.value, list(bias.value.shape))
    y = torch.empty(convolved(layer, x.shape), memory_format=torch.channels_last)
    how: tuple[Any, ...] = layer.stride, layer.padding, layer.dilation, False, [0, 0], layer.groups
    there = lowered(aten.convolution.default, (x, weight.value, shift, *how), [y])
    assert there is not None
    calls += there

    def back(towards: Tensor) -> Tensor:
        found = torch.empty(x.shape, memory_format=torch.channels_last)
        into = [None if first else found, weight.gradient, None if bias is None else bias.gradient]
        wanted = [one is not None for one in into]
        way = lowered(aten.convolution_backward.default, (towards, x, weight.value, size, *how, wanted), into)
        assert way is not None
        calls.extend(way)
        return found

    return y, back


def pool(calls: Calls, x: Tensor, kernel: tuple[int, int]) -> Made:
    """Append a max-pool, by PyTorch if there is no native one for these images."""
    shape = len(x), x.shape[1], x.shape[2] // kernel[0], x.shape[3] // kernel[1]
    y, places = (torch.empty(shape, dtype=d, memory_format=torch.channels_last) for d in (torch.float32, torch.int64))
    there = lowered(aten.max_pool2d_with_indices.default, (x, kernel), [y, places])
    if there is None:
        return max_pool(calls, x, kernel)
    calls += there

    def back(towards: Tensor) -> Tensor:
        found = torch.empty(x.shape, memory_format=torch.channels_last)
        same = x, kernel, kernel, (0, 0), (1, 1), False, places
        way = lowered(aten.max_pool2d_with_indices_backward.default, (towards, *same), [found])
        assert way is not None
        calls.extend(way)
        return found

    return y, back
