"""Group and batch norms that do the work of the ReLU or ReLU6 behind them in one native kernel for each pass."""

from math import inf

from ..fusion import changed, users
from ..trace import BATCH_NORM, Op, Ref, aten
from . import IMAGES, library
from .norms import is_images

NORMS = {aten.native_group_norm.default, BATCH_NORM}
BATCH_NORM_BACK, BATCH_NORM_BACK_TRAINS = aten.native_batch_norm_backward.default, 7  # and the place of its argument
NORMS_BACK = {aten.native_group_norm_backward.default, BATCH_NORM_BACK}
N_ARGUMENTS, N_FORTH = 10, 8  # of a backward and a forward pass without a ReLU
IN_PLACE = {aten.relu_.default, aten.hardtanh_.default}
RELUS = {aten.relu.default, aten.hardtanh.default, *IN_PLACE}
RELUS_BACK = {aten.threshold_backward.default, aten.hardtanh_backward.default}


def with_relus(ops: list[Op]) -> list[Op]:
    """Return the kernels with ReLUs merged into the norms before them, if there are native norms."""
    if not any(op.func in NORMS for op in ops) or library(IMAGES) is None:
        return ops
    for place in range(len(ops) - 1, -1, -1):
        if place < len(ops) and ops[place].func in NORMS:
            ops = _forth(ops, place)
        elif place < len(ops) and ops[place].func in NORMS_BACK:
            ops = _back(ops, place)
    return _found_anew(ops)


def _found_anew(ops: list[Op]) -> list[Op]:
    """Let batch norms recompute from their input what their ReLU let through, instead of reading its output."""
    forth = {
        op.outs[0]: (place, op) for place, op in enumerate(ops) if op.func is BATCH_NORM and len(op.args) > N_FORTH
    }
    found = list(ops)
    for at, op in enumerate(ops):
        if op.func is not BATCH_NORM_BACK or len(op.args) != N_ARGUMENTS + 2 or op.args[-1] not in forth:
            continue
        place, norm = forth[op.args[-1]]
        (x, gamma, beta), (mean, rstd) = norm.args[:3], norm.outs[1:3]
        alike = (x, gamma, mean, rstd) == (*op.args[1:3], *op.args[5:7]) and norm.args[-1] == op.args[-2]
        given = tuple(one for one in (x, gamma, beta, mean, rstd) if one is not None)
        if alike and not changed(ops[place + 1 : at], given):
            reads = tuple(one for one in op.reads if one != op.args[-1])
            reads = (*reads, beta) if beta is not None else reads
            found[at] = op._replace(args=(*op.args[:-1], None, beta), reads=reads)
    return found


def _most(relu: Op) -> float | None:
    """The upper bound of a ReLU or of its backward pass, infinite if it has none; None if the lower one is not 0."""
    if relu.func is aten.threshold_backward.default:
        return None if relu.args[2] else inf
    if relu.func in (aten.relu.default, aten.relu_.default):
        return inf
    bounds = relu.args[2 if relu.func in RELUS_BACK else 1 :]  # left out if they are -1 and 1
    return float(bounds[1]) if len(bounds) == 2 and bounds[0] == 0 and bounds[1] > 0 else None


def _forth(ops: list[Op], place: int) -> list[Op]:
    norm = ops[place]
    y = norm.outs[0]
    if y is None or not _lie_well(norm.args[0], y):
        return ops
    found = users(ops, y.memory)
    if len(found) < 2:
        return ops
    follows = ops[found[1]]
    if follows.func not in RELUS or follows.reads[0] != y or (out := follows.outs[0]) is None:
        return ops
    most = _most(follows)
    if most is None or not (follows.func in IN_PLACE or all(_only_masks(ops[at], y) for at in found[2:])):
        return ops
    others = [one for one in norm.writes if one != y]
    fused = norm._replace(args=(*norm.args, most), outs=(out, *norm.outs[1:]), writes=(out, *others))
    later = [_masked_by(op, y, out) for op in ops[found[1] + 1 :]]
    return [*ops[:place], fused, *ops[place + 1 : found[1]], *later]


def _only_masks(op: Op, y: Ref) -> bool:
    """Whether a kernel reads a ReLU's input `y` only to see what the ReLU let through, which its output shows, too."""
    if op.func in NORMS_BACK and len(op.args) > N_ARGUMENTS:
        return op.args[-1] == y and op.reads.count(y) == 1
    return op.func in RELUS_BACK and op.args[1] == y and op.reads.count(y) == 1


def _masked_by(op: Op, y: Ref, out: Ref) -> Op:
    if y == out or y not in op.reads:
        return op
    args, reads = (tuple(out if one is y or one == y else one for one in part) for part in (op.args, op.reads))
    return op._replace(args=args, reads=reads)


def _back(ops: list[Op], place: int) -> list[Op]:
    norm = ops[place]
    if norm.func is BATCH_NORM_BACK and not norm.args[BATCH_NORM_BACK_TRAINS]:
        return ops
    sent, found = norm.args[0], users(ops, norm.args[0].memory)
    if len(found) != 2 or found[1] != place or not norm.outs[0] or not _lie_well(sent, norm.args[1], norm.outs[0]):
        return ops
    mask = ops[found[0]]
    most = _most(mask) if mask.func in RELUS_BACK and _lie_well(*mask.args[:2]) else None
    if most is None or changed(ops[found[0] + 1 : place], mask.reads):
        return ops
    reads = (*mask.reads, *norm.reads[1:])
    fused = norm._replace(args=(mask.args[0], *norm.args[1:], most, mask.args[1]), reads=reads)
    return [*ops[: found[0]], *ops[found[0] + 1 : place], fused, *ops[place + 1 :]]


def _lie_well(*refs: Ref) -> bool:
    return is_images(*(one.blank() for one in refs))
