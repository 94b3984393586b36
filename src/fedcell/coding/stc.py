"""Sparse ternary: devices send signs of the largest entries and one scale, places in a Golomb code, and keep the rest.

With `u` the update of a device plus what it kept, and `T` the places of its `k = fraction n` largest entries (rounded,
at least one),

    C(u) = m sign(u) on T, 0 elsewhere,   m = mean of |u| over T

a zero counting as positive. With `feedback` the device keeps `u - C(u)`. Bits: one number, a sign for each place, and
the gaps between places in a Golomb code: `(d - 1) // 2^b` ones, a zero, and `b` bits for each gap `d`, with `b` of
`bits.golomb_exponent`. Most bits: `k (b + 2) + (n - k) // 2^b` and the number, if all the others lie before the first.

Deviation: the paper codes what the server sends too, with a residual of its own. Here devices alone code.

Reference: Sattler et al., Robust and Communication-Efficient Federated Learning from Non-IID Data, 2019.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor

from ..options import option
from . import Coding, Payload, strings
from .bits import gaps, golomb_bit, golomb_exponent, scale_of, unpacked
from .bits import packed as packed_signs
from .keeping import Keeping
from .topk import count, largest


@dataclass(frozen=True)
class Config(Keeping):
    """Settings of sparse ternary coding."""

    fraction: float = option(0.01, "share of the entries that are sent", above=0, most=1)


def build(config: Config) -> Coding:
    return Coding(
        name="stc",
        encode=partial(encode, config.fraction),
        decode=partial(decode, config.fraction),
        bits=bits,
        most_bit=partial(most_bit, config.fraction),
        feedback=config.feedback,
        keeps_lost=config.keeps_lost,
        pack=pack,
        unpack=partial(unpack, config.fraction),
    )


def encode(fraction: float, row: Tensor, rng: np.random.Generator) -> Payload:
    places = largest(row, count(fraction, len(row)))
    values = row[places]
    scale = values.double().abs().mean().float().view(1)
    return {"scale": scale, "signs": packed_signs(values >= 0), "places": places.int()}


def decode(fraction: float, payload: Payload, n: int) -> Tensor:
    places, k = payload["places"].long(), count(fraction, n)
    if len(places) != k or int(places[-1]) >= n or bool((gaps(places) < 1).any()):
        raise ValueError(f"{len(places)} places that are not {k} ascending ones of a row of {n}")
    values = scale_of(payload) * unpacked(payload["signs"], k)
    return values.new_zeros(n).index_copy_(0, places, values)


def pack(payload: Payload, n: int) -> Payload:
    """Signs and places as one string."""
    places, k = payload["places"], len(payload["places"])
    signs = strings.fixed(unpacked(payload["signs"], k) > 0, 1)
    return {"scale": payload["scale"], "string": strings.closed(signs + strings.golomb(places, golomb_exponent(k, n)))}


def unpack(fraction: float, packed: Payload, n: int) -> Payload:
    text, k = strings.opened(packed["string"]), count(fraction, n)
    positive, at = strings.read_fixed(text, 0, k, 1)
    places, at = strings.read_golomb(text, at, k, golomb_exponent(k, n))
    strings.end(text, at)
    if int(places[-1]) >= n:
        raise ValueError(f"a place {int(places[-1])} of a row of {n}")
    return {"scale": packed["scale"], "signs": packed_signs(positive > 0), "places": places.int()}


def bits(payload: Payload, n: int, value_bit: float) -> float:
    places = payload["places"]
    return value_bit + len(places) + golomb_bit(places, golomb_exponent(len(places), n))


def most_bit(fraction: float, n: int, value_bit: float) -> float:
    k = count(fraction, n)
    b = golomb_exponent(k, n)
    return value_bit + k * (b + 2) + ((n - k) >> b)
