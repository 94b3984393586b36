"""Max-pools of channels-last images in C++: PyTorch's backward pass goes number by number."""

from typing import Any

from torch import Tensor

from . import IMAGES, Lowered, Native
from .norms import in_order, is_images


def max_pool(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    x, (y, places) = args[0], outs
    if y is None or places is None or not is_images(x, y) or (numbers := _numbers(x, y, *args[1:])) is None:
        return None
    return [Native(IMAGES, "max_pool", numbers, x, y, places)]


def max_pool_backward(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    sent, x, *how, places = args
    found = outs[0]
    numbers = _numbers(x, sent, *how)
    if numbers is None or found is None or not is_images(x, found):
        return None
    calls, sent = in_order(sent)
    return [*calls, Native(IMAGES, "max_pool_by_input", numbers, sent, places, found)]


def _numbers(
    x: Tensor, y: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> list[int] | None:
    """The numbers that the kernels take; None if `x` holds no images or the windows have gaps."""
    kernel, stride, padding, dilation = (pair(one) for one in (kernel, stride or kernel, padding, dilation))
    if x.dim() != 4 or dilation != (1, 1):
        return None
    n, channels, height, width = x.shape
    return [n, height, width, channels, *kernel, *stride, *padding, *y.shape[2:]]


def pair(value: Any) -> tuple[int, int]:
    """A size along both axes, given as a tuple or as one number for both."""
    down, right = (value, value) if isinstance(value, int) else (value[0], value[-1])
    return down, right
