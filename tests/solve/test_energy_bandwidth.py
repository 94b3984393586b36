"""Shares of least energy: optimality conditions on thousands of random cases, a reference solver, extreme numbers."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize
from scipy.special import lambertw

from fedcell.solve.energy_bandwidth import (
    effort,
    inverse_marginal,
    least_energy_shares,
    least_share,
    log_marginal,
)


def draw(rng, n=None):
    """Loads, weights and least shares over many orders of magnitude, with slack from none to nearly all."""
    n = n or int(rng.integers(1, 25))
    load = 10.0 ** rng.uniform(-5, 2.5, n)
    weight = 10.0 ** rng.uniform(-14, 1, n)
    least = rng.random(n) * (rng.random(n) < 0.7)
    total = least.sum()
    return load, weight, least * (rng.choice([0.1, 0.9, 1 - 1e-9]) * rng.random() / total if total else 0.0)


def residual(load, weight, least, found, budget=1.0):
    """Largest violation of the optimality conditions, in relative terms."""
    share, price = found
    marginal = np.log(weight) + log_marginal(load / share)
    clipped = share <= least * (1 + 1e-12)
    stationary = np.abs(marginal - price)[~clipped].max(initial=0.0) / max(1.0, abs(price))
    wrong_sign = (marginal - price)[clipped].max(initial=0.0) / max(1.0, abs(price))
    return max(stationary, wrong_sign, abs(share.sum() / budget - 1), (least - share).max(initial=0.0))


def test_optimality_conditions_on_thousands_of_random_cases():
    rng = np.random.default_rng(5)
    worst = 0.0
    for _ in range(2000):
        load, weight, least = draw(rng)
        found = least_energy_shares(load, weight, least)
        if np.isfinite(found.log_price):
            worst = max(worst, residual(load, weight, least, found))
    assert worst < 1e-9


def test_condition_check_sees_a_wrong_answer():
    """The residual above is no empty test: the printed algorithm, which keeps the least shares afterwards, fails it."""
    load, weight, least = np.array([1.0, 1.0, 0.2]), np.array([1.0, 1.0, 1e-6]), np.array([0.0, 0.0, 0.3])
    free = least_energy_shares(load, weight, np.zeros(3))
    clipped = free._replace(share=np.maximum(free.share, least))
    assert clipped.share.sum() > 1.01
    assert residual(load, weight, least, clipped) > 0.01


@pytest.mark.parametrize("seed", range(12))
def test_agrees_with_a_general_convex_solver(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    load, weight = rng.uniform(0.05, 1.5, n), 10.0 ** rng.uniform(-1, 1, n)
    least = rng.random(n) / n * rng.choice([0.2, 0.9])

    def cost(share):
        return float((weight * effort(load, share)).sum())

    def slope(share):
        return -weight * np.exp(log_marginal(load / share))

    found = least_energy_shares(load, weight, least).share
    start = least + (1 - least.sum()) / n
    reference = minimize(  # the logarithm has the same minimiser and a slope of a size that line searches like
        lambda share: np.log(cost(share)),
        start,
        jac=lambda share: slope(share) / cost(share),
        method="SLSQP",
        bounds=[(m, 1.0) for m in least],
        constraints={"type": "eq", "fun": lambda s: s.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert cost(found) == pytest.approx(np.exp(reference.fun), rel=1e-6)
    np.testing.assert_allclose(found, reference.x, atol=2e-4)


@given(st.integers(0, 2**32 - 1))
@example(492)
def test_no_feasible_point_is_cheaper(seed):
    rng = np.random.default_rng(seed)
    load, weight, least = draw(rng)
    slack = 1 - least.sum()
    found = least_energy_shares(load, weight, least).share
    with np.errstate(over="ignore"):  # loads can cost more than a double holds, then by every share
        best = (weight * effort(load, found)).sum()
        for mixture in rng.dirichlet(np.full(len(load), 0.5), 20):
            other = (weight * effort(load, np.maximum(least + slack * mixture, 1e-300))).sum()
            assert best <= other * (1 + 1e-9)


def test_equal_ones_get_equal_shares_and_a_larger_weight_more():
    share = least_energy_shares(np.full(5, 0.3), np.array([1.0, 1.0, 2.0, 1.0, 1.0]), np.zeros(5)).share
    assert np.ptp(share[[0, 1, 3, 4]]) < 1e-15
    assert share[2] > share[0]


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1.0, 1e150])
def test_price_may_be_anywhere(scale):
    load, least = np.array([1e-6, 1e-3, 1.0]), np.zeros(3)
    share = least_energy_shares(load, np.array([1.0, 3.0, 2.0]) * scale, least).share
    np.testing.assert_allclose(share, least_energy_shares(load, np.array([1.0, 3.0, 2.0]), least).share, rtol=1e-10)


def test_huge_loads_do_not_overflow():
    load = np.array([1e4, 2e4, 1e5])
    found = least_energy_shares(load, np.ones(3), np.zeros(3))
    assert np.isfinite(found.share).all()
    assert residual(load, np.ones(3), np.zeros(3), found) < 1e-9


def test_inverse_agrees_with_the_lambert_function_and_goes_on_where_that_fails():
    log_r = np.linspace(-8, 300, 4000)
    x = inverse_marginal(log_r)
    np.testing.assert_allclose(x, 1 + lambertw((np.exp(log_r) - 1) / np.e).real, rtol=1e-7)
    both = np.unique(np.concatenate([np.linspace(-700, -8, 2000), log_r, np.geomspace(301, 1e6, 500)]))
    np.testing.assert_allclose(log_marginal(inverse_marginal(both)), both, rtol=1e-13, atol=1e-13)
    assert (np.diff(inverse_marginal(both)) > 0).all()


def test_marginal_keeps_its_digits_near_zero():
    x = np.array([1e-8, 1e-4, 0.09, 0.11])
    exact = np.log(x**2 / 2 + x**3 / 3 + x**4 / 8 + x**5 / 30 + x**6 / 144 + x**7 / 840 + x**8 / 5760 + x**9 / 45360)
    np.testing.assert_allclose(log_marginal(x), exact, rtol=1e-11)


@given(st.floats(-6, 2), st.floats(0.001, 6))
def test_least_share_uses_all_the_power(log_load, log_ratio):
    load = np.array([10.0**log_load])
    reach = load * 10.0**log_ratio
    share = least_share(load, reach)
    assert effort(load, share)[0] == pytest.approx(reach[0], rel=1e-8)
    low, high = share[0] * 0.9, share[0] * 1.1
    root = brentq(lambda s: s * np.log1p(reach[0] / s) - load[0], low, high, xtol=1e-300, rtol=1e-14)
    assert share[0] == pytest.approx(root, rel=1e-7)


def test_without_reach_no_share_will_do():
    assert least_share(np.array([1.0, 2.0]), np.array([1.0, 1.5])).tolist() == [np.inf, np.inf]


def test_nobody_and_no_slack():
    assert len(least_energy_shares(np.zeros(0), np.zeros(0), np.zeros(0)).share) == 0
    least = np.array([0.25, 0.75])
    assert least_energy_shares(np.ones(2), np.ones(2), least).share.tolist() == least.tolist()


@pytest.mark.parametrize(
    ("load", "weight", "least", "word"),
    [([0.0], [1.0], [0.0], "load"), ([1.0], [0.0], [0.0], "weight"), ([1.0], [1.0], [1.5], "least shares")],
)
def test_refuses_what_has_no_optimum(load, weight, least, word):
    with pytest.raises(ValueError, match=word):
        least_energy_shares(np.array(load), np.array(weight), np.array(least))
