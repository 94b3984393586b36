"""Layers of GRU cells and plain recurrent cells as one kernel each way: PyTorch has one for each gate and place."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from . import SEQUENCES, Lowered, Native
from .recurrent import numbers_of, room_of
from .vectors import OWN, WIDE_VECTORS, are_floats, are_whole, widest

GRU, TANH, RELU = range(3)  # as gru.h has them
Outs = list[Any]

OWN.define(
    "recurrence(Tensor x, Tensor w, Tensor u, Tensor? b, Tensor? b_too, Tensor h, int kind, bool reverse)"
    " -> (Tensor, Tensor, Tensor)"
)
OWN.define(
    "recurrence_back(Tensor sent, Tensor x, Tensor w, Tensor u, Tensor h, Tensor y, Tensor gates, Tensor state,"
    " int kind, bool reverse, bool[2] wanted) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
RECURRENCE, RECURRENCE_BACK = (getattr(torch.ops.fedcell, name).default for name in ("recurrence", "recurrence_back"))


def lowered(args: tuple[Any, ...], outs: Outs) -> Lowered:
    *given, kind, reverse = args
    x, u, kept = given[0], given[2], [*outs]
    if kept[0] is None:
        return None
    for place, one in enumerate(kept[1:], 1):  # results that only the backward pass reads may not be wanted
        kept[place] = torch.empty(*x.shape[:2], len(u)) if one is None else one
    numbers = [*numbers_of(x, u, reverse), kind]
    return [Native(SEQUENCES, "recurrence", numbers, *given, *kept, room_of(u))]


def lowered_back(args: tuple[Any, ...], outs: Outs) -> Lowered:
    sent, *given, kind, reverse, wanted = args
    x, u = given[0], given[2]
    if sent.stride(2) != 1 and sent.shape[2] > 1:
        return None
    wants = wanted[0], True, True, wanted[1], wanted[1], True, True, True
    found = [out if want else None for out, want in zip(outs, wants, strict=True)]
    if any(one is None for one in (*found[1:3], *found[5:])):
        return None
    numbers = [*numbers_of(x, u, reverse, sent), kind]
    return [Native(SEQUENCES, "recurrence_back", numbers, sent, *given, *found, room_of(u))]


def _run(calls: Lowered) -> None:
    assert calls is not None
    for call in calls:
        call()


def _forward(x: Tensor, w: Tensor, u: Tensor, b: Any, b_too: Any, h: Tensor, kind: int, reverse: bool) -> Any:
    outs = [x.new_empty(*x.shape[:2], n) for n in (u.shape[1], len(u), len(u))]
    _run(lowered((x, w, u, b, b_too, h, kind, reverse), outs))
    return tuple(outs)


def _backward(sent: Tensor, *given: Any) -> Any:
    x, w, u, h, _, gates, state, _, _, wanted = given
    biases = [u.new_empty(len(u) if wanted[1] else 0) for _ in range(2)]
    by_x = torch.empty_like(x) if wanted[0] else x.new_empty(0)
    outs = [by_x, *map(torch.empty_like, (w, u)), *biases, *map(torch.empty_like, (h, gates, state))]
    _run(lowered_back((sent.contiguous(), *given), outs))
    return tuple(outs)


OWN.impl("recurrence", _forward, "CPU")
OWN.impl("recurrence_back", _backward, "CPU")


class _Layer(torch.autograd.Function):
    """One layer in one direction."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        y, gates, state = RECURRENCE(*args)
        x, w, u, b, _, h, kind, reverse = args
        ctx.save_for_backward(x, w, u, h, y, gates, state)
        ctx.how = kind, reverse, [ctx.needs_input_grad[0], b is not None]
        found: Tensor = y
        return found

    @staticmethod
    def backward(ctx: Any, sent: Tensor) -> Any:
        found = RECURRENCE_BACK(sent, *ctx.saved_tensors, *ctx.how)[:6]
        return *(one if one.numel() else None for one in found), None, None


def way(layer: Any, x: Any, hx: Tensor | None = None) -> Any:
    """Compute what the `forward` of a recurrent layer does, by these kernels if possible; `hx` is the first state."""
    if not _fits(layer, x, hx):
        return type(layer).forward(layer, x, hx)
    x = (x.transpose(0, 1) if layer.batch_first else x).contiguous()
    directions = 2 if layer.bidirectional else 1
    first = x.new_zeros(layer.num_layers * directions, x.shape[1], layer.hidden_size) if hx is None else hx.contiguous()
    kind = {"GRU": GRU, "RNN_TANH": TANH, "RNN_RELU": RELU}[layer.mode]
    last = []
    for depth in range(layer.num_layers):
        found = []
        for reverse in range(directions):
            place = depth * directions + reverse
            weights = layer.all_weights[place]
            given = (*weights, *[None] * (4 - len(weights)), first[place])
            found.append(_Layer.apply(x, *given, kind, bool(reverse)))  # type: ignore[no-untyped-call]
            last.append(found[-1][0 if reverse else -1])
        x = torch.cat(found, 2) if layer.bidirectional else found[0]
        if layer.dropout and depth + 1 < layer.num_layers:
            x = functional.dropout(x, layer.dropout, layer.training)
    return x.transpose(0, 1) if layer.batch_first else x, torch.stack(last)


def _fits(layer: nn.RNNBase, x: Any, hx: Tensor | None) -> bool:
    if not isinstance(x, Tensor) or x.dim() != 3 or not x.numel() or torch.is_autocast_enabled("cpu"):
        return False
    first = len(layer.all_weights), x.shape[0 if layer.batch_first else 1], layer.hidden_size
    if x.shape[2] != layer.input_size or (hx is not None and hx.shape != first):
        return False  # PyTorch says what is wrong
    given = x, *layer.parameters(), *(() if hx is None else (hx,))
    return widest() >= WIDE_VECTORS and are_floats(*given) and are_whole(*layer.parameters())
