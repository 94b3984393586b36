"""Staleness and the bound of FL-GR: closed forms against simulated rounds, the repaired theorem on a convex task."""

import numpy as np
import pytest

from fedcell.methods.recycling import theory

CONSTANTS = theory.Constants(lr=0.01, steps=5, smoothness=2.0, noise=0.5, gradient=3.0)


def test_staleness_is_zero_or_one_more():
    assert theory.next_staleness(np.array([0, 4, 9]), np.array([True, False, True])).tolist() == [0, 5, 0]


@pytest.mark.parametrize(("heard", "mean", "square"), [(10, 4.5, 28.5), (5, 9.5, 123.5), (20, 2.0, 6.0)])
def test_round_robin_levels(heard, mean, square):
    assert theory.round_robin_staleness(100, heard) == (mean, square)
    tau = np.arange(100) // heard
    assert (tau.mean(), (tau**2).mean()) == (mean, square)


@pytest.mark.parametrize(("heard", "mean", "square"), [(10, 9, 171), (5, 19, 741)])
def test_random_levels(heard, mean, square):
    assert theory.random_staleness(100, heard) == (mean, square)
    rng, tau, seen = np.random.default_rng(0), np.zeros(100, dtype=np.int64), []
    for _ in range(4000):
        tau = theory.next_staleness(tau, np.isin(np.arange(100), rng.permutation(100)[:heard]))
        seen.append((tau.mean(), (tau**2).mean()))
    np.testing.assert_allclose(np.mean(seen[300:], axis=0), (mean, square), rtol=0.05)


def grows(step, ages):
    """Whether `w_{t+1} = w_t - step sum_j ages_j w_{t-j}` does, by the roots of its characteristic polynomial."""
    polynomial = np.r_[1.0, step * ages]
    polynomial[1] -= 1
    return np.abs(np.roots(polynomial)).max() > 1


@pytest.mark.parametrize("period", [1, 2, 3, 10, 50])
def test_steps_that_turns_bear(period):
    most, ages = theory.steps_in_turn(period), np.full(period, 1 / period)
    assert not grows(0.999 * most, ages)
    assert grows(1.001 * most, ages)


@pytest.mark.parametrize("share", [0.5, 0.2, 0.1])
def test_steps_that_lots_bear(share):
    most, ages = theory.steps_at_random(share), share * (1 - share) ** np.arange(int(20 / share))
    assert not grows(0.99 * most, ages)
    assert grows(1.01 * most, ages)


def test_steps_between_both_bounds_fail_in_turn_and_succeed_at_random():
    """The method's own rule on 20 devices with the same quadratic, 4 of them heard in a round."""
    step = 2 * theory.steps_in_turn(5)
    assert step < theory.steps_at_random(0.2) / 4
    for heard_at, fails in (
        (lambda t, rng: (4 * t + np.arange(4)) % 20, True),
        (lambda t, rng: rng.permutation(20)[:4], False),
    ):
        w, kept, rng = 1.0, np.zeros(20), np.random.default_rng(0)
        for t in range(300):
            kept[heard_at(t, rng)] = w
            w -= step * kept.mean()
        assert (abs(w) > 1e3) == fails


