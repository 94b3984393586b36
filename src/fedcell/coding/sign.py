"""Scaled sign: devices send the signs of an update and one scale, and keep the rest (error feedback).

With `u` the update of a device plus what it kept, of `n` entries,

    C(u) = (|u|_1 / n) sign(u),   |u - C(u)|^2 = |u|^2 - |u|_1^2 / n

a zero counting as positive. With `feedback` the device keeps `u - C(u)`. Bits: one for each entry, and one number.

It is signSGD in the form that goes with any method that sums updates. A majority vote is not: it is a rule of the
server, which counts signs of unit size instead of summing.

Reference: Karimireddy et al., Error Feedback Fixes SignSGD and other Gradient Compression Schemes, 2019, Algorithm 1;
signSGD: Bernstein et al., signSGD: Compressed Optimisation for Non-Convex Problems, 2018.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from . import Coding, Payload
from .bits import packed, scale_of, unpacked
from .keeping import Keeping


@dataclass(frozen=True)
class Config(Keeping):
    """Settings of the scaled sign."""


def build(config: Config) -> Coding:
    return Coding("sign", encode, decode, bits, most_bit, config.feedback, config.keeps_lost)


def encode(row: Tensor, rng: np.random.Generator) -> Payload:
    return {"scale": row.double().abs().mean().float().view(1), "signs": packed(row >= 0)}


def decode(payload: Payload, n: int) -> Tensor:
    return scale_of(payload) * unpacked(payload["signs"], n)


def bits(payload: Payload, n: int, value_bit: float) -> float:
    return most_bit(n, value_bit)


def most_bit(n: int, value_bit: float) -> float:
    return n + value_bit
