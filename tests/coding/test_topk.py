"""Top-k: what is sent and kept, in how many bits, and payloads that make no sense."""

from math import ceil, log2

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcell import coding
from fedcell.coding import topk
from fedcell.errors import BadInput
from fedcell.options import override

RNG = np.random.default_rng(0)
ENTRY = st.floats(-1e6, 1e6, width=32)
ROWS = st.lists(ENTRY, min_size=1, max_size=60)


def made(**settings):
    return topk.build(override(topk.Config(), settings))


@given(ROWS, st.floats(0.01, 1))
def test_the_largest_entries_are_sent_as_they_are(values, fraction):
    row = torch.tensor(values, dtype=torch.float32)
    code, n = made(fraction=fraction), len(values)
    got = code.decode(code.encode(row, RNG), n)
    k = max(round(fraction * n), 1)
    sent = got != 0
    assert torch.equal(got[sent], row[sent])
    assert int(sent.sum()) == min(k, int((row != 0).sum()))
    left = row[~sent].abs().max() if (~sent).any() else torch.tensor(0.0)
    assert not sent.any() or left <= row[sent].abs().min(), "nothing larger is left behind"


@given(st.lists(st.lists(ENTRY, min_size=12, max_size=12), min_size=1, max_size=8), st.floats(0.05, 1))
def test_what_is_sent_and_what_is_kept_are_all_updates(rows, fraction):
    """The invariant of error feedback, up to the rounding of the sums."""
    code, kept, sent = made(fraction=fraction), torch.zeros(12), torch.zeros(12, dtype=torch.float64)
    updates = torch.tensor(rows, dtype=torch.float32)
    for update in updates:
        u = update + kept
        got = code.decode(code.encode(u, RNG), 12)
        kept, sent = u - got, sent + got.double()
        assert ((kept == 0) | (got == 0)).all(), "an entry is sent or kept"
    scale = float(updates.abs().double().sum()) + 1e-30
    torch.testing.assert_close(sent + kept.double(), updates.double().sum(dim=0), rtol=0, atol=1e-6 * scale)


@given(st.integers(1, 5000), st.floats(1e-4, 1), st.sampled_from([8.0, 16.0, 32.0]))
def test_bits_are_those_of_values_and_places(n, fraction, value_bit):
    code = made(fraction=fraction)
    payload = code.encode(torch.arange(1.0, n + 1), RNG)
    found = code.bits(payload, n, value_bit)
    k = min(max(round(fraction * n), 1), n)
    places = ceil(log2(n)) if n > 1 else 0
    if k * (32 + places) < 32 * n:
        assert found == k * (value_bit + places)
        assert len(payload["values"]) == len(payload["places"]) == k
    else:
        assert found == n * value_bit
        assert "places" not in payload
    assert found <= code.most_bit(n, value_bit)


def test_one_percent_of_a_network():
    assert made(fraction=0.01).most_bit(21_840, 32.0) == 218 * (32 + 15)


@given(ROWS)
def test_everything_is_sent_bit_for_bit(values):
    row = torch.tensor(values, dtype=torch.float32)
    code = made(fraction=1)
    payload = code.encode(row, RNG)
    assert list(payload) == ["values"]
    assert code.decode(payload, len(row)).numpy().tobytes() == row.numpy().tobytes()
    assert code.bits(payload, len(row), 32.0) == 32 * len(row)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_never_hidden(bad):
    row = torch.arange(100.0)
    row[3] = bad
    code = made(fraction=0.02)
    assert not torch.isfinite(code.decode(code.encode(row, RNG), 100)).all(), "the server must see them to refuse them"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"values": torch.ones(4)}, "4 values of a row of 10"),
        ({"values": torch.ones(2), "places": torch.tensor([3])}, "2 values at 1 places"),
        ({"values": torch.ones(2), "places": torch.tensor([3, 10])}, "a place that is not in a row of 10"),
        ({"values": torch.ones(2), "places": torch.tensor([-1, 3])}, "a place that is not in a row of 10"),
    ],
)
def test_payloads_that_make_no_sense_are_refused(payload, reason):
    with pytest.raises(ValueError, match=reason):
        made().decode(payload, 10)


def test_codings_are_found_by_name_and_by_file(tmp_path):
    assert "topk" in coding.names()
    with pytest.raises(BadInput, match="unknown coding 'topq': did you mean 'topk'"):
        coding.load("topq")
    with pytest.raises(BadInput, match=r"coding file '.*none.py' does not exist"):
        coding.load(str(tmp_path / "none.py"))
    (tmp_path / "mine.py").write_text("from fedcell.coding.topk import Config, build\n")
    assert coding.load(str(tmp_path / "mine.py")).build is topk.build
