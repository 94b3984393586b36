"""Layers as calls of kernels on fixed buffers: what a chain does in a step, without autograd and without new memory.

A layer appends the calls of its forward pass to a list and returns its output with a function that does the same for
its backward pass: from the buffer of the gradient by the output to that of the gradient by the input. Images are
`[n, channels, height, width]` for every layer; the layer that makes them chooses their layout in memory.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

CACHED = 1 << 18  # weights that stay in the cache of a core between two uses
Back = Callable[[Tensor], Tensor]
Made = tuple[Tensor, Back]


class Calls(list[Callable[[], Any]]):
    """Kernels with their buffers, in the order in which they run."""

    def add(self, kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.append(partial(kernel, *args, **kwargs))

    def run(self) -> None:
        for call in self:
            call()


class Slot(NamedTuple):
    """A parameter with a buffer for its gradient; None: a dense weight that moves in the backward pass, at `lr`."""

    value: Tensor
    gradient: Tensor | None
    lr: float


def relu(calls: Calls, x: Tensor) -> Made:
    """Apply a ReLU in place: no other layer needs its input."""
    calls.add(torch.relu_, x)

    def back(towards: Tensor) -> Tensor:
        calls.add(torch.ops.aten.threshold_backward.grad_input, towards, x, 0, grad_input=towards)
        return towards

    return x, back


def flatten(calls: Calls, x: Tensor) -> Made:
    if x.is_contiguous():
        return x.flatten(1), lambda towards: towards.view(x.shape)
    rows = torch.empty(len(x), x[0].numel())
    calls.add(rows.view(x.shape).copy_, x)

    def back(towards: Tensor) -> Tensor:
        images = torch.empty_like(x)
        calls.add(images.copy_, towards.view(x.shape))
        return images

    return rows, back


def dense(calls: Calls, x: Tensor, weight: Slot, bias: Slot | None, first: bool) -> Made:
    y = torch.empty(len(x), len(weight.value))
    if bias is None:
        calls.add(torch.mm, x, weight.value.T, out=y)
    else:
        calls.add(torch.addmm, bias.value, x, weight.value.T, out=y)

    def back(towards: Tensor) -> Tensor:
        found = torch.empty_like(x)
        n_parts = 1 if weight.gradient is not None else -(-weight.value.numel() // CACHED)
        for kernel, seen, into in zip(*(whole.chunk(n_parts, 1) for whole in (weight.value, x, found)), strict=True):
            if not first:
                calls.add(torch.mm, towards, kernel, out=into)  # before the weight moves
            if weight.gradient is None:
                calls.add(kernel.addmm_, towards.T, seen, alpha=-weight.lr)
            else:
                calls.add(torch.mm, towards.T, seen, out=weight.gradient)
        if bias is not None:
            calls.add(torch.sum, towards, 0, out=bias.gradient)
        return found

    return y, back


def max_pool(calls: Calls, x: Tensor, kernel: tuple[int, int]) -> Made:
    """Append a max-pool by PyTorch's kernels, on channels-last images."""
    shape = len(x), x.shape[1], x.shape[2] // kernel[0], x.shape[3] // kernel[1]
    y, place = (torch.empty(shape, dtype=d, memory_format=torch.channels_last) for d in (torch.float32, torch.int64))
    calls.add(torch.ops.aten.max_pool2d_with_indices.out, x, kernel, out=y, indices=place)

    def back(towards: Tensor) -> Tensor:
        found = torch.empty_like(x)
        same = x, kernel, kernel, (0, 0), (1, 1), False, place
        calls.add(torch.ops.aten.max_pool2d_with_indices_backward.grad_input, towards, *same, grad_input=found)
        return found

    return y, back


def convolution(calls: Calls, x: Tensor, layer: nn.Conv2d, weight: Slot, bias: Slot | None, first: bool) -> Made:
    """Append a convolution by PyTorch's kernels on channels-last images, quickest with multiples of 16 channels."""
    shift = None if bias is None else bias.value
    conv = partial(torch.conv2d, x, weight.value, shift, layer.stride, layer.padding, layer.dilation, layer.groups)
    y = torch.empty(convolved(layer, x.shape), memory_format=torch.channels_last)
    calls.add(lambda: y.copy_(conv()))

    def back(towards: Tensor) -> Tensor:
        found = torch.empty_like(x)
        into = [None if first else found, weight.gradient, None if bias is None else bias.gradient]
        size = None if bias is None else list(bias.value.shape)
        same = x, weight.value, size, layer.stride, layer.padding, layer.dilation, False, [0, 0], layer.groups
        wanted = [buffer is not None for buffer in into]

        def backward() -> None:
            for buffer, value in zip(into, torch.ops.aten.convolution_backward(towards, *same, wanted), strict=True):
                if buffer is not None:
                    buffer.copy_(value)

        calls.append(backward)
        return found

    return y, back


def convolved(layer: nn.Conv2d, shape: torch.Size) -> list[int]:
    """The shape of what a convolution makes of images of a shape."""
    assert isinstance(layer.padding, tuple)
    every = zip(shape[2:], layer.kernel_size, layer.stride, layer.padding, layer.dilation, strict=True)
    sides = ((side + 2 * pad - gap * (kernel - 1) - 1) // step + 1 for side, kernel, step, pad, gap in every)
    return [shape[0], layer.out_channels, *sides]
