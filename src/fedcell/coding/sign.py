"""Scaled sign: devices send the signs of an update and one scale, and keep the rest (error feedback).

With `u` the update of a device plus what it kept, of `n` entries,

    C(u) = (|u|_1 / n) sign(u),   |u - C(u)|^2 = |u|^2 - |u|_1^2 / n

a zero counting as positive. With `feedback` the device keeps `u - C(u)`. Bits: one for each entry, and one number.

With `scale=one`, `C(u) = sign(u)`, nothing is kept, and the scale is not sent: a vote for either direction of every
entry, which the method `signsgd` counts. Other methods average the votes, so that their steps need a small `server_lr`.

Reference: Karimireddy et al., Error Feedback Fixes SignSGD and other Gradient Compression Schemes, 2019; signSGD:
Bernstein et al., signSGD: Compressed Optimisation for Non-Convex Problems, 2018.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..options import option
from . import Coding, Payload
from .bits import packed, scale_of, unpacked
from .keeping import Keeping


@dataclass(frozen=True)
class Config(Keeping):
    """Settings of the scaled sign."""

    scale: str = option("mean", "size of the signs: the mean of all entries, or one", choices=("mean", "one"))
    feedback: bool = option(True, "add what was not sent to the next update of the device", needs="scale=mean")

    @property
    def keeps_lost(self) -> bool:
        return self.scale == "mean" and super().keeps_lost


def build(config: Config) -> Coding:
    if config.scale == "one":
        return Coding(
            "sign", to_votes, from_votes, bits=lambda payload, n, value_bit: n, most_bit=lambda n, value_bit: n
        )
    return Coding("sign", encode, decode, bits, most_bit, config.feedback, config.keeps_lost)


def encode(row: Tensor, rng: np.random.Generator) -> Payload:
    return {"scale": row.double().abs().mean().float().view(1), "signs": packed(row >= 0)}


def decode(payload: Payload, n: int) -> Tensor:
    return scale_of(payload) * unpacked(payload["signs"], n)


def to_votes(row: Tensor, rng: np.random.Generator) -> Payload:
    """The signs of a row; a row that is not finite has no vote and sends none."""
    return {"signs": packed(row[: len(row) if bool(row.isfinite().all()) else 0] >= 0)}


def from_votes(payload: Payload, n: int) -> Tensor:
    signs = payload["signs"]
    return unpacked(signs, n) if len(signs) else torch.full((n,), torch.nan, device=signs.device)


def bits(payload: Payload, n: int, value_bit: float) -> float:
    return most_bit(n, value_bit)


def most_bit(n: int, value_bit: float) -> float:
    return n + value_bit
