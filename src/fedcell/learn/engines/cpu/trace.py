"""Record the gradient of any network as a flat list of PyTorch's kernels, while it runs once.

A recorder sees every kernel of the forward pass and of autograd's backward pass, with the tensors that go in and come
out. It describes a tensor by its memory and its layout there, so views cost nothing: they are other layouts of the same
memory. If a list cannot repeat what a network does, `record` raises CannotTraceError with the reason.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ....rng import global_streams

aten = torch.ops.aten
BATCH_NORM = aten.native_batch_norm.default  # changes its statistics in training, and does not declare it
BATCH_NORM_WRITES, BATCH_NORM_TRAINS = (3, 4), 5  # places of its arguments
PEEKS = {Tensor.numpy, Tensor.tolist, Tensor.__array__, Tensor.data_ptr, Tensor.__dlpack__}
REMADE = {aten.resize_, aten.resize_as_, aten.set_}  # kernels that give a tensor other memory
DRAWN_BY = {  # kernels that take no generator, and those that fill memory with the same numbers from a given one
    aten.rand.default: aten.uniform_,
    aten.rand_like.default: aten.uniform_,
    aten.randn.default: aten.normal_,
    aten.randn_like.default: aten.normal_,
}
PLAIN = bool, int, float, str, type(None)
CONTAINERS = list, tuple, set, frozenset, deque
DEEP, MOST = 3, 4096  # levels of nested containers, and entries of each, that are compared
Attributes = dict[tuple[str, str], Any]  # by the path of the module and their name
VALUE_TAGS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


class CannotTraceError(Exception):
    """The reason why a network cannot be a list of kernels."""


class Ref(NamedTuple):
    """A tensor of a trace: the memory that it lies in, and its layout there."""

    memory: int
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    @property
    def span(self) -> tuple[int, int]:
        """The first entry of the memory, and the one behind the last, that it may touch."""
        if 0 in self.size:
            return self.offset, self.offset
        last = sum((n - 1) * step for n, step in zip(self.size, self.stride, strict=True))
        return self.offset, self.offset + last + 1

    def blank(self) -> Tensor:
        """A tensor of the same layout with any values, for those who ask how it lies."""
        return torch.empty_strided(self.size, self.stride, dtype=self.dtype)


class Op(NamedTuple):
    """A kernel with its arguments, in which every tensor is a `Ref`."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outs: tuple[Ref | None, ...]  # in the order of the kernel's returns
    reads: tuple[Ref, ...]
    writes: tuple[Ref, ...]  # new tensors, and arguments that it changes

    random: bool = False  # whether it draws random numbers


class Trace(NamedTuple):
    """All kernels of one gradient."""

    ops: list[Op]
    x: Ref
    y: Ref
    weights: int  # the memory of the packed row of parameters
    tail: int  # that of the running statistics
    parameters: tuple[Ref, ...]
    gradients: tuple[Ref, ...]  # one per parameter
    statistics: tuple[tuple[Ref, Ref], ...]  # (new buffer of the module, home of its values)
    bytes_of: dict[int, int]  # of every memory that the kernels make
    constants: dict[int, Tensor]  # tensors that existed before

    @property
    def kept(self) -> set[int]:
        """Memories whose contents are needed after the last kernel."""
        return {ref.memory for ref in (*self.gradients, *(one for pair in self.statistics for one in pair))}


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ops: list[Op] = []
        self.alive: list[Any] = []  # so that no memory is used twice
        self.made: dict[int, int] = {}
        self.seen: dict[int, Tensor] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: it would import the compiler of PyTorch, which takes seconds and is not used."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(tag in func.tags for tag in VALUE_TAGS) and not _picks_by_number(func, args):
            raise CannotTraceError(f"{name_of(func)} makes what happens next depend on the values of a tensor")
        if func.overloadpacket in REMADE:
            raise CannotTraceError(f"{name_of(func)} gives a tensor other memory")
        reads = tuple(self.ref(one) for one in tensors_in((args, kwargs)))
        noted, named = refs_of(args, self.ref), refs_of(kwargs, self.ref)
        found = func(*args, **kwargs)
        self.alive.append((args, kwargs, found))
        outs = tuple(None if one is None else self.ref(one) for one in returned(found))
        given = {ref.memory for ref in reads}
        changed = {ref.memory for ref in written(func, noted, named)}
        fresh = [ref for ref in outs if ref is not None and ref.memory not in given]
        for ref, one in zip(outs, returned(found), strict=True):
            if ref in fresh:
                self.made[ref.memory] = one.untyped_storage().nbytes()
        writes = (*fresh, *(ref for ref in reads if ref.memory in changed))
        if writes and torch.Tag.inplace_view not in func.tags:  # all others are views
            self.ops.append(Op(func, noted, named, outs, reads, writes, draws(func, args, kwargs)))
        return found

    def ref(self, tensor: Tensor) -> Ref:
        if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg() or tensor.is_quantized:
            raise CannotTraceError(f"a tensor of layout {tensor.layout} is none that plans know")
        memory = tensor.untyped_storage()._cdata
        if memory not in self.seen:
            self.seen[memory] = tensor
        return Ref(memory, int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride(), tensor.dtype)