def in_turn(n_rounds, n_devices, n_heard):
    """Everyone in turns, `[n_rounds, n_devices]`."""
    return np.arange(n_rounds)[:, None] % (n_devices // n_heard) == np.arange(n_devices) // n_heard


@pytest.mark.parametrize(("n_devices", "n_heard"), [(100, 10), (20, 4), (6, 6)])
def test_a_played_schedule_bears_the_closed_form(n_devices, n_heard):
    most = theory.steps_in_turn(n_devices / n_heard)
    assert theory.steps_of(in_turn(600, n_devices, n_heard)) == pytest.approx(most, rel=0.02)


def test_irregular_schedules_bear_more_than_turns_and_less_than_lots_in_the_mean():
    lots = np.random.default_rng(0).random((600, 100)).argsort(axis=1) < 10
    assert 20 * theory.steps_in_turn(10) < theory.steps_of(lots) < theory.steps_at_random(0.1)


def test_lemmas_by_hand():
    e = 0.05
    assert theory.local_drift(CONSTANTS) == pytest.approx(4 * 4 * e**2 / 5 * (6 + 0.1))
    spread = (1 + 8 * e**2 * 4 * 4 / 5) * 3 + (1 + 4 * e**2 * 4 * 4 / 25) * 0.5
    np.testing.assert_allclose(theory.global_drift(CONSTANTS, [0, 1, 3]), 3 * e**2 * spread * np.array([0, 1, 9]))


def test_printed_coefficients_by_hand():
    e, by = 0.05, theory.coefficients(CONSTANTS, repaired=False)
    assert by.gradient == pytest.approx(-0.5 * e + 3 * 2 * e)
    assert by.constant == pytest.approx((e + 3 * e * 2) * 4 / 5 * (6 + 0.1) + (e + 1) * 0.25)
    assert by.staleness == pytest.approx(9 / 8 * (e + 1) * ((1 + 8 / 5) * 3 + (1 + 4 / 25) * 0.5))
    assert theory.contraction(CONSTANTS) == pytest.approx(1 - e * 2 + 6 * e * 4)


def test_printed_gradient_term_falls_only_for_small_smoothness():
    for smoothness, falls in ((0.1, True), (0.2, False), (5.0, False)):
        assert (theory.coefficients(CONSTANTS._replace(smoothness=smoothness), repaired=False).gradient < 0) == falls
        small = CONSTANTS._replace(smoothness=smoothness, lr=0.01 / smoothness)
        assert theory.coefficients(small).gradient < 0
        assert (theory.contraction(small._replace(steps=1), convexity=0.5)) < 1


def test_final_bound_telescopes():
    stale = np.array([3.0, 1.0, 2.0])
    by, phi = theory.coefficients(CONSTANTS), theory.contraction(CONSTANTS, convexity=0.3)
    gap = 7.0
    for value in stale:
        gap = phi * gap + by.constant + by.staleness * value
    assert theory.final_bound(CONSTANTS, 7.0, stale, convexity=0.3) == pytest.approx(gap)
    assert theory.final_bound(CONSTANTS, 7.0, stale) > theory.final_bound(CONSTANTS, 7.0, 0 * stale)


def test_holds_asks_for_a_small_rate():
    assert CONSTANTS.hold()
    assert not CONSTANTS._replace(lr=0.06).hold()


@pytest.mark.parametrize("steps", [1, 4])
def test_repaired_theorem_holds_on_quadratics(steps):
    """FL-GR with 3 of 12 devices heard at random, `F_k = a_k |w - c_k|^2 / 2`; no noise, outage or decision."""
    rng = np.random.default_rng(steps)
    a, c = rng.uniform(0.5, 2.0, 12), rng.normal(size=(12, 4))
    constants = theory.Constants(0.1 / steps, steps, a.max(), 0.0, 0.0)
    assert constants.hold()
    w, cache, tau = np.full(4, 3.0), np.zeros((12, 4)), np.zeros(12, dtype=np.int64)
    everyone_first = True
    for _ in range(200):
        on = np.ones(12, dtype=bool) if everyone_first else np.isin(np.arange(12), rng.permutation(12)[:3])
        everyone_first = False  # a zero cache is not a stale gradient
        gradients = a[:, None] * (w - c)
        local = np.repeat(w[None], 12, axis=0)
        for _ in range(steps):
            local = local - constants.lr * a[:, None] * (local - c)
        cache[on] = ((w - local) / constants.lr)[on]
        tau = theory.next_staleness(tau, on)
        after = w - constants.lr * cache.mean(axis=0)
        loss = [0.5 * (a * ((point - c) ** 2).sum(axis=1)).mean() for point in (w, after)]
        seen = constants._replace(gradient=max(constants.gradient, (gradients**2).sum(axis=1).max()))
        constants = seen
        bound = theory.round_bound(constants, (gradients.mean(axis=0) ** 2).sum(), (tau.astype(float) ** 2).mean())
        assert loss[1] - loss[0] <= bound
        w = after
