"""Discrepancy, bounds and exact values against the specification's vectors and against simulation."""

from dataclasses import replace

import numpy as np
import pytest

from fedcell.errors import BadInput
from fedcell.methods.streaming import theory
from fedcell.options import Law
from fedcell.world.labels import draw_law, make_law
from fedcell.world.settings import StreamConfig

DELTA2 = 0.04
THREE = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5]])
BOUNDS = [  # M, theta, lag: fifo, srsr for ever, srsr at t = 1, 10, 50
    (2, 2 / 3, 0, (0.02, 0.016, 0.08888889, 0.01604932, 0.016)),
    (2, 2 / 3, 1, (0.04, 0.05066667, 0.10814815, 0.05070556, 0.05066667)),
    (10, 2 / 3, 0, (0.004, 0.00275862, 0.15715556, 0.04735511, 0.00293737)),
    (10, 2 / 3, 4, (0.036, 0.02522337, 0.16005101, 0.0641674, 0.02537946)),
    (10, 1, 4, (0.036, 0.03931233, 0.15326934, 0.05641667, 0.03931607)),
    (10, 1 / 3, 4, (0.036, 0.01225019, 0.16900307, 0.09740259, 0.01790394)),
]
TRAINING = theory.Training(
    n_rounds=200,
    steps=5,
    lr=0.01,
    n_clients=10,
    n_classes=10,
    gap=2.3,
    largest_share=0.5,
    dissimilarity=0.5,
)


def settings(capacity, batch, **changes):
    return StreamConfig(kind="markov", capacity=Law((float(capacity),)), batch=Law((float(batch),)), **changes)


def accumulated(capacity, batch, n_devices=200, n_rounds=300, **changes):
    """The mean accumulated discrepancy of one device."""
    given = settings(capacity, batch, **changes)
    law = draw_law(given, np.arange(10), 10, n_devices, seed=2)
    return theory.label_trace(given, law, n_rounds, seed=2).sum(axis=0).mean()


# ---------------------------------------------------------------- bounds


@pytest.mark.parametrize(("ratio", "theta", "lag", "want"), BOUNDS)
def test_bounds(ratio, theta, lag, want):
    got = [theory.fifo_bound(ratio, lag, DELTA2), theory.srsr_limit(theta, ratio, lag, DELTA2)]
    got += [theory.srsr_bound(t, theta, ratio, lag, DELTA2, 0.3) for t in (1, 10, 50)]
    assert got == pytest.approx(want, abs=6e-9)


def test_dynamic_bound():
    assert [theory.drsr_bound(t, 1, DELTA2) for t in (10, 100)] == pytest.approx([0.012, 0.0012])


# ---------------------------------------------------------------- exact values


@pytest.mark.parametrize(
    ("batch", "ratio", "want"),
    [(150, 2, (0.1476263, 0.0730305, 0.0049311)), (30, 10, (0.0459838, 0.0164893, 0.0050497))],
)
def test_exact_values(batch, ratio, want):
    covariance = theory.label_covariance(make_law(THREE[None], 1.0, 0.0), batch, 500)
    got = (
        theory.mean_discrepancy(covariance, ratio).sum(),
        theory.srsr_discrepancy(covariance, 2 / 3 / ratio).sum(),
        theory.mean_discrepancy(covariance, 100).sum(),
    )
    assert got == pytest.approx(want, abs=1e-7)


def test_exact_values_of_independent_rounds():
    law = make_law(THREE[None], beta=0.0, smoothing=0.0)  # all states alike after each other
    covariance = theory.label_covariance(law, 30, 60)
    assert np.abs(covariance[1:]).max() < 1e-15
    assert theory.effective_lag(covariance) == 0
    first = covariance[0].sum()
    assert theory.srsr_discrepancy(covariance, 0.2 / 3).sum() == pytest.approx(first * (2 / 3) / (2 * 10 - 2 / 3))


def test_exact_values_keep_the_bounds():
    """With the largest covariance and the effective lag of the chain; tails beyond the lag stay within 5 %."""
    law = draw_law(settings(300, 30), np.arange(10), 10, 20, seed=1)
    covariance = theory.label_covariance(law, 30, 400)
    lag, delta2 = theory.effective_lag(covariance), float(np.abs(covariance).max())
    assert 1 <= lag < 40
    assert theory.mean_discrepancy(covariance, 10).max() <= theory.fifo_bound(10, lag, delta2)
    assert theory.srsr_discrepancy(covariance, 0.2 / 3).max() <= theory.srsr_limit(2 / 3, 10, lag, delta2)
    assert theory.mean_discrepancy(covariance, 200).max() <= theory.drsr_bound(200, lag, delta2)


def test_more_rounds_than_lags_are_refused():
    with pytest.raises(BadInput, match="ask label_covariance for 9"):
        theory.mean_discrepancy(np.ones((5, 1, 3)), 10)


@pytest.mark.parametrize("rule", ["fifo", "srsr", "drsr"])
def test_exact_values_against_simulation(rule):
    """DRSR after 100 rounds, the others once they have settled."""
    want, settled = {"fifo": (0.0459838, 40), "srsr": (0.0164893, 80), "drsr": (0.0050497, 99)}[rule]
    law = make_law(np.tile(THREE, (800, 1, 1)), 1.0, 0.0)
    trace = theory.label_trace(settings(300, 30, cache=rule, initial="cold"), law, 100, seed=1)
    assert trace[settled:].mean() == pytest.approx(want, rel=0.08)


