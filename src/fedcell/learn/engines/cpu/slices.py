"""Add gradients of slices of a tensor in place, instead of spreading each slice over a whole tensor of zeros."""

from math import prod

import torch

from .fusion import changed, users
from .trace import Op, Ref, Trace, aten, renamed

SELECT, SLICE = aten.select_backward.default, aten.slice_backward.default


def in_parts(ops: list[Op], trace: Trace) -> list[Op]:
    """Return the kernels with slices added in place wherever no later kernel reads the other term of the sum."""
    at = 0
    while at < len(ops):
        found = _joined(ops, at, trace)
        ops, at = (ops, at + 1) if found is None else (found, at)
    return ops


def _joined(ops: list[Op], at: int, trace: Trace) -> list[Op] | None:
    """Return the kernels with the sum at `at` done in place; None if it is no sum with a spread slice."""
    op = ops[at]
    if op.func is not aten.add.Tensor or op.kwargs or not all(isinstance(one, Ref) for one in op.args):
        return None
    for base, spread in (op.args, op.args[::-1]):
        uses = users(ops, spread.memory)
        if len(uses) != 2 or uses[1] != at or not _gives_way(ops, at, base, trace):
            continue
        source = ops[uses[0]]
        part = _part(source, base) if source.outs[:1] == (spread,) else None
        if part is None or changed(ops[uses[0] + 1 : at], source.reads):
            continue
        sent, made = source.args[0], op.outs[0]
        assert made is not None
        sum_ = Op(aten.add_.Tensor, (part, sent), {}, (part,), (part, sent), (part,))
        later = [renamed(one, made.memory, base.memory) for one in ops[at + 1 :]]
        return [*ops[: uses[0]], *ops[uses[0] + 1 : at], sum_, *later]
    return None


def _gives_way(ops: list[Op], at: int, base: Ref, trace: Trace) -> bool:
    """Whether the result of the sum at `at` may take over the memory of its term `base`."""
    made = ops[at].outs[0]
    if made is None or made._replace(memory=0) != base._replace(memory=0) or base.dtype != torch.float32:
        return False
    sizes = {trace.bytes_of.get(ref.memory) for ref in (made, base)}
    alone = users(ops, base.memory)[-1] == at and not {made.memory, base.memory} & trace.kept
    return alone and sizes == {4 * prod(base.size)} and base.offset == 0


def _part(source: Op, base: Ref) -> Ref | None:
    """The slice of `base` whose gradient `source` spreads over zeros; None if `source` is another kernel."""
    if source.func not in (SELECT, SLICE) or source.kwargs:
        return None
    sent, _, axis, first, *rest = source.args
    size, stride = list(base.size), list(base.stride)
    axis %= len(size)
    begin = first + size[axis] if first < 0 else first
    offset = base.offset + begin * stride[axis]
    if source.func is SELECT:
        del size[axis], stride[axis]
    else:
        size[axis], stride[axis] = sent.size[axis], stride[axis] * rest[1]
    part = base._replace(offset=offset, size=tuple(size), stride=tuple(stride))
    return part if part.size == sent.size and part.span[1] <= base.span[1] else None
