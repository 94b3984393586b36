"""QSGD: levels, unbiasedness, variance, and bits against hand-worked cases."""

import numpy as np
import pytest
import torch
from coding_rows import ROWS, as_row, generator, made, through
from hypothesis import given
from hypothesis import strategies as st
from test_bits import omega


class Fixed:
    """A stream of equal numbers in place of uniform ones."""

    def __init__(self, number):
        self.number = number

    def random(self, n):
        return np.full(n, self.number)


def test_by_hand():
    """Norm 5 and four levels: 3 / 5 is 2.4 levels, -4 / 5 is 3.2."""
    code, row = made("qsgd", levels=4, bucket=0), as_row([3, -4, 0])
    for number, levels in ((0.1, [3, -4, 0]), (0.3, [3, -3, 0]), (0.5, [2, -3, 0])):
        payload = code.encode(row, Fixed(number))
        assert payload["norms"].tolist() == [5]
        assert payload["levels"].tolist() == levels
        assert code.decode(payload, 3).tolist() == [5 * level / 4 for level in levels]


def test_bits_by_hand():
    code = made("qsgd", levels=4, bucket=0)
    few = {"norms": torch.ones(1), "levels": torch.tensor([0] * 9 + [1] + [0] * 20 + [-3] + [0] * 9, dtype=torch.int8)}
    word = omega(10) + "0" + omega(1) + omega(21) + "1" + omega(3)  # gap, sign, level
    assert code.bits(few, 40, 32.0) == 32 + 1 + len(word) == 32 + 1 + 24
    full = {"norms": torch.ones(1), "levels": torch.full((40,), 4, dtype=torch.int8)}
    assert code.bits(full, 40, 16.0) == 16 + 1 + 40 * 4 == code.most_bit(40, 16.0), "9 levels take 4 bits"
    none = {"norms": torch.ones(1), "levels": torch.zeros(40, dtype=torch.int8)}
    assert code.bits(none, 40, 32.0) == 33
    assert made("qsgd", levels=1, bucket=16).most_bit(40, 32.0) == 3 * 32 + 1 + 40 * 2


@given(ROWS, st.integers(1, 200), st.integers(0, 20))
def test_bits_are_the_shorter_of_both_codes(values, levels, bucket):
    code, row = made("qsgd", levels=levels, bucket=bucket), as_row(values)
    payload = code.encode(row, generator())
    text, last = "", -1
    for place, level in enumerate(payload["levels"].tolist()):
        if level:
            text, last = text + omega(place - last) + "s" + omega(abs(level)), place
    fixed = len(values) * int(np.ceil(np.log2(2 * levels + 1)))
    norms = -(-len(values) // (bucket or len(values)))
    assert code.bits(payload, len(values), 32.0) == 32 * norms + 1 + min(len(text), fixed)
    assert code.bits(payload, len(values), 32.0) <= code.most_bit(len(values), 32.0)


@given(ROWS, st.integers(1, 300), st.integers(0, 20))
def test_the_mean_over_all_draws_is_the_row(values, levels, bucket):
    """Draws at the middles of N equal parts of [0, 1) give the mean to half a part of one level."""
    code, row, parts = made("qsgd", levels=levels, bucket=bucket), as_row(values), 50
    found = [code.decode(code.encode(row, Fixed((i + 0.5) / parts)), len(row)).double() for i in range(parts)]
    size = bucket or len(row)
    norms = torch.cat([part.double().norm().expand(len(part)) for part in row.split(size)])
    error = (torch.stack(found).mean(dim=0) - row.double()).abs()
    assert (error <= norms / levels * 0.51 / parts + 1e-6 * norms + 1e-30).all()
    level = norms / levels * (1 + 1e-6) + 1e-30
    assert all(((one - row.double()).abs() <= level).all() for one in found), "never further than one level"


def test_draws_are_unbiased_with_the_variance_of_the_paper():
    row = torch.from_numpy(generator(7).standard_normal(64)).float()
    code, trials, s = made("qsgd", levels=2, bucket=0), 4000, 2
    found = torch.stack([through(code, row, seed) for seed in range(trials)]).double()
    step = row.double().norm() / s
    share = row.double().abs() / step
    variance = (share.frac() * (1 - share.frac())) * step**2  # of one draw that rounds up or down
    assert ((found.mean(dim=0) - row).abs() <= 5 * (variance / trials).sqrt()).all()
    measured = float(((found - row) ** 2).sum(dim=1).mean())
    assert measured == pytest.approx(float(variance.sum()), rel=0.05)
    assert measured <= min(64 / s**2, 64**0.5 / s) * float((row.double() ** 2).sum())


def test_a_bucket_larger_than_a_row_is_the_row():
    row = as_row([3, -4, 0])
    huge, whole = made("qsgd", bucket=10**15), made("qsgd", bucket=0)
    assert torch.equal(through(huge, row), through(whole, row))
    assert huge.most_bit(3, 32.0) == whole.most_bit(3, 32.0)


def test_buckets_do_not_touch():
    row = as_row([1e-3, -1e-3, 2e-3, 1e5, 1e5, 1e5])
    got = through(made("qsgd", levels=127, bucket=3), row)
    torch.testing.assert_close(got, row, rtol=0.03, atol=0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_never_hidden(bad):
    row = torch.arange(100.0)
    row[3] = bad
    assert not torch.isfinite(through(made("qsgd"), row)).all()
    assert torch.equal(through(made("qsgd"), torch.zeros(5)), torch.zeros(5)), "a row of zeros has no norm to divide by"


@pytest.mark.parametrize(
    ("levels", "norms", "reason"),
    [
        ([0] * 9, 1, "9 levels and 1 norms of a row of 10 in 1"),
        ([0] * 10, 2, "2 norms"),
        ([5] + [0] * 9, 1, "beyond 4"),
    ],
)
def test_payloads_that_make_no_sense_are_refused(levels, norms, reason):
    with pytest.raises(ValueError, match=reason):
        made("qsgd").decode({"levels": torch.tensor(levels, dtype=torch.int8), "norms": torch.ones(norms)}, 10)
    with pytest.raises(ValueError, match="beyond 4"):
        made("qsgd").decode({"levels": torch.tensor([-128], dtype=torch.int8), "norms": torch.ones(1)}, 1)
