"""Clipping and noise: what one device can do to a sum, variances of closed forms, norms that follow a quantile."""

import numpy as np
import pytest
import torch
from coding_rows import as_row, generator, made
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedcell.coding import Sampling
from fedcell.coding.private import Memory
from fedcell.coding.secure import KEY_BIT, SHARE_BIT, neighbours, secure_cost
from fedcell.errors import BadInput

COHORTS = hnp.arrays(
    np.float32, st.tuples(st.integers(2, 6), st.integers(1, 8)), elements=st.floats(-1e6, 1e6, width=32)
)
POISSON = Sampling("poisson", 0.1, 40.0)


def memory(clip_norm=1.0, noise=1.0, count_noise=0.0, rule="poisson"):
    return Memory(clip_norm, noise, count_noise, rule, np.zeros(0), np.zeros(4, np.int64))


def total(code, now, rows):
    coding = code.at_sum.now(now)
    sent = [code.at_sum.numbers(coding.encode(row, generator())) for row in torch.from_numpy(rows)]
    return torch.stack(sent).double().sum(dim=0)


@given(COHORTS, st.floats(1e-3, 1e3), st.booleans())
def test_no_device_has_more_than_the_clipping_norm_in_the_sum(rows, clip_norm, adaptive):
    """Whatever it sends: with all of it or nothing, or with the data of another device."""
    code = made("private", clipping="adaptive" if adaptive else "fixed")
    now, n = memory(clip_norm), rows.shape[1]
    whole, without, replaced = (total(code, now, part) for part in (rows, rows[1:], np.vstack([-rows[:1], rows[1:]])))
    slack = 1e-12 * float(whole.abs().max() + 1)
    assert torch.linalg.vector_norm((whole - without)[:n]) <= clip_norm + slack
    assert torch.linalg.vector_norm((whole - replaced)[:n]) <= 2 * clip_norm + slack
    if adaptive:
        assert len(whole) == n + 1
        assert abs(float(whole[-1] - without[-1])) == 0.5


@given(COHORTS)
def test_short_updates_are_sent_as_they_are_and_long_ones_keep_their_direction(rows):
    code = made("private", clip_norm=2.0)
    for row in torch.from_numpy(rows):
        sent, length = code.encode(row, generator())["values"], float(row.double().norm())
        if length <= 2.0:
            assert torch.equal(sent, row)
        else:
            torch.testing.assert_close(sent.double() * length, 2.0 * row.double(), rtol=1e-5, atol=1e-5)


def test_a_bad_update_stays_bad_so_that_screening_turns_it_away():
    for value in (np.inf, np.nan):
        assert not made("private").encode(as_row([1.0, value]), generator())["values"].isfinite().all()


def test_central_noise_has_the_variance_of_the_closed_form():
    """`(z S)^2 / m^2` on the mean, whoever is heard."""
    code, n = made("private"), 200_000
    for n_heard in (40, 7, 0):
        mean, _ = code.at_sum.mean(memory(3.0, 2.0), torch.full((n,), 8.0), POISSON, n_heard, generator(1))
        assert float(mean.double().mean()) == pytest.approx(8.0 / 40, abs=4 * 0.15 / np.sqrt(n))
        assert float(mean.double().var()) == pytest.approx((2.0 * 3.0 / 40) ** 2, rel=4 * np.sqrt(2 / n))


def test_local_noise_has_the_variance_of_the_closed_form():
    """`(z S)^2 / n` on the mean of `n` devices, each with noise of its own."""
    code, n, n_heard = made("private", dp="local"), 100_000, 5
    now = memory(3.0, 2.0, rule="local")
    coding = code.at_sum.now(now)
    zeros = torch.zeros(n)
    sent = torch.stack([coding.encode(zeros, generator(seed))["values"] for seed in range(n_heard)])
    mean, _ = code.at_sum.mean(now, sent.sum(dim=0), POISSON, n_heard, generator(9))
    assert float(sent[0].double().var()) == pytest.approx(36.0, rel=4 * np.sqrt(2 / n))
    assert float(mean.double().var()) == pytest.approx(36.0 / n_heard, rel=4 * np.sqrt(2 / n))
    assert code.at_sum.mean(now, zeros, POISSON, 0, generator())[0] is None


