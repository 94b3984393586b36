"""Means, intervals and paired tests against SciPy, and step functions against a plain loop."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from fedcell.report.bands import MOST_POINTS, band, between
from fedcell.report.paired import difference, estimate

NUMBERS = st.floats(-1e3, 1e3).map(lambda value: round(value, 3))
LEVELS = st.sampled_from([0.8, 0.9, 0.95, 0.99])


def pairs(least=2):
    return st.integers(least, 12).flatmap(
        lambda n: st.tuples(arrays(float, n, elements=NUMBERS), arrays(float, n, elements=NUMBERS))
    )


@given(arrays(float, st.integers(2, 12), elements=NUMBERS), LEVELS)
def test_interval_is_that_of_scipy(values, confidence):
    found = estimate(values, confidence)
    spread = stats.sem(values)
    low, high = stats.t.interval(confidence, len(values) - 1, values.mean(), spread) if spread else 2 * (values.mean(),)
    assert found == pytest.approx((values.mean(), low, high, len(values)), rel=1e-9, abs=1e-9)


def test_interval_by_hand():
    found = estimate(np.array([1.0, 2.0, 3.0]))
    half = 4.302652729911275 / math.sqrt(3)  # t(0.975, 2) s / sqrt(n) with s = 1
    assert found == pytest.approx((2.0, 2.0 - half, 2.0 + half, 3))


@given(pairs())
def test_paired_test_is_that_of_scipy(both):
    values, reference = both
    found = difference(values, reference)
    if np.ptp(values - reference) > 1e-6:
        expected = stats.ttest_rel(values, reference)
        interval = expected.confidence_interval(0.95)
        assert found.p == pytest.approx(expected.pvalue, rel=1e-6)
        assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9, abs=1e-9)


@given(pairs(), NUMBERS)
def test_a_shift_of_both_sides_leaves_the_difference(both, shift):
    values, reference = both
    one, other = difference(values, reference), difference(values + shift, reference + shift)
    assert other[:3] == pytest.approx(one[:3], rel=1e-9, abs=1e-8)
    assert (one.p == pytest.approx(other.p, rel=1e-3)) or np.ptp(values - reference) < 1e-6


@given(pairs(), st.randoms())
def test_the_order_of_pairs_does_not_matter(both, random):
    order = list(range(len(both[0])))
    random.shuffle(order)
    one, other = difference(*both), difference(both[0][order], both[1][order])
    assert other == pytest.approx(one, rel=1e-9, abs=1e-9, nan_ok=True)
    back = difference(both[1], both[0])
    assert back.mean == pytest.approx(-one.mean)
    assert (back.low, back.high) == pytest.approx((-one.high, -one.low))


def test_one_seed_has_no_interval_and_no_test():
    found = difference(np.array([0.9]), np.array([0.7]))
    assert found.mean == pytest.approx(0.2)
    assert found.n == 1
    assert np.isnan(found[1:4]).all()
    assert np.isnan(estimate(np.array([]))[:3]).all()


def test_equal_differences_leave_nothing_to_test():
    assert math.isnan(difference(np.array([0.9, 0.8]), np.array([0.9, 0.8])).p)
    gap = difference(np.array([1.1, 2.1, 3.1]), np.array([1.0, 2.0, 3.0]))
    assert math.isnan(gap.p)
    assert gap.mean == pytest.approx(0.1)


def test_pairs_without_one_side_are_left_out():
    nan = math.nan
    found = difference(np.array([1.0, nan, 3.0, 4.0]), np.array([0.0, 1.0, nan, 1.0]))
    assert (found.mean, found.n) == (2.0, 2)


# ---------------------------------------------------------------- means of curves


def curve_of(gaps, values):
    n = min(len(gaps), len(values))
    return np.cumsum(gaps[:n]).astype(float), np.array(values[:n])


CURVES = st.builds(
    curve_of, st.lists(st.integers(0, 3), min_size=1, max_size=8), st.lists(NUMBERS, min_size=1, max_size=8)
)


@given(CURVES)
def test_a_curve_passes_through_its_points_and_straight_between_them(curve):
    cost, values = curve
    held = dict(zip(cost.tolist(), values.tolist(), strict=True))  # the last at each cost
    points = sorted(held)
    assert between(cost, values, np.array(points)) == pytest.approx([held[point] for point in points])
    for left, right in itertools.pairwise(points):
        (middle,) = between(cost, values, np.array([(left + right) / 2]))
        assert middle == pytest.approx((held[left] + held[right]) / 2, rel=1e-9, abs=1e-9)


@given(st.lists(CURVES, min_size=1, max_size=4))
def test_band_is_the_mean_of_curves_where_all_seeds_are(curves):
    found = band(curves)
    begin = max(cost[0] for cost, _ in curves)
    end = min(cost[-1] for cost, _ in curves)
    points = sorted({float(spent) for cost, _ in curves for spent in cost if begin <= spent <= end})
    assert found.cost.tolist() == points
    for at, mean, low, high in zip(*found[:4], strict=True):
        held = np.array([between(cost, values, np.array([at]))[0] for cost, values in curves])
        assert (mean, low, high) == pytest.approx(estimate(held)[:3], nan_ok=True, rel=1e-9, abs=1e-9)


def test_seeds_that_learn_alike_at_other_times_have_a_smooth_mean():
    """A staircase would jump at every cost of every seed; the mean of straight lines is as straight as they are."""
    slow, fast = (np.array([1.0, 3.0, 5.0]), np.array([1.0, 3.0, 5.0])), (np.array([2.0, 4.0]), np.array([2.0, 4.0]))
    found = band([slow, fast])
    assert found.cost.tolist() == [2.0, 3.0, 4.0]
    assert found.mean.tolist() == [2.0, 3.0, 4.0]
    assert (found.high - found.low).tolist() == [0.0, 0.0, 0.0]


def test_seeds_that_share_no_cost_have_no_mean():
    one, other = (np.array([1.0, 2.0]), np.array([0.1, 0.2])), (np.array([3.0, 4.0]), np.array([0.1, 0.2]))
    found = band([one, other])
    assert [len(part) for part in found[:4]] == [0, 0, 0, 0]


def test_long_curves_are_thinned_to_exact_points():
    cost = np.arange(1.0, 5 * MOST_POINTS)
    found = band([(cost, cost**2), (cost, cost**2)])
    assert len(found.cost) == MOST_POINTS
    assert (found.cost[0], found.cost[-1]) == (cost[0], cost[-1])
    assert found.mean == pytest.approx(found.cost**2)
