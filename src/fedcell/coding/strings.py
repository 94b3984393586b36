"""Strings of bits for real wires: the codes that `bits` counts, written and read again.

A string is text of 0 and 1 until it is closed to bytes, the first bit in the highest place. The last byte is filled up
with ones, which no code of Elias's is made of alone. What cannot be read raises ValueError: devices may send anything.
Not a coding itself: it has no `build`.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from .bits import gaps

ZERO, ONE = b"01"


def closed(text: str) -> Tensor:
    """Pack a string into bytes, the last one filled up with ones."""
    filled = (text + "1" * (-len(text) % 8)).encode()
    return torch.from_numpy(np.packbits(np.frombuffer(filled, dtype=np.uint8) - ZERO))


def opened(octets: Tensor) -> bytes:
    """Read the string from bytes, with the ones that fill up the last byte."""
    if octets.dtype != torch.uint8 or not len(octets):
        raise ValueError(f"a string of bits in {len(octets)} entries of {octets.dtype}, not in bytes")
    return bytes(np.unpackbits(octets.numpy()) + np.uint8(ZERO))


def is_over(text: bytes, at: int) -> bool:
    """Whether there is nothing but filling from bit `at` on."""
    left = len(text) - at
    return left < 8 and text.count(b"1", at) == left


def end(text: bytes, at: int) -> None:
    """Raise ValueError unless the string is over at bit `at`."""
    if at > len(text) or not is_over(text, at):
        raise ValueError(f"a string of {len(text)} bits that should end with bit {at}")


def fixed(numbers: Tensor, width: int) -> str:
    """Write numbers with `width` bits each."""
    bits = (numbers.numpy().astype(np.int64)[:, None] >> np.arange(width)[::-1]) & 1
    return bytes((bits + ZERO).astype(np.uint8)).decode()


def read_fixed(text: bytes, at: int, count: int, width: int) -> tuple[Tensor, int]:
    """Read `count` numbers of `width` bits from bit `at` on: (numbers, the bit behind them)."""
    after = at + count * width
    if after > len(text):
        raise ValueError(f"a string of {len(text)} bits with {count} numbers of {width}")
    bits = np.frombuffer(text[at:after], dtype=np.uint8).reshape(count, width).astype(np.int64) - ZERO
    return torch.from_numpy(bits @ (1 << np.arange(width, dtype=np.int64)[::-1])), after


def golomb(places: Tensor, b: int) -> str:
    """Write ascending places by their gaps; see `bits.golomb_bit`."""
    pairs = (divmod(gap - 1, 1 << b) for gap in gaps(places).tolist())
    return "".join("1" * many + "0" + (f"{rest:0{b}b}" if b else "") for many, rest in pairs)


def read_golomb(text: bytes, at: int, count: int, b: int) -> tuple[Tensor, int]:
    """Read `count` places from bit `at` on: (places, the bit behind them)."""
    found, place = list[int](), -1
    for _ in range(count):
        zero = text.find(b"0", at)
        if zero < 0 or zero + b >= len(text):
            raise ValueError(f"a string of {len(text)} bits with {len(found)} places of {count}")
        place += 1 + (zero - at << b) + int(text[zero : zero + 1 + b], 2)
        at = zero + 1 + b
        found.append(place)
    return torch.tensor(found), at


@lru_cache(maxsize=4096)
def elias(number: int) -> str:
    """Write a positive number; see `bits.elias_bit`.

    >>> [elias(number) for number in (1, 2, 4, 16)]
    ['0', '100', '101000', '10100100000']
    """
    text = "0"
    while number > 1:
        text, number = f"{number:b}{text}", number.bit_length() - 1
    return text


def read_elias(text: bytes, at: int) -> tuple[int, int]:
    """Read a number from bit `at` on: (number, the bit behind it)."""
    number = 1
    while at < len(text) and text[at] == ONE:
        after = at + number + 1
        number, at = int(text[at:after], 2), after
    if at >= len(text):
        raise ValueError(f"a string of {len(text)} bits that ends within a number")
    return number, at + 1
