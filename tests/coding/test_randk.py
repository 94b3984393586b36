"""Random-k: places from a key on both sides, unbiased without feedback, nothing lost with it."""

from collections import Counter

import pytest
import torch
from coding_rows import ENTRY, ROWS, as_row, check_feedback, generator, made, through
from hypothesis import given
from hypothesis import strategies as st


@given(ROWS, st.floats(0.01, 1))
def test_a_set_of_entries_is_sent_as_it_is(values, fraction):
    row, code = as_row(values).where(as_row(values) != 0, 1.0), made("randk", fraction=fraction)
    got, k = through(code, row), min(max(round(fraction * len(row)), 1), len(row))
    sent = got != 0
    assert int(sent.sum()) == k
    assert torch.equal(got[sent], row[sent])
    large = through(made("randk", fraction=fraction, feedback=False), row)
    torch.testing.assert_close(large, got * (len(row) / k))


@given(st.lists(st.lists(ENTRY, min_size=12, max_size=12), min_size=1, max_size=8), st.floats(0.05, 1))
def test_what_is_sent_and_what_is_kept_are_all_updates(rows, fraction):
    assert made("randk").feedback
    check_feedback(made("randk", fraction=fraction), rows)


def test_every_set_of_places_is_as_likely():
    """Two of five places: 10 sets; a chi-square of 9 degrees is over 27.9 once in a thousand."""
    code, trials = made("randk", fraction=0.4), 3000
    found = Counter(tuple(through(code, torch.ones(5), seed).nonzero()[:, 0].tolist()) for seed in range(trials))
    assert len(found) == 10
    assert sum((count - trials / 10) ** 2 / (trials / 10) for count in found.values()) < 27.9


def test_without_feedback_the_mean_is_the_row():
    row = torch.from_numpy(generator(7).standard_normal(30)).float()
    code, trials = made("randk", fraction=0.2, feedback=False), 4000
    found = torch.stack([through(code, row, seed) for seed in range(trials)]).double()
    assert ((found.mean(dim=0) - row).abs() <= 5 * found.std(dim=0) / trials**0.5).all()


def test_bits_by_hand():
    code = made("randk", fraction=0.1)
    payload = code.encode(torch.ones(100), generator())
    assert code.bits(payload, 100, 32.0) == code.most_bit(100, 32.0) == 10 * 32 + 32
    assert code.bits(payload, 100, 16.0) == 10 * 16 + 32, "a key has 32 bits in any world"
    assert made("randk", fraction=0.01).most_bit(21_840, 32.0) == 218 * 32 + 32
    whole = made("randk", fraction=1)
    assert whole.bits(whole.encode(torch.ones(100), generator()), 100, 32.0) == whole.most_bit(100, 32.0) == 3200


@pytest.mark.parametrize("feedback", [True, False])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_never_hidden(bad, feedback):
    row = torch.arange(100.0)
    row[3] = bad
    assert not torch.isfinite(through(made("randk", fraction=0.02, feedback=feedback), row)).all()


KEY = torch.tensor([3], dtype=torch.int32)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"values": torch.ones(3), "key": KEY}, "3 values of a row of 10, of which 2 are sent"),
        ({"values": torch.ones(2)}, "a key too many or too few"),
        ({"values": torch.ones(2), "key": -KEY}, "is no key"),
        ({"values": torch.ones(2), "key": KEY.float()}, "is no key"),
        ({"values": torch.ones(2), "key": torch.cat([KEY, KEY])}, "is no key"),
    ],
)
def test_payloads_that_make_no_sense_are_refused(payload, reason):
    with pytest.raises(ValueError, match=reason):
        made("randk", fraction=0.2).decode(payload, 10)
