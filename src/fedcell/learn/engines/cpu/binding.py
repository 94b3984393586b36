"""Turn recorded kernels into calls on fixed tensors, which PyTorch writes into if it can; else results are copied."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from .fusion import EMPTY, FILLS, RATE
from .native import sequences
from .native.lowering import lowered
from .trace import DRAWN_BY, Op, aten, returned

Call = Callable[[], Any]
COPIES = {aten._to_copy.default, aten.clone.default, aten.lift_fresh_copy.default}
SHORT_WAYS = (
    *(
        "mm",
        "addmm",
        "bmm",
        "baddbmm",
        "add",
        "mul",
        "sub",
        "div",
        "sum",
        "mean",
        "cat",
        "tanh",
        "sigmoid",
        "exp",
        "log",
    ),
    *(
        "sqrt",
        "rsqrt",
        "neg",
        "where",
        "clamp",
        "clamp_min",
        "index_select",
        "gather",
        "cumsum",
        "pow",
        "amax",
        "maximum",
    ),
)
QUICK = {getattr(aten, name): getattr(torch, name) for name in SHORT_WAYS}  # the same by a shorter way through Python


def bound(op: Op, args: Any, kwargs: dict[str, Any], outs: list[Any], rows: Any) -> list[Any]:
    """Return calls that do what a recorded kernel did, on the given tensors; some are native.

    Args:
        op: the recorded kernel.
        args: its positional arguments, with tensors in place of `Ref`s.
        kwargs: its keyword arguments, likewise.
        outs: the tensors for its results.
        rows: the `WorkerRows` of the worker, with its rate and its random numbers.
    """
    if op.random and rows.stream.drawn:
        return list(rows.stream.calls(*args))
    if op.func in DRAWN_BY:
        return [partial(DRAWN_BY[op.func], outs[0], generator=rows.stream.generator)]
    if op.random:
        kwargs = {**kwargs, "generator": rows.stream.generator}
    if kwargs.get("alpha") is RATE:
        return _moving(op.func, args, rows)
    if op.func in EMPTY:
        return []
    if rows.quick and (calls := sequences.lowered(op.func, args, kwargs, outs)) is not None:
        return calls
    if (calls := lowered(op.func, args, outs)) is not None:
        return calls
    return [_by_torch(op, args, kwargs, outs)]


def _moving(func: Any, args: Any, rows: Any) -> list[Any]:
    """Return calls that move a parameter at the rate of the step."""
    calls = None
    if func is aten.index_add_.default:
        weight, axis, index, sent = args
        if rows.quick:
            calls = sequences.moved_words(weight, index, sent, rows.minus_rate)
        return calls or [
            lambda: weight.index_add_(axis, index.reshape(-1), sent.reshape(-1, sent.shape[-1]), alpha=-rows.rate)
        ]
    into, left, right = args
    if rows.quick:
        calls = sequences.product(into, left, right, rows.minus_rate, keep=True)
    return calls or [lambda: into.addmm_(left, right, alpha=-rows.rate)]


def _by_torch(op: Op, args: Any, kwargs: dict[str, Any], outs: list[Any]) -> Call:
    if op.func in COPIES:
        return partial(outs[0].copy_, args[0])
    if op.func is aten.relu.default:
        return partial(torch.clamp_min, args[0], 0, out=outs[0])
    if op.func in FILLS:
        return partial(outs[0].fill_, FILLS[op.func])
    if not any(ref in op.outs for ref in op.writes) or all(ref in op.reads for ref in op.writes):
        return partial(op.func._op, *args, **kwargs)  # in place
    found = into_overload(op.func)
    if found is not None and all(one is not None for one in outs):
        func, names = found
        return partial(func, *args, **kwargs, **dict(zip(names, outs, strict=True)))
    return _copied(op.func._op, args, kwargs, outs)


def _copied(func: Any, args: Any, kwargs: dict[str, Any], outs: list[Tensor | None]) -> Call:
    places = [(place, out) for place, out in enumerate(outs) if out is not None]

    def call() -> None:
        found = returned(func(*args, **kwargs))
        for place, out in places:
            out.copy_(found[place])

    return call


@cache
def into_overload(func: Any) -> tuple[Any, tuple[str, ...]] | None:
    """The overload of a kernel that writes into given tensors, with their names; None if none saves a copy."""
    given = _signature(func, False)
    for name in func.overloadpacket.overloads():
        other = getattr(func.overloadpacket, name)
        outs = tuple(a.name for a in other._schema.arguments if a.kwarg_only and a.alias_info and a.alias_info.is_write)
        if not outs or len(outs) != len(func._schema.returns) or _signature(other, True) != given:
            continue
        if not torch._C._dispatch_has_kernel_for_dispatch_key(other.name(), "CPU"):
            return None  # it would copy
        quick = QUICK.get(func.overloadpacket) if outs == ("out",) else None
        return quick or other._op, outs
    return None


def _signature(func: Any, into: bool) -> list[tuple[str, str]]:
    arguments = [a for a in func._schema.arguments if not (into and a.alias_info and a.alias_info.is_write)]
    return [(a.name, str(a.type)) for a in arguments]
