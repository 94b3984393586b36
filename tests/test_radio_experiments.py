"""Verdicts of the experiments on Sionna, FEDL and joint assignment, on made-up rows and on small runs."""

from dataclasses import replace
from functools import partial
from importlib import import_module as module

import numpy as np
import pytest
from judged import EXPERIMENTS, check_without_runs, verdicts

from fedcell import from_arrays, methods
from fedcell.experiment import catalogue, run_case
from fedcell.scenarios import build_problem
from fedcell.simulate import simulate

SEEDS = (1, 2, 3, 4, 5)


@pytest.fixture(params=["sionna", "fedl", "joint"])
def paper(request):
    with catalogue.opened(EXPERIMENTS / request.param):
        yield request.param


def opened(name: str):
    return catalogue.opened(EXPERIMENTS / name)


def test_without_runs(paper):
    for entry in catalogue.entries(EXPERIMENTS):
        if entry.paper == paper:
            check_without_runs(entry.name)


# ---------------------------------------------------------------- Sionna


def test_answers_of_sionna_are_met():
    """The path loss and the link of this code, judged as they are."""
    with opened("sionna"):
        for name in ("pathloss", "link"):
            (case,) = module(name).cases(False)
            assert set(verdicts(name, [run_case(case, 1)]).values()) == {"reproduced"}


def test_a_link_or_a_loss_that_is_off_is_told():
    with opened("sionna"):
        (case,) = module("link").cases(True)
        row = run_case(case, 1)
        off = row | {"worst": [*row["worst"][:-1], 0.2], "agrees": 0.99, "power": 1e-3}
        found = verdicts("link", [off])
        assert found == {"thresholds": "partly", "schemes": "not reproduced", "powers": "not reproduced"}
        unasked = row | {"asked": [0, *row["asked"][1:]]}
        assert verdicts("link", [unasked])["thresholds"] == "partly"
        loss = {"case": "urban macro", "seed": 1, "points": 1, "worst sight": 1e-6, "worst none": 0, "worst chance": 0}
        assert verdicts("pathloss", [loss]) == {"sight": "not reproduced", "none": "reproduced", "chance": "reproduced"}


def test_memory_is_judged_by_its_laws():
    with opened("sionna"):
        one = module("correlation")

        def rows(shift):
            return [
                {"case": one.CASE, "seed": seed}
                | {kind: [one.law(kind, at) + shift + 0.001 * seed for at in one.AT[kind]] for kind in one.AT}
                for seed in SEEDS
            ]

        assert set(verdicts("correlation", rows(0.0)).values()) == {"reproduced"}
        assert set(verdicts("correlation", rows(0.05)).values()) == {"not reproduced"}


# ---------------------------------------------------------------- FEDL


def test_slots_are_optimal_and_played():
    with opened("fedl"):
        (case,) = module("slots").cases(True)
        row = run_case(case, 1)
        assert set(verdicts("slots", [row | {"seed": seed} for seed in SEEDS]).values()) == {"reproduced"}
        worse = row | {"saved": [1e-3] * len(row["saved"]), "joule": row["joule"][::-1], "off": [1e-6]}
        found = verdicts("slots", [worse | {"seed": seed} for seed in SEEDS])
        assert found == {"optimal": "not reproduced", "trade": "partly", "played": "not reproduced"}


# ---------------------------------------------------------------- joint assignment


def test_assignments_are_those_of_scipy(monkeypatch):
    with opened("joint"):
        monkeypatch.setattr(module("assignment"), "DRAWS", 3)
        rows = [run_case(case, seed) for case in module("assignment").cases(False) for seed in (1, 2, 3)]
        assert verdicts("assignment", rows)["optimum"] == "reproduced"
        for row in rows:
            assert all(row["optimal"][k] >= max(row["blocks"][k], row["random"][k]) for k in range(3))
        worse = [row | {"anew": [1.01 * one for one in row["anew"]]} for row in rows]
        assert verdicts("assignment", worse)["optimum"] == "not reproduced"


def test_accuracies_decide():
    with opened("joint"):
        one = module("accuracy")
        levels = {"optimal": 0.9, "blocks": 0.89, "random": 0.88}

        def rows(lift):
            return [
                {
                    "case": one.key(n, order),
                    "seed": seed,
                    "rounds": list(range(5, 61, 5)),
                    "accuracy": [level + lift * (order != "optimal") + 0.001 * (seed % 3)] * 12,
                    "loss": [1 - level - lift * (order != "optimal")] * 12,
                    "expected": [1000 * level] * 60,
                }
                for n in (6, 9)
                for order, level in levels.items()
                for seed in SEEDS
            ]

        assert set(verdicts("accuracy", rows(0.0)).values()) == {"reproduced"}
        found = verdicts("accuracy", rows(0.05))
        assert (found["blocks"], found["users"]) == ("not reproduced", "not reproduced")


def test_a_round_of_each_order_is_played():
    """On drawn images: the users and blocks of every order go through the loop."""
    rng = np.random.default_rng(1)
    x, y = rng.random((3000, 1, 28, 28), dtype=np.float32), np.arange(3000) % 10
    data = from_arrays(x, y, x[:50], y[:50])
    with opened("joint"):
        setting = module("joint_setting")
        config, expected = replace(setting.base(1), seed=3), {}
        for order in setting.ORDERS:
            method = methods.parse("fedavg").build()._replace(decide=partial(setting.decide, order))
            with setting.listed(config, 6) as whole:
                ((row, _),) = simulate(build_problem(whole, data), method)
            expected[order] = row.metrics["expected"]
            assert row.n_selected <= 6
        assert expected["optimal"] >= max(expected.values())
