"""Top-k: devices send the largest entries of an update, and keep the rest for the next one (error feedback).

With `u` the update of a device plus what it kept, `k = fraction n` of the `n` entries (rounded, at least one) go on the
air: those of largest magnitude, each as its value and its place of `ceil(log2 n)` bits. If that is not less than all
`n` values, the row is sent without places, zeros for what is left out; this choice takes a value for 32 bits, as it has
on a real wire, whatever `world.bits_per_parameter` is. With `feedback` the device keeps `u - C(u)`, so over any rounds

    sum of what is sent + what is kept = sum of the updates

Reference: Stich, Cordonnier, Jaggi, Sparsified SGD with Memory, 2018; Lin et al., Deep Gradient Compression, 2018.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..options import option
from . import Coding, Payload, strings
from .keeping import Keeping

VALUE_BIT = 32  # of a number on a real wire


@dataclass(frozen=True)
class Config(Keeping):
    """Settings of top-k."""

    fraction: float = option(0.01, "share of the entries that are sent", above=0, most=1)


def build(config: Config) -> Coding:
    return Coding(
        name="topk",
        encode=partial(encode, config.fraction),
        decode=decode,
        bits=bits,
        most_bit=partial(most_bit, config.fraction),
        feedback=config.feedback,
        keeps_lost=config.keeps_lost,
        pack=pack,
        unpack=unpack,
    )


def encode(fraction: float, row: Tensor, rng: np.random.Generator) -> Payload:
    """Values and places, or the row with zeros for what is left out."""
    k = count(fraction, len(row))
    if k == len(row):
        return {"values": row.clone()}
    places = largest(row, k)
    if sparse(k, len(row)):
        return {"values": row[places], "places": places.int()}
    return {"values": torch.zeros_like(row).index_copy_(0, places, row[places])}


def decode(payload: Payload, n: int) -> Tensor:
    values, places = payload["values"], payload.get("places")
    if places is None:
        if len(values) != n:
            raise ValueError(f"{len(values)} values of a row of {n}")
        return values
    if len(values) != len(places) or not bool(((places >= 0) & (places < n)).all()):
        raise ValueError(f"{len(values)} values at {len(places)} places, or a place that is not in a row of {n}")
    return values.new_zeros(n).index_copy_(0, places.long(), values)


def pack(payload: Payload, n: int) -> Payload:
    """Places in as many bits as they take."""
    if "places" not in payload:
        return payload
    return {"values": payload["values"], "places": strings.closed(strings.fixed(payload["places"], place_bit(n)))}


def unpack(packed: Payload, n: int) -> Payload:
    if "places" not in packed:
        return packed
    values, text = packed["values"], strings.opened(packed["places"])
    places, at = strings.read_fixed(text, 0, len(values), place_bit(n))
    strings.end(text, at)
    return {"values": values, "places": places.int()}


def largest(row: Tensor, k: int) -> Tensor:
    """Places of the `k` entries of largest magnitude, ascending; what is not a number is largest."""
    return row.abs().topk(k, sorted=False).indices.sort().values


def count(fraction: float, n: int) -> int:
    """`k`, the entries that are sent: `fraction n` rounded, one at least."""
    return min(max(round(fraction * n), 1), n)


def sparse(k: int, n: int) -> bool:
    """Whether values with places are fewer bits than all values, at 32 bits a value."""
    return k * (VALUE_BIT + place_bit(n)) < n * VALUE_BIT


def place_bit(n: int) -> int:
    """`ceil(log2 n)`."""
    return (n - 1).bit_length()


def bits(payload: Payload, n: int, value_bit: float) -> float:
    return len(payload["values"]) * value_bit + len(payload.get("places", ())) * place_bit(n)


def most_bit(fraction: float, n: int, value_bit: float) -> float:
    k = count(fraction, n)
    return k * (value_bit + place_bit(n)) if sparse(k, n) else n * value_bit
