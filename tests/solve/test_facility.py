"""Sites that stand for points, against plain loops and every subset."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.solve import facility
from fedcell.solve.double_greedy import Sum, double_greedy
from fedcell.solve.equal_finish import Finish


def points(rng, n, size=3, groups=None):
    rows = rng.normal(size=(n, size))
    return rows if groups is None else rows[np.arange(n) % groups]


def apart(rows):
    return np.linalg.norm(rows[:, None] - rows, axis=2)


def plain_cost(distance, chosen):
    if not len(chosen):
        return sum(max(row) for row in distance)
    return sum(min(row[h] for h in chosen) for row in distance)


def plain_greedy(distance, n):
    chosen = []
    for _ in range(n):
        rest = [h for h in range(distance.shape[1]) if h not in chosen]
        least = distance[:, chosen].min(axis=1) if chosen else distance.max(axis=1)
        gains = [np.maximum(least - np.ascontiguousarray(distance[:, h]), 0.0).sum() for h in rest]
        chosen.append(rest[int(np.argmax(gains))])
    return chosen


SEEDS = st.integers(0, 10**6)


@given(SEEDS, st.integers(1, 12), st.integers(1, 12))
def test_cost_and_weights_are_those_of_a_plain_loop(seed, n_points, n_sites):
    rng = np.random.default_rng(seed)
    distance = rng.random((n_points, n_sites))
    chosen = rng.permutation(n_sites)[: int(rng.integers(0, n_sites + 1))]
    np.testing.assert_allclose(facility.cost(distance, chosen), plain_cost(distance, chosen), rtol=1e-12)
    mask = np.zeros(n_sites, dtype=bool)
    mask[chosen] = True
    np.testing.assert_allclose(facility.cost(distance, mask), plain_cost(distance, chosen), rtol=1e-12)
    if len(chosen):
        weight = facility.weights(distance, chosen)
        assert weight.sum() == n_points
        nearest = [min(sorted(chosen), key=lambda h: row[h]) for row in distance]
        assert weight.tolist() == [nearest.count(h) for h in chosen]


@given(SEEDS)
def test_falls_with_the_set_and_gains_less_the_larger_it_is(seed):
    rng = np.random.default_rng(seed)
    distance = apart(points(rng, 9))
    order = rng.permutation(9)
    small, large = np.sort(rng.integers(0, 9, 2))
    s1, s2, more = order[:small], order[:large], order[large:]
    assert facility.cost(distance, s1) >= facility.cost(distance, s2) - 1e-12
    for site in more:
        gain1 = facility.cost(distance, s1) - facility.cost(distance, np.append(s1, site))
        gain2 = facility.cost(distance, s2) - facility.cost(distance, np.append(s2, site))
        assert gain1 >= gain2 - 1e-12
        assert gain2 >= -1e-12
    assert facility.cost(distance, order) == 0


@given(SEEDS, st.floats(0.1, 50))
def test_ignores_a_common_shift_and_grows_with_the_scale(seed, scale):
    rng = np.random.default_rng(seed)
    rows, chosen = points(rng, 8), rng.permutation(8)[:3]
    moved = facility.cost(apart(rows + rng.normal(size=3)), chosen)
    np.testing.assert_allclose(moved, facility.cost(apart(rows), chosen), rtol=1e-9)
    np.testing.assert_allclose(facility.cost(apart(scale * rows), chosen), scale * facility.cost(apart(rows), chosen))


@given(SEEDS, st.integers(1, 9))
def test_bounds_the_error_of_the_weighted_sum(seed, size):
    rng = np.random.default_rng(seed)
    rows, chosen = points(rng, 10, 4), rng.permutation(10)[:size]
    distance = apart(rows)
    weighted = facility.weights(distance, chosen) @ rows[chosen]
    assert np.linalg.norm(rows.sum(axis=0) - weighted) <= facility.cost(distance, chosen) * (1 + 1e-12) + 1e-12
    assert (facility.weights(distance, chosen) >= 1).all(), "distinct points stand for themselves"


# ---------------------------------------------------------------- greedy


@given(SEEDS, st.integers(1, 20), st.booleans())
def test_lazy_greedy_is_plain_greedy(seed, n, ties):
    rng = np.random.default_rng(seed)
    distance = apart(points(rng, n)) if not ties else rng.integers(0, 4, (n + 2, n)).astype(float)
    k = int(rng.integers(1, n + 1))
    assert facility.greedy(distance, k).tolist() == plain_greedy(distance, k)


def test_greedy_begins_with_the_medoid_and_takes_no_more_than_there_are():
    distance = apart(points(np.random.default_rng(1), 15))
    assert facility.greedy(distance, 1)[0] == np.argmin(distance.sum(axis=0))
    assert sorted(facility.greedy(distance, 99).tolist()) == list(range(15))
    assert facility.greedy(np.zeros((0, 3)), 2).tolist() == [0, 1], "nobody to stand for"


def test_one_of_every_group_stands_for_all():
    rng = np.random.default_rng(2)
    rows = points(rng, 20, 6, groups=5)
    distance = apart(rows)
    chosen = facility.greedy(distance, 5)
    assert facility.cost(distance, chosen) == 0
    assert facility.weights(distance, chosen).tolist() == [4] * 5
    np.testing.assert_allclose(facility.weights(distance, chosen) @ rows[chosen] / 20, rows.mean(axis=0))


def test_greedy_keeps_its_guarantee():
    rng, nobody = np.random.default_rng(3), np.zeros(0, dtype=int)
    for _ in range(40):
        distance = apart(points(rng, 8))
        best = min(facility.cost(distance, np.array(s)) for s in combinations(range(8), 3))
        empty, found = facility.cost(distance, nobody), facility.cost(distance, facility.greedy(distance, 3))
        assert empty - found >= (1 - 1 / np.e) * (empty - best)


# ---------------------------------------------------------------- sets that change, double greedy


def test_a_set_that_changes_costs_as_if_it_were_new():
    rng = np.random.default_rng(4)
    for ties in (False, True):
        distance = rng.integers(0, 4, (14, 10)).astype(float) if ties else rng.random((14, 10))
        tracked = facility.Cover(distance, np.ones(10, dtype=bool))
        for _ in range(300):
            site = int(rng.integers(10))
            after = tracked.member.copy()
            after[site] = not after[site]
            np.testing.assert_allclose(tracked.flipped(site), facility.cost(distance, after), rtol=1e-12)
            tracked.flip(site)
            np.testing.assert_allclose(tracked.value, facility.cost(distance, after), rtol=1e-12)


def tracked(distance, fixed, full, rho1, rho2, on):
    member = np.full(len(fixed), on)
    return Sum(member, [(rho1, facility.Cover(distance, member)), (rho2, Finish(fixed, full, member))])


def run(case, rng):
    n = len(case[1])
    small, large = (tracked(*case, on) for on in (False, True))
    chosen = double_greedy(small, large, rng.permutation(n), rng.random(n))
    assert (small.member == large.member).all(), "both ends meet"
    np.testing.assert_allclose(small.value, large.value, rtol=1e-9)
    return chosen


def value(case, chosen):
    distance, fixed, full, rho1, rho2 = case
    return rho1 * facility.cost(distance, chosen) + rho2 * Finish(fixed, full, chosen).value


def instance(rng, n, rho1, rho2, fixed=True):
    times = rng.uniform(0.1, 1, n) if fixed else np.zeros(n)
    return apart(points(rng, n)), times, rng.uniform(0.05, 0.5, n), rho1, rho2


def plain_double_greedy(case, order, uniform):
    """As written down, with every value from scratch."""
    n = len(case[1])
    s1, s2 = np.zeros(n, dtype=bool), np.ones(n, dtype=bool)
    for k, lot in zip(order, uniform, strict=True):
        with_k, without_k = s1.copy(), s2.copy()
        with_k[k], without_k[k] = True, False
        a = max(value(case, s1) - value(case, with_k), 0.0)
        b = max(value(case, s2) - value(case, without_k), 0.0)
        if lot < (1.0 if a + b == 0 else a / (a + b)):
            s1 = with_k
        else:
            s2 = without_k
    assert (s1 == s2).all()
    return s1


def test_double_greedy_is_the_plain_one():
    rng = np.random.default_rng(5)
    for _ in range(60):
        n = int(rng.integers(1, 12))
        case = instance(rng, n, rng.uniform(0, 0.5), 1.0)
        order, uniform = rng.permutation(n), rng.random(n)
        found = double_greedy(tracked(*case, False), tracked(*case, True), order, uniform)
        assert (found == plain_double_greedy(case, order, uniform)).all()


def test_double_greedy_with_one_weight_alone():
    rng = np.random.default_rng(6)
    assert run(instance(rng, 9, 1.0, 0.0), rng).all(), "only the error counts: everybody"
    assert not run(instance(rng, 9, 0.0, 1.0), rng).any(), "only the time counts: nobody"


def test_double_greedy_is_as_good_as_promised_where_time_is_additive():
    """`E[R(S)] <= (2 R(best) + R(nobody) + R(all)) / 4`; the statement that holds when no job has a fixed part."""
    rng = np.random.default_rng(7)
    for _ in range(8):
        n = int(rng.integers(3, 8))
        case = instance(rng, n, 0.3, 1.0, fixed=False)
        every = [np.array([bool(code >> k & 1) for k in range(n)]) for code in range(2**n)]
        values = [value(case, chosen) for chosen in every]
        bound = (2 * min(values) + values[0] + values[-1]) / 4
        assert np.mean([value(case, run(case, rng)) for _ in range(60)]) <= bound


def test_more_weight_on_the_error_picks_more():
    rng = np.random.default_rng(8)
    sizes = []
    for rho1 in (0.003, 0.03, 0.1, 0.3, 3.0):
        sizes.append(np.mean([run(instance(np.random.default_rng(k), 15, rho1, 1.0), rng).sum() for k in range(60)]))
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0] + 3


@pytest.mark.parametrize("n", [1, 2])
def test_double_greedy_of_very_few(n):
    rng = np.random.default_rng(n)
    assert run(instance(rng, n, 1.0, 0.001), rng).shape == (n,)
