"""Which noted kernels of transformers and other networks of rows have a quicker one in C++, and how that is called."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor

from ..trace import aten
from . import SEQUENCES, Native, library
from .recurrent import lstm, lstm_back
from .vectors import ROOM, WIDE_VECTORS, are_floats, are_whole, lie_alike, widest

MOST_WEIGHTS = 1 << 16  # of the queries of a head for its keys, that are all there at a time
WORTH = 100_000  # parameters of a network from which on these kernels are worth a compiler's time
ONE = torch.ones(())
ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu.default
ATTENTION_BACK = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
Outs = list[Tensor | None]
Lowered = list[Any] | None


def win(n_params: int) -> bool:
    """Whether a network of so many parameters should use these kernels."""
    return n_params >= WORTH and library(SEQUENCES) is not None


def lowered(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outs: Outs) -> Lowered:
    """The calls that do what a kernel of PyTorch does, on the given tensors; None: only PyTorch can."""
    usual = {one.name: one.default_value for one in func._schema.arguments}
    unusual = {name: value for name, value in kwargs.items() if value is not None and value != usual[name]}
    if func in SCALED and unusual.keys() <= {"scale"}:
        return SCALED[func](args, outs, unusual.get("scale"))
    return RULES[func](args, outs) if func in RULES and not unusual else None


def product(into: Tensor, left: Tensor, right: Tensor, rate: Tensor, keep: bool, bias: Tensor | None = None) -> Lowered:
    """`into = keep * into + bias + rate * left @ right`; None if the result lies in no order that kernels know.

    Args:
        into: the result.
        left: in any order.
        right: in any order.
        rate: one number, read when the kernel runs.
        keep: add to what is there.
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


# ---------------------------------------------------------------- attention


def _attention(args: tuple[Any, ...], outs: Outs, scale: float | None) -> Lowered:
    q, k, v, dropout, causal = args if len(args) == 5 else (*args, 0.0, False)[:5]
    out, logs = outs
    if dropout or out is None or logs is None or not _fit(q, k, v, out) or logs.dtype != torch.float32:
        return None
    numbers, padded = _heads(q, k, causal, q, k, v, out, logs)
    room = torch.zeros(padded * (q.shape[3] + q.shape[2]))
    return [Native(SEQUENCES, "attention", numbers, _scale(q, scale), q, k, v, out, logs, room)]


def _attention_back(args: tuple[Any, ...], outs: Outs, scale: float | None) -> Lowered:
    sent, q, k, v, _, logs, dropout, causal = args
    if dropout or any(one is None for one in outs) or not _fit(q, k, v, sent, *outs) or logs.dtype != torch.float32:
        return None
    numbers, padded = _heads(q, k, causal, q, k, v, sent, logs)
    numbers += [step for one in outs for step in one.stride()[:3]]  # type: ignore[union-attr]
    room = torch.zeros(2 * padded * (q.shape[3] + q.shape[2]))
    return [Native(SEQUENCES, "attention_back", numbers, _scale(q, scale), sent, q, k, v, logs, *outs, room)]


def _fit(q: Tensor, k: Tensor, v: Tensor, *others: Tensor | None) -> bool:
    """Whether all are heads of one width that lie well, and few enough weights."""
    every = [q, k, v, *(one for one in others if one is not None)]
    width = q.shape[3] if q.dim() == 4 else 0
    lie = all(one.dim() == 4 and one.shape[3] == width and one.stride(3) == 1 for one in every)
    if not lie or not are_floats(*every) or width % widest() or 0 in q.shape or 0 in k.shape:
        return False
    return q.shape[1] == k.shape[1] == v.shape[1] and q.shape[2] * _padded(k) <= MOST_WEIGHTS


def _heads(q: Tensor, k: Tensor, causal: bool, *every: Tensor) -> tuple[list[int], int]:
    n, heads, queries, width = q.shape
    steps = [step for one in every for step in one.stride()[:3]]
    return [n, heads, queries, k.shape[2], width, bool(causal), *steps], _padded(k)