class _Guard(TorchFunctionMode):
    """Refuse methods that give Python the values of a tensor without a kernel of PyTorch."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in PEEKS:
            raise CannotTraceError(f"Tensor.{func.__name__} lets the forward pass look at the values of a tensor")
        return func(*args, **(kwargs or {}))


def record(
    gradient: Callable[[Tensor, Tensor], tuple[Tensor, ...]],
    module: nn.Module,
    parameters: list[nn.Parameter],
    x: Tensor,
    y: Tensor,
    weights: Tensor,
    tail: dict[str, Tensor],
) -> Trace:
    """Run a gradient once and record its kernels.

    Args:
        gradient: computes the gradients of all `parameters` from a batch.
        module: the network, whose running statistics are the tensors of `tail`.
        parameters: the parameters that are trained, views into `weights`.
        x: the inputs of a batch.
        y: their labels.
        weights: the packed row of parameters.
        tail: the running statistics by name, views into one memory.
    """
    recorder = _Recorder()
    before, held, drawn = _attributes(module), _containers(module), global_streams()
    with recorder, _Guard():
        found = gradient(x, y)
    if global_streams() != drawn:
        raise CannotTraceError("the forward pass draws random numbers of Python or NumPy")
    _refuse_changes(before, _attributes(module))
    kept = recorder.ref(weights).memory
    statistics = []
    now = dict(module.named_buffers())
    for name, value in tail.items():
        if recorder.ref(now[name]) != recorder.ref(value):
            statistics.append((recorder.ref(now[name]), recorder.ref(value)))
    behind = recorder.ref(next(iter(tail.values()))).memory if tail else 0
    given = {recorder.ref(x).memory, recorder.ref(y).memory, kept, behind}
    trace = Trace(
        recorder.ops,
        recorder.ref(x),
        recorder.ref(y),
        kept,
        behind,
        tuple(recorder.ref(one) for one in parameters),
        tuple(recorder.ref(one) for one in found),
        tuple(statistics),
        recorder.made,
        {memory: one for memory, one in recorder.seen.items() if memory not in recorder.made and memory not in given},
    )
    for op in trace.ops:
        for ref in op.writes:
            if ref.memory in trace.constants or ref.memory in (trace.x.memory, trace.y.memory, kept):
                raise CannotTraceError(f"{name_of(op.func)} changes a tensor that is no running statistic of the model")
    if (held_now := _containers(module)) != held:  # a cache is filled by the first pass, what counts changes again
        gradient(x, y)
        _refuse_changes(held_now, _containers(module))
    return trace


def _picks_by_number(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether a kernel indexes by numbers, not by a mask: how many entries a mask picks depends on its values."""
    return func is aten.index.Tensor and not any(one.dtype in (torch.bool, torch.uint8) for one in tensors_in(args[1]))


