"""Lay gradients out like the images that they meet, and spread them over pixels as late as possible.

Many networks end in a mean over pixels, whose gradient is one number for all of them. PyTorch spreads it over the
pixels before it divides by their number, and lays the result out channels-first. Every sum with channels-last images
then has to reorder one of its terms, and passes that order on through all skip connections of a network.
"""

from math import prod
from typing import Any

import torch

from .native.placing import mapped, relaid
from .trace import Op, Trace, aten

SCALED = {aten.div.Scalar, aten.mul.Scalar}
NAMES = (
    *("add", "sub", "mul", "div", "neg", "relu", "gelu", "sigmoid", "tanh", "silu", "leaky_relu", "hardtanh"),
    *("hardswish", "elu", "threshold_backward", "gelu_backward", "sigmoid_backward", "tanh_backward"),
    *("silu_backward", "leaky_relu_backward", "hardtanh_backward", "hardswish_backward", "elu_backward"),
)
ENTRYWISE = {getattr(aten, name) for name in NAMES}


def laid_out(ops: list[Op], trace: Trace) -> list[Op]:
    """Return the kernels with gradients spread over pixels later, and laid out channels-last where images are."""
    for step in (_spread_later, _like_images):
        at = 0
        while at < len(ops):
            ops = step(ops, at, trace) or ops
            at += 1
    return ops


def _spread_later(ops: list[Op], at: int, trace: Trace) -> list[Op] | None:
    """Let the kernel at `at` scale a number before it is spread over pixels; None if it scales no such number."""
    op = ops[at]
    if op.func not in SCALED or op.kwargs or not _is_fresh(op, trace):
        return None
    x, y = op.args[0], op.outs[0]
    assert y is not None
    spread = [n > 1 and step == 0 for n, step in zip(x.size, x.stride, strict=True)]
    if not any(spread) or any(ref.memory == y.memory for one in ops[at + 1 :] for ref in one.writes):
        return None
    size = tuple(1 if over else n for n, over in zip(x.size, spread, strict=True))
    stride = tuple(prod(size[axis + 1 :]) for axis in range(len(size)))
    few = y._replace(size=size, stride=stride)
    home = y._replace(stride=tuple(0 if over else step for over, step in zip(spread, stride, strict=True)))
    seen = x._replace(size=size)
    scaled = op._replace(args=(seen, *op.args[1:]), outs=(few,), reads=(seen,), writes=(few,))
    later = mapped(ops[at + 1 :], y, home)
    return None if later is None else [*ops[:at], scaled, *later]


def _like_images(ops: list[Op], at: int, trace: Trace) -> list[Op] | None:
    """Lay the result of an entrywise kernel or of `cat` out channels-last, like its inputs; None if that cannot be."""
    op = ops[at]
    if (op.func.overloadpacket not in ENTRYWISE and op.func is not aten.cat.default) or not _is_fresh(op, trace):
        return None
    y = op.outs[0]
    assert y is not None
    home = y._replace(stride=_channels_last(y.size))
    alike = (one.size == y.size and one.stride == home.stride for one in op.reads)
    parts = op.func is aten.cat.default and op.args[1:] == (1,) and all(one.stride[1] == 1 for one in op.reads)
    if home == y or not (parts or any(alike)):
        return None
    return relaid(ops, trace, y, home)


def _is_fresh(op: Op, trace: Trace) -> bool:
    """Whether a kernel makes one new tensor of images or series, with several pixels and several channels."""
    if len(op.writes) != 1 or op.outs != op.writes or op.random:
        return False
    y = op.writes[0]
    whole = trace.bytes_of.get(y.memory) == 4 * prod(y.size) and y.offset == 0 and y.memory not in trace.kept
    several = len(y.size) in (3, 4) and y.size[1] > 1 and prod(y.size[2:]) > 1
    return whole and several and y.dtype == torch.float32


def _channels_last(size: tuple[int, ...]) -> tuple[Any, ...]:
    channels, pixels = size[1], size[2:]
    steps = [channels * prod(pixels[axis + 1 :]) for axis in range(len(pixels))]
    return channels * prod(pixels), 1, *steps
