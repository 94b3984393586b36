"""Replay a traced gradient by calls on fixed buffers: no autograd, no views and hardly any new memory in a step.

Memory that no later kernel touches is used again, so that a step works on few buffers that stay in the cache. Kernels
write where their result belongs, if they can: gradients into the row of gradients.
"""

from collections import defaultdict
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor

from .binding import bound
from .fusion import constants, moving, needed
from .kernels import Calls
from .layouts import laid_out
from .native import gathered
from .native.dropout import DropoutStream
from .native.norm_relu import with_relus
from .native.placing import placed, with_slopes
from .native.scores import from_scores
from .slices import in_parts
from .trace import Op, Ref, Trace, aten, refs_of

OVERWRITES = (
    *("relu", "gelu", "sigmoid", "tanh", "silu", "leaky_relu", "hardtanh", "hardswish", "hardsigmoid", "elu", "clamp"),
    *("add", "sub", "mul", "div", "neg", "exp", "sqrt", "rsqrt", "reciprocal", "clamp_min", "threshold_backward"),
    *("gelu_backward", "sigmoid_backward", "tanh_backward", "silu_backward", "leaky_relu_backward"),
    *("hardtanh_backward", "hardswish_backward", "hardsigmoid_backward"),
)
SIMPLE = {getattr(aten, name) for name in OVERWRITES}  # kernels that may write over what they read


class WorkerRows:
    """What a worker has of its own: packed rows, the gradients as views into theirs, random numbers and a rate.

    Args:
        weights: the packed parameters.
        gradient: room for their gradients.
        gradients: views into it, one per parameter.
        tail: the running statistics.
        quick: use compiled kernels of one thread, in place of PyTorch's, for rows and products.
    """

    def __init__(self, weights: Tensor, gradient: Tensor, gradients: list[Tensor], tail: Tensor, quick: bool) -> None:
        self.weights, self.gradient, self.gradients, self.tail, self.quick = weights, gradient, gradients, tail, quick
        self.stream, self.minus_rate = DropoutStream(), torch.zeros(())

    @property
    def rate(self) -> float:
        return -float(self.minus_rate)

    @rate.setter
    def rate(self, value: float) -> None:
        with torch.inference_mode():  # as it was made
            self.minus_rate.fill_(-value)


