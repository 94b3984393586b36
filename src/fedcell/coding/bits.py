"""Codes for whole numbers and signs, counted in bits, and how payloads hold them.

Not a coding itself: it has no `build`.
"""

from functools import cache
from math import floor, log, log2, sqrt

import torch
from torch import Tensor

from . import Payload

TABLE_END = 1 << 14  # numbers below are looked up, which is much faster
GOLDEN = (sqrt(5) + 1) / 2


def elias_bit(numbers: Tensor) -> int:
    """Bits of positive whole numbers in Elias's recursive code (omega).

    A number is written in binary behind its length minus one, that length behind its own, and so on down to 1; a zero
    ends it. So 1 takes 1 bit, 2 and 3 take 3, 4 to 7 take 6, 8 to 15 take 7, 16 takes 11.

    >>> [elias_bit(torch.tensor([number])) for number in (1, 2, 3, 4, 7, 8, 15, 16, 32)]
    [1, 3, 3, 6, 6, 7, 7, 11, 12]

    Reference: Elias, Universal codeword sets and representations of the integers, 1975.
    """
    if len(numbers) and int(numbers.max()) < TABLE_END:
        return int(_elias_table(numbers.device)[numbers.long()].sum())
    total, left = len(numbers), numbers[numbers > 1]
    while len(left):
        length = torch.frexp(left.double()).exponent
        total, left = total + int(length.sum()), length[length > 2] - 1
    return total


@cache
def _elias_table(device: torch.device) -> Tensor:
    """Bits of the numbers below `TABLE_END`; the entry of 0 means nothing."""
    length = [0, 1] + [0] * (TABLE_END - 2)
    for number in range(2, TABLE_END):
        length[number] = number.bit_length() + length[number.bit_length() - 1]
    return torch.tensor(length, device=device)


def golomb_exponent(k: int, n: int) -> int:
    """`b`, the best exponent of a Golomb code for gaps between `k` of `n` places chosen at random.

    `b = 1 + floor(log2(log(phi - 1) / log(1 - k / n)))` with the golden ratio `phi`, at least 0.

    >>> golomb_exponent(1, 100), golomb_exponent(1, 2), golomb_exponent(2, 2)
    (6, 0, 0)

    Reference: Sattler et al., Robust and Communication-Efficient Federated Learning from Non-IID Data, 2019.
    """
    if k >= n:
        return 0
    return max(1 + floor(log2(log(GOLDEN - 1) / log(1 - k / n))), 0)


def golomb_bit(places: Tensor, b: int) -> int:
    """Bits of ascending places: of each gap `d >= 1`, `(d - 1) // 2^b` ones, a zero, and the remainder in `b` bits.

    >>> golomb_bit(torch.tensor([0, 5, 6]), b=1)  # gaps 1, 5, 1: 0 0, 110 0, 0 0
    8
    """
    return int((gaps(places) - 1 >> b).sum()) + len(places) * (1 + b)


def gaps(places: Tensor) -> Tensor:
    """Distances from one place to the next; the first is counted from place -1."""
    return torch.diff(places.long(), prepend=places.new_full((1,), -1, dtype=torch.int64))


def packed(positive: Tensor) -> Tensor:
    """Truth values `[n]` as bytes, eight in each, the first in the lowest bit."""
    room = positive.new_zeros(-(-len(positive) // 8) * 8)
    room[: len(positive)] = positive
    return (room.view(-1, 8).to(torch.uint8) << _places_in_byte(room)).sum(dim=1, dtype=torch.uint8)


def unpacked(octets: Tensor, n: int) -> Tensor:
    """The `n` signs in bytes, -1 or 1; raises ValueError if there are not as many bytes as they take."""
    if len(octets) != -(-n // 8) or octets.dtype != torch.uint8:
        raise ValueError(f"{len(octets)} entries of {octets.dtype} for {n} signs, not {-(-n // 8)} bytes")
    return 2.0 * ((octets[:, None] >> _places_in_byte(octets)) & 1).reshape(-1)[:n].float() - 1.0


def _places_in_byte(like: Tensor) -> Tensor:
    return torch.arange(8, dtype=torch.uint8, device=like.device)


def scale_of(payload: Payload) -> Tensor:
    """The one number that scales a payload; raises ValueError if there are more or none."""
    if payload["scale"].shape != (1,):
        raise ValueError(f"{payload['scale'].numel()} scales instead of 1")
    return payload["scale"]