# ---------------------------------------------------------------- label-only simulation


def test_dynamic_rule_decays_as_one_over_t():
    given = settings(300, 150, cache="drsr", beta=1.0, initial="cold")
    trace = theory.label_trace(given, draw_law(given, np.arange(10), 10, 200, seed=1), 400, seed=1).mean(axis=1)
    late, early = trace[350:].mean(), trace[70:80].mean()
    assert late / early == pytest.approx(75 / 375, rel=0.25)


def test_orderings_and_sizes_from_a_filled_cache():
    """The specification's table for B = 300, b = 150, within the spread of seeds."""
    want = {"lazy": 33.2, "fifo": 26.4, "srsr": 14.5, "drsr": 1.7}
    got = {rule: accumulated(300, 150, n_devices=80, cache=rule) for rule in want if rule != "lazy"}
    got["lazy"] = 300 * accumulated(300, 150, n_devices=1000, n_rounds=1, cache="lazy")  # constant, and very uneven
    for rule, value in want.items():
        assert got[rule] == pytest.approx(value, rel=0.15), rule
    assert got["lazy"] > got["fifo"] > got["srsr"] > got["drsr"]


def test_small_theta_is_best_with_large_batches_and_worst_with_small_ones():
    thetas = (0.1, 1 / 3, 2 / 3, 1.0)
    large = [accumulated(300, 150, n_devices=60, cache="srsr", theta=theta) for theta in thetas]
    small = [accumulated(300, 30, cache="srsr", theta=theta) for theta in thetas]
    cold = [accumulated(300, 30, n_devices=60, cache="srsr", theta=theta, initial="cold") for theta in thetas]
    assert large == sorted(large)
    assert np.argmax(small) == 0
    assert np.argmax(cold) == 3  # from an empty cache there is no reversal
    assert cold[0] < cold[2]
    assert large == pytest.approx([3.8, 8.4, 14.5, 19.8], rel=0.2)
    assert small == pytest.approx([6.2, 3.7, 4.6, 5.9], rel=0.2)


def test_lazy_and_full_are_constant():
    for rule in ("lazy", "full"):
        given = settings(300, 150, cache=rule)
        trace = theory.label_trace(given, draw_law(given, np.arange(10), 10, 10, seed=1), 20, seed=1)
        assert (trace == trace[0]).all()
    assert trace.max() < 3 * (1 / 300) ** 2


def test_rules_share_arrivals():
    """With theta = 0 and a full cache SRSR keeps the labels of LAZY, whatever arrives."""
    given = settings(300, 30, cache="srsr", theta=0.0)
    law = draw_law(given, np.arange(10), 10, 10, seed=1)
    frozen = theory.label_trace(given, law, 30, seed=1)
    lazy = theory.label_trace(replace(given, cache="lazy"), law, 30, seed=1)
    np.testing.assert_allclose(frozen, lazy)


# ---------------------------------------------------------------- convergence


def test_convergence_bound():
    t = np.arange(1, 201)
    rules = {
        "full": np.zeros(200),
        "fifo": np.full(200, theory.fifo_bound(2, 1, DELTA2)),
        "srsr": np.array([theory.srsr_bound(round, 2 / 3, 2, 1, DELTA2, 0.3) for round in t]),
        "drsr": np.array([theory.drsr_bound(round, 1, DELTA2) for round in t]),
    }
    got = {rule: theory.convergence_bound(TRAINING, bounds) for rule, bounds in rules.items()}
    fixed = got["full"]
    assert fixed[:3] == pytest.approx([0.54117647, 0.08823529, 8.82352941], abs=1e-8)
    assert fixed.dropped == pytest.approx(0.11764706, abs=1e-8)
    assert [got[rule].cache for rule in rules] == pytest.approx([0, 10.84705882, 13.87989647, 0.95639021], abs=1e-7)
    assert [got[rule].total for rule in rules] == pytest.approx([9.45294118, 20.3, 23.33283765, 10.40933139], abs=1e-7)


def test_bounds_above_one_are_one():
    loose = theory.convergence_bound(TRAINING, np.full(200, 7.0))
    assert loose == theory.convergence_bound(TRAINING, np.ones(200))


@pytest.mark.parametrize("changes", [{"lr": 0.05}, {"lr": 0.03}, {"server_lr": 6.0}, {"dissimilarity_slope": 20.0}])
def test_steps_outside_the_theorem_are_refused(changes):
    with pytest.raises(BadInput, match="outside Theorem 1"):
        theory.convergence_bound(TRAINING._replace(**changes), np.zeros(200))


def test_decreasing_steps_make_the_dynamic_rule_converge():
    """Every term of the bound falls with more rounds under DRSR; FIFO keeps a floor."""
    totals = {"fifo": [], "drsr": []}
    for n_rounds in (10_000, 1_000_000):
        lr, server_lr = theory.decreasing_steps(n_rounds, 5, 10)
        training = TRAINING._replace(n_rounds=n_rounds, lr=lr, server_lr=server_lr)
        bounds = {"fifo": np.full(n_rounds, 0.04), "drsr": 0.12 / np.arange(1, n_rounds + 1)}
        for rule, values in bounds.items():
            bound = theory.convergence_bound(training, values)
            totals[rule].append(bound.total + bound.dropped)
    assert totals["drsr"][1] < 0.05 * totals["drsr"][0] + 0.02
    assert totals["fifo"][1] > 0.5 * totals["fifo"][0]
