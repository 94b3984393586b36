"""Strings of bits: codes against hand-worked words, other settings than the standard ones, and bytes of no meaning."""

import pytest
import torch
from coding_rows import ROWS, as_row, generator, made
from hypothesis import given
from hypothesis import strategies as st
from test_bits import golomb, omega

from fedcell.coding import strings

SETTINGS = {
    "topk": [{"fraction": 0.3}, {"fraction": 0.05}],
    "stc": [{"fraction": 0.25}, {"fraction": 1.0}],
    "qsgd": [{"levels": 1, "bucket": 7}, {"levels": 127}, {"levels": 300, "bucket": 0}],
}
CASES = [(name, settings) for name, some in SETTINGS.items() for settings in some]


@pytest.mark.parametrize(("name", "settings"), CASES)
@given(values=ROWS, seed=st.integers(0, 9))
def test_payloads_come_back_in_the_bits_that_are_counted(name, settings, values, seed):
    code, n = made(name, **settings), len(values)
    payload = code.encode(as_row(values), generator(seed))
    packed = code.pack(payload, n)
    assert 0 <= 8 * sum(part.numpy().nbytes for part in packed.values()) - code.bits(payload, n, 32.0) < 8
    again = code.unpack(packed, n)
    assert all(torch.equal(payload[part], again[part]) for part in payload)


@pytest.mark.parametrize(("name", "settings"), CASES)
@given(octets=st.binary(max_size=12), n=st.integers(2, 40))
def test_any_bytes_are_a_row_or_refused(name, settings, octets, n):
    code = made(name, **settings)
    given_bytes = torch.tensor(list(octets), dtype=torch.uint8)
    numbers = {"values": torch.ones(2), "scale": torch.ones(1), "norms": torch.ones(1)}
    try:
        got = code.decode(code.unpack({**numbers, "places": given_bytes, "string": given_bytes}, n), n)
    except ValueError:
        return
    assert got.shape == (n,)


def test_stc_by_hand():
    """Signs 0 1 0 of places 1, 5 and 11 of 12, whose gaps 2, 4 and 6 are 01, 101 and 1101; filled up with ones."""
    code = made("stc", fraction=0.25)
    payload = code.encode(as_row([0.1, -4, 0, 0.2, 0, 3, 0, 0, 0.5, 0, 0, -2]), generator())
    assert code.pack(payload, 12)["string"].tolist() == [0b01001101, 0b11011111]


def test_topk_by_hand():
    """Places 1, 4 and 6 of 40 in six bits each."""
    code = made("topk", fraction=0.075)
    row = torch.zeros(40).index_fill_(0, torch.tensor([1, 4, 6]), -2.0)
    assert code.pack(code.encode(row, generator()), 40)["places"].tolist() == [0b00000100, 0b01000001, 0b10111111]


def test_qsgd_by_hand():
    """Levels 0 -2 0 0 1 with two levels: gap 2, minus, 2, gap 3, plus, 1; in plain numbers three bits each."""
    code, levels = made("qsgd", levels=2, bucket=0), torch.tensor([0, -2, 0, 0, 1], dtype=torch.int8)
    packed = code.pack({"norms": torch.ones(1), "levels": levels}, 5)
    assert packed["string"].tolist() == [0b0_100_1_100, 0b110_0_0_111]
    dense = torch.tensor([2, -2, 2, -2, 2], dtype=torch.int8)
    packed = code.pack({"norms": torch.ones(1), "levels": dense}, 5)
    assert packed["string"].tolist() == [0b1_100_000_1, 0b00_000_100]


@given(st.sets(st.integers(0, 3000), min_size=1, max_size=50).map(sorted), st.integers(0, 9))
def test_golomb_is_that_of_the_listing(places, b):
    assert strings.golomb(torch.tensor(places), b) == golomb(places, b)


@given(st.integers(1, 2**31 - 1))
def test_elias_is_that_of_the_paper(number):
    assert strings.elias(number) == omega(number)
    assert strings.read_elias(f"1{omega(number)}".encode(), 1) == (number, 1 + len(omega(number)))


@pytest.mark.parametrize(
    ("name", "octets", "words"),
    [
        ("topk", [0b11111111, 0b11111111], "should end with bit 8"),
        ("topk", [], "0 entries"),
        ("stc", [0b11111111], "0 places of 2"),
        ("qsgd", [0b01111111] * 2, "ends within a number"),
        ("qsgd", [0b00000000] * 8, "a place 16 of a row of 16"),
        ("qsgd", [0b00010101, 0b01111111], "a level beyond 4"),
    ],
)
def test_strings_that_make_no_sense_are_refused(name, octets, words):
    code = made(name, **({} if name == "qsgd" else {"fraction": 0.1}))
    packed = torch.tensor(octets, dtype=torch.uint8)
    numbers = {"values": torch.ones(2), "scale": torch.ones(1), "norms": torch.ones(1)}
    with pytest.raises(ValueError, match=words):
        code.unpack({**numbers, "places": packed, "string": packed}, 16)
