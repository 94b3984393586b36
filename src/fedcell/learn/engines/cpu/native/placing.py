"""Kernels that leave results where they are wanted: slopes in place of what a GELU saw, gradients side by side."""

from dataclasses import dataclass

import torch

from ..fusion import users
from ..trace import Op, Ref, Trace, aten
from .sequences import ATTENTION_BACK
from .vectors import lie_alike

GELU = aten.gelu.default
SLOPED = {GELU: aten.gelu_backward.default, aten.silu.default: aten.silu_backward.default}
TOGETHER = {aten.stack.default, aten.cat.default, aten.clone.default}


def with_slopes(ops: list[Op], trace: Trace) -> list[Op]:
    """Have GELUs and SiLUs leave their slopes over what they saw, if nobody else looks at that: a product is left."""
    for place, op in enumerate(ops):
        if op.func not in SLOPED or op.kwargs.get("approximate", "none") != "none":
            continue
        x, y = op.args[0], op.outs[0]
        later = [at for at in users(ops, x.memory) if at > place]
        if len(later) != 1 or x.memory not in trace.bytes_of or y is None or not _lie_alike(x, y):
            continue
        back = ops[later[0]]
        if back.func is not SLOPED[op.func] or back.args[1] != x or back.args[0] == x or x == y:
            continue
        slopes = back._replace(func=aten.mul.Tensor, kwargs={})
        ops = [*ops]
        ops[place], ops[later[0]] = op._replace(args=(x, True), kwargs={}, writes=(y, x)), slopes
    return ops


def _lie_alike(*refs: Ref) -> bool:
    return lie_alike(*(torch.empty_strided(one.size, one.stride, dtype=one.dtype) for one in refs))


def placed(ops: list[Op], trace: Trace) -> list[Op]:
    """Have attention write its gradients where they are put together, without the copies in between."""
    copies = [at for at, op in enumerate(ops) if op.func in TOGETHER]
    for at in copies:
        source = _source(ops, at, trace)
        if source is not None and (moved := _moved(ops[source], ops[at])) is not None:
            ops = [*ops]
            ops[source], ops[at] = moved, _NOTHING
    return [op for op in ops if op is not _NOTHING]


_NOTHING = Op(None, (), {}, (), (), ())


def _source(ops: list[Op], at: int, trace: Trace) -> int | None:
    """The kernel of attention that makes all that is put together, if it is for nobody else."""
    found = {tuple(users(ops, ref.memory)) for ref in ops[at].reads}
    if len(found) != 1:
        return None
    makers = next(iter(found))
    made = all(ref.memory in trace.bytes_of for ref in ops[at].reads)
    return makers[0] if made and len(makers) == 2 and ops[makers[0]].func is ATTENTION_BACK else None


def _moved(source: Op, copy: Op) -> Op | None:
    """The kernel with its results where a copy would bring them."""
    outs = list[Ref]()
    for ref in source.outs:
        if ref is None:
            return None
        views = [_through(ref, view, home) for view, home in _parts(copy) if view.memory == ref.memory]
        found = next((one for one in views if one is not None), None)
        if found is None:
            return None
        outs.append(found)
    return source._replace(outs=tuple(outs), writes=tuple(outs))


def _parts(copy: Op) -> list[tuple[Ref, Ref]]:
    """What is put together, each beside its place in the result."""
    whole = copy.outs[0]
    if whole is None:
        return []
    if copy.func is aten.clone.default:
        return [(copy.args[0], whole)]
    views, axis = copy.args[0], (copy.args[1] if len(copy.args) > 1 else 0) % len(whole.size)
    parts, begin = list[tuple[Ref, Ref]](), 0
    for view in views:
        size, stride = list(whole.size), list(whole.stride)
        offset = whole.offset + begin * stride[axis]
        if copy.func is aten.stack.default:
            del size[axis], stride[axis]
            begin += 1
        else:
            size[axis] = view.size[axis]
            begin += size[axis]
        parts.append((view, whole._replace(offset=offset, size=tuple(size), stride=tuple(stride))))
    return parts


@dataclass
class _Axis:
    size: int
    step: int  # in what is copied
    new: int  # in the copy


def _through(ref: Ref, view: Ref, home: Ref) -> Ref | None:
    """Where a tensor lies once the view that holds it is copied to its home; None if its axes are not the view's."""
    axes = [_Axis(*of) for of in zip(view.size, view.stride, home.stride, strict=True) if of[0] > 1]
    axes.sort(key=lambda axis: -axis.step)
    if ref.dtype != home.dtype or any(axis.step <= 0 for axis in axes):
        return None
    rest, offset = ref.offset - view.offset, home.offset
    room = {}
    for axis in axes:
        place = min(rest // axis.step, axis.size - 1) if rest > 0 else 0
        rest, offset = rest - place * axis.step, offset + place * axis.new
        room[axis.step] = axis.size - place
    steps = []
    for size, step in zip(ref.size, ref.stride, strict=True):
        within = next((one for one in axes if step % one.step == 0 and size * step <= room[one.step] * one.step), None)
        if size > 1 and within is None:
            return None
        steps.append(step // within.step * within.new if size > 1 and within is not None else 1)
    return home._replace(offset=offset, size=ref.size, stride=tuple(steps)) if rest == 0 else None
