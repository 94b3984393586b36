"""Rewrite layers so that they batch well over models on a GPU: as matrix products and element-wise kernels.

Convolutions become products of patches and filters (`convolutions`). The fused kernels of recurrent layers cannot be
batched over models; an LSTM cell becomes one kernel instead.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ...architecture import unroll
from .convolutions import multiply
from .over_rows import OverRows


def rewrite(module: nn.Module) -> None:
    """Replace the forward passes of layers by batchable ones, in a private copy of a module; parameters stay."""
    unroll(module)
    multiply(module)
    for part in module.modules():
        if type(part) is nn.AdaptiveAvgPool2d and part.output_size in (1, (1, 1)):
            part.forward = partial(torch.mean, dim=(2, 3), keepdim=True)  # type: ignore[method-assign]


def lstm_cell(drive: Tensor, recurrent: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """(state, cell) after a step: `c' = sigmoid(f) c + sigmoid(i) tanh(g)`, `h = sigmoid(o) tanh(c')`.

    Args:
        drive: contribution of the input to the gates (i, f, g, o), `[n, 4 width]`.
        recurrent: contribution of the last state to them, `[n, 4 width]`.
        cell: `c`, `[n, width]`.
    """
    drive, recurrent = drive.to(cell.dtype), recurrent.to(cell.dtype)  # products may be bfloat16
    if drive.is_cuda:
        state, after, _ = _Cell.apply(drive, recurrent, cell)  # type: ignore[no-untyped-call]
        return state, after
    gate_in, forget, update, out = (drive + recurrent).chunk(4, dim=1)
    cell = forget.sigmoid() * cell + gate_in.sigmoid() * update.tanh()
    return out.sigmoid() * cell.tanh(), cell


class _Flat(OverRows):
    """A kernel over rows, which serves many models by running over the rows of all of them."""

    @classmethod
    def over_rows(cls, *values: Tensor) -> tuple[Tensor, ...]:
        n = len(values[0])
        found = cls.kernel(*(value.flatten(0, 1).contiguous() for value in values))  # type: ignore[attr-defined]
        return tuple(value.unflatten(0, (n, -1)) for value in found)


class _Cell(_Flat):
    kernel = staticmethod(torch.ops.aten._thnn_fused_lstm_cell)

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
    def kernel(*given: Tensor) -> Any:
        """Backward of the cell; `given`: gradients of state and cell, the cell before and after, the gates."""
        return torch.ops.aten._thnn_fused_lstm_cell_backward_impl(*given, False)[:2]
