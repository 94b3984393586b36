"""The closed forms against the reference vectors of the specification, plain sums and Monte Carlo."""

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
LAND = cafe.Landscape(smoothness=1.0, convexity=0.1, heterogeneity=0.5, noise=1.0, distance=4.0)
BOUNDS = {  # N, M, T: (13) at t = 1, 100, 1000 and (16) at 100, 1000; eta at 1, 100, 1000
    (100, 1, 0.5): ((21.142857, 3.7, 0.435294, 11.222574, 1.122257), (0.909091, 0.165289, 0.0195886)),
    (100, 33, 0.5): ((11.937606, 2.228379, 0.265475, 6.700598, 0.67006), (0.915689, 0.176999, 0.0212390)),
    (100, 40, 0.5): ((12.05483, 3.607023, 0.48937, 11.695188, 1.169519), (0.953779, 0.290086, 0.0395970)),
    (10, 3, 0.5): ((14.885948, 3.032971, 0.368139, 8.474688, 0.847469), (0.924048, 0.194143, 0.0237312)),
}
AGU = {  # M: successes of 1000 rounds, gradients, wastage of MCU, AGU literal, AGU union; N = 100, T = 0.3
    27: (440.1, 1.290, 59.207, 56.606, 50.4995),
    29: (273.9, 1.633, 100.115, 94.168, 81.127),
    31: (148.1, 2.421, 192.691, 178.665, 150.061),
    33: (69.1, 4.405, 423.775, 388.449, 321.626),
    35: (27.7, 9.985, 1071.129, 973.190, 801.587),
}
RATES = [0.5, 0.5, 1.0, 2.0, 4.0]
UNEQUAL = {  # M: success, wastage, ages; T = 0.5
    1: (0.981684, 1.358556, 2.510406, 2.510406, 1.520747, 1.040988, 0.828259),
    2: (0.810907, 1.749968, 2.564846, 2.564846, 1.560315, 1.082433, 0.918767),
}

sizes = st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n)))
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


@given(sizes, chances)
def test_participation_weight_is_the_sum_it_replaces(size, p):
    n, quorum = size
    m = np.arange(quorum - 1, n)
    terms = [math.comb(n - 1, k) * p ** (k + 1) * (1 - p) ** (n - 1 - k) / (k + 1) for k in m]
    weight = float(cafe.participation_weight(n, quorum, p))
    assert weight * n == pytest.approx(n * math.fsum(terms), abs=1e-12)
    s = float(cafe.participation(n, quorum, p))
    assert s <= p * (1 + 1e-12)
    assert s / n * (1 - 1e-9) <= weight <= s / quorum * (1 + 1e-9)


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


def test_rare_events_keep_their_digits():
    assert cafe.success(100, 100, 1e-3) == pytest.approx(1e-300, rel=1e-9)
    assert cafe.answer_probability(1e-18, 1.0) == pytest.approx(1e-18)
    assert cafe.metrics(100, 100, 40.0, cafe.answer_probability(40.0, 1.0)).wastage_s < 1e-10
    assert cafe.metrics(5, 5, 1.0, 0.0).age_s == math.inf


@pytest.mark.parametrize("setting", BOUNDS)
def test_reference_bounds(setting):
    n, quorum, deadline = setting
    p = float(cafe.answer_probability(deadline, 1.0))
    bounds, steps = BOUNDS[setting]
    got = [*cafe.bound_exact([1, 100, 1000], n, quorum, p, LAND), *cafe.bound_age([100, 1000], n, quorum, p, LAND)]
    assert got == pytest.approx(bounds, abs=1e-6)
    ok = cafe.success(n, quorum, p)
    assert cafe.step_size([1, 100, 1000], 1.0, 0.1, ok) == pytest.approx(steps, rel=1e-5)
    assert (cafe.bound_exact([1, 100], n, quorum, p, LAND, sharp_noise=True) <= bounds[:2]).all()


@pytest.mark.parametrize(("deadline", "share"), [(0.1, 0.11809), (0.5, 0.02582), (2.0, 0.01158)])
def test_sharper_noise_share(deadline, share):
    p = float(cafe.answer_probability(deadline, 1.0))
    assert cafe.inverse_responders(100, 1, p) == pytest.approx(share, abs=5e-6)
    calm = LAND._replace(noise=0.0)
    for land, quorum in ((LAND, 1), (calm, 30)):
        sharp = cafe.bound_exact(10, 100, quorum, p, land, sharp_noise=True)
        blunt = cafe.bound_exact(10, 100, quorum, p, land)
        assert (sharp < blunt) if land.noise else (sharp == pytest.approx(blunt))


