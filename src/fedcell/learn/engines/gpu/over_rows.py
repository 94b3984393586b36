"""Base of autograd functions that compute for many models at once, and the layout of images for them."""

from typing import Any

from torch import Tensor
from torch.autograd import Function


class OverRows(Function):
    """An autograd function that `over_rows` computes for all models at once, on tensors `[n_models, ...]`.

    Without vmap it is called with one model. A subclass defines `over_rows`, which returns a tuple of tensors, and
    `setup_context`. If its result has a gradient, it also defines `backward`, which applies another such function.
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
        """Keep nothing for the backward pass; subclasses may override this."""


def _led(value: Any, dim: int | None, n: int) -> Any:
    """Move the axis of models to the front; repeat a tensor that all models share."""
    if not isinstance(value, Tensor):
        return value
    return value.expand(n, *value.shape) if dim is None else value.movedim(dim, 0)


def channels_last(images: Tensor) -> Tensor:
    """Images `[n_models, n, channels, height, width]` as `[n_models, n, height, width, channels]`, contiguous."""
    return images.movedim(2, -1).contiguous()


def channels_first(images: Tensor) -> Tensor:
    """View channels-last images as `[n_models, n, channels, height, width]`; the memory layout stays."""
    return images.movedim(-1, 2)
