"""Shorter numbers: float16 and int8, their errors and bits."""

import numpy as np
import pytest
import torch
from coding_rows import ENTRY, ROWS, as_row, check_feedback, generator, made, through
from hypothesis import given
from hypothesis import strategies as st


def test_by_hand():
    code = made("cast", to="int8")
    payload = code.encode(as_row([254, -127, 3, 0.9, 0]), generator())
    assert payload["scale"].tolist() == [2]
    assert payload["values"].tolist() == [127, -64, 2, 0, 0], "halves go to even numbers"
    assert code.decode(payload, 5).tolist() == [254, -128, 4, 0, 0]
    assert code.bits(payload, 5, 32.0) == code.most_bit(5, 32.0) == 5 * 8 + 32
    half = made("cast", to="float16")
    assert half.bits(half.encode(torch.ones(5), generator()), 5, 32.0) == half.most_bit(5, 32.0) == 5 * 16


@given(ROWS)
def test_int8_is_within_half_a_step(values):
    row = as_row(values)
    step = float(row.abs().max()) / 127
    assert ((through(made("cast", to="int8"), row) - row).abs() <= step * 0.50001 + 1e-40).all()


@given(ROWS)
def test_float16_is_the_nearest_number(values):
    row = as_row(values)
    expected = np.clip(row.numpy(), -65504, 65504).astype(np.float16).astype(np.float32)
    assert np.array_equal(through(made("cast", to="float16"), row).numpy(), expected)


@given(
    st.lists(st.lists(ENTRY, min_size=12, max_size=12), min_size=1, max_size=8), st.sampled_from(["float16", "int8"])
)
def test_what_is_sent_and_what_is_kept_are_all_updates(rows, to):
    assert made("cast").feedback
    check_feedback(made("cast", to=to), rows)


@pytest.mark.parametrize("to", ["float16", "int8"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_never_hidden(bad, to):
    row = torch.arange(100.0)
    row[3] = bad
    code = made("cast", to=to)
    assert not torch.isfinite(through(code, row)).all()
    assert torch.equal(through(code, torch.zeros(5)), torch.zeros(5))


def test_payloads_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"9 values of torch.float16 instead of 10 of torch.float16"):
        made("cast", to="float16").decode({"values": torch.ones(9).half()}, 10)
    with pytest.raises(ValueError, match=r"10 values of torch.float32 instead of 10 of torch.int8"):
        made("cast").decode({"scale": torch.ones(1), "values": torch.ones(10)}, 10)
