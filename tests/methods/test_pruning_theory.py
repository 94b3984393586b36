"""The bound of AMP-FL on a task where its assumptions hold: separable quadratics, regions of one coordinate."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcell.learn import models
from fedcell.learn.architecture import Architecture
from fedcell.learn.settings import ModelConfig
from fedcell.learn.setup import initialise
from fedcell.methods.pruning import theory
from fedcell.methods.pruning.theory import Constants
from fedcell.methods.pruning.units import entry_masks, units_of

CONSTANTS = Constants(lr=0.05, steps=2, regions=4, smoothness=1.5, noise=0.0, gradient=9.0)


def play(seed, n_rounds=30, n_devices=5, chance=0.4):
    """Rounds of AMP-FL with exact gradients; yields F, its squared gradient, A_t, device gradients and moves."""
    rng = np.random.default_rng(seed)
    regions, lr, steps = CONSTANTS.regions, CONSTANTS.lr, CONSTANTS.steps
    curvature, target = rng.uniform(0.5, 1.5, regions), rng.normal(size=(n_devices, regions))
    w, kept = rng.normal(size=regions) * 2, np.zeros((n_devices, regions))
    age = np.zeros((n_devices, regions), dtype=np.int64)

    def loss(point):
        return float(0.5 * (curvature * (point - target) ** 2).sum(axis=1).mean())

    best = loss(target.mean(axis=0))
    for _ in range(n_rounds):
        slopes = curvature * (w - target)
        trained = rng.random((n_devices, regions)) < chance
        if not age.any():
            trained[:] = True  # the proof starts from gradients of every region
        local = np.repeat(w[None], n_devices, axis=0)
        for _ in range(steps):
            local = local - lr * curvature * (local - target)
        kept = np.where(trained, (w - local) / lr, kept)
        age = theory.next_age(age, trained)
        after = w - lr * kept.mean(axis=0)
        yield (
            loss(w) - best,
            float((slopes.mean(axis=0) ** 2).sum()),
            age,
            (slopes**2).sum(axis=1).max(),
            loss(after) - best,
        )
        w = after


@given(st.integers(0, 10**6))
def test_bounds_hold_on_separable_quadratics(seed):
    rounds = list(play(seed))
    constants = CONSTANTS._replace(gradient=max(found[3] for found in rounds))
    assert constants.hold()
    costs = [theory.age_cost(found[2]) for found in rounds]
    for (gap, gradient, _, _, after), cost in zip(rounds, costs, strict=True):
        assert after - gap <= theory.round_bound(constants, gradient, cost) + 1e-9
    assert rounds[-1][4] <= theory.final_bound(constants, rounds[0][0], costs, convexity=0.5)


def test_contraction_needs_short_steps():
    for reach, shrinks in ((0.32, True), (0.34, False)):
        constants = CONSTANTS._replace(lr=reach / 2)
        assert (theory.contraction(constants, 0.5) < 1) == shrinks
    assert theory.contraction(CONSTANTS, 0.5) == pytest.approx(1 - 0.05 + 2 * 1.5 * 0.01 * 0.5)


def test_corollary_is_the_theorem_repeated():
    """With `|grad F|^2 >= 2 mu (F - F*)` the bound of a round, applied over and over."""
    gap, convexity, costs = 3.0, 0.5, np.array([4.0, 9.0, 1.0])
    by = theory.coefficients(CONSTANTS)
    for cost in costs:
        gap += by.gradient * 2 * convexity * gap + by.constant + by.age * cost
    assert theory.final_bound(CONSTANTS, 3.0, costs, convexity) == pytest.approx(gap)


def test_terms_by_hand():
    constants = Constants(lr=0.1, steps=3, regions=5, smoothness=2.0, noise=4.0, gradient=7.0)
    by = theory.coefficients(constants)
    assert by.gradient == pytest.approx((-0.05 + 2 * 0.01 * 3) * 3)
    assert by.constant == pytest.approx(4 * 0.1 * 2 * 5 * 7 + (4 * 0.01 * 2 * 2 * 5 + 0.75 * 0.1 * 3) * 4)
    spread = 9 * (4 + 7) + 2 * 5 * (4 + 2 * 3 * 7)
    assert by.age == pytest.approx(15 / 4 * 0.01 * 2 * spread)
    assert theory.global_drift(constants, 6.0) == pytest.approx(3 * 0.01 * spread * 6)
    assert theory.local_drift(constants) == pytest.approx(4 * 2 * 5 * (2 * 0.01 * 3 * 7 + 0.01 * 4))
    assert theory.local_drift(constants._replace(steps=1)) == 0


def test_ages():
    age = np.array([[2, 0], [1, 5]])
    assert theory.age_cost(age) == (4 + 1 + 25) / 2
    assert theory.next_age(age, np.array([[True, False], [False, True]])).tolist() == [[0, 1], [2, 0]]


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_outputs_of_thin_networks_fade_with_depth(share):
    """VGG-11 as it starts, against sub-models of random units; 9 layers are cut."""
    shape = (3, 32, 32)
    layout = Architecture.of(initialise(lambda: models.build(ModelConfig(name="vgg11"), shape, 10), 1))
    units, rng = units_of(layout, shape), np.random.default_rng(2)
    x = torch.randn(16, *shape, generator=torch.Generator().manual_seed(3))
    network = layout.replica(torch.device("cpu"))

    def spread(mask=None):
        with torch.no_grad():
            start = torch.cat([part.flatten() for part in layout.module.parameters()])
            torch.nn.utils.vector_to_parameters(start if mask is None else start * mask, network.parameters())
            return float(network(x).std(dim=0).mean())

    found = []
    for _ in range(3):
        keep = np.concatenate([rng.permutation(n) < share * n for n in units.sizes])
        found.append(spread(entry_masks(units, keep[None], torch.device("cpu"))[0]) / spread())
    assert np.mean(found) == pytest.approx(theory.output_scale([share] * len(units.sizes)), rel=0.35)
