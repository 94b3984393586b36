"""Turn recorded kernels of transformers and other networks of rows into calls of quicker ones in C++."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor

from ..trace import aten
from . import SEQUENCES, Native, cells, entries, floats, heads, library
from .recurrent import lstm, lstm_back
from .scores import CROSS_ENTROPY, cross_entropy_back
from .vectors import ROOM, WIDE_VECTORS, are_floats, are_whole, lie_alike, widest

WORTH = 10_000  # parameters of a network from which on these kernels are worth a compiler's time
LEAST_BEHIND = 4  # entries behind an axis that is summed over
ONE = floats(1)
Outs = list[Tensor | None]
Lowered = list[Any] | None


def win(n_params: int) -> bool:
    """Whether a network of so many parameters should use these kernels."""
    return n_params >= WORTH and library(SEQUENCES) is not None


def lowered(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outs: Outs) -> Lowered:
    """Return native calls that do what a kernel of PyTorch does, on the given tensors; None if there are none."""
    usual = {one.name: one.default_value for one in func._schema.arguments}
    unusual = {name: value for name, value in kwargs.items() if value is not None and value != usual[name]}
    if func is aten.clone.default:  # the layout of its result is known
        unusual.pop("memory_format", None)
    if func in SCALED and unusual.keys() <= {"scale"}:
        return SCALED[func](args, outs, unusual.get("scale"))
    if func is aten.gelu.default:
        return BENT[unusual.get("approximate", "none")](args, outs)
    return RULES[func](args, outs) if func in RULES and not unusual else None


def product(into: Tensor, left: Tensor, right: Tensor, rate: Tensor, keep: bool, bias: Tensor | None = None) -> Lowered:
    """Return the call for `into = keep * into + bias + rate * left @ right`; None if no kernel can do it.

    Args:
        into: the result, `[rows, columns]`; its rows or its columns must be contiguous.
        left: `[rows, depth]`, in any order.
        right: `[depth, columns]`, in any order.
        rate: one number, read when the kernel runs.
        keep: whether to add to what `into` holds.
        bias: one number for each column.
    """
    if widest() < WIDE_VECTORS or not are_floats(into, left, right) or 0 in (*into.shape, left.shape[1]):
        return None
    if into.stride(1) != 1 and into.shape[1] > 1:
        turned = bias is None and (into.stride(0) == 1 or into.shape[0] == 1)
        return product(into.t(), right.t(), left.t(), rate, keep) if turned else None
    (rows, depth), columns = left.shape, right.shape[1]
    numbers = [rows, depth, columns, *left.stride(), *right.stride(), into.stride(0), keep]
    room = torch.zeros(ROOM)
    return [Native(SEQUENCES, "matrix_product", numbers, left, right, into, bias, rate, room)]


def _mm(args: tuple[Any, ...], outs: Outs) -> Lowered:
    left, right = args
    return None if outs[0] is None else product(outs[0], left, right, ONE, False)


def _addmm(args: tuple[Any, ...], outs: Outs) -> Lowered:
    bias, left, right = args
    if outs[0] is None or bias.dim() != 1 or len(bias) != right.shape[1] or not are_whole(bias):
        return None
    return product(outs[0], left, right, ONE, False, bias)


# ---------------------------------------------------------------- rows


def _layer_norm(args: tuple[Any, ...], outs: Outs) -> Lowered:
    x, shape, gamma, beta, eps = args
    if any(one is None for one in outs) or not are_whole(x, *outs, gamma, beta) or not x.numel():
        return None
    width = prod(shape)
    return [Native(SEQUENCES, "layer_norm", [x.numel() // width, width], floats(eps), x, gamma, beta, *outs)]


def _layer_norm_back(args: tuple[Any, ...], outs: Outs) -> Lowered:
    sent, x, shape, mean, rstd, gamma, _, wanted = args
    found = [out if want else None for out, want in zip(outs, wanted, strict=True)]
    if not are_floats(sent) or not are_whole(x, mean, rstd, gamma, *found) or not x.numel():
        return None
    calls = list[Any]()
    if not sent.is_contiguous():
        there, sent = sent, torch.empty(sent.shape)
        calls.append(partial(sent.copy_, there))
    width = prod(shape)
    numbers = [x.numel() // width, width]
    return [*calls, Native(SEQUENCES, "layer_norm_by_input", numbers, sent, x, mean, rstd, gamma, *found)]


def _bent(kernel: str) -> Callable[[tuple[Any, ...], Outs], Lowered]:
    """Make the rule of an activation; if it has a second argument, its slopes overwrite its input."""

    def rule(args: tuple[Any, ...], outs: Outs) -> Lowered:
        x, y = args[0], outs[0]
        return (
            [Native(SEQUENCES, kernel, [x.numel(), len(args) > 1], x, y)] if y is not None and lie_alike(x, y) else None
        )

    return rule


def _sum(args: tuple[Any, ...], outs: Outs, mean: bool = False) -> Lowered:
    x, axes, *_ = args
    if not axes or outs[0] is None or not are_whole(x, outs[0]) or not x.numel() or not x.dim():
        return None
    along = sorted(axis % x.dim() for axis in axes)
    first, last = along[0], along[-1] + 1
    numbers = [prod(x.shape[:first]), prod(x.shape[first:last]), prod(x.shape[last:])]
    if along != list(range(first, last)) or numbers[2] < LEAST_BEHIND:
        return None
    rate = floats(1 / numbers[1]) if mean else ONE
    return [Native(SEQUENCES, "axis_sum", numbers, rate, x, outs[0])]


def _mean(args: tuple[Any, ...], outs: Outs) -> Lowered:
    return _sum(args, outs, mean=True)


def _embedding(args: tuple[Any, ...], outs: Outs) -> Lowered:
    vectors, words = args[:2]
    if not are_whole(vectors, outs[0]) or words.dtype != torch.int64 or not words.is_contiguous():
        return None
    return [Native(SEQUENCES, "embedding", [words.numel(), vectors.shape[1], len(vectors)], vectors, words, outs[0])]


def moved_words(vectors: Tensor, words: Tensor, sent: Tensor, rate: Tensor) -> Lowered:
    """Return the call for `vectors[word] += rate * sent` for one word after another, `[n]` or `[n, places]`."""
    if not are_whole(vectors) or not are_floats(sent) or words.dtype != torch.int64 or not 1 <= words.dim() <= 2:
        return None
    if sent.stride(-1) != 1 and sent.shape[-1] > 1:
        return None
    words, sent = (words, sent) if words.dim() == 2 else (words[None], sent[None])
    numbers = [*words.shape, vectors.shape[1], *words.stride(), *sent.stride()[:2], len(vectors)]
    return [Native(SEQUENCES, "embedding_moved", numbers, vectors, words, sent, rate)]


SCALED: dict[Any, Callable[[tuple[Any, ...], Outs, float | None], Lowered]] = {
    heads.ATTENTION: heads.attention,
    heads.ATTENTION_BACK: heads.attention_back,
}
BENT = {"none": _bent("gelu"), "tanh": _bent("gelu_tanh")}
RULES: dict[Any, Callable[[tuple[Any, ...], Outs], Lowered]] = {
    **entries.RULES,
    aten.bmm.default: heads.products,
    aten._softmax.default: heads.softmax,
    aten._safe_softmax.default: heads.safe_softmax,
    aten._softmax_backward_data.default: heads.softmax_back,
    CROSS_ENTROPY: cross_entropy_back,
    cells.RECURRENCE: cells.lowered,
    cells.RECURRENCE_BACK: cells.lowered_back,
    aten.mm.default: _mm,
    aten.addmm.default: _addmm,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_layer_norm_backward.default: _layer_norm_back,
    aten.silu.default: _bent("silu"),
    aten.sum.dim_IntList: _sum,
    aten.mean.dim: _mean,
    aten.embedding.default: _embedding,
    aten.mkldnn_rnn_layer.default: lstm,
    aten.mkldnn_rnn_layer_backward.default: lstm_back,
}
