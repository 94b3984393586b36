"""PowerSGD: devices send the matrices of an update as products of two narrow ones, and keep the rest (error feedback).

With `M [a, b]` the part of a layer in the update of a device plus what it kept (a convolution has one row per output),
`r = rank` and `Q [b, r]` the right factor that the device sent last, drawn before it has sent any,

    P = an orthonormal basis of M Q,   Q <- M^T P,   C(M) = P Q^T

which is one step of a power iteration towards the best matrix of rank `r`. Since `C(M) = P P^T M` is a projection,
`|M - C(M)|^2 = |M|^2 - |Q|^2`. With `feedback` the device keeps `M - C(M)` and `Q`; without, it keeps nothing and draws
`Q` anew in every round. Vectors, and matrices of which both factors are not fewer numbers, are sent as they are.

Bits: `r (a + b)` numbers for each matrix, and all numbers of what is sent as it is.

Deviation: the paper's workers add up `P`, and then `Q`, over all of them, which takes two passes in a step and leaves
all with one `Q`. Here a device makes both factors of its own matrix and sends them in one pass, so that the sum of
`n` devices has a rank of up to `n r`.

Reference: Vogels, Karimireddy, Jaggi, PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization,
2019.
"""

from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..options import option
from . import Coding, Payload, Shapes
from .keeping import Keeping


@dataclass(frozen=True)
class Config(Keeping):
    """Settings of PowerSGD."""

    rank: int = option(2, "rank of the matrices that are sent", least=1)


class Layers(NamedTuple):
    """How the parts of a row are sent."""

    rank: int
    matrices: tuple[tuple[int, int, int], ...]  # first entry, rows and columns of what is sent as two factors
    plain: tuple[tuple[int, int | None], ...]  # first entry and end of what is sent as it is

    def sizes(self, n: int) -> dict[str, int]:
        """Numbers of every part of the payload of a row of `n`."""
        both = sum(a * b for _, a, b in self.matrices)
        left, right = (sum(one[side] * self.rank for one in self.matrices) for side in (1, 2))
        return {"plain": n - both, "left": left, "right": right}

    def lefts(self, flat: Tensor) -> list[Tensor]:
        """The left factors `[a, r]` of all matrices, which lie one behind the other."""
        return [part.view(-1, self.rank) for part in torch.split(flat, [a * self.rank for _, a, _ in self.matrices])]

    def rights(self, flat: Tensor) -> list[Tensor]:
        """The right factors `[b, r]`."""
        return [part.view(-1, self.rank) for part in torch.split(flat, [b * self.rank for _, _, b in self.matrices])]


def build(config: Config) -> Coding:
    return for_layers(config, Layers(config.rank, (), ((0, None),)))._replace(shaped=partial(shaped, config))


def shaped(config: Config, shapes: Shapes) -> Coding:
    return for_layers(config, layers(config.rank, shapes))


def for_layers(config: Config, found: Layers) -> Coding:
    warm = config.feedback and bool(found.matrices)
    return Coding(
        name="powersgd",
        encode=partial(encode, found),
        decode=partial(decode, found),
        bits=lambda payload, n, value_bit: most_bit(found, n, value_bit),
        most_bit=partial(most_bit, found),
        feedback=config.feedback,
        keeps_lost=config.keeps_lost,
        memory=(lambda payload: payload["right"]) if warm else None,
        n_memory=found.sizes(0)["right"] if warm else 0,
    )


def layers(rank: int, shapes: Shapes) -> Layers:
    """How the layers of a network are sent.

    >>> layers(2, ((10, 64), (10,), (3, 2, 5, 5), (2, 3)))
    Layers(rank=2, matrices=((0, 10, 64), (650, 3, 50)), plain=((640, 650), (800, 806)))
    """
    matrices, plain = [], []
    for shape, end in zip(shapes, accumulate(map(prod, shapes)), strict=True):
        size, a = prod(shape), shape[0] if len(shape) > 1 else 1
        b = size // max(a, 1)
        if rank * (a + b) < a * b:
            matrices.append((end - size, a, b))
        else:
            plain.append((end - size, end))
    return Layers(rank, tuple(matrices), tuple(plain))


def encode(found: Layers, row: Tensor, rng: np.random.Generator, memory: Tensor | None = None) -> Payload:
    """Both factors of every matrix, one behind the other, and what is sent as it is."""
    payload = {"plain": torch.cat([row[start:end] for start, end in found.plain])} if found.plain else {}
    if not found.matrices:
        return payload
    sizes = found.sizes(len(row))
    left, right = row.new_empty(sizes["left"]), row.new_empty(sizes["right"])
    before = found.rights(torch.zeros_like(right) if memory is None else memory)
    for (first, a, b), p, q, old in zip(found.matrices, found.lefts(left), found.rights(right), before, strict=True):
        m = row[first : first + a * b].view(a, b)
        if not bool(old.any()):  # nothing was sent yet, or zeros
            old = torch.from_numpy(rng.standard_normal((b, found.rank), dtype=np.float32)).to(row.device)
        p.copy_(torch.linalg.qr(m @ old).Q)
        torch.mm(m.T, p, out=q)
    return {**payload, "left": left, "right": right}


def decode(found: Layers, payload: Payload, n: int) -> Tensor:
    sent = {name: len(payload[name]) if name in payload else 0 for name in ("plain", "left", "right")}
    if sent != found.sizes(n):
        raise ValueError(f"{sent} numbers of a row of {n}, not {found.sizes(n)}")
    row = next(iter(payload.values())).new_empty(n)
    places = [row[start:end] for start, end in found.plain]
    parts = torch.split(payload["plain"], [len(one) for one in places]) if places else ()
    for place, part in zip(places, parts, strict=True):
        place.copy_(part)
    if found.matrices:
        pairs = zip(found.matrices, found.lefts(payload["left"]), found.rights(payload["right"]), strict=True)
        for (first, a, b), p, q in pairs:
            torch.mm(p, q.T, out=row[first : first + a * b].view(a, b))
    return row


def most_bit(found: Layers, n: int, value_bit: float) -> float:
    return sum(found.sizes(n).values()) * value_bit
