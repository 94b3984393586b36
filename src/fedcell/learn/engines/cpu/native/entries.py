"""Sums, products and copies entry by entry, of tensors that lie in any order."""

from collections.abc import Callable
from typing import Any, TypeGuard

import torch
from torch import Tensor

from ..trace import aten
from . import SEQUENCES, Lowered, Native, floats
from .vectors import are_floats, are_whole

AXES = 6  # as entries.h has it
SCALED, ADDED, MULTIPLIED = range(3)
SIGMOID, TANH, HARDSWISH, LEAKY, *BACKWARD = range(3, 13)
SIGMOID_BACK, TANH_BACK, HARDSWISH_BACK, LEAKY_BACK, RELU_BACK, CLAMP_BACK = BACKWARD
Rule = Callable[[tuple[Any, ...], list[Tensor | None]], Lowered]


def filled_in(what: int, into: Tensor, one: Tensor, other: Tensor, rate: float = 1.0) -> Lowered:
    """Return the call for `into = rate * one`, `one + rate * other`, `one * other` or another function of entries.

    `what` names the function; `one` and `other` are broadcast to `into`. None if tensors are empty, have too many axes
    or are not float32.
    """
    if not are_floats(into, one, other) or not into.numel() or max(one.dim(), other.dim()) > into.dim():
        return None
    spread = [torch.broadcast_to(tensor, into.shape) for tensor in (one, other)]
    axes = _axes(into, *spread)
    if len(axes) > AXES:
        return None
    axes = [(1, 0, 0, 0)] * (AXES - len(axes)) + axes
    numbers = [what, *(axis[place] for place in range(4) for axis in axes)]
    return [Native(SEQUENCES, "entries", numbers, floats(rate), into, one, other)]


def _axes(*tensors: Tensor) -> list[tuple[int, ...]]:
    """(size, stride in each tensor) of every axis, the quickest last; axes that continue each other are merged."""
    every = [(n, *(one.stride(axis) for one in tensors)) for axis, n in enumerate(tensors[0].shape) if n > 1]
    every.sort(key=lambda axis: -axis[1])
    found = list[tuple[int, ...]]()
    for size, *steps in every:
        if found and all(outer == size * step for outer, step in zip(found[-1][1:], steps, strict=True)):
            found[-1] = (found[-1][0] * size, *steps)
        else:
            found.append((size, *steps))
    return found


def spread_out(args: tuple[Any, ...], outs: list[Tensor | None], sliced: bool = False) -> Lowered:
    """Return the calls for the backward pass of `select` or a slice: the gradient of a part, with zeros around it."""
    sent, _, axis, *rest = args
    if outs[0] is None or not are_whole(outs[0]):
        return None
    whole = outs[0]
    if sliced:
        first, last, step = rest
        part = whole[(slice(None),) * (axis % whole.dim()) + (slice(first, last, step),)]
    else:
        part = whole.select(axis, rest[0])
    inside = filled_in(SCALED, part, sent, sent) if part.shape == sent.shape else None
    return None if inside is None else [Native(SEQUENCES, "cleared", [whole.numel()], whole), *inside]


def spread_slice(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    return spread_out(args, outs, sliced=True)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def copied(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    return None if outs[0] is None else filled_in(SCALED, outs[0], args[0], args[0])


def scaled(args: tuple[Any, ...], outs: list[Tensor | None], divided: bool = False) -> Lowered:
    one, rate = args[:2]
    if outs[0] is None or len(args) > 2 or not _number(rate) or (divided and not rate):
        return None
    return filled_in(SCALED, outs[0], one, one, 1 / rate if divided else rate)


def divided(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    return scaled(args, outs, divided=True)


def added(args: tuple[Any, ...], outs: list[Tensor | None], rate: float = 1.0) -> Lowered:
    return _both(ADDED, args, outs, rate)


def taken_away(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    return added(args, outs, -1.0)


def multiplied(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    return _both(MULTIPLIED, args, outs)


def _both(what: int, args: tuple[Any, ...], outs: list[Tensor | None], rate: float = 1.0) -> Lowered:
    if outs[0] is None or len(args) != 2 or not all(isinstance(one, Tensor) for one in args):
        return None
    return filled_in(what, outs[0], *args, rate)


def _bent(what: int, rate: float = 1.0) -> Rule:
    """Make the rule of a function of every entry; a second argument, the slope of a leaky ReLU, replaces `rate`."""

    def rule(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
        x, *rest = args
        return None if not _side_by_side(outs[0], x) else filled_in(what, outs[0], x, x, *rest or [rate])

    return rule


def _bent_back(what: int) -> Rule:
    def rule(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
        sent, seen, *rest = args
        return filled_in(what, outs[0], sent, seen, *rest[:1]) if _side_by_side(outs[0], sent, seen) else None

    return rule


def _relu_back(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    return None if args[2] else _bent_back(RELU_BACK)(args[:2], outs)


def _clamp_back(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    sent, seen, least, most = args
    return None if least or most <= 0 else _bent_back(CLAMP_BACK)((sent, seen, most), outs)


def _side_by_side(into: Tensor | None, *tensors: Tensor) -> TypeGuard[Tensor]:
    """Whether neighbours in `into` are neighbours or one entry in `tensors`: if not, kernels go entry by entry."""
    if into is None or any(one.shape != into.shape for one in tensors):
        return False
    axis = min((axis for axis, n in enumerate(into.shape) if n > 1), key=into.stride, default=None)
    return (
        axis is not None
        and all(one.stride(axis) in (0, into.stride(axis)) for one in tensors)
        and into.stride(axis) == 1
    )


RULES: dict[Any, Rule] = {
    aten.sigmoid.default: _bent(SIGMOID),
    aten.sigmoid_.default: _bent(SIGMOID),
    aten.tanh.default: _bent(TANH),
    aten.tanh_.default: _bent(TANH),
    aten.hardswish.default: _bent(HARDSWISH),
    aten.hardswish_.default: _bent(HARDSWISH),
    aten.leaky_relu.default: _bent(LEAKY, 0.01),
    aten.leaky_relu_.default: _bent(LEAKY, 0.01),
    aten.sigmoid_backward.default: _bent_back(SIGMOID_BACK),
    aten.tanh_backward.default: _bent_back(TANH_BACK),
    aten.hardswish_backward.default: _bent_back(HARDSWISH_BACK),
    aten.leaky_relu_backward.default: _bent_back(LEAKY_BACK),
    aten.threshold_backward.default: _relu_back,
    aten.hardtanh_backward.default: _clamp_back,
    aten.clone.default: copied,
    aten.select_backward.default: spread_out,
    aten.slice_backward.default: spread_slice,
    aten.mul.Scalar: scaled,
    aten.div.Scalar: divided,
    aten.add.Tensor: added,
    aten.add_.Tensor: added,
    aten.sub.Tensor: taken_away,
    aten.mul.Tensor: multiplied,
    aten.mul_.Tensor: multiplied,
}
