"""The modified baselines: against plain loops, and equal to what they must be equal to."""

import numpy as np
import pytest
import torch
from osafl_rounds import SAME, build, made_up, moved, rounds

from fedcell.labels import histogram
from fedcell.methods.m_feddisco import disco_weights, from_uniform
from fedcell.simulate import SIMULATED, begin, play_round, simulate

UNEQUAL = {"data.partition": "counts", "data.counts": "10,20,30,40,50,60"}
HALF_EMPTY = {"data.partition": "counts", "data.counts": "40,0,40,40,0,40"}


def close(left, right):
    torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-6)


def stores(problem):
    return begin(problem, build("m_fedavg")).world.store


def test_fedprox_without_pull_is_fedavg(small):
    assert torch.equal(moved(small(), "m_fedprox:mu=0"), moved(small(), "m_fedavg"))
    assert not torch.allclose(moved(small(), "m_fedprox:mu=5"), moved(small(), "m_fedavg"), atol=1e-5)


def test_fresh_averages_are_those_of_the_plain_methods(small):
    problem = small(UNEQUAL)
    close(moved(problem, f"m_fedavg:{SAME}"), moved(problem, "fedavg:weights=equal"))
    close(moved(problem, f"m_fedprox:mu=0.7,{SAME}"), moved(problem, "fedprox:mu=0.7,weights=equal"))


def test_feddisco_without_discrepancy_weighs_by_data(small):
    problem = small(UNEQUAL)
    close(moved(problem, f"m_feddisco:a=0,b=0,{SAME}"), moved(problem, "fedavg"))


@pytest.mark.parametrize("rule", ["printed", "proper"])
def test_fresh_fednova_is_data_weighted_fedavg(small, rule):
    problem = small(UNEQUAL)
    close(moved(problem, f"m_fednova:rule={rule},{SAME}"), moved(problem, "fedavg"))  # equal steps


def test_printed_fednova_is_fedavg_with_unequal_steps_too(small):
    problem, (start, deltas, heard, steps) = small(UNEQUAL), made_up(1, n_rounds=1)
    heard[:] = True
    share = stores(problem).size / stores(problem).size.sum()
    ((printed, _),) = rounds(problem, "m_fednova", start, deltas, heard, steps)
    ((proper, _),) = rounds(problem, "m_fednova:rule=proper", start, deltas, heard, steps)
    np.testing.assert_allclose(printed, start + share @ deltas[0], rtol=1e-5)
    normalised = deltas[0] / steps[0][:, None]
    np.testing.assert_allclose(proper, start + (share @ steps[0]) * (share @ normalised), rtol=1e-5)


def test_afa_cd_is_osafl_with_scores_of_one(small):
    problem, (start, deltas, heard, steps) = small(), made_up(3)
    left = [p for p, _ in rounds(problem, "m_afa_cd:lr=0.2,server_lr=0.8", start, deltas, heard, steps)]
    right = [p for p, _ in rounds(problem, "osafl:lr=0.2,server_lr=4,score=one", start, deltas, heard, steps)]
    for one, other in zip(left, right, strict=True):
        close(one, other)


@pytest.mark.parametrize("name", ["m_fedavg", "m_fedprox", "m_fednova", "m_fednova:rule=proper", "m_feddisco"])
@pytest.mark.parametrize("seed", [1, 2])
def test_rounds_are_those_of_a_plain_loop(small, name, seed):
    """Stale models and gradients, with the steps stored beside them."""
    problem = small({"data.partition": "dirichlet"})
    lr, (w, deltas, heard, steps) = problem.train.lr, made_up(seed)
    size = stores(problem).size
    share = size / size.sum()
    uniform = from_uniform(histogram(stores(problem), problem.learner.train_samples.labels, 10))
    models, d, seen, kappa, disco = np.zeros((6, 7)), np.zeros((6, 7)), np.zeros(6, bool), np.zeros(6), np.zeros(6)
    for t, (params, _) in enumerate(rounds(problem, name, w, deltas, heard, steps)):
        for u in range(6):
            if heard[t, u]:
                models[u], seen[u], kappa[u], disco[u] = w + deltas[t, u], True, steps[t, u], uniform[u]
                d[u] = -deltas[t, u] / (lr * kappa[u])
            elif not seen[u]:
                models[u] = w
        alpha = np.maximum(share - 0.2 * disco + 0.1, 0)
        w = {
            "m_fedavg": models.mean(axis=0),
            "m_fedprox": models.mean(axis=0),
            "m_feddisco": alpha @ models / alpha.sum(),
            "m_fednova": w - lr * (share * kappa) @ d,
            "m_fednova:rule=proper": w - lr * (share @ kappa) * (share @ d),
        }[name]
        np.testing.assert_allclose(params, w, rtol=1e-4, atol=1e-5)


def test_disco_weights():
    share = np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(disco_weights(share, np.zeros(3), 0, 0), share)
    np.testing.assert_allclose(disco_weights(share, np.array([9.0, 0, 0]), 0.2, 0.1), [0, 4 / 7, 3 / 7])
    np.testing.assert_allclose(disco_weights(share, np.full(3, 9.0), 0.2, 0.1), share, err_msg="all cut: by data")
    np.testing.assert_allclose(disco_weights(np.zeros(2), np.ones(2), 1, 0), 0.5)


def test_afa_cd_with_the_papers_start_collapses_and_with_zero_learns(small):
    """A third of the clients is never heard: the weights shrink by two thirds in every round."""
    problem, rates = small(HALF_EMPTY, rounds=12), "lr=0.1,server_lr=0.2"
    first = float(begin(problem, build("m_afa_cd")).params.norm())
    ends = {
        start: list(simulate(problem, build(f"m_afa_cd:never_seen={start},{rates}")))[-1] for start in ("paper", "zero")
    }
    assert ends["paper"][1].params.norm() < 0.4 * first
    assert ends["paper"][0].metrics["loss"] > 2.1  # ln 10 = 2.303
    assert ends["zero"][0].metrics["loss"] < ends["paper"][0].metrics["loss"] - 0.2
    start, deltas, heard, steps = made_up(4, n_rounds=3)
    heard[:] = [True, True, False, False, False, False]
    text = "m_afa_cd:never_seen=paper,lr=0.1,server_lr=0.2"
    for params, _ in rounds(small(), text, start, 0 * deltas, heard, steps):
        start = (1 - 2 * 4 / 6) * start
        np.testing.assert_allclose(params, start, rtol=1e-4)


def test_methods_meet_the_same_batches(small):
    """One client, one step: all baselines that average models end where FedAvg ends."""
    problem = small({"world.n_devices": "1", "train.steps": "1"})
    ends = [
        play_round(SIMULATED, problem, build(name), begin(problem, build(name)))[1].params
        for name in ("m_fedavg", "m_feddisco")
    ]
    close(ends[0], ends[1])
    close(ends[0], begin(problem, build("osafl")).params + moved(problem, "osafl:server_lr=1,score=one"))
