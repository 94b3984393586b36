"""The division of a resource with which all jobs end together: KKT conditions, a reference solver, plain searches."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize

from fedcell.solve import equal_finish as solver
from fedcell.solve.equal_finish import Finish, earliest, equal_finish

TIMES = st.lists(
    st.tuples(st.floats(0.0, 1e4), st.floats(1e-9, 1e4)),
    min_size=1,
    max_size=12,
)


def draw(rng, n):
    """Times over many orders of magnitude, some of the fixed ones equal or zero."""
    fixed = 10.0 ** rng.uniform(-6, 3, n) * (rng.random(n) < 0.8)
    return np.where(rng.random(n) < 0.2, fixed[0], fixed), 10.0 ** rng.uniform(-9, 4, n)


def hold(fixed, full, split):
    """Optimality: the resource is used up, no share is negative, and all end at once, hence nobody can end sooner."""
    np.testing.assert_allclose(split.share.sum(), 1.0, rtol=1e-12)
    assert (split.share > 0).all()
    assert (split.share <= 1).all()
    np.testing.assert_allclose(fixed + full / split.share, split.time, rtol=1e-9)
    assert split.time > fixed.max() or np.isclose(split.time, fixed.max(), rtol=1e-12)


# ---------------------------------------------------------------- the division


def test_conditions_of_optimality_in_thousands_of_cases():
    rng = np.random.default_rng(1)
    for _ in range(4000):
        fixed, full = draw(rng, int(rng.integers(1, 25)))
        hold(fixed, full, equal_finish(fixed, full))


@given(TIMES)
def test_conditions_of_optimality(times):
    fixed, full = np.array(times).T
    hold(fixed, full, equal_finish(fixed, full))


@pytest.mark.parametrize("n", [1, 2, 5, 40, 1000])
def test_is_the_root_that_a_reference_finds(n):
    """In extended precision, on the equation as it is printed."""
    rng = np.random.default_rng(n)
    for _ in range(20):
        fixed, full = draw(rng, n)
        long = np.longdouble(fixed)
        top = float((long.max() + np.longdouble(full).sum()) - long.max())

        def over(x, full=full, long=long):
            return float((full / (np.longdouble(x) + (long.max() - long))).sum() - 1)

        x = brentq(over, 1e-300, 2 * top, xtol=1e-300, rtol=1e-14, maxiter=2000)
        np.testing.assert_allclose(equal_finish(fixed, full).time, float(long.max() + x), rtol=1e-9)


def test_agrees_with_a_reference_convex_solver():
    """`min T` over (shares, T) by SLSQP, to a relative 1e-6; its own tolerance is beyond what it can always confirm."""
    rng = np.random.default_rng(3)
    for _ in range(25):
        n = int(rng.integers(2, 9))
        fixed, full = rng.uniform(0.1, 1, n), rng.uniform(0.01, 0.5, n)
        start = np.append(np.full(n, 1 / n), (fixed + n * full).max())
        conditions = [
            {"type": "ineq", "fun": lambda z, a=fixed, c=full: z[-1] - a - c / z[:-1]},
            {"type": "ineq", "fun": lambda z: 1 - z[:-1].sum()},
        ]
        bounds = [(1e-6, 1)] * n + [(0, None)]
        options = {"ftol": 1e-14, "maxiter": 500}
        found = minimize(lambda z: z[-1], start, bounds=bounds, constraints=conditions, options=options)
        split = equal_finish(fixed, full)
        np.testing.assert_allclose(split.time, found.x[-1], rtol=1e-6)
        np.testing.assert_allclose(split.share, found.x[:-1], rtol=1e-5)


def test_the_case_that_the_printed_bracket_gets_wrong():
    """The printed lower end is 0.33, below the latest fixed time; the printed search stops at 0.54."""
    fixed, full = np.array([0.3, 0.6, 0.35]), np.array([0.01, 0.02, 0.05])
    split = equal_finish(fixed, full)
    hold(fixed, full, split)
    assert round(float(split.time), 4) == 0.6254


def test_bisection_finds_the_same(monkeypatch):
    rng = np.random.default_rng(5)
    cases = [draw(rng, 9) for _ in range(200)]
    by_newton = [equal_finish(*case) for case in cases]
    monkeypatch.setattr(solver, "NEWTON_STEPS", 0)
    for case, split in zip(cases, by_newton, strict=True):
        again = equal_finish(*case)
        hold(*case, again)
        np.testing.assert_allclose(again.share, split.share, rtol=1e-9)


def test_one_set_from_anywhere_near_is_the_same():
    rng = np.random.default_rng(12)
    for _ in range(1500):
        fixed, full = draw(rng, int(rng.integers(1, 20)))
        time = float(equal_finish(fixed, full).time)
        for near in (0.0, time * rng.uniform(0, 3), time, 1e6):
            np.testing.assert_allclose(solver._end(fixed, full, near), time, rtol=1e-12)


def test_a_search_that_does_not_end_says_so():
    with pytest.raises(ArithmeticError, match="no root between"):
        solver._bisected(np.array([0.0]), np.array([np.nan]), np.array([0.0]))


def test_closed_forms():
    one = equal_finish(np.array([0.7]), np.array([0.2]))
    np.testing.assert_allclose([float(one.time), float(one.share[0])], [0.9, 1.0], rtol=1e-15)
    full = np.array([0.1, 0.4, 0.3])
    same = equal_finish(np.full(3, 2.0), full)
    np.testing.assert_allclose(same.time, 2.8, rtol=1e-15)
    np.testing.assert_allclose(same.share, full / full.sum(), rtol=1e-14)
    np.testing.assert_allclose(equal_finish(np.zeros(3), full / 2).time, equal_finish(np.zeros(3), full).time / 2)


def test_sets_without_jobs_and_jobs_without_anything_to_share():
    nobody = equal_finish(np.zeros(0), np.zeros(0))
    assert nobody.time == 0
    assert nobody.share.shape == (0,)
    fixed, full = np.array([1.0, 5.0, 2.0]), np.array([0.5, 0.0, 0.0])
    idle = equal_finish(fixed, full)
    assert idle.time == 5.0, "the latest shares nothing, and the others are done by then"
    assert idle.share[1] == idle.share[2] == 0
    busy = equal_finish(np.array([1.0, 1.2]), np.array([0.5, 0.0]))
    np.testing.assert_allclose([float(busy.time), *busy.share], [1.5, 1.0, 0.0], rtol=1e-15)


def test_many_sets_at_once_are_each_of_them():
    rng = np.random.default_rng(2)
    fixed, full = draw(rng, 15)
    member = rng.random((200, 15)) < rng.random((200, 1))
    member[0] = False
    together = equal_finish(fixed, full, member)
    for row in range(200):
        single = equal_finish(fixed[member[row]], full[member[row]])
        np.testing.assert_allclose(together.time[row], single.time, rtol=1e-13)
        np.testing.assert_allclose(together.share[row][member[row]], single.share, rtol=1e-9)
        assert (together.share[row][~member[row]] == 0).all()


@given(TIMES, st.integers(0, 10**6))
def test_no_other_division_ends_sooner(times, seed):
    fixed, full = np.array(times).T
    share = np.random.default_rng(seed).dirichlet(np.ones(len(fixed)))
    with np.errstate(divide="ignore", over="ignore"):
        assert (fixed + full / share).max() >= equal_finish(fixed, full).time * (1 - 1e-12)


@given(TIMES, st.floats(0, 1e4), st.floats(1e-9, 1e4))
def test_more_jobs_take_longer_and_longer_jobs_too(times, more_fixed, more_full):
    fixed, full = np.array(times).T
    alone = equal_finish(fixed, full).time
    joined = equal_finish(np.append(fixed, more_fixed), np.append(full, more_full)).time
    assert joined >= alone * (1 - 1e-14)
    clone = equal_finish(np.append(fixed, fixed[0]), np.append(full, full[0])).time
    assert clone >= alone * (1 - 1e-14)
    assert equal_finish(fixed, 2 * full).time >= alone
    assert equal_finish(fixed + 0.5, full).time > alone


def test_strictly_more_where_the_numbers_can_tell():
    rng = np.random.default_rng(8)
    for _ in range(300):
        fixed, full = rng.uniform(0.1, 1, 6), rng.uniform(0.01, 0.5, 6)
        times = [float(equal_finish(fixed[:n], full[:n]).time) for n in range(1, 7)]
        assert np.all(np.diff(times) > 0)


@given(TIMES)
def test_lies_within_the_printed_bounds(times):
    fixed, full = np.array(times).T
    n, time = len(fixed), float(equal_finish(fixed, full).time)
    assert (n * full.min() + fixed.min()) * (1 - 1e-12) <= time <= (n * full.max() + fixed.max()) * (1 + 1e-12)


def added_time(fixed, full, before, fixed_more, full_more, after):
    """`c_h / (1 + sum_k c_k / (T - a_k) (a_k - a_h) / (T' - a_k))` if a job `h` joins: chen-ch3, Eq. (A.13)."""
    share = full / (before - fixed)
    return full_more / (1.0 + np.sum(share * (fixed - fixed_more) / (after - fixed)))


def test_added_time_is_that_of_the_closed_form():
    rng = np.random.default_rng(4)
    for _ in range(500):
        fixed, full = rng.uniform(0.1, 1, 6), rng.uniform(0.01, 0.5, 6)
        before, after = equal_finish(fixed[:5], full[:5]).time, equal_finish(fixed, full).time
        found = added_time(fixed[:5], full[:5], before, fixed[5], full[5], after)
        np.testing.assert_allclose(found, after - before, rtol=1e-9)


# ---------------------------------------------------------------- sets of jobs


def plain_earliest(fixed, full, n):
    chosen = []
    for _ in range(min(n, len(fixed))):
        rest = [k for k in range(len(fixed)) if k not in chosen]
        times = [float(equal_finish(fixed[[*chosen, k]], full[[*chosen, k]]).time) for k in rest]
        chosen.append(rest[int(np.argmin(times))])
    return chosen


@pytest.mark.parametrize("levels", [0, 5])
def test_earliest_is_plain_greedy(levels):
    rng = np.random.default_rng(6)
    for _ in range(60):
        n = int(rng.integers(1, 14))
        fixed = rng.uniform(0.1, 1, n) if not levels else rng.choice(np.linspace(0.2, 0.4, levels), n)
        full = rng.uniform(0.01, 0.5, n)
        found = earliest(fixed, full, int(rng.integers(1, 16)))
        assert found.tolist() == plain_earliest(fixed, full, len(found))
        assert len(found) == len(set(found.tolist()))


def test_earliest_of_equal_jobs_takes_the_first():
    assert earliest(np.full(5, 0.2), np.full(5, 0.1), 3).tolist() == [0, 1, 2]
    assert earliest(np.zeros(0), np.zeros(0), 3).tolist() == []


def test_earliest_is_near_the_best_set():
    rng, worst = np.random.default_rng(7), 1.0
    for _ in range(40):
        fixed, full = rng.uniform(0.1, 1, 8), rng.uniform(0.01, 0.5, 8)
        best = min(float(equal_finish(fixed[list(s)], full[list(s)]).time) for s in combinations(range(8), 3))
        found = earliest(fixed, full, 3)
        worst = max(worst, float(equal_finish(fixed[found], full[found]).time) / best)
    assert worst < 1.1, "a heuristic: no guarantee, but far off would be a mistake"


@pytest.mark.parametrize("shared", [True, False])
def test_a_set_that_changes_is_timed_as_if_it_were_new(shared):
    rng = np.random.default_rng(9)
    fixed, full = draw(rng, 12)
    full = np.where(shared | (rng.random(12) < 0.5), full, 0.0)
    tracked = Finish(fixed, full, np.zeros(12, dtype=bool))
    for _ in range(200):
        job = int(rng.integers(12))
        after = tracked.member.copy()
        after[job] = not after[job]
        wanted = float(equal_finish(fixed[after], full[after]).time)
        if rng.random() < 0.5:
            np.testing.assert_allclose(tracked.flipped(job), wanted, rtol=1e-13)
            tracked.flipped(int(rng.integers(12)))  # another question between must not be mistaken for this one
        tracked.flip(job)
        np.testing.assert_allclose(tracked.value, wanted, rtol=1e-13)
        assert (tracked.member == after).all()
