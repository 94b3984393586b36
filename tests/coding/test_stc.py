"""Sparse ternary coding: vectors and bits against hand-worked cases."""

import pytest
import torch
from coding_rows import ENTRY, ROWS, as_row, check_feedback, generator, made, through
from hypothesis import given
from hypothesis import strategies as st
from test_bits import golomb

from fedcell.coding.bits import golomb_exponent


def test_by_hand():
    """A quarter of 12 entries: b = 1 + floor(log2(0.4812 / 0.2877)) = 1, gaps 2, 4 and 6."""
    row = as_row([0.1, -4, 0, 0.2, 0, 3, 0, 0, 0.5, 0, 0, -2])
    code = made("stc", fraction=0.25)
    payload = code.encode(row, generator())
    assert payload["scale"].tolist() == [3]
    assert payload["places"].tolist() == [1, 5, 11]
    assert payload["signs"].tolist() == [0b010]
    assert code.decode(payload, 12).tolist() == [0, -3, 0, 0, 0, 3, 0, 0, 0, 0, 0, -3]
    assert golomb([1, 5, 11], 1) == "01" + "101" + "1101"
    assert code.bits(payload, 12, 32.0) == 32 + 3 + 9


def test_the_most_bits_are_those_of_places_at_the_end():
    code, row = made("stc", fraction=0.25), torch.zeros(12)
    row[-3:] = 1
    assert code.bits(code.encode(row, generator()), 12, 32.0) == code.most_bit(12, 32.0) == 32 + 3 + (4 + 2) + 2 + 2


def test_one_percent_of_a_network():
    """b = 6, so a place takes 7 bits, a sign one, and 21,622 places are skipped in strides of 64."""
    assert made("stc", fraction=0.01).most_bit(21_840, 32.0) == 32 + 218 * 8 + 21_622 // 64


@given(ROWS, st.floats(0.01, 1), st.sampled_from([8.0, 32.0]))
def test_vectors_and_bits_against_plain_loops(values, fraction, value_bit):
    row, code, n = as_row(values), made("stc", fraction=fraction), len(values)
    k = min(max(round(fraction * n), 1), n)
    payload = code.encode(row, generator())
    got = code.decode(payload, n)
    places = payload["places"].tolist()
    largest = sorted(map(abs, row.tolist()), reverse=True)[:k]
    assert sorted((abs(row.tolist()[place]) for place in places), reverse=True) == largest
    expected = [0.0] * n
    for place in places:
        expected[place] = sum(largest) / k * (1 if row[place] >= 0 else -1)
    assert got.tolist() == pytest.approx(expected, rel=1e-6)
    text = golomb(places, golomb_exponent(k, n))
    assert code.bits(payload, n, value_bit) == value_bit + k + len(text)
    assert code.bits(payload, n, value_bit) <= code.most_bit(n, value_bit)


@given(st.lists(st.lists(ENTRY, min_size=12, max_size=12), min_size=1, max_size=8), st.floats(0.05, 1))
def test_what_is_sent_and_what_is_kept_are_all_updates(rows, fraction):
    assert made("stc").feedback
    check_feedback(made("stc", fraction=fraction), rows)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_never_hidden(bad):
    row = torch.arange(100.0)
    row[3] = bad
    assert not torch.isfinite(through(made("stc", fraction=0.02), row)).all()


@pytest.mark.parametrize("places", [[3], [3, 3], [5, 3], [-1, 3], [3, 10]])
def test_payloads_that_make_no_sense_are_refused(places):
    payload = {"scale": torch.ones(1), "signs": torch.zeros(1, dtype=torch.uint8), "places": torch.tensor(places)}
    with pytest.raises(ValueError, match="places that are not 2 ascending ones of a row of 10"):
        made("stc", fraction=0.2).decode(payload, 10)
