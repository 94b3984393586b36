"""A network of your own in a file: `fedcell run --model examples/small_network.py:residual`.

A function of the file builds it. Arguments called `n_classes` and `in_shape` are filled in from the data, others come
from `model.args`, as in `--set model.args=width=64`. Any `torch.nn.Module` will do; its start follows from the seed.
"""

from math import prod

from torch import Tensor, nn


class Residual(nn.Module):
    """`x + f(x)` with a small dense `f`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(self.norm(x))


def residual(n_classes: int, in_shape: tuple[int, ...], width: int = 32, depth: int = 2) -> nn.Module:
    """A dense layer, `depth` residual blocks, and a dense layer to the class scores."""
    blocks = [Residual(width) for _ in range(depth)]
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(in_shape), width), *blocks, nn.Linear(width, n_classes))
