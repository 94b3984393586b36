"""Top-k: devices send the largest entries of an update and keep the rest for the next one (error feedback).

With `u` the update of a device plus what it kept, the `k = fraction n` entries of largest magnitude go on the air, each
as its value and its place of `ceil(log2 n)` bits.

Reference: Stich, Cordonnier, Jaggi, Sparsified SGD with Memory, 2018.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor

from fedcell.coding import Coding, Payload
from fedcell.options import option


@dataclass(frozen=True)
class Config:
    """Settings of top-k."""

    fraction: float = option(0.01, "share of the entries that are sent", above=0, most=0.5)


def build(config: Config) -> Coding:
    return Coding(
        name="largest_entries",
        encode=partial(encode, config.fraction),
        decode=decode,
        bits=lambda payload, n, value_bit: len(payload["values"]) * (value_bit + place_bit(n)),
        most_bit=lambda n, value_bit: count(config.fraction, n) * (value_bit + place_bit(n)),
        feedback=True,
    )


def encode(fraction: float, row: Tensor, rng: np.random.Generator) -> Payload:
    places = row.abs().topk(count(fraction, len(row))).indices.sort().values
    return {"values": row[places], "places": places.int()}


def decode(payload: Payload, n: int) -> Tensor:
    return payload["values"].new_zeros(n).index_copy_(0, payload["places"].long(), payload["values"])


def count(fraction: float, n: int) -> int:
    """`k`, at least one."""
    return max(round(fraction * n), 1)


def place_bit(n: int) -> int:
    """`ceil(log2 n)`."""
    return (n - 1).bit_length()