class Replay:
    """The kernels of one gradient, bound to the rows of a worker.

    Args:
        trace: what to repeat.
        rows: of the worker.
        chosen: parameters that may move in the backward pass, in place of writing their gradients.
    """

    def __init__(self, trace: Trace, rows: WorkerRows, chosen: list[int]) -> None:
        self.trace, self.rows = trace, rows
        ops = with_relus(in_parts(laid_out(needed(trace), trace), trace))
        if rows.quick:
            ops = from_scores(placed(with_slopes(ops, trace), trace), trace)
            ops = rows.stream.take_over(ops)
        ops, self.moved = moving(ops, trace, chosen)
        self._tensors: dict[Ref, Tensor] = {}
        self._homes: dict[int, Tensor] = {**trace.constants, trace.weights: rows.weights, trace.tail: rows.tail}
        self._offset: dict[int, int] = {}
        self._free = _Free()
        self.x, self.y = (self._room(ref) for ref in (trace.x, trace.y))
        copied = self._place_gradients()
        self.calls = self._bind_all(ops, copied)

    def _room(self, ref: Ref) -> Tensor:
        self._homes[ref.memory] = torch.zeros(ref.span[1], dtype=ref.dtype)
        return self._tensor(ref)

    def _place_gradients(self) -> list[tuple[Ref, Tensor]]:
        """Let kernels write gradients into the row of gradients; return those that must be copied there."""
        copied = []
        taken = {ref.memory for ref, _ in self.trace.statistics}
        for place, (ref, target) in enumerate(zip(self.trace.gradients, self.rows.gradients, strict=True)):
            if place in self.moved:
                continue
            whole = self.trace.bytes_of.get(ref.memory) == 4 * prod(ref.size) and ref.offset == 0
            if whole and _lie_alike(ref, target) and ref.memory not in taken:
                self._homes[ref.memory] = self.rows.gradient
                self._offset[ref.memory] = int(target.storage_offset())
                taken.add(ref.memory)
            else:
                copied.append((ref, target))
        return copied

    def _bind_all(self, ops: list[Op], copied: list[tuple[Ref, Tensor]]) -> Calls:
        last, calls, once = self._last_uses(ops, copied), list[Any](), constants(ops, self.trace)
        kept = self._offset.keys() | {ref.memory for place in once for ref in ops[place].writes}
        for place, op in enumerate(ops):
            dying = {ref.memory for ref in (*op.reads, *op.writes) if last[ref.memory] == place}
            dying &= self.trace.bytes_of.keys() - kept
            over = {ref.memory for ref in op.reads if ref.memory in dying and self._may_overwrite(op, ref)}
            self._give_back(over)
            for ref in op.writes:
                if ref.memory not in self._homes:
                    room = _Free() if place in once else self._free  # kept for all steps
                    self._homes[ref.memory] = room.take(self.trace.bytes_of[ref.memory])
            args, kwargs = (refs_of(part, self._tensor) for part in (op.args, op.kwargs))
            outs = [None if ref is None else self._tensor(ref) for ref in op.outs]
            found = bound(op, args, kwargs, outs, self.rows)
            if place in once:
                for call in found:
                    call()
            else:
                calls += found
            self._give_back(dying - over)
        calls += [partial(target.copy_, self._tensor(ref)) for ref, target in copied]
        calls += [partial(self._tensor(home).copy_, self._tensor(ref)) for ref, home in self.trace.statistics]
        return gathered(calls)

    def _give_back(self, memories: set[int]) -> None:
        for memory in sorted(memories):
            self._free.give(self._homes[memory])

    def _last_uses(self, ops: list[Op], copied: list[tuple[Ref, Tensor]]) -> dict[int, int]:
        last = {ref.memory: place for place, op in enumerate(ops) for ref in (*op.reads, *op.writes)}
        kept = [ref.memory for ref, _ in (*copied, *self.trace.statistics)]
        return defaultdict(lambda: -1, last | dict.fromkeys(kept, len(ops)))

    def _may_overwrite(self, op: Op, ref: Ref) -> bool:
        """Whether a kernel may write its result over one of its arguments: entry by entry, each in its own place."""
        if op.func.overloadpacket not in SIMPLE or len(op.writes) != 1 or op.writes[0] in op.reads:
            return False
        alike = ref._replace(memory=0) == op.writes[0]._replace(memory=0)
        others = [one for one in op.reads if one.memory == ref.memory]
        whole = self.trace.bytes_of[ref.memory] == 4 * prod(ref.size) == self.trace.bytes_of[op.writes[0].memory]
        return alike and len(others) == 1 and whole and op.writes[0].memory not in self._homes

    def _tensor(self, ref: Ref) -> Tensor:
        if ref not in self._tensors:
            home = self._homes[ref.memory]
            if ref.memory in self.trace.bytes_of and ref.memory not in self._offset:
                home = home.view(ref.dtype)
            offset = ref.offset + self._offset.get(ref.memory, 0)
            self._tensors[ref] = home.as_strided(ref.size, ref.stride, offset)
        return self._tensors[ref]


def _lie_alike(ref: Ref, target: Tensor) -> bool:
    """Whether two tensors have one layout; strides of axes with one entry do not matter."""
    if ref.size != tuple(target.shape) or ref.dtype != target.dtype:
        return False
    return all(a == b for n, a, b in zip(ref.size, ref.stride, target.stride(), strict=True) if n > 1)


class _Free:
    """Buffers that wait for another use; `take` returns the one given back last, which may still be in the cache."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[Tensor]] = defaultdict(list)

    def take(self, n_bytes: int) -> Tensor:
        waiting = self._waiting[n_bytes]
        return waiting.pop() if waiting else torch.zeros(n_bytes, dtype=torch.uint8)

    def give(self, buffer: Tensor) -> None:
        self._waiting[buffer.numel()].append(buffer)
