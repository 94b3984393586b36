"""QSGD: devices send each entry as one of a few levels, drawn so that the mean is right.

An update is cut into buckets of `bucket` entries. With `r` the Euclidean norm of its bucket and `s = levels`, an entry
`u` becomes

    Q(u) = r sign(u) l / s,   l = floor(s |u| / r), or one more with probability s |u| / r - floor(s |u| / r)

so that `E Q(u) = u` and the variance of a bucket is at most `min(bucket / s^2, sqrt(bucket) / s) r^2`. No error
feedback: `Q` is unbiased, and for few levels no contraction.

Bits: one number for each bucket, one bit that says which code follows, and the shorter of two codes of the levels:
Elias's recursive code of the paper (for every level that is not zero: the gap since the last one, a sign bit, `l`), or
`ceil(log2(2 s + 1))` bits for each of all `n`.
Deviation: the paper has the first code alone, whose length is not bounded well before levels are drawn.

Reference: Alistarh et al., QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding, 2017.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..options import Checked, option
from . import Coding, Payload, strings
from .bits import elias_bit, gaps
from .strings import elias, read_elias

FLAG_BIT = 1  # says which code follows


@dataclass(frozen=True)
class Config(Checked):
    """Settings of QSGD."""

    levels: int = option(4, "levels besides zero, for either sign", least=1, most=32_767)
    bucket: int = option(512, "entries that share a norm; 0: all of an update", least=0)


def build(config: Config) -> Coding:
    s, bucket = config.levels, config.bucket
    return Coding(
        name="qsgd",
        encode=partial(encode, s, bucket),
        decode=partial(decode, s, bucket),
        bits=partial(bits, s),
        most_bit=partial(most_bit, s, bucket),
        pack=partial(pack, s),
        unpack=partial(unpack, s),
    )


def encode(s: int, bucket: int, row: Tensor, rng: np.random.Generator) -> Payload:
    cut = in_buckets(row, bucket)
    norms = cut.double().norm(dim=1).float()
    part = (cut.abs() / norms[:, None]).nan_to_num_(0.0, posinf=0.0).clamp_(max=1.0)  # of a bucket of zeros: 0
    share = part.view(-1)[: len(row)].double().mul_(s)
    draws = torch.from_numpy(rng.random(len(row))).to(row.device)
    level = share.floor()
    level += draws < share.sub_(level)
    return {"norms": norms, "levels": level.copysign_(row).to(torch.int8 if s < 128 else torch.int16)}


def decode(s: int, bucket: int, payload: Payload, n: int) -> Tensor:
    norms, levels = payload["norms"], payload["levels"]
    if len(levels) != n or len(norms) != n_buckets(bucket, n):
        raise ValueError(f"{len(levels)} levels and {len(norms)} norms of a row of {n} in {n_buckets(bucket, n)}")
    least, most = levels.aminmax()
    if max(-int(least), int(most)) > s:
        raise ValueError(f"a level beyond {s}")
    return spread(norms, bucket, n) * (levels.float() / s)


def pack(s: int, payload: Payload, n: int) -> Payload:
    """Write the levels in the shorter of both codes, behind the bit that says which."""
    levels = payload["levels"]
    places = levels.nonzero()[:, 0]
    there = zip(gaps(places).tolist(), levels[places].tolist(), strict=True)
    text = "".join(f"{elias(gap)}{int(level < 0)}{elias(abs(level))}" for gap, level in there)
    code = f"0{text}" if len(text) <= fixed_bit(s, n) else "1" + strings.fixed(levels.int() + s, (2 * s).bit_length())
    return {"norms": payload["norms"], "string": strings.closed(code)}


def unpack(s: int, packed: Payload, n: int) -> Payload:
    text, levels = strings.opened(packed["string"]), torch.zeros(n, dtype=torch.int64)
    if text[:1] == b"1":
        above, at = strings.read_fixed(text, 1, n, (2 * s).bit_length())
        strings.end(text, at)
        levels = above - s
    else:
        places, found = read_levels(text, n)
        levels[places] = found
    if bool((levels.abs() > s).any()):
        raise ValueError(f"a level beyond {s}")
    return {"norms": packed["norms"], "levels": levels.to(torch.int8 if s < 128 else torch.int16)}


def read_levels(text: bytes, n: int) -> tuple[Tensor, Tensor]:
    """Places and levels of a string in Elias's code."""
    places, levels, place, at = list[int](), list[int](), -1, 1
    while not strings.is_over(text, at):
        gap, sign = read_elias(text, at)
        level, at = read_elias(text, sign + 1)
        place += gap
        if place >= n:
            raise ValueError(f"a place {place} of a row of {n}")
        places.append(place)
        levels.append(-level if text[sign] == strings.ONE else level)
    return torch.tensor(places, dtype=torch.int64), torch.tensor(levels, dtype=torch.int64)


def in_buckets(row: Tensor, bucket: int) -> Tensor:
    """`[n_buckets, size]`, zeros behind the end of the row."""
    size = bucket_size(bucket, len(row))
    return torch.nn.functional.pad(row, (0, -len(row) % size)).view(-1, size)


def spread(norms: Tensor, bucket: int, n: int) -> Tensor:
    """For each of `n` entries the norm of its bucket."""
    return norms.repeat_interleave(bucket_size(bucket, n))[:n]


def bucket_size(bucket: int, n: int) -> int:
    return min(bucket or n, n)


def n_buckets(bucket: int, n: int) -> int:
    return -(-n // bucket_size(bucket, n))


def bits(s: int, payload: Payload, n: int, value_bit: float) -> float:
    levels = payload["levels"]
    places = levels.nonzero()[:, 0]
    elias = elias_bit(gaps(places)) + len(places) + elias_bit(levels[places].int().abs())
    return len(payload["norms"]) * value_bit + FLAG_BIT + min(elias, fixed_bit(s, n))


def fixed_bit(s: int, n: int) -> int:
    """`n ceil(log2(2 s + 1))`."""
    return n * (2 * s).bit_length()


def most_bit(s: int, bucket: int, n: int, value_bit: float) -> float:
    return n_buckets(bucket, n) * value_bit + FLAG_BIT + fixed_bit(s, n)
