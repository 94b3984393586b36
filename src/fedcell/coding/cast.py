"""Shorter numbers: devices send every entry as float16, or as int8 with one scale, and keep what rounding took.

With `u` the update of a device plus what it kept,

    float16: the nearest number of 16 bits, the largest finite one for what lies beyond
    int8:    C(u) = c round(u / c),   c = max |u| / 127,   so |u - C(u)| <= c / 2 for each entry

With `feedback` the device keeps `u - C(u)`. Bits: `16 n`; or `8 n` and one number for the scale, which alone takes
`world.bits_per_parameter`.

Reference: IEEE 754 binary16; int8: Dettmers, 8-Bit Approximations for Parallelism in Deep Learning, 2016.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..options import option
from . import Coding, Payload
from .bits import scale_of
from .keeping import Keeping

LARGEST_INT8 = 127
LARGEST_HALF = torch.finfo(torch.float16).max


@dataclass(frozen=True)
class Config(Keeping):
    """Settings of shorter numbers."""

    to: str = option("int8", "what an entry is sent as", choices=("float16", "int8"))


def build(config: Config) -> Coding:
    short = config.to == "int8"
    return Coding(
        name="cast",
        encode=to_int8 if short else to_half,
        decode=from_int8 if short else from_half,
        bits=partial(bits, config.to),
        most_bit=partial(most_bit, config.to),
        feedback=config.feedback,
        keeps_lost=config.keeps_lost,
    )


def to_half(row: Tensor, rng: np.random.Generator) -> Payload:
    near = row.clamp(-LARGEST_HALF, LARGEST_HALF)
    return {"values": torch.where(row.isfinite(), near, row).half()}


def from_half(payload: Payload, n: int) -> Tensor:
    return row_of(payload, n, torch.float16).float()


def to_int8(row: Tensor, rng: np.random.Generator) -> Payload:
    scale = (row.abs().max() / LARGEST_INT8).view(1)
    whole = (row / scale).round().clamp(-LARGEST_INT8, LARGEST_INT8)
    return {"scale": scale, "values": whole.nan_to_num(0.0).to(torch.int8)}  # of a row of zeros: 0


def from_int8(payload: Payload, n: int) -> Tensor:
    return scale_of(payload) * row_of(payload, n, torch.int8).float()


def row_of(payload: Payload, n: int, dtype: torch.dtype) -> Tensor:
    values = payload["values"]
    if len(values) != n or values.dtype != dtype:
        raise ValueError(f"{len(values)} values of {values.dtype} instead of {n} of {dtype}")
    return values


def bits(to: str, payload: Payload, n: int, value_bit: float) -> float:
    return most_bit(to, n, value_bit)


def most_bit(to: str, n: int, value_bit: float) -> float:
    return 8 * n + value_bit if to == "int8" else 16 * n
