"""Functions of their own gradient that know how to serve many models at once, and how images lie for them."""

from typing import Any

from torch import Tensor
from torch.autograd import Function


class OverRows(Function):
    """What `over_rows` computes for all models at once, `[n_models, ...]` each; for a single model it is asked of one.

    A subclass has `over_rows`, which returns a tuple of tensors, `setup_context` and, if its result has a gradient,
    `backward`, which asks another such function.
    """

    @classmethod
    def vmap(cls, info: Any, in_dims: Any, *given: Any) -> Any:
        n = info.batch_size
        values = [_led(value, dim, n) for value, dim in zip(given, in_dims, strict=True)]
        found = cls.over_rows(*values)  # type: ignore[attr-defined]
        return found, (0,) * len(found)

    @classmethod
    def forward(cls, *given: Any) -> tuple[Tensor, ...]:
        values = [value[None] if isinstance(value, Tensor) else value for value in given]
        return tuple(value[0] for value in cls.over_rows(*values))  # type: ignore[attr-defined]

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept unless a subclass says so."""


def _led(value: Any, dim: int | None, n: int) -> Any:
    """The axis of models in front; a tensor that all share is repeated."""
    if not isinstance(value, Tensor):
        return value
    return value.expand(n, *value.shape) if dim is None else value.movedim(dim, 0)


def channels_last(images: Tensor) -> Tensor:
    """`[n_models, n, channels, height, width]` with channels last, in memory, too."""
    return images.movedim(2, -1).contiguous()


def channels_first(images: Tensor) -> Tensor:
    """The same images with channels in front of height and width; in memory they stay last."""
    return images.movedim(-1, 2)
