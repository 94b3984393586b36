"""Attention in C++: one kernel for short sequences, and products and softmaxes for attention written by hand."""

from math import prod
from typing import Any

import torch
from torch import Tensor

from ..trace import aten
from . import SEQUENCES, Lowered, Native, floats
from .vectors import ROOM, WIDE_VECTORS, are_floats, are_whole, widest

MOST_WEIGHTS = 1 << 16  # queries times keys of a head, all of which are in memory at a time
ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu.default
ATTENTION_BACK = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
Outs = list[Tensor | None]


def attention(args: tuple[Any, ...], outs: Outs, scale: float | None) -> Lowered:
    q, k, v, dropout, causal = args if len(args) == 5 else (*args, 0.0, False)[:5]
    out, logs = outs
    if dropout or out is None or logs is None or not _fit(q, k, v, out) or logs.dtype != torch.float32:
        return None
    numbers, padded = _heads(q, k, causal, q, k, v, out, logs)
    room = torch.zeros(padded * (q.shape[3] + q.shape[2]))
    return [Native(SEQUENCES, "attention", numbers, _scale(q, scale), q, k, v, out, logs, room)]


def attention_back(args: tuple[Any, ...], outs: Outs, scale: float | None) -> Lowered:
    sent, q, k, v, _, logs, dropout, causal = args
    if dropout or any(one is None for one in outs) or not _fit(q, k, v, sent, *outs) or logs.dtype != torch.float32:
        return None
    numbers, padded = _heads(q, k, causal, q, k, v, sent, logs)
    numbers += [step for one in outs for step in one.stride()[:3]]  # type: ignore[union-attr]
    room = torch.zeros(2 * padded * (q.shape[3] + q.shape[2]))
    return [Native(SEQUENCES, "attention_back", numbers, _scale(q, scale), sent, q, k, v, logs, *outs, room)]


def _fit(q: Tensor, k: Tensor, v: Tensor, *others: Tensor | None) -> bool:
    """Whether tensors are heads of one width with contiguous rows, and short enough."""
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
    return floats(q.shape[3] ** -0.5 if given is None else given)


def products(args: tuple[Any, ...], outs: Outs) -> Lowered:
    """Return the call for the products `left @ right` of many matrices; None if no kernel can write to the result."""
    (left, right), into = args, outs[0]
    if into is None or widest() < WIDE_VECTORS or not are_floats(left, right, into) or 0 in (*into.shape, *left.shape):
        return None
    if into.stride(2) != 1 and into.shape[2] > 1:
        turned = into.stride(1) == 1 or into.shape[1] == 1
        return products((right.mT, left.mT), [into.mT]) if turned else None
    (n, rows, depth), columns = left.shape, right.shape[2]
    numbers = [n, rows, depth, columns, *left.stride(), *right.stride(), *into.stride()]
    return [Native(SEQUENCES, "matrix_products", numbers, left, right, into, torch.zeros(ROOM))]


def softmax(args: tuple[Any, ...], outs: Outs, safe: bool = False) -> Lowered:
    x, axis, *rest = args
    if any(rest) or outs[0] is None or not are_whole(x, outs[0]) or not _last(x, axis):
        return None
    width = x.shape[-1]
    return [Native(SEQUENCES, "softmax", [x.numel() // width, width, safe], x, outs[0])]


def safe_softmax(args: tuple[Any, ...], outs: Outs) -> Lowered:
    return softmax(args, outs, safe=True)


def softmax_back(args: tuple[Any, ...], outs: Outs) -> Lowered:
    sent, y, axis, kind = args
    if kind != torch.float32 or outs[0] is None or not are_whole(sent, y, outs[0]) or not _last(y, axis):
        return None
    width = y.shape[-1]
    return [Native(SEQUENCES, "softmax_back", [y.numel() // width, width], sent, y, outs[0])]


def _last(x: Tensor, axis: int) -> bool:
    return x.dim() > 0 and axis % x.dim() == x.dim() - 1 and prod(x.shape) > 0