@pytest.mark.parametrize("quorum", AGU)
def test_reference_accumulated_gradients(quorum):
    p = cafe.answer_probability(0.3, 1.0)
    got = [
        1000 * cafe.success(100, quorum, p),
        cafe.accumulated_gradients(100, quorum, p),
        cafe.metrics(100, quorum, 0.3, p).wastage_s,
        cafe.accumulated_wastage_s(100, quorum, 0.3, p),
        cafe.accumulated_wastage_s(100, quorum, 0.3, p, union=True),
    ]
    for one, expected, digits in zip(got, AGU[quorum], (0.05, 5e-4, 5e-4, 5e-4, 5e-4), strict=True):
        assert one == pytest.approx(expected, abs=digits * 1.01)


@pytest.mark.parametrize("quorum", UNEQUAL)
def test_reference_unequal_rates(quorum):
    p = cafe.answer_probability(0.5, RATES)
    got = cafe.unequal_metrics(quorum, 0.5, p)
    assert [got.success, got.wastage_s, *got.age_s] == pytest.approx(UNEQUAL[quorum], abs=1e-6)


def test_equal_rates_are_a_special_case():
    p = float(cafe.answer_probability(0.5, 1.0))
    assert cafe.poisson_binomial([p] * 9).sum() == pytest.approx(1)
    equal, unequal = cafe.metrics(9, 4, 0.5, p), cafe.unequal_metrics(4, 0.5, [p] * 9)
    assert unequal.age_s == pytest.approx([float(equal.age_s)] * 9)
    assert unequal[:3] == pytest.approx(tuple(map(float, equal[:3])))


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


def test_unequal_metrics_agree_with_play():
    p = cafe.answer_probability(0.5, RATES)
    ok, waste, communication, age = played(p, 2, 0.5, 200_000)
    got = cafe.unequal_metrics(2, 0.5, p)
    assert [ok, waste, communication, *age] == pytest.approx([*map(float, got[:3]), *got.age_s], rel=0.015)


@pytest.mark.parametrize("union", [False, True])
def test_accumulated_wastage_agrees_with_play(union):
    p, n, quorum, deadline = 0.25, 20, 6, 2.0
    answers = np.random.default_rng(3).random((100_000, n)) < p
    count, spent, used, successes, summed = np.zeros(n), 0.0, 0.0, 0, 0.0
    for round in answers:
        count += round
        spent += n
        if round.sum() >= quorum:
            used += count.sum() if union else count[round].sum()
            summed += count[round].mean()
            successes += 1
            count[:] = 0
    expected = cafe.accumulated_wastage_s(n, quorum, deadline, p, union=union)
    assert deadline * (spent - used) / successes == pytest.approx(expected, rel=0.01)
    if not union:
        assert summed / successes == pytest.approx(cafe.accumulated_gradients(n, quorum, p), rel=0.01)


@pytest.mark.parametrize("quorum", [1, 8, 12])
def test_quadratics_stay_below_the_bound(quorum):
    """`F_k = |w - c_k|^2 / 2`, so `L = mu = 1`: the mean gap of many runs at the theory's own step sizes."""
    rng, n, p, runs = np.random.default_rng(1), 20, float(cafe.answer_probability(0.5, 1.0)), 200
    centre = rng.normal(size=(n, 2))
    best = centre.mean(axis=0)
    ok = cafe.success(n, quorum, p)
    w = np.full((runs, 2), 2.0)
    spread, away = 0.5 * ((centre - best) ** 2).sum(axis=1).mean(), ((w[0] - best) ** 2).sum()
    land = cafe.Landscape(1.0, 1.0, float(spread), 0.5, float(away))
    for t in range(1, 201):
        answered = rng.random((runs, n)) < p
        count = answered.sum(axis=1)
        noise = rng.normal(scale=0.5, size=(runs, n, 2))  # variance 0.25 per axis
        gradient = w[:, None] - centre + noise
        mean = (answered[:, :, None] * gradient).sum(axis=1) / np.maximum(count, 1)[:, None]
        w = np.where((count >= quorum)[:, None], w - cafe.step_size(t, 1.0, 1.0, ok) * mean, w)
        if t in (1, 10, 100, 200):
            gap = 0.5 * ((w - best) ** 2).sum(axis=1).mean()
            assert gap < cafe.bound_exact(t, n, quorum, p, land)