def _padded(k: Tensor) -> int:
    return -(-k.shape[2] // widest()) * widest()


def _scale(q: Tensor, given: float | None) -> Tensor:
    return torch.tensor(q.shape[3] ** -0.5 if given is None else given)


# ---------------------------------------------------------------- rows


def _layer_norm(args: tuple[Any, ...], outs: Outs) -> Lowered:
    x, shape, gamma, beta, eps = args
    if any(one is None for one in outs) or not are_whole(x, *outs, gamma, beta) or not x.numel():
        return None
    width = prod(shape)
    return [Native(SEQUENCES, "layer_norm", [x.numel() // width, width], torch.tensor(eps), x, gamma, beta, *outs)]


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
    """With a second argument the slopes take the place of what goes in."""

    def rule(args: tuple[Any, ...], outs: Outs) -> Lowered:
        x, y = args[0], outs[0]
        return (
            [Native(SEQUENCES, kernel, [x.numel(), len(args) > 1], x, y)] if y is not None and lie_alike(x, y) else None
        )

    return rule


def _entrywise(kernel: str) -> Callable[[tuple[Any, ...], Outs], Lowered]:
    def rule(args: tuple[Any, ...], outs: Outs) -> Lowered:
        one, other = args
        if not isinstance(one, Tensor) or not isinstance(other, Tensor) or outs[0] is None:
            return None
        if not lie_alike(one, other, outs[0]):
            return None
        return [Native(SEQUENCES, kernel, [one.numel()], one, other, outs[0])]

    return rule


def _sum(args: tuple[Any, ...], outs: Outs, mean: bool = False) -> Lowered:
    x, axes, *_ = args
    if axes is None or len(axes) != 1 or outs[0] is None or not are_whole(x, outs[0]) or not x.numel() or not x.dim():
        return None
    axis = axes[0] % x.dim()
    numbers = [prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])]
    rate = torch.tensor(1 / x.shape[axis]) if mean else ONE
    return [Native(SEQUENCES, "axis_sum", numbers, rate, x, outs[0])] if numbers[2] >= widest() else None


def _mean(args: tuple[Any, ...], outs: Outs) -> Lowered:
    return _sum(args, outs, mean=True)


def _embedding(args: tuple[Any, ...], outs: Outs) -> Lowered:
    vectors, words = args[:2]
    if not are_whole(vectors, outs[0]) or words.dtype != torch.int64 or not words.is_contiguous():
        return None
    return [Native(SEQUENCES, "embedding", [words.numel(), vectors.shape[1]], vectors, words, outs[0])]


def moved_words(vectors: Tensor, words: Tensor, sent: Tensor, rate: Tensor) -> Lowered:
    """`vectors[word] += rate * sent`, for all words one after another."""
    if not are_whole(vectors, sent) or words.dtype != torch.int64 or not words.is_contiguous():
        return None
    return [Native(SEQUENCES, "embedding_moved", [words.numel(), vectors.shape[1]], vectors, words, sent, rate)]


SCALED: dict[Any, Callable[[tuple[Any, ...], Outs, float | None], Lowered]] = {
    ATTENTION: _attention,
    ATTENTION_BACK: _attention_back,
}
RULES: dict[Any, Callable[[tuple[Any, ...], Outs], Lowered]] = {
    aten.mm.default: _mm,
    aten.addmm.default: _addmm,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_layer_norm_backward.default: _layer_norm_back,
    aten.gelu.default: _bent("gelu"),
    aten.silu.default: _bent("silu"),
    aten.mul.Tensor: _entrywise("times"),
    aten.add.Tensor: _entrywise("plus"),
    aten.sum.dim_IntList: _sum,
    aten.mean.dim: _mean,
    aten.embedding.default: _embedding,
    aten.mkldnn_rnn_layer.default: lstm,
    aten.mkldnn_rnn_layer_backward.default: lstm_back,
}
