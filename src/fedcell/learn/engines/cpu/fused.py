"""Dense layers that apply their SGD step inside the backward pass, so the weight gradient is never written out.

Right only for plain SGD: no momentum, no proximal term, no mask, every layer used once.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...norms import NORMS

WIDE = 100_000  # weights from which on the saved write outweighs the cost of a Python backward
POOLS = (nn.MaxPool2d, nn.AvgPool2d)
SIMPLE = (nn.Flatten, nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.Identity, nn.Conv2d, *POOLS, *NORMS)


class Anchor:
    """A scalar that asks for a gradient, so that autograd visits layers whose weights do not."""

    def __init__(self, lr: float) -> None:
        self.lr = lr
        self.tensor = torch.zeros((), requires_grad=True)


class _LinearStep(torch.autograd.Function):
    """`y = x W^T + b`; backward also does `W -= lr g^T x` and `b -= lr sum(g)`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: nn.Linear, lr: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.layer, ctx.lr = layer, lr
        return functional.linear(x, layer.weight, layer.bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None, None]:
        (x,) = ctx.saved_tensors
        (gradient,) = gradients
        weight, bias = ctx.layer.weight.data, ctx.layer.bias
        towards_input = gradient @ weight if ctx.needs_input_grad[0] else None  # before the weight moves
        weight.addmm_(gradient.T, x, alpha=-ctx.lr)
        if bias is not None:
            bias.data.add_(gradient.sum(0), alpha=-ctx.lr)
        return towards_input, None, None, None


class _FusedLinear(nn.Module):
    """Stands in for a `Linear` in a worker's module."""

    def __init__(self, layer: nn.Linear, anchor: Anchor) -> None:
        super().__init__()
        self.layer, self._anchor = layer, anchor

    def forward(self, x: Tensor) -> Tensor:
        return _LinearStep.apply(x, self._anchor.tensor, self.layer, self._anchor.lr)  # type: ignore[no-untyped-call]


def fuse(module: nn.Module, anchor: Anchor) -> set[int]:
    """Replace the dense layers of a plain `nn.Sequential` in place; returns the ids of parameters that now move alone.

    Anything else, where a weight might be used twice or in its own way, is left alone.
    """
    if not isinstance(module, nn.Sequential) or not all(isinstance(part, (nn.Linear, *SIMPLE)) for part in module):
        return set()
    dense = [
        (position, part)
        for position, part in enumerate(module)
        if isinstance(part, nn.Linear) and part.weight.numel() >= WIDE
    ]
    parameters = [parameter for _, part in dense for parameter in part.parameters()]
    if len({id(p) for p in parameters}) != len(parameters) or not all(p.requires_grad for p in parameters):
        return set()
    for position, part in dense:
        module[position] = _FusedLinear(part, anchor)
    return {id(parameter) for parameter in parameters}
