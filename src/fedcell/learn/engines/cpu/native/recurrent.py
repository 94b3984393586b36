"""LSTM layers in C++: PyTorch's kernel needs a large workspace and packs the weights again for every place."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from . import SEQUENCES, Lowered, Native
from .vectors import ROOM, WIDE_VECTORS, are_whole, widest

LSTM = 2  # among the kinds of recurrences that PyTorch's kernel knows
STRIP = 32  # numbers, as products.h has it


def lstm(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    """Return the call for a layer in one direction; the workspace keeps gates and cells for the backward pass."""
    *given, reverse, sizes, mode, _, _, _, _, _, training = args
    *found, workspace = outs
    if not training or workspace is None or not are_whole(*found) or not _fit(given, sizes, mode, workspace):
        return None
    x, u = given[0], given[2]
    numbers = numbers_of(x, u, reverse)
    return [Native(SEQUENCES, "lstm", numbers, *given, *found, *_kept(x, u, workspace), room_of(u))]


def lstm_back(args: tuple[Any, ...], outs: list[Tensor | None]) -> Lowered:
    *given, y, _, _, sent, sent_h, sent_c, reverse, mode, _, _, _, training, _, sizes, _, workspace = args
    if not training or not are_whole(*outs, y) or not _fit(given, sizes, mode, workspace):
        return None
    x, w, u, _, _, h, c = given
    copies = list[Any]()
    sent, sent_h, sent_c = (_side_by_side(one, copies) for one in (sent, sent_h, sent_c))
    numbers = numbers_of(x, u, reverse, sent)
    tensors = x, w, u, h, c, y, sent, sent_h, sent_c, *_kept(x, u, workspace), *outs[:5]
    states = (torch.empty(h.shape) if one is None else one for one in outs[5:])
    return [*copies, Native(SEQUENCES, "lstm_back", numbers, *tensors, *states, room_of(u))]


def _fit(given: list[Tensor], sizes: Any, mode: int, workspace: Tensor) -> bool:
    """Whether these kernels can do a layer; the answer is the same for both of its passes."""
    x, u = given[0], given[2]
    alike = x.dim() == 3 and mode == LSTM and not sizes and 0 not in x.shape and widest() >= WIDE_VECTORS
    return alike and are_whole(*given) and workspace.numel() >= 20 * len(x) * x.shape[1] * u.shape[1]


def numbers_of(x: Tensor, u: Tensor, reverse: bool, sent: Tensor | None = None) -> list[int]:
    """The numbers that kernels of recurrent layers take, in the order of `Cells` in lstm.h."""
    return [*x.shape, u.shape[1], bool(reverse), *((0, 0) if sent is None else sent.stride()[:2])]


def _kept(x: Tensor, u: Tensor, workspace: Tensor) -> tuple[Tensor, Tensor]:
    """Gates `[places, n, 4 width]` and cells `[places, n, width]`, in the bytes of the workspace."""
    n = 4 * len(x) * x.shape[1] * u.shape[1]
    return workspace[: 4 * n].view(torch.float32), workspace[4 * n : 5 * n].view(torch.float32)


def room_of(u: Tensor) -> Tensor:
    """Room for strips of the recurrent weights, biases, and a product."""
    gates, width = u.shape
    return torch.zeros((gates + STRIP) * (width + STRIP) + gates + ROOM)


def _side_by_side(one: Tensor | None, copies: list[Any]) -> Tensor | None:
    """Return a tensor with contiguous rows (states: contiguous); if it is none, its copy, whose call joins `copies`."""
    if one is None or (one.stride(-1) == 1 and (one.dim() == 3 or one.is_contiguous())):
        return one
    room = torch.empty(one.shape)
    copies.append(partial(room.copy_, one))
    return room
