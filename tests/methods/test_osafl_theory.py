"""Theorem 1, its special cases and the scores that minimise it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.methods.osafl.theory import (
    Constants,
    best_scores,
    bound,
    label_distance,
    least_rho2,
    slack,
    spread,
)

seeds = st.integers(0, 10**6)


def scene(seed, n_rounds=1, n=5):
    """Constants and per-client arrays of a few rounds."""
    rng = np.random.default_rng(seed)
    constants = Constants(*rng.uniform([0.001, 0.5, 0.1, 0.01, 0.5, 0.5], [0.05, 3, 3, 2, 2, 2]))
    shape = (n_rounds, n)
    arrays = {
        "alpha": rng.dirichlet(np.ones(n)),
        "steps": rng.integers(1, 6, shape),
        "similarity": rng.random(shape),
        "shift": rng.exponential(1, shape),
        "heterogeneity": rng.exponential(1, shape),
    }
    return constants, arrays, rng


@given(seeds)
def test_terms_are_the_sums_of_the_theorem(seed):
    c, a, rng = scene(seed, n_rounds=3)
    score, loss = rng.random((3, 5)), rng.random(4)
    found = bound(c, score=score, loss=loss, **a)
    for t in range(3):
        noise = shift = het = drag = 0.0
        for u in range(5):
            al, k, lam = a["alpha"][u], a["steps"][t, u], a["similarity"][t, u]
            b = (score[t, u] - lam) ** 2 + lam**2
            noise += al * (c.server_lr * al * score[t, u] ** 2 + 4 * c.smoothness * c.lr * k * b)
            shift += al * b * a["shift"][t, u] * k**2
            het += al * a["heterogeneity"][t, u] * b * k**2
            drag += al * k**2 * b
        be = c.smoothness * c.lr
        assert found.noise[t] == pytest.approx(be * c.noise * noise)
        assert found.shift[t] == pytest.approx(32 * be**2 * shift)
        assert found.heterogeneity[t] == pytest.approx(16 * c.rho2 * be**2 * het)
        assert found.slack[t] == pytest.approx(1 - 16 * c.rho1 * be**2 * drag)
        assert found.loss_change[t] == pytest.approx(2 * (loss[t] - loss[t + 1]) / (c.lr * c.server_lr))
    bracket = found.loss_change + found.noise + found.shift + found.heterogeneity
    assert found.void == (found.slack <= 0).any()
    assert found.total == pytest.approx(np.inf if found.void else (bracket / found.slack).mean())


@given(st.floats(0, 10), st.floats(0, 1))
def test_spread_bounds_the_score(score, similarity):
    b = spread(score, similarity)
    assert b >= 0
    assert score**2 <= 2 * b + 1e-12


@given(seeds)
def test_scores_of_one(seed):
    """Eq. (25): B becomes 1 - 2 lambda + 2 lambda^2."""
    c, a, _ = scene(seed)
    lam = a["similarity"]
    found = bound(c, score=np.ones((1, 5)), loss=np.zeros(2), **a)
    b = 1 - 2 * lam + 2 * lam**2
    assert found.slack == pytest.approx(slack(c, a["alpha"], a["steps"], b))
    be = c.smoothness * c.lr
    wanted = be * c.noise * (a["alpha"] * (c.server_lr * a["alpha"] + 4 * be * a["steps"] * b)).sum()
    assert found.noise[0] == pytest.approx(wanted)


@given(seeds, st.floats(0.1, 5))
def test_best_scores_are_the_numerical_minimiser(seed, psi):
    c, a, rng = scene(seed)
    one = {name: value if name == "alpha" else value[0] for name, value in a.items()}
    best = best_scores(c, psi=psi, **one)

    def value(score):
        terms = bound(c, score=score, loss=np.zeros(2), **one)  # Eq. (31)
        return float(np.squeeze(terms.noise + terms.shift + terms.heterogeneity - psi * terms.slack))

    start, width = one["similarity"], 100.0
    for u in range(5):  # separable and quadratic: three points give the vertex along each score
        e = width * np.eye(5)[u]
        low, middle, high = value(start - e), value(start), value(start + e)
        vertex = start[u] - width * (high - low) / (2 * (high - 2 * middle + low))
        assert best[u] == pytest.approx(vertex, abs=1e-5)
    h = 1e-5
    for u in range(5):
        e = h * np.eye(5)[u]
        scale = abs(value(best)) / h
        assert abs(value(best + e) - value(best - e)) / (2 * h) < 1e-9 * scale, "the slope is zero"
        assert min(value(best + 0.1 * np.eye(5)[u]), value(best + 0.1 * rng.normal(size=5))) >= value(best)


@given(seeds)
def test_best_scores_lie_between_zero_and_similarity(seed):
    c, a, _ = scene(seed)
    one = {name: value if name == "alpha" else value[0] for name, value in a.items()}
    ratio = best_scores(c, **one) / one["similarity"]
    assert (ratio > 0).all()
    assert (ratio <= 1).all()
    np.testing.assert_allclose(best_scores(c._replace(noise=0.0), **one), one["similarity"])
    one["steps"] = np.zeros(5)
    np.testing.assert_array_equal(best_scores(c._replace(noise=0.0), **one), one["similarity"])
    np.testing.assert_array_equal(best_scores(c, **one), 0.0)


def test_published_rates_ask_for_a_very_smooth_loss():
    """With lr * server_lr = 7 the first condition is beta <= 1/7."""
    rates = Constants(lr=0.2, server_lr=35, smoothness=1 / 7, noise=1)
    assert rates.hold(1)
    assert not rates._replace(smoothness=0.15).hold(1)
    assert not Constants(0.2, 1, 1.0, 1).hold([1, 5])
    far = Constants(0.2, 35, 2.0, 1)
    void = bound(far, np.full(4, 0.25), np.full((1, 4), 5), np.ones((1, 4)), np.ones((1, 4)), 0.0, 0.0, [1.0, 0.9])
    assert void.void
    assert void.total == np.inf


def test_label_distance():
    counts = np.array([[5, 5], [10, 0], [0, 0]])
    np.testing.assert_allclose(label_distance(counts), [2 * 0.25**2, 2 * 0.25**2, 0])


def test_least_rho2_is_the_least():
    squares, delta = np.array([4.0, 9, 1, 100]), np.array([0.5, 1, 2, 0])
    rho2 = least_rho2(squares, 2.0, delta)
    assert rho2 == 7
    assert (squares[:3] <= 2 + rho2 * delta[:3] + 1e-12).all()
    assert least_rho2(squares, 1000.0, delta) == 0