def name_of(func: Any) -> str:
    """The name of a kernel, such as `aten.mm`."""
    return str(func).removesuffix(".default")


def draws(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a kernel draws random numbers; refuses kernels that do so and take no generator."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    if "dropout_p" in names and not given.get("dropout_p"):
        return False
    if func in DRAWN_BY:
        return True
    if "generator" not in names:
        raise CannotTraceError(f"{name_of(func)} draws random numbers from a stream of its own")
    return True


def tensors_in(tree: Any) -> Iterator[Tensor]:
    """All tensors in nested lists, tuples and dictionaries."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, list | tuple):
        for part in tree:
            yield from tensors_in(part)
    elif isinstance(tree, dict):
        yield from tensors_in(list(tree.values()))


def refs_of(tree: Any, ref: Callable[[Any], Any]) -> Any:
    """Return the same nested lists, tuples and dictionaries with every tensor or `Ref` replaced by `ref` of it."""
    if isinstance(tree, Tensor | Ref):
        return ref(tree)
    if isinstance(tree, list | tuple):
        return type(tree)([refs_of(part, ref) for part in tree])
    if isinstance(tree, dict):
        return {key: refs_of(part, ref) for key, part in tree.items()}
    return tree


def replaced(op: Op, ref: Callable[[Ref], Ref]) -> Op:
    """Return a kernel with each of its tensors replaced by `ref` of it."""
    names = "args", "kwargs", "outs", "reads", "writes"
    return op._replace(**{name: refs_of(getattr(op, name), ref) for name in names})


def renamed(op: Op, memory: int, other: int) -> Op:
    """Return a kernel whose tensors in `memory` lie in `other` instead."""
    return replaced(op, lambda ref: ref._replace(memory=other) if ref.memory == memory else ref)


def returned(found: Any) -> tuple[Any, ...]:
    """What a kernel returned, as a tuple with None in place of values that are no tensors."""
    if isinstance(found, Tensor):
        return (found,)
    if isinstance(found, list | tuple):
        return tuple(one if isinstance(one, Tensor) else None for one in found)
    return ()


def written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Ref]:
    """The tensors among the arguments that a kernel changes."""
    silent = BATCH_NORM_WRITES if func is BATCH_NORM and args[BATCH_NORM_TRAINS] else ()
    for place, argument in enumerate(func._schema.arguments):
        declared = argument.alias_info is not None and argument.alias_info.is_write
        if declared or place in silent:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            yield from _refs_in(value)


def _refs_in(tree: Any) -> Iterator[Ref]:
    if isinstance(tree, Ref):
        yield tree
    elif isinstance(tree, list | tuple):
        for part in tree:
            yield from _refs_in(part)


def _attributes(module: nn.Module) -> Attributes:
    """The plain values that modules hold."""
    return {place: value for place, value in _held(module) if isinstance(value, PLAIN)}


def _containers(module: nn.Module) -> Attributes:
    """What shows changes of the lists, dictionaries and other objects that modules hold."""
    return {place: _summary(value) for place, value in _held(module) if not isinstance(value, PLAIN)}


def _held(module: nn.Module) -> Iterator[tuple[tuple[str, str], Any]]:
    for path, part in module.named_modules():
        yield from (((path, name), value) for name, value in vars(part).items())


def _summary(value: Any, deep: int = DEEP) -> Any:
    """Plain values, arrays, and lengths of containers with their first entries; an object counts as its attributes."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, Tensor | nn.Module) or not deep:
        return None
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value).tobytes()
    if isinstance(value, dict):
        value = [part for item in value.items() for part in item]
    if isinstance(value, CONTAINERS):
        return len(value), [_summary(part, deep - 1) for part in islice(value, MOST)]
    return _summary(vars(value), deep) if hasattr(value, "__dict__") else None


def _refuse_changes(before: Attributes, after: Attributes) -> None:
    for (path, name), value in after.items():
        if before.get((path, name), value) != value or (path, name) not in before:
            raise CannotTraceError(f"the forward pass changes the attribute {name!r} of {path or 'the network'!r}")
