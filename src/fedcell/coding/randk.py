"""Random-k: devices send entries at places that both sides draw from one key, and keep the rest (error feedback).

With `u` the update of a device plus what it kept, `k = fraction n` of the `n` entries (rounded, at least one) go on the
air, at places that are uniform among all sets of `k`. A payload has a key of 32 bits in place of the places, which the
server draws again from it. With `feedback` entries are sent as they are and the device keeps the others. Without, they
are sent `n / k` times as large, so that the mean is `u`.

Bits: `k` numbers and the key; all `n` numbers alone if `k = n`. An update that is not finite is sent as NaN, so that
the server refuses it whichever places were drawn.

Reference: Stich, Cordonnier, Jaggi, Sparsified SGD with Memory, 2018; Konecny et al., Federated Learning:
Strategies for Improving Communication Efficiency, 2016 (masks from a seed).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..options import option
from ..rng import stream
from . import Coding, Payload
from .keeping import Keeping
from .topk import count

KEY_BIT = 32


@dataclass(frozen=True)
class Config(Keeping):
    """Settings of random-k."""

    fraction: float = option(0.01, "share of the entries that are sent", above=0, most=1)


def build(config: Config) -> Coding:
    return Coding(
        name="randk",
        encode=partial(encode, config.fraction, not config.feedback),
        decode=partial(decode, config.fraction),
        bits=bits,
        most_bit=partial(most_bit, config.fraction),
        feedback=config.feedback,
        keeps_lost=config.keeps_lost,
    )


def encode(fraction: float, unbiased: bool, row: Tensor, rng: np.random.Generator) -> Payload:
    """Values and the key of their places; without a key if all are sent."""
    n, k = len(row), count(fraction, len(row))
    if k == n:
        return {"values": row.clone()}
    key = torch.from_numpy(rng.integers(2**31, size=1, dtype=np.int32))
    values = row[places(key, k, n).to(row.device)] * (n / k if unbiased else 1.0)
    return {"values": values if bool(row.isfinite().all()) else torch.full_like(values, torch.nan), "key": key}


def decode(fraction: float, payload: Payload, n: int) -> Tensor:
    values, k = payload["values"], count(fraction, n)
    if len(values) != k or ("key" in payload) != (k < n):
        raise ValueError(f"{len(values)} values of a row of {n}, of which {k} are sent, or a key too many or too few")
    if k == n:
        return values
    return values.new_zeros(n).index_copy_(0, places(payload["key"], k, n).to(values.device), values)


def places(key: Tensor, k: int, n: int) -> Tensor:
    """`k` of `n` places, ascending; the same on both sides."""
    if key.shape != (1,) or key.dtype != torch.int32 or int(key) < 0:
        raise ValueError(f"{key.tolist()} is no key: it is one whole number, not negative, of 32 bits")
    drawn = stream(int(key), 0, "places of random-k").choice(n, k, replace=False, shuffle=False)
    return torch.from_numpy(np.sort(drawn))


def bits(payload: Payload, n: int, value_bit: float) -> float:
    return len(payload["values"]) * value_bit + KEY_BIT * len(payload.get("key", ()))


def most_bit(fraction: float, n: int, value_bit: float) -> float:
    k = count(fraction, n)
    return k * value_bit + KEY_BIT * (k < n)
