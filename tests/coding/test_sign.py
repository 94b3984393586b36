"""Scaled signs: what is sent, what is kept, and how many bits it takes."""

import pytest
import torch
from coding_rows import ENTRY, ROWS, as_row, check_feedback, generator, made, through
from hypothesis import given
from hypothesis import strategies as st


def test_by_hand():
    code, row = made("sign"), as_row([3, -1, 0, -4])
    payload = code.encode(row, generator())
    assert payload["scale"].tolist() == [2]
    assert payload["signs"].tolist() == [0b0101]
    assert code.decode(payload, 4).tolist() == [2, -2, 2, -2]
    assert code.bits(payload, 4, 32.0) == code.most_bit(4, 32.0) == 4 + 32
    assert code.most_bit(21_840, 16.0) == 21_856


@given(ROWS)
def test_what_is_left_is_that_of_the_closed_form(values):
    """|u - C(u)|^2 = |u|^2 - |u|_1^2 / n, so no update grows by being coded."""
    row = as_row(values)
    left = (row - through(made("sign"), row)).double()
    square, total = float((row.double() ** 2).sum()), float(row.double().abs().sum())
    assert float((left**2).sum()) == pytest.approx(square - total**2 / len(row), abs=1e-5 * square + 1e-30)


@given(st.lists(st.lists(ENTRY, min_size=12, max_size=12), min_size=1, max_size=8))
def test_what_is_sent_and_what_is_kept_are_all_updates(rows):
    assert made("sign").feedback
    assert not made("sign", feedback=False).feedback
    assert made("sign", lost="kept").keeps_lost
    check_feedback(made("sign"), rows)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_never_hidden(bad):
    row = torch.arange(100.0)
    row[3] = bad
    assert not torch.isfinite(through(made("sign"), row)).all()


def test_payloads_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="2 scales instead of 1"):
        made("sign").decode({"scale": torch.ones(2), "signs": torch.zeros(2, dtype=torch.uint8)}, 10)
    with pytest.raises(ValueError, match="for 10 signs, not 2 bytes"):
        made("sign").decode({"scale": torch.ones(1), "signs": torch.zeros(3, dtype=torch.uint8)}, 10)


def test_votes_by_hand():
    code, row = made("sign", scale="one", lost="kept"), as_row([3, -1, 0, -4])
    payload = code.encode(row, generator())
    assert list(payload) == ["signs"]
    assert code.decode(payload, 4).tolist() == [1, -1, 1, -1]
    assert code.bits(payload, 4, 32.0) == code.most_bit(4, 32.0) == 4
    assert not code.feedback
    assert not code.keeps_lost
    row[2] = float("inf")
    assert code.decode(code.encode(row, generator()), 4).isnan().all()
    with pytest.raises(ValueError, match="for 10 signs, not 2 bytes"):
        code.decode({"signs": torch.zeros(3, dtype=torch.uint8)}, 10)
