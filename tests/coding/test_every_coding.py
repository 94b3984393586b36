"""What every coding must keep to. Codings are discovered, so a new file in coding/ is tested by being there."""

from dataclasses import fields
from pathlib import Path

import pytest
import torch
from coding_rows import ROWS, as_row, generator
from hypothesis import given
from hypothesis import strategies as st

from fedcell import coding, methods
from fedcell.deploy.coded import DTYPES

NAMES = coding.names()


def standard(name):
    module = coding.load(name)
    return module.build(module.Config())


@pytest.mark.parametrize("name", NAMES)
@given(values=ROWS, seed=st.integers(0, 99), value_bit=st.sampled_from([1.0, 16.0, 32.0]))
def test_rows_bits_and_draws(name, values, seed, value_bit):
    code, row, n = standard(name), as_row(values), len(values)
    payload = code.encode(row, generator(seed))
    got = code.decode(payload, n)
    assert torch.equal(row, as_row(values)), "the row stays as it was"
    assert got.shape == (n,)
    assert got.dtype == torch.float32
    assert got.isfinite().all()
    assert 0 < code.bits(payload, n, value_bit) <= code.most_bit(n, value_bit)
    assert float(code.bits(payload, n, value_bit)).is_integer()
    again = code.encode(row, generator(seed))
    assert payload.keys() == again.keys()
    assert all(torch.equal(payload[part], again[part]) for part in payload), "draws are those of the stream"


@pytest.mark.parametrize("name", NAMES)
@given(values=ROWS, seed=st.integers(0, 99))
def test_a_wire_carries_the_bits_that_are_counted(name, values, seed):
    """Up to the end of a byte, and the payload comes back."""
    code, n = standard(name), len(values)
    payload = code.encode(as_row(values), generator(seed))
    packed = code.pack(payload, n)
    assert 0 <= 8 * sum(part.numpy().nbytes for part in packed.values()) - code.bits(payload, n, 32.0) < 8
    again = code.unpack(packed, n)
    assert again.keys() == payload.keys()
    assert all(torch.equal(payload[part], again[part]) for part in payload)
    assert all(payload[part].dtype == again[part].dtype for part in payload)


@pytest.mark.parametrize("name", NAMES)
def test_a_payload_is_a_copy_that_a_wire_can_carry(name):
    code, row = standard(name), torch.arange(-50.0, 50.0)
    payload = code.encode(row, generator())
    before = code.decode(payload, 100).clone()
    row.zero_()
    assert torch.equal(code.decode(payload, 100), before)
    for part in payload.values():
        assert part.ndim == 1
        assert part.numpy().dtype in DTYPES


@pytest.mark.parametrize("name", NAMES)
def test_a_file_says_what_it_does_and_where_it_is_from(name):
    module = coding.load(name)
    text = Path(module.__file__).read_text()
    assert "Reference: " in module.__doc__
    assert len(text.splitlines()) < 150
    assert standard(name).name == name


def test_settings_of_codings_are_those_of_no_method():
    taken = {entry.name for name in methods.names() for entry in fields(methods.load(name).Config)}
    for name in NAMES:
        assert not taken & {entry.name for entry in fields(coding.load(name).Config)}
