"""Drop needless kernels from a list, find those that run once, and move weights as their gradient is computed."""

from math import prod

from .trace import Op, Ref, Trace, aten

RATE = object()  # stands for the rate of the step among the arguments of a kernel
EMBEDDED = aten.embedding_dense_backward.default
FILLS = {
    aten.zeros_like.default: 0,
    aten.ones_like.default: 1,
    aten.zeros.default: 0,
    aten.ones.default: 1,
    aten.new_zeros.default: 0,
    aten.new_ones.default: 1,
}
EMPTY = {aten.empty_like.default, aten.empty.memory_format, aten.new_empty.default, aten.empty_strided.default}


def needed(trace: Trace) -> list[Op]:
    """Return the kernels that gradients and running statistics depend on, and all that draw random numbers."""
    wanted = {ref.memory for ref in trace.gradients} | {ref.memory for ref, _ in trace.statistics} | {trace.tail}
    kept: list[Op] = []
    for op in reversed(trace.ops):
        if op.random or any(ref.memory in wanted for ref in op.writes):
            shaped = op.func in FILLS or op.func in EMPTY  # they use the shape of their argument, not its values
            kept.append(op._replace(args=(), kwargs={}, reads=()) if shaped else op)
            wanted |= {ref.memory for ref in kept[-1].reads}
    return kept[::-1]


def constants(ops: list[Op], trace: Trace) -> set[int]:
    """Places of kernels whose results are the same in every step: they read nothing, or results of other such kernels.

    A kernel that reads a tensor from before the trace is none of them: an objective's tensors change between rounds.
    """
    varied = {ref.memory for op in ops for ref in op.writes if ref.memory not in trace.bytes_of} | trace.kept
    while True:
        found, same = set[int](), set[int]()
        for place, op in enumerate(ops):
            written = {ref.memory for ref in op.writes}
            known = all(ref.memory in same or ref in op.writes for ref in op.reads)
            if known and not op.random and not written & varied:
                found.add(place)
                same |= written
        others = {ref.memory for place, op in enumerate(ops) if place not in found for ref in op.writes}
        if not others & same:
            return found
        varied |= others & same


def moving(ops: list[Op], trace: Trace, chosen: list[int]) -> tuple[list[Op], set[int]]:
    """Move chosen parameters at once instead of writing their gradient: `W -= rate * (a @ b)`, or row by row.

    Args:
        ops: the kernels.
        trace: the trace that they come from.
        chosen: places of parameters that may move so.

    Returns:
        (ops, places): the new kernels, and the parameters that they move: those whose gradient is a product or a sum
        of the rows of an embedding.
    """
    done = set()
    for place in chosen:
        gradient, weight = trace.gradients[place], trace.parameters[place]
        found = users(ops, gradient.memory)
        if len(found) != 1 or [one.memory for one in trace.gradients].count(gradient.memory) != 1:
            continue
        at = found[0]
        target = _target(ops[at], gradient, weight)
        readers = [later for later in range(at + 1, len(ops)) if any(_meet(r, weight) for r in ops[later].reads)]
        end = readers[-1] if readers else at
        if target is None or changed(ops[at + 1 : end + 1], ops[at].reads):
            continue
        step = _step(ops[at], target)
        ops = [*ops[:at], *ops[at + 1 : end + 1], step, *ops[end + 1 :]]
        done.add(place)
    return ops, done


def _step(op: Op, target: Ref) -> Op:
    """Return the kernel that moves a weight, to replace `op`, which computes the gradient of the weight."""
    reads = (target, *op.reads)
    if op.func is aten.mm.default:
        return Op(aten.addmm_.default, (target, *op.args), {"alpha": RATE}, (target,), reads, (target,))
    sent, words = op.args[0], op.args[1]
    return Op(aten.index_add_.default, (target, 0, words, sent), {"alpha": RATE}, (target,), reads, (target,))


def _target(op: Op, gradient: Ref, weight: Ref) -> Ref | None:
    """The weight, turned if `op` finds its gradient so; None if `op` is no product and adds up no embedding rows."""
    out = op.outs[0]
    if op.func is EMBEDDED:
        _, _, _, padding, by_count = op.args
        alike = out == gradient and padding < 0 and not by_count
        return weight if alike and gradient.size == weight.size and is_whole(weight) else None
    if op.func is not aten.mm.default or out is None or gradient.size != weight.size or len(weight.size) != 2:
        return None
    if out == gradient:
        return weight
    turned = out._replace(size=out.size[::-1], stride=out.stride[::-1])
    return weight._replace(size=weight.size[::-1], stride=weight.stride[::-1]) if turned == gradient else None


def _meet(one: Ref, other: Ref) -> bool:
    """Whether two tensors may share an entry."""
    return one.memory == other.memory and one.span[0] < other.span[1] and other.span[0] < one.span[1]


def users(ops: list[Op], memory: int) -> list[int]:
    """The places of kernels that read or write a memory."""
    return [at for at, op in enumerate(ops) if any(ref.memory == memory for ref in (*op.reads, *op.writes))]


def is_whole(ref: Ref) -> bool:
    """Whether a tensor's entries lie one after another."""
    steps = [prod(ref.size[axis + 1 :]) for axis in range(len(ref.size))]
    return all(n == 1 or a == b for n, a, b in zip(ref.size, ref.stride, steps, strict=True))


def changed(ops: list[Op], given: tuple[Ref, ...]) -> bool:
    return any(_meet(ref, one) for op in ops for ref in op.writes for one in given)
