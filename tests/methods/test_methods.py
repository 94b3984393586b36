"""FedAvg, FedProx, FedNova, central SGD and the schedulers against what their papers say."""

import numpy as np
import pytest
import torch

from fedcell import methods
from fedcell.errors import BadInput, ContractError
from fedcell.methods.fednova import gradient_weight
from fedcell.methods.parts.schedulers import SCHEDULERS, highest, schedule
from fedcell.options import keys
from fedcell.simulate import SIMULATED, begin, play_round, simulate
from fedcell.world import observe


def moved(problem, text):
    method = methods.parse(text).build()
    first = begin(problem, method)
    return play_round(SIMULATED, problem, method, first)[1].params - first.params


def observation(problem, round=0):
    return observe(problem.world, begin(problem, methods.parse("fedavg").build()).world, problem.seed, round)[0]


def test_fedprox_without_pull_is_fedavg(small):
    assert torch.equal(moved(small(), "fedprox:mu=0"), moved(small(), "fedavg"))
    assert not torch.allclose(moved(small(), "fedprox:mu=5"), moved(small(), "fedavg"), atol=1e-5)


def test_fednova_with_equal_steps_is_fedavg(small):
    torch.testing.assert_close(moved(small(), "fednova"), moved(small(), "fedavg"))


def test_fednova_with_unequal_steps_is_the_normalised_average(small):
    problem = small({"data.partition": "dirichlet"})
    method = methods.parse("fednova").build()
    steps = np.array([1, 2, 3, 4, 1, 2])
    captured = {}

    def decide(problem, state, observation):
        return method.decide(problem, state, observation)._replace(steps=steps)

    def keep(*arguments):
        captured["delta"] = method.local(*arguments).delta
        return method.local(*arguments)

    ragged = method._replace(decide=decide, local=keep)
    first = begin(problem, ragged)
    after = play_round(SIMULATED, problem, ragged, first)[1]
    share = first.world.store.size / first.world.store.size.sum()
    expected = sum((share @ steps) * share[k] * captured["delta"][k].double() / steps[k] for k in range(6))
    torch.testing.assert_close((after.params - first.params).double(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_gradient_weight_counts_gradients(momentum):
    for steps in range(1, 8):
        velocity, total = 0.0, 0.0
        for _ in range(steps):
            velocity = momentum * velocity + 1.0  # every gradient is one
            total += velocity
        assert gradient_weight(np.array([steps]), momentum)[0] == pytest.approx(total)


def test_weights_by_samples(small):
    problem = small({"data.partition": "counts", "data.counts": "10,20,30,40,50,60"})
    equal, weighted = moved(problem, "fedavg:weights=equal"), moved(problem, "fedavg")
    assert not torch.allclose(equal, weighted, atol=1e-5)
    torch.testing.assert_close(moved(problem, "fedavg:server_lr=2"), 2 * weighted, rtol=1e-3, atol=1e-6)


def test_one_full_batch_step_of_everyone_is_the_central_gradient(small):
    problem = small({"data.partition": "dirichlet", "train.batch_size": "0", "train.steps": "1"})
    torch.testing.assert_close(moved(problem, "fedavg"), moved(problem, "central"), rtol=1e-3, atol=1e-6)


def test_central_costs_nothing(small):
    rows = [row for row, _ in simulate(small(), methods.parse("central").build())]
    assert sum(row.compute_joule + row.radio_joule + row.uplink_bit + row.clock_s for row in rows) == 0


def test_central_cuts_its_rate(small):
    problem = small({"train.batch_size": "0", "train.steps": "1"})
    module = methods.load("central")
    plain, cut, twice = (
        [after.params for _, after in simulate(problem, module.build(module.Config(lr_cuts=cuts, lr_cut=0.5)))]
        for cuts in ((), (2,), (2, 2))
    )
    assert torch.equal(cut[1], plain[1])
    torch.testing.assert_close(cut[2] - cut[1], 0.5 * (plain[2] - plain[1]))
    torch.testing.assert_close(twice[2] - cut[1], 0.25 * (plain[2] - plain[1]))


def test_central_has_no_settings_that_it_ignores():
    known = {"lr", "steps", "batch_size", "momentum", "lr_cuts", "lr_cut"}
    assert {key for key, _, _ in keys(methods.load("central").Config())} == known
    with pytest.raises(BadInput, match=r"unknown key 'central\.scheduler'"):
        methods.parse("central:scheduler=random")


@pytest.mark.parametrize(
    "wrong",
    [lambda params: params, lambda params: None, lambda params: (params[:-1], 0), lambda params: (params, 0, 0)],
)
def test_what_aggregate_returns_is_checked(small, wrong):
    method = methods.parse("fedavg").build()._replace(aggregate=lambda problem, params, *rest: wrong(params))
    with pytest.raises(ContractError, match=r"^aggregate\(\) returned .*: return \(params \[650\], state\)$"):
        play_round(SIMULATED, small(), method, begin(small(), method))


def test_fit_drops_nobody_who_can_do_one_step(small):
    tight = small({"world.deadline_s": "0.05", "world.cycles_per_sample": "1e5..8e6", "train.steps": "20"})
    fixed, fit = (
        play_round(SIMULATED, tight, method, begin(tight, method))[0]
        for method in (methods.parse(f"fedavg:effort={effort}").build() for effort in ("fixed", "fit"))
    )
    assert fixed.n_delivered < fit.n_delivered == fit.n_selected
    assert fit.round_s <= 0.05 * (1 + 1e-9)


@pytest.mark.parametrize("name", [name for name in SCHEDULERS if name != "poisson"])  # whose number is drawn
def test_scheduler_limits(small, name):
    problem = small(
        {"world.topology": "cells", "world.n_cells": "2", "world.n_devices": "9", "world.availability": "0.8"}
    )
    for round in range(5):
        seen = observation(problem, round)
        chosen = schedule(name, 3, problem, seen)
        assert not (chosen & ~seen.available).any()
        for cell in range(2):
            here = seen.topology.cell == cell
            expected = (seen.available & here).sum() if name == "all" else min(3, (seen.available & here).sum())
            assert (chosen & here).sum() == expected


@pytest.mark.parametrize("world", [{}, {"world.topology": "cells", "world.n_cells": "3"}])
def test_schedule_takes_the_best_of_every_cell(small, world, monkeypatch):
    """Against a plain loop; many scores are equal, and the lower number goes first."""
    problem = small({**world, "world.n_devices": "40", "world.availability": "0.8"})
    seen, scores = observation(problem), np.random.default_rng(3).integers(0, 4, 40).astype(float)
    monkeypatch.setitem(SCHEDULERS, "random", lambda *given: scores)
    expected = set()
    for cell in range(problem.world.n_cells):
        here = [k for k in range(40) if seen.topology.cell[k] == cell and seen.available[k]]
        expected |= set(sorted(here, key=lambda k: (-scores[k], k))[:5])
    assert set(np.flatnonzero(schedule("random", 5, problem, seen))) == expected


def test_the_highest_are_those_that_come_first_when_sorted():
    rng = np.random.default_rng(0)
    for _ in range(200):
        scores = rng.choice([-np.inf, -0.0, 0.0, 1.0, 2.0, 3.0], 9)  # many ties, which go to the lower index
        most = int(rng.integers(1, 10))
        assert set(np.flatnonzero(highest(scores, most))) == set(np.argsort(-scores, kind="stable")[:most])


def test_scheduler_orders(small):
    problem = small({"world.cycles_per_sample": "1e5..1e8"})
    seen = observation(problem)
    assert set(np.flatnonzero(schedule("best-channel", 2, problem, seen))) == set(np.argsort(seen.gain)[-2:])
    fast = np.flatnonzero(schedule("fastest", 2, problem, seen))
    work_s = problem.world.devices.cycles_per_sample / problem.world.devices.cpu_hz
    assert set(fast) == set(np.argsort(work_s)[:2]), "computing dominates here"


def test_fastest_counts_the_work_of_the_method_itself(small):
    """Where slow computers have the good channels, they lose when there is much to compute and win otherwise."""
    problem = small({"world.cycles_per_sample": "1e3..1e4", "train.steps": "1", "train.batch_size": "1"})
    work_s = problem.world.devices.cycles_per_sample / problem.world.devices.cpu_hz
    quickest_first = np.argsort(work_s)
    seen = observation(problem)
    gain = np.empty_like(seen.gain)
    gain[quickest_first] = seen.gain.mean() * 2.0 ** np.arange(6)
    seen = seen._replace(gain=gain)

    def chosen(settings=""):
        method = methods.parse(f"fedavg:scheduler=fastest,n_selected=2{settings}").build()
        return set(np.flatnonzero(method.decide(problem, None, seen).selected))

    assert chosen() == set(quickest_first[-2:])
    assert chosen(",steps=1000000") == chosen(",batch_size=1000000") == set(quickest_first[:2])


def test_round_robin_takes_turns(small):
    problem = small()
    counts = sum(schedule("round-robin", 2, problem, observation(problem, round)).astype(int) for round in range(6))
    assert counts.tolist() == [2] * 6


def test_random_is_fair_and_changes(small):
    problem = small()
    counts = sum(schedule("random", 2, problem, observation(problem, round)).astype(int) for round in range(300))
    assert counts.sum() == 600
    assert counts.min() > 60


def test_blocks_are_never_oversubscribed(small):
    problem = small({"world.access": "block", "world.n_blocks": "2"})
    assert schedule("all", 10, problem, observation(problem)).sum() == 2
    heard = sum(schedule("all", 10, problem, observation(problem, round)).astype(int) for round in range(6))
    assert heard.tolist() == [2] * 6, "everyone gets a turn on the blocks"


def test_method_texts():
    choice = methods.parse("fedprox:mu=0.3,scheduler=random", {"fedprox": {"mu": 9, "lr": 0.2}})
    assert (choice.config.mu, choice.config.scheduler, choice.config.lr) == (0.3, "random", 0.2)
    assert methods.parse("central:lr=0.2,lr_cuts=10, 20,lr_cut=0.5,").config.lr_cuts == (10, 20)
    assert methods.parse("central:lr_cuts=10,20,lr_cut=0.5").config.lr_cut == 0.5
    for text, words in {
        "fedavgg": "did you mean 'fedavg'",
        "fedavg:nn=1": r"unknown key 'fedavg.nn'",
        "fedavg:lr": "has no value",
        "central:lr_cuts=10,x": r"central.lr_cuts = '10,x' is not a list",
        "rawhfl:least_power=-0.1": "at least 0 and at most 1",
        "fedavg:lr=-1": "above 0",
        "fedavg:scheduler=rnd": "did you mean 'random'",
        "./nowhere.py": "does not exist",
    }.items():
        with pytest.raises(BadInput, match=words):
            methods.parse(text)
