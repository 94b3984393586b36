"""Jobs one after the other: against every order, and the searches that are told to use it."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.solve.equal_finish import Finish, earliest
from fedcell.solve.in_series import in_series, without_each

JOBS = st.lists(st.tuples(st.floats(0.0, 10.0), st.floats(0.0, 10.0)), min_size=1, max_size=5)


def ends(fixed, full, order) -> float:
    """When the last job ends in an order: a plain loop."""
    free = 0.0
    for k in order:
        free = max(free, fixed[k]) + full[k]
    return free


@given(JOBS)
def test_no_order_ends_sooner(jobs):
    fixed, full = np.array(jobs).T
    best = min(ends(fixed, full, order) for order in permutations(range(len(fixed))))
    assert in_series(fixed, full) == pytest.approx(best, rel=1e-12)


def test_many_sets_at_once_and_none():
    rng = np.random.default_rng(1)
    fixed, full = rng.random((2, 7, 4))
    np.testing.assert_array_equal(in_series(fixed, full), [in_series(*pair) for pair in zip(fixed, full, strict=True)])
    assert in_series(np.zeros(0), np.zeros(0)) == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_greedy_takes_the_job_with_which_the_set_ends_soonest(seed):
    """Jobs that others undercut are never tried; a plain greedy that tries all finds a set that ends no sooner."""
    fixed, full = np.random.default_rng(seed).random((2, 12))
    for n in range(1, 6):
        found = earliest(fixed, full, n, in_series)
        plain: list[int] = []
        for _ in range(n):
            rest = [k for k in range(12) if k not in plain]
            plain.append(min(rest, key=lambda k: float(in_series(fixed[[*plain, k]], full[[*plain, k]]))))
        assert in_series(fixed[found], full[found]) == pytest.approx(in_series(fixed[plain], full[plain]))


def test_a_set_that_changes_by_one_job():
    rng = np.random.default_rng(3)
    fixed, full = rng.random((2, 6))
    finish, member = Finish(fixed, full, np.zeros(6, dtype=bool), in_series), np.zeros(6, dtype=bool)
    for job in rng.integers(0, 6, 40).tolist():
        member[job] = not member[job]
        assert finish.flipped(job) == in_series(fixed[member], full[member])
        finish.flip(job)
        assert finish.value == in_series(fixed[member], full[member])


def test_it_is_not_submodular():
    """What a job adds may grow with the set, so the bound of double greedy does not carry over from shared bands."""
    rng, grows = np.random.default_rng(5), 0
    for _ in range(200):
        fixed, full = rng.random((2, 4))

        def added(job, subset, fixed=fixed, full=full):
            before, after = list(subset), [*subset, job]
            return in_series(fixed[after], full[after]) - in_series(fixed[before], full[before])

        grows += any(added(0, large) > added(0, large[:1]) + 1e-9 for large in combinations((1, 2, 3), 2))
    assert grows > 0


@given(JOBS)
def test_without_each_is_each_set_without_one(jobs):
    fixed, full = np.array(jobs).T
    expected = [in_series(np.delete(fixed, k), np.delete(full, k)) for k in range(len(fixed))]
    np.testing.assert_allclose(without_each(fixed, full), expected, rtol=1e-12, atol=1e-12)
