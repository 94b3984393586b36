"""Let kernels write results where they are needed: slopes over the input of a GELU, gradients side by side."""

from dataclasses import dataclass
from math import prod

from ..fusion import changed, users
from ..trace import Op, Ref, Trace, aten, renamed, replaced
from .heads import ATTENTION_BACK
from .vectors import lie_alike

GELU = aten.gelu.default
SLOPED = {GELU: aten.gelu_backward.default, aten.silu.default: aten.silu_backward.default}
TOGETHER = {aten.stack.default, aten.cat.default, aten.clone.default}
MOVABLE = {ATTENTION_BACK, *TOGETHER}  # kernels that may write in any order


def with_slopes(ops: list[Op], trace: Trace) -> list[Op]:
    """Let GELUs and SiLUs write their slopes over their input, if only their backward pass, now a product, reads it."""
    for place, op in enumerate(ops):
        if op.func not in SLOPED:
            continue
        x, y = op.args[0], op.outs[0]
        later = [at for at in users(ops, x.memory) if at > place]
        if len(later) != 1 or x.memory not in trace.bytes_of or y is None or not lie_alike(x.blank(), y.blank()):
            continue
        back = ops[later[0]]
        if back.func is not SLOPED[op.func] or back.args[1] != x or back.args[0] == x or x == y:
            continue
        slopes = back._replace(func=aten.mul.Tensor, kwargs={})
        ops = [*ops]
        ops[place], ops[later[0]] = op._replace(args=(x, True), writes=(y, x)), slopes
    return ops


def placed(ops: list[Op], trace: Trace) -> list[Op]:
    """Let attention and copies write where a later copy puts their results together, without that copy."""
    ops, at = stacked(ops), 0
    while at < len(ops):
        found = _forwarded(ops, at, trace) if ops[at].func in TOGETHER else None
        ops, at = (ops, at + 1) if found is None else (found, 0)
    return ops


def _forwarded(ops: list[Op], at: int, trace: Trace) -> list[Op] | None:
    """Return the kernels without the copy at `at`; None unless the makers of what it copies can write to its result.

    No other kernel may read what is copied.
    """
    makers, parts = dict[int, Op](), _parts(ops[at])
    if len({view.memory for view, _ in parts}) < len(parts):
        return None
    for view, home in parts:
        uses = users(ops, view.memory)
        if view.memory not in trace.bytes_of or len(uses) != 2 or uses[1] != at:
            return None
        maker = makers.get(uses[0], ops[uses[0]])
        if maker.func not in MOVABLE or not (outs := _elsewhere(maker, view, home)):
            return None
        makers[uses[0]] = maker._replace(outs=outs, writes=outs)
    return [makers.get(place, op) for place, op in enumerate(ops) if place != at]


def _elsewhere(maker: Op, view: Ref, home: Ref) -> tuple[Ref, ...]:
    """The results of a kernel, with what `view` shows moved to `home`; empty if that is impossible."""
    outs = list[Ref]()
    for ref in maker.outs:
        found = _through(ref, view, home) if ref is not None and ref.memory == view.memory else ref
        if found is None:
            return ()
        outs.append(found)
    return tuple(outs)


def stacked(ops: list[Op]) -> list[Op]:
    """Replace one slice among zeros, to which all other slices are added, by a stack of the slices."""
    for first in [op for op in ops if op.func is aten.select_backward.default and op.outs[0] is not None]:
        whole, axis, chosen = first.outs[0], first.args[2], first.args[3]
        assert whole is not None
        axis, n = axis % len(whole.size), whole.size[axis]
        uses = users(ops, whole.memory)[:n]
        parts = {_place(whole, axis, op.args[0]): op.args[1] for op in (ops[at] for at in uses[1:]) if _adds(op)}
        parts[chosen % n] = first.args[0]
        every = [parts.get(place) for place in range(n)]
        given = tuple(ref for ref in every if ref is not None)
        if len(given) < n or len(uses) < n or ops[uses[0]] is not first or changed(ops[uses[0] : uses[-1]], given):
            continue
        stack = Op(aten.stack.default, (list(given), axis), {}, (whole,), given, (whole,))
        ops = [stack if at == uses[-1] else op for at, op in enumerate(ops) if at == uses[-1] or at not in uses]
    return ops


def _adds(op: Op) -> bool:
    alike = op.func is aten.add_.Tensor and not op.kwargs and isinstance(op.args[1], Ref)
    return alike and op.args[0].size == op.args[1].size


def _place(whole: Ref, axis: int, part: Ref) -> int | None:
    """The number of a slice of a tensor along an axis; None if `part` is no such slice."""
    size, stride = ((*of[:axis], *of[axis + 1 :]) for of in (whole.size, whole.stride))
    place, rest = divmod(part.offset - whole.offset, whole.stride[axis])
    return place if (part.size, part.stride, rest) == (size, stride, 0) else None


def relaid(ops: list[Op], trace: Trace, found: Ref, home: Ref) -> list[Op] | None:
    """Change the layout of a tensor for all its kernels and drop needless copies; None if a kernel cannot use it so."""
    other = None if found.memory in trace.kept else mapped(ops, found, home)
    return None if other is None else without_copies(other, trace)


def mapped(ops: list[Op], found: Ref, home: Ref) -> list[Op] | None:
    """Return the kernels with views of `found` moved to `home`; None if the new layout lacks one of the views."""
    new = dict[Ref, Ref | None]()
    for op in ops:
        new |= {ref: _through(ref, found, home) for ref in (*op.reads, *op.writes) if ref.memory == found.memory}
    return [replaced(op, lambda ref: new.get(ref) or ref) for op in ops] if all(new.values()) else None


def without_copies(ops: list[Op], trace: Trace) -> list[Op]:
    """Drop copies with the layout of their source, which is read instead, if neither changes any more."""
    at = 0
    while at < len(ops):
        if _is_spare(ops, at, trace):
            source, made = ops[at].args[0], ops[at].outs[0]
            assert made is not None
            ops = [*ops[:at], *(renamed(op, made.memory, source.memory) for op in ops[at + 1 :])]
        else:
            at += 1
    return ops


def _is_spare(ops: list[Op], at: int, trace: Trace) -> bool:
    """Whether a kernel makes a copy whose source could be read instead."""
    if ops[at].func is not aten.clone.default:
        return False
    source, made = ops[at].args[0], ops[at].outs[0]
    if made is None or source._replace(memory=0) != made._replace(memory=0):
        return False
    sizes = {trace.bytes_of.get(ref.memory) for ref in (source, made)}
    changes = {ref.memory for op in ops[at + 1 :] for ref in op.writes} | trace.kept
    return sizes == {4 * prod(made.size)} and not {source.memory, made.memory} & changes


def _parts(copy: Op) -> list[tuple[Ref, Ref]]:
    """(tensor, its place in the result) of all tensors that a clone, cat or stack puts together."""
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
    """Where `ref`, a part of `view`, lies once `view` is at `home`; None if its axes are not those of `view`."""
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
