"""Group and batch norms that do the work of the ReLU behind them in one native kernel, forward and backward."""

import torch

from ..fusion import changed, users
from ..trace import BATCH_NORM, BATCH_NORM_TRAINS, Op, Ref, aten
from . import IMAGES, library
from .norms import is_images

NORMS = {aten.native_group_norm.default, aten.native_batch_norm.default}
NORMS_BACK = {aten.native_group_norm_backward.default, aten.native_batch_norm_backward.default}
BATCH_NORM_BACK_TRAINS = 7  # place of its argument
RELUS = {aten.relu.default, aten.relu_.default}


def with_relus(ops: list[Op]) -> list[Op]:
    """The same kernels, with ReLUs taken into the norms before them if there are native ones."""
    if library(IMAGES) is None:
        return ops
    for place in range(len(ops) - 1, -1, -1):
        if place < len(ops) and ops[place].func in NORMS:
            ops = _forth(ops, place)
        elif place < len(ops) and ops[place].func in NORMS_BACK:
            ops = _back(ops, place)
    return ops


def _forth(ops: list[Op], place: int) -> list[Op]:
    norm = ops[place]
    y = norm.outs[0]
    if y is None or not _lie_well(norm.args[0], y) or (norm.func is BATCH_NORM and not norm.args[BATCH_NORM_TRAINS]):
        return ops
    found = users(ops, y.memory)
    if len(found) < 2:
        return ops
    follows = ops[found[1]]
    alone = follows.func is aten.relu_.default or len(found) == 2
    if follows.func not in RELUS or follows.reads[0] != y or not alone or follows.outs[0] is None:
        return ops
    outs = follows.outs[0], *norm.outs[1:]
    others = [one for one in norm.writes if one != y]
    fused = norm._replace(args=(*norm.args, True), outs=outs, writes=(follows.outs[0], *others))
    return [*ops[:place], fused, *ops[place + 1 : found[1]], *ops[found[1] + 1 :]]


def _back(ops: list[Op], place: int) -> list[Op]:
    norm = ops[place]
    if norm.func is aten.native_batch_norm_backward.default and not norm.args[BATCH_NORM_BACK_TRAINS]:
        return ops
    sent, found = norm.args[0], users(ops, norm.args[0].memory)
    if len(found) != 2 or found[1] != place or not norm.outs[0] or not _lie_well(sent, norm.args[1], norm.outs[0]):
        return ops
    mask = ops[found[0]]
    if mask.func is not aten.threshold_backward.default or mask.args[2] != 0 or not _lie_well(*mask.args[:2]):
        return ops
    if changed(ops[found[0] + 1 : place], mask.reads):
        return ops
    reads = (*mask.reads, *norm.reads[1:])
    fused = norm._replace(args=(mask.args[0], *norm.args[1:], mask.args[1]), reads=reads)
    return [*ops[: found[0]], *ops[found[0] + 1 : place], fused, *ops[place + 1 :]]


def _lie_well(*refs: Ref) -> bool:
    return is_images(*(torch.empty_strided(one.size, one.stride, dtype=one.dtype, device="meta") for one in refs))