def test_adaptive_noise_is_split_so_that_both_sums_cost_what_one_did():
    """`1 / z^2 = 1 / z_update^2 + 1 / (2 sigma_b)^2`: sensitivities 1 and 1/2 (Andrew et al., Theorem 1)."""
    code, n, z, sigma_b = made("private", clipping="adaptive"), 200_000, 1.0, 2.0
    mean, _ = code.at_sum.mean(memory(1.0, z, sigma_b), torch.zeros(n + 1), POISSON, 40, generator(2))
    assert len(mean) == n
    z_update = float(mean.double().std()) * 40
    assert 1 / z_update**2 + 1 / (2 * sigma_b) ** 2 == pytest.approx(1 / z**2, rel=0.01)


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("start", [0.1, 30.0])
def test_adaptive_clipping_converges_to_the_quantile(quantile, start):
    code, lengths = made("private", clipping="adaptive", quantile=quantile), np.geomspace(0.5, 20.0, 200)
    now, rng, norms = memory(start, 1.0, 10.0), generator(3), []
    for _ in range(400):
        drawn = lengths[rng.random(200) < 0.5]
        coding = code.at_sum.now(now)
        sent = torch.stack([code.at_sum.numbers(coding.encode(as_row([one]), rng)) for one in drawn]).sum(dim=0)
        _, now = code.at_sum.mean(now, sent, Sampling("poisson", 0.5, 100.0), len(drawn), rng)
        norms.append(now.clip_norm)
    share = np.mean([np.mean(lengths <= one) for one in norms[200:]])
    assert share == pytest.approx(quantile, abs=0.03)


def test_adaptive_steps_are_those_of_the_paper():
    code = made("private", clipping="adaptive", quantile=0.3, clip_lr=0.5, noise_multiplier=0)
    _, after = code.at_sum.mean(memory(2.0, 0.0, 1.0), as_row([0.0, 12.0]), POISSON, 40, generator())
    assert after.clip_norm == pytest.approx(2.0 * np.exp(-0.5 * (0.5 + 12 / 40 - 0.3)))


def test_impossible_settings_are_refused():
    with pytest.raises(
        BadInput, match=r"clipping = 'adaptive' needs a server that counts, and dp = 'local' trusts none"
    ):
        made("private", clipping="adaptive", dp="local")


# ---------------------------------------------------------------- secure aggregation


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_secure_bits_are_those_of_its_messages(n):
    """Counted message by message; both ways as Bonawitz et al. add it up."""
    d = 100
    up = down = 0
    up += 2 * KEY_BIT
    down += 2 * (n - 1) * KEY_BIT
    for _ in range(n - 1):
        up += 2 * SHARE_BIT
        down += 2 * SHARE_BIT
    up += d * int(np.ceil(np.log2(n)))  # beside the update itself
    up += n * SHARE_BIT
    found = secure_cost("pairwise", 1.0, 10.0, n, d)
    assert found == (up, down, 10.0 * d * n)
    assert up + down == 2 * n * KEY_BIT + (5 * n - 4) * SHARE_BIT + d * np.ceil(np.log2(n))


def test_a_graph_costs_less_from_some_size_on_and_nothing_is_free():
    for n in (2, 3, 64, 4096):
        pairs, graph = (secure_cost(kind, 2.0, 10.0, n, 50) for kind in ("pairwise", "graph"))
        k = neighbours("graph", 2.0, n)
        assert k == min(int(np.ceil(2 * np.log2(n))), n - 1)
        assert graph <= pairs
        assert (graph < pairs) == (k < n - 1)
    assert secure_cost("none", 2.0, 10.0, 64, 50) == (0, 0, 0)
