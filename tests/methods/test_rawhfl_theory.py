"""Theorem 1 of RawHFL and the condition on the rate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.methods.rawhfl.theory import (
    Bound,
    Constants,
    bound,
    heard_factor,
    most_lr,
    noise_factor,
)

seeds = st.integers(0, 10**6)
OWN = np.array([0, 0, 0, 1, 1, 2])


def scene(seed, n_rounds=2, n_edge=3):
    """Constants, weights of three cells of which some clients are selected, steps and losses."""
    rng = np.random.default_rng(seed)
    constants = Constants(*rng.uniform([1e-4, 0.1, 0.01, 0.1, 0.1], [1e-2, 2, 2, 2, 2]))
    chosen = rng.random((n_rounds, n_edge, 6)) < 0.6
    chosen[..., [0, 3, 5]] = True
    weight = chosen / np.stack([chosen[..., b == OWN].sum(axis=-1) for b in OWN], axis=-1)
    cell_weight = rng.dirichlet(np.ones(3))[OWN]
    return constants, cell_weight, weight, rng.integers(1, 8, weight.shape), rng.random(n_rounds + 1), rng


@given(seeds)
def test_terms_are_the_sums_of_the_theorem(seed):
    c, ab, au, steps, loss, rng = scene(seed)
    q, squared, most, n_edge = rng.uniform(0.2, 1, au.shape), rng.exponential(1, au.shape), 7, 3
    found = bound(c, most, ab, au, steps, loss, q, squared)
    be = c.smoothness * c.lr
    for k in range(2):
        omega = wireless = 0.0
        n1 = 60 * c.smoothness**3 * c.lr**3 * n_edge**3 * most**3 + 3 * c.smoothness * c.lr * n_edge * most
        for e in range(n_edge):
            for b in range(3):
                alpha_b = ab[b == OWN][0]
                for u in np.flatnonzero(b == OWN):
                    a = au[k, e, u]
                    omega += alpha_b * a * steps[k, e, u]
                    n1 += alpha_b * (alpha_b + 4 * n_edge * most * be) * a**2
                    n_u = n_edge + 3 * be * most + 4 * be * n_edge * (a + 15 * n_edge * be**2 * most**3)
                    wireless += alpha_b * a * n_u * (1 / q[k, e, u] - 1) * squared[k, e, u]
        n2 = 1 + 20 * be**2 * n_edge**2 * most**2
        assert found.progress[k] == pytest.approx(2 / c.lr * (loss[k] - loss[k + 1]) / omega)
        assert found.noise[k] == pytest.approx(2 * be * most * c.noise * n1 / omega)
        assert found.edge_divergence[k] == pytest.approx(18 * n_edge * be**2 * c.edge_divergence * most**3 * n2 / omega)
        assert found.global_divergence[k] == pytest.approx(20 * most * be**2 * c.global_divergence * n_edge**3 / omega)
        assert found.wireless[k] == pytest.approx(2 * be * most * wireless / omega)
    assert not found.void
    assert found.total == pytest.approx(sum(term.mean() for term in found))


@given(seeds)
def test_a_probability_of_zero_makes_it_void(seed):
    c, ab, au, steps, loss, _ = scene(seed)
    q = np.ones(au.shape)
    q[0, 0, 0] = 0.0
    silent = bound(c, 7, ab, au, steps, loss, q, 1.0)
    assert silent.void
    assert silent.total == np.inf
    q[0, 0, 0] = 1.0
    q[au == 0] = 0.0
    assert not bound(c, 7, ab, au, steps, loss, q, 1.0).void, "those who are not selected need not be heard"
    idle = bound(c, 7, ab, 0 * au, steps, loss)
    assert idle.void
    assert idle.total == np.inf


def test_losing_more_uploads_loosens_it():
    c, ab, au, steps, loss, _ = scene(3)
    totals = [bound(c, 7, ab, au, steps, loss, q, 1.0).total for q in (1.0, 0.9, 0.5, 0.1)]
    assert totals == sorted(totals)
    assert heard_factor(c, 7, 3, au).shape == au.shape
    assert isinstance(bound(c, 7, ab, au, steps, loss), Bound)


def test_noise_factor_of_equal_weights():
    """`N_1 -> E / (B U)` as the rate goes to zero: linear speed-up in the clients."""
    weight = np.full((1, 4, 6), 1 / 3)  # two cells of three
    c = Constants(1e-12, 1.0, 1.0, 0.0, 0.0)
    assert noise_factor(c, 50, np.full(6, 0.5), weight)[0] == pytest.approx(4 / 6)


@given(st.floats(0.01, 100), st.integers(1, 50), st.integers(1, 20))
def test_the_proof_needs_the_stricter_rate(smoothness, most, n_edge):
    strict = most_lr(smoothness, most, n_edge)
    assert strict == pytest.approx(1 / (2 * np.sqrt(5) * smoothness * n_edge * most))
    printed = min(1 / (2 * np.sqrt(5) * smoothness * most), 1 / (smoothness * n_edge * most))
    assert strict <= printed * (1 + 1e-12)
    assert Constants(0.99 * strict, smoothness, 1, 1, 1).hold(most, n_edge)
    assert not Constants(1.01 * strict, smoothness, 1, 1, 1).hold(most, n_edge)


def test_published_rate_asks_for_a_smooth_loss():
    """0.01 with 50 steps and 4 edge rounds: beta below 0.11."""
    assert Constants(0.01, 0.11, 1, 1, 1).hold(50, 4)
    assert not Constants(0.01, 0.12, 1, 1, 1).hold(50, 4)
    assert most_lr(0.0, 50, 4) == np.inf
