"""Layers in a form that batches well over models on a GPU: as products of matrices and element-wise kernels.

Batched over models, a convolution becomes one with groups, which GPUs do slowly if channels are many, and the fused
kernels of recurrent layers have no batched form. Patches times a matrix are one batched product instead, and an LSTM
cell is one kernel.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from ...architecture import unroll

CHANNELS = 16  # of an input from which patches are used: they lost to groups at 3 and 6, and won in nets of 16 to 512
Size = tuple[int, int]


def rewrite(module: nn.Module) -> None:
    """Have the layers of a private copy of a module compute in batchable form, with the same parameters."""
    unroll(module)
    for part in module.modules():
        if type(part) is nn.Conv2d and "forward" not in vars(part) and _worth_it(part):
            part.forward = partial(_convolve, part)  # type: ignore[method-assign]
        elif type(part) is nn.AdaptiveAvgPool2d and part.output_size in (1, (1, 1)):
            part.forward = partial(torch.mean, dim=(2, 3), keepdim=True)  # type: ignore[method-assign]


def _worth_it(layer: nn.Conv2d) -> bool:
    """Whether patches can serve and should win: single pixels, or so many channels that they fill the products."""
    usual = layer.groups == 1 and layer.dilation == (1, 1) and layer.padding_mode == "zeros"
    usual = usual and not isinstance(layer.padding, str)
    return usual and (layer.kernel_size == (1, 1) or layer.in_channels >= CHANNELS)


def _convolve(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """`nn.Conv2d` as patches times a matrix; the result lies channels-last, as the product leaves it."""
    assert isinstance(layer.padding, tuple)
    down, right = layer.padding
    if down or right:
        x = functional.pad(x, (right, right, down, down))
    (rows,) = _Patches.apply(x, layer.kernel_size, layer.stride)  # type: ignore[no-untyped-call]
    found = functional.linear(rows, layer.weight.flatten(1), layer.bias)  # [n, h * w, channels]
    height, width = ((x.shape[2 + d] - layer.kernel_size[d]) // layer.stride[d] + 1 for d in (0, 1))
    return found.view(len(x), height, width, -1).movedim(-1, 1)


def lstm_cell(drive: Tensor, recurrent: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """(state, cell) after a step: `c' = sigmoid(f) c + sigmoid(i) tanh(g)`, `h = sigmoid(o) tanh(c')`.

    Args:
        drive: what the input says to the gates (i, f, g, o), `[n, 4 width]`.
        recurrent: what the last state says to them, likewise.
        cell: `c`, `[n, width]`.
    """
    drive, recurrent = drive.to(cell.dtype), recurrent.to(cell.dtype)  # products may be bfloat16
    if drive.is_cuda:
        state, after, _ = _Cell.apply(drive, recurrent, cell)  # type: ignore[no-untyped-call]
        return state, after
    gate_in, forget, update, out = (drive + recurrent).chunk(4, dim=1)
    cell = forget.sigmoid() * cell + gate_in.sigmoid() * update.tanh()
    return out.sigmoid() * cell.tanh(), cell


class _Flat(Function):
    """A kernel over rows: batched over models it is the same kernel over the rows of all models."""

    @classmethod
    def vmap(cls, info: Any, in_dims: Any, *values: Any) -> tuple[tuple[Tensor, ...], Any]:
        n = info.batch_size
        given = [
            _lead(value, dim, n).flatten(0, 1) if isinstance(value, Tensor) else value
            for value, dim in zip(values, in_dims, strict=True)
        ]
        found = cls.apply(*given)  # type: ignore[no-untyped-call]
        return tuple(value.unflatten(0, (n, -1)) for value in found), (0,) * len(found)


def _lead(value: Tensor, dim: int | None, n: int) -> Tensor:
    """The axis of models in front; a tensor that all share is repeated."""
    return value.expand(n, *value.shape) if dim is None else value.movedim(dim, 0)


class _Patches(_Flat):
    """What a convolution sees of an image at each of its places, `[n, h * w, c * high * wide]`."""

    @staticmethod
    def forward(x: Tensor, kernel: Size, stride: Size) -> tuple[Tensor]:
        view = x.unfold(2, kernel[0], stride[0]).unfold(3, kernel[1], stride[1])  # [n, c, h, w, high, wide]
        return (view.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2),)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.kernel, ctx.stride = inputs
        ctx.size = tuple(x.shape[2:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (folded,) = _Fold.apply(gradients[0], ctx.size, ctx.kernel, ctx.stride)  # type: ignore[no-untyped-call]
        return folded, None, None


class _Fold(_Flat):
    """Patches added up where they lie in the image."""

    @staticmethod
    def forward(rows: Tensor, size: Size, kernel: Size, stride: Size) -> tuple[Tensor]:
        return (functional.fold(rows.transpose(1, 2), size, kernel, stride=stride),)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass


class _Cell(_Flat):
    @staticmethod
    def forward(drive: Tensor, recurrent: Tensor, cell: Tensor) -> Any:
        return torch.ops.aten._thnn_fused_lstm_cell(drive.contiguous(), recurrent.contiguous(), cell.contiguous())

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[2], output[1], output[2])
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        towards_gates, towards_cell = _CellBackward.apply(gradients[0], gradients[1], *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return towards_gates, towards_gates, towards_cell


class _CellBackward(_Flat):
    @staticmethod
    def forward(towards_state: Tensor, towards_after: Tensor, cell: Tensor, after: Tensor, gates: Tensor) -> Any:
        given = (value.contiguous() for value in (towards_state, towards_after, cell, after, gates))
        return torch.ops.aten._thnn_fused_lstm_cell_backward_impl(*given, False)[:2]

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass
