"""The gradient of a cross-entropy of classes as one kernel on the scores, which writes no logarithms."""

from math import prod
from typing import Any

import torch

from ..fusion import changed, users
from ..trace import Op, Ref, Trace, aten
from . import SEQUENCES, Lowered, Native
from .placing import relaid, without_copies
from .vectors import OWN

FORWARD = {aten.nll_loss_forward.default, aten.nll_loss2d_forward.default}
BACKWARD = {aten.nll_loss_backward.default, aten.nll_loss2d_backward.default}
EACH, MEAN = 0, 1  # of a loss: one per sample, or their mean
OWN.define("cross_entropy_back(Tensor scores, Tensor labels, Tensor sent, int ignored, bool mean) -> Tensor")
CROSS_ENTROPY = torch.ops.fedcell.cross_entropy_back.default


def from_scores(ops: list[Op], trace: Trace) -> list[Op]:
    """Compute gradients of cross-entropies from the scores, where no other kernel reads the log-softmax."""
    for last in [op for op in ops if op.func is aten._log_softmax_backward_data.default]:
        found = _joined(ops, last, trace)
        ops = ops if found is None else found
    return ops


def _joined(ops: list[Op], last: Op, trace: Trace) -> list[Op] | None:
    by_logs, logs, axis, kind = last.args
    using = users(ops, logs.memory)
    used = [ops[at] for at in using]
    first, middle = used[0], used[1:-1]
    if first.func is not aten._log_softmax.default or first.args[1:] != (axis, False) or used[-1] is not last:
        return None
    backward = [op for op in middle if op.func in BACKWARD]
    forward = [op for op in middle if op.func in FORWARD]
    if len(backward) != 1 or len(backward) + len(forward) != len(middle) or kind != torch.float32:
        return None
    sent, _, labels, weights, reduction, ignored, _ = backward[0].args
    scores = first.args[0]
    gone = [first, *middle]
    others = {ref.memory for op in (*forward, *backward) for ref in op.writes}
    if weights is not None or reduction not in (EACH, MEAN) or others & {ref.memory for ref in trace.gradients}:
        return None
    if any(not any(ops[at] is op for op in (*gone, last)) for memory in others for at in users(ops, memory)):
        return None
    begin, end = using[0], using[-1]
    flat = len(scores.size) in (2, 3) and axis % len(scores.size) == 1 and scores.dtype == kind
    rows = all(_in_rows(one, scores) for one in ((labels,) if reduction == MEAN else (labels, sent)))
    if not flat or not rows or by_logs.size != scores.size or changed(ops[begin:end], (scores, labels)):
        return None
    args = scores, labels, sent, ignored, reduction == MEAN
    joined = Op(CROSS_ENTROPY, args, {}, last.outs, (scores, labels, sent), last.writes)
    rest = [joined if op is last else op for op in ops if not any(op is one for one in gone)]
    return _beside_each_other(rest, joined, trace)


def _in_rows(one: Ref, scores: Ref) -> bool:
    """Whether labels, or what is sent back to each, have a view `[samples, places]`, as the kernel reads them."""
    try:
        one.blank().view(scores.size[0], -1)
    except RuntimeError:
        return False
    return True


def _beside_each_other(ops: list[Op], joined: Op, trace: Trace) -> list[Op] | None:
    """Lay the gradient out with classes side by side, as the scores have them; None if a kernel cannot use it so."""
    scores, found = joined.args[0], joined.outs[0]
    if scores.stride[1] != 1 or found is None or trace.bytes_of.get(found.memory) != 4 * prod(found.size):
        return None
    n_classes, places = found.size[1], prod(found.size[2:])
    home = found._replace(stride=(n_classes * places, 1, n_classes)[: len(found.size)])
    return without_copies(ops, trace) if home == found else relaid(ops, trace, found, home)


def cross_entropy_back(args: tuple[Any, ...], outs: list[Any]) -> Lowered:
    scores, labels, sent, ignored, mean = args
    n, width = scores.shape[:2]
    places = scores.shape[2] if scores.dim() == 3 else 1
    labels = labels.view(n, places)
    sent = sent.expand(n, places) if mean else sent.view(n, places)
    steps = [step for one in (scores, outs[0]) for step in (one.stride(0), one.stride(2) if one.dim() == 3 else 0)]
    numbers = [n, places, width, ignored, mean, *steps[:2], *labels.stride(), *sent.stride(), *steps[2:]]
    return [Native(SEQUENCES, "cross_entropy_back", numbers, scores, labels, sent, outs[0])]
