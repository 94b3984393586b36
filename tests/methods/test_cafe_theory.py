"""The closed forms against the reference vectors of the specification, plain sums and Monte Carlo."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.methods.cafe import theory as cafe

VECTORS = {  # N, M, T: success, wastage, communication, s, age, g
    (2, 1, 1.0): (0.864665, 0.850918, 1.15652, 0.632121, 2.08198, 1),
    (2, 2, 1.0): (0.399576, 3.0053, 2.50265, 0.399576, 3.00265, 1.26424),
    (10, 3, 0.5): (0.82195, 3.87142, 1.21662, 0.363578, 1.62522, 2.77209),
    (10, 5, 0.5): (0.35061, 11.4498, 2.85217, 0.197116, 2.78658, 2.50485),
    (50, 1, 0.1): (0.993262, 4.55488, 1.00678, 0.0951626, 1.10083, 1),
    (100, 1, 0.1): (0.999955, 9.04878, 1.00005, 0.0951626, 1.10083, 1),
    (100, 1, 0.5): (1, 30.3265, 1, 0.393469, 1.52075, 1),
    (100, 1, 1.0): (1, 36.7879, 1, 0.632121, 2.08198, 1),
    (100, 1, 2.0): (1, 27.0671, 1, 0.864665, 3.31304, 1),
    (100, 30, 0.5): (0.979559, 31.2489, 1.02087, 0.387798, 1.53933, 29.5676),
    (100, 33, 0.5): (0.920741, 34.2427, 1.08608, 0.369427, 1.60345, 30.9836),
    (100, 40, 0.5): (0.484604, 81.4884, 2.06354, 0.210207, 2.62861, 21.3696),
    (100, 50, 0.5): (0.0196753, 2515.58, 50.8252, 0.0101068, 49.7218, 1.28432),
}

STEP_SIZES = {  # N, M, T: eta at t = 1, 100, 1000 with L = 1, mu = 0.1
    (100, 1, 0.5): (0.909091, 0.165289, 0.0195886),
    (100, 33, 0.5): (0.915689, 0.176999, 0.0212390),
    (100, 40, 0.5): (0.953779, 0.290086, 0.0395970),
    (10, 3, 0.5): (0.924048, 0.194143, 0.0237312),
}

chances = st.floats(1e-6, 1 - 1e-6)


@pytest.mark.parametrize("setting", VECTORS)
def test_reference_metrics(setting):
    n, quorum, deadline = setting
    p = cafe.answer_probability(deadline, 1.0)
    got = cafe.metrics(n, quorum, deadline, p)
    s, g = cafe.participation(n, quorum, p), cafe.noise_gain(n, quorum, p)
    assert [got.success, got.wastage_s, got.communication, s, got.age_s, g] == pytest.approx(VECTORS[setting], rel=6e-6)


def test_grids_are_one_call():
    quorum, deadline = np.arange(1, 101)[:, None], np.array([0.1, 0.2, 0.3, 0.5, 1, 2])
    p = cafe.answer_probability(deadline, 1.0)
    grid = cafe.noise_gain(100, quorum, p)
    assert (grid.argmax(axis=0) + 1).tolist() == [8, 15, 22, 33, 56, 80]
    assert grid.max(axis=0) == pytest.approx([6.7377, 13.1910, 19.4347, 30.9836, 53.3440, 78.1444], rel=1e-5)
    got = cafe.metrics(100, quorum, deadline, p)
    assert {part.shape for part in got} == {(100, 6)}
    assert got.age_s[32, 3] == pytest.approx(1.60345, rel=6e-6)


@given(st.integers(2, 60), chances, st.floats(0.01, 10))
def test_a_larger_quorum_never_helps_at_a_fixed_deadline(n, p, deadline):
    got = cafe.metrics(n, np.arange(1, n + 1), deadline, p)
    for part in got[1:]:
        assert (part[1:] >= part[:-1] * (1 - 1e-9)).all()
    assert (np.diff(got.success) <= 1e-15).all()
    assert (got.communication >= 1).all()
    assert (got.age_s >= 1.5 * deadline * (1 - 1e-12)).all()
    assert (got.wastage_s >= 0).all()


@given(st.integers(1, 200), st.floats(0.01, 20), st.floats(0.01, 100))
def test_closed_forms_of_the_least_and_the_largest_quorum(n, deadline, scale):
    p = cafe.answer_probability(deadline, 1.0)
    one = cafe.metrics(n, 1, deadline, p)
    by_hand = n * deadline * math.exp(-deadline) / -math.expm1(-n * deadline)
    assert one.wastage_s == pytest.approx(by_hand, rel=1e-6, abs=1e-9)
    assert cafe.participation(n, 1, p) == pytest.approx(p)
    assert cafe.success(n, n, p) == pytest.approx(p**n)
    assert cafe.participation(n, n, p) == pytest.approx(p**n)
    slow = cafe.metrics(n, 1, deadline * scale, cafe.answer_probability(deadline * scale, 1 / scale))
    assert slow.communication == pytest.approx(one.communication)
    assert [slow.wastage_s, slow.age_s] == pytest.approx([scale * one.wastage_s, scale * one.age_s], rel=1e-9)


@pytest.mark.parametrize("setting", STEP_SIZES)
def test_reference_step_sizes(setting):
    n, quorum, deadline = setting
    ok = cafe.success(n, quorum, cafe.answer_probability(deadline, 1.0))
    assert cafe.step_size([1, 100, 1000], 1.0, 0.1, ok) == pytest.approx(STEP_SIZES[setting], rel=1e-5)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_how_many_of_unequal_clients_answer(p):
    law = np.zeros(len(p) + 1)
    for answers in itertools.product((False, True), repeat=len(p)):
        law[sum(answers)] += math.prod(q if yes else 1 - q for q, yes in zip(p, answers, strict=True))
    np.testing.assert_allclose(cafe.poisson_binomial(p), law, atol=1e-12)


def test_rare_events_keep_their_digits():
    assert cafe.success(100, 100, 1e-3) == pytest.approx(1e-300, rel=1e-9)
    assert cafe.answer_probability(1e-18, 1.0) == pytest.approx(1e-18)
    assert cafe.metrics(100, 100, 40.0, cafe.answer_probability(40.0, 1.0)).wastage_s < 1e-10
    assert cafe.metrics(5, 5, 1.0, 0.0).age_s == math.inf


# ---------------------------------------------------------------- Monte Carlo


def played(p, quorum, deadline, rounds, seed=5):
    """Responder counts, per-client success marks and saw-tooth ages of many rounds, by the definition."""
    answers = np.random.default_rng(seed).random((rounds, len(p))) < p
    n = answers.sum(axis=1)
    ok = n >= quorum
    waste = deadline * np.where(ok, len(p) - n, len(p)).sum() / ok.sum()
    last = np.maximum.accumulate(np.where(answers & ok[:, None], np.arange(rounds)[:, None] + 1, 0), axis=0)
    begins = np.vstack([np.zeros((1, len(p)), int), last[:-1]])  # rounds since the last contribution, at each start
    age = deadline * (np.arange(rounds)[:, None] - begins + 1) + deadline / 2
    return ok.mean(), waste, 1 / ok.mean(), age.mean(axis=0)


@pytest.mark.parametrize(("n", "quorum", "deadline"), [(10, 3, 0.5), (10, 5, 0.5), (100, 33, 0.5), (100, 27, 0.3)])
def test_metrics_agree_with_play(n, quorum, deadline):
    p = float(cafe.answer_probability(deadline, 1.0))
    ok, waste, communication, age = played(np.full(n, p), quorum, deadline, 2_000_000 // n)
    got = cafe.metrics(n, quorum, deadline, p)
    assert [ok, waste, communication, age.mean()] == pytest.approx([float(part) for part in got], rel=0.02)
