"""Codes of whole numbers: lengths against codes that are written bit by bit and read again."""

from math import log2

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcell.coding.bits import elias_bit, gaps, golomb_bit, golomb_exponent, packed, unpacked

PLACES = st.sets(st.integers(0, 3000), min_size=1, max_size=50).map(sorted)


def omega(number):
    """Elias's code as text."""
    text = "0"
    while number > 1:
        text, number = f"{number:b}{text}", number.bit_length() - 1
    return text


def read_omega(text):
    numbers, at = [], 0
    while at < len(text):
        number = 1
        while text[at] == "1":
            number, at = int(text[at : at + number + 1], 2), at + number + 1
        numbers, at = [*numbers, number], at + 1
    return numbers


def golomb(places, b):
    """The code of the places as text, as in the paper's listing."""
    text, last = "", -1
    for place in places:
        q, r = divmod(place - last - 1, 2**b)
        text, last = text + "1" * q + "0" + (f"{r:0{b}b}" if b else ""), place
    return text


def read_golomb(text, b):
    places, last, at = [], -1, 0
    while at < len(text):
        end = text.index("0", at)
        last += (end - at) * 2**b + int(text[end + 1 : end + 1 + b] or "0", 2) + 1
        places, at = [*places, last], end + 1 + b
    return places


def test_elias_by_hand():
    words = {1: "0", 2: "100", 3: "110", 4: "101000", 8: "1110000", 16: "10100100000", 17: "10100100010"}
    assert {number: omega(number) for number in words} == words
    for number, word in words.items():
        assert elias_bit(torch.tensor([number])) == len(word)


@given(st.lists(st.integers(1, 2**31 - 1), max_size=40))
def test_elias_lengths_are_those_of_a_code_that_reads_back(numbers):
    text = "".join(map(omega, numbers))
    assert read_omega(text) == numbers
    assert elias_bit(torch.tensor(numbers, dtype=torch.int64)) == len(text)


@given(PLACES, st.integers(0, 9))
def test_golomb_lengths_are_those_of_a_code_that_reads_back(places, b):
    text = golomb(places, b)
    assert read_golomb(text, b) == places
    assert golomb_bit(torch.tensor(places, dtype=torch.int32), b) == len(text)


def test_golomb_by_hand():
    """Places 2, 3 and 11 with b = 2: gaps 3, 1, 8 are 0 10, 0 00, 10 11."""
    assert golomb([2, 3, 11], 2) == "010" + "000" + "1011"
    assert golomb_bit(torch.tensor([2, 3, 11]), 2) == 10
    assert gaps(torch.tensor([2, 3, 11])).tolist() == [3, 1, 8]


@pytest.mark.parametrize("share", [0.0025, 0.01, 0.04, 0.1, 0.3])
def test_the_exponent_makes_the_code_shortest_on_average(share):
    """Expected bits of a geometric gap: b + 1 / (1 - (1 - p)^(2^b))."""
    n = 100_000
    mean = [b + 1 / (1 - (1 - share) ** (2**b)) for b in range(20)]
    assert golomb_exponent(round(share * n), n) == min(range(20), key=mean.__getitem__)
    assert min(mean) < log2(1 / share) + 2.5


@pytest.mark.parametrize("n", [1, 7, 8, 9, 64, 1001])
def test_signs_come_back_from_bytes(n):
    positive = torch.rand(n, generator=torch.Generator().manual_seed(n)) < 0.5
    octets = packed(positive)
    assert octets.dtype == torch.uint8
    assert len(octets) == -(-n // 8)
    assert torch.equal(unpacked(octets, n) > 0, positive)


def test_bytes_by_hand():
    assert packed(torch.tensor([True, False, True, True, False, False, False, False, True])).tolist() == [13, 1]
    for wrong in (torch.zeros(3, dtype=torch.uint8), torch.zeros(2)):
        with pytest.raises(ValueError, match="for 9 signs, not 2 bytes"):
            unpacked(wrong, 9)
