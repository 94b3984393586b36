"""Verdicts of the experiments on representativity and latency on made-up runs."""

from importlib import import_module as module

import numpy as np
import pytest
from judged import EXPERIMENTS, opened, verdicts

from fedcell.experiment import run_case
from fedcell.experiment.ledger import ledger, totals

FILES = ("fig2", "fig3", "fig4", "fig5", "fig6")
ROUNDS = np.arange(2, 201, 2)
SEEDS = (1, 2, 3)

_opened = opened("representativity")


def a_row(case, seed, level, round_s=1.0, half=20.0, **columns):
    """A run that rises to `level`, half of it in `half` rounds."""
    accuracy = (level + 0.001 * seed) * (1 - 0.5 ** (ROUNDS / half))
    return {
        "case": case,
        "seed": seed,
        "rounds": ROUNDS.tolist(),
        "accuracy": accuracy.tolist(),
        "seconds": (round_s * ROUNDS).tolist(),
        "n_scheduled": [10.0] * 200,
        "error_mean": [3.0] * 200,
        **columns,
    }


# ---------------------------------------------------------------- Figures 3.3 and 3.4


def as_printed(data, leads, levels, gap):
    """Runs with the printed leads over random scheduling, and centralised training above."""
    rows = []
    for (m, n), lead in leads.items():
        for policy, below in {"Representativity": 0.0, "RS": lead, "PC": lead + 0.01, "Max-GNS": lead + 0.02}.items():
            key = module("representativity_policies").key(data, m, policy, n)
            half = 15.0 if policy == "Representativity" else 25.0
            rows += [a_row(key, seed, levels[m, n] - below, half=half) for seed in SEEDS]
    return rows + [a_row(f"{data}/Centralised", seed, levels[2, 10] + gap, half=5.0) for seed in SEEDS]


def mnist(scale=1.0):
    leads = {(2, 10): 0.067 * scale, (2, 20): 0.005 * scale, (3, 10): 0.0473 * scale, (3, 20): 0.044 * scale}
    return as_printed("mnist", leads, {(2, 10): 0.90, (2, 20): 0.90, (3, 10): 0.907, (3, 20): 0.95}, 0.041)


def cifar(scale=1.0):
    leads = {(2, 10): 0.0402 * scale, (2, 20): 0.018 * scale, (3, 10): 0.0206 * scale, (3, 20): 0.0144 * scale}
    return as_printed("cifar", leads, {(2, 10): 0.55, (2, 20): 0.55, (3, 10): 0.6, (3, 20): 0.6}, 0.1)


def test_printed_accuracies_are_reproduced():
    found = verdicts("fig3", mnist())
    assert found.pop("fewer") == "partly", "the printed leads themselves do not fall with the classes at 20 devices"
    assert set(found.values()) == {"reproduced"}
    assert set(verdicts("fig4", cifar()).values()) == {"reproduced"}


def test_leads_the_other_way_are_not():
    for name, rows in (("fig3", mnist(-1.0)), ("fig4", cifar(-1.0))):
        found = verdicts(name, rows)
        gains = {key: verdict for key, verdict in found.items() if "gain" in key}
        assert set(gains.values()) == {"not reproduced"}
        assert found["m2 best"] != "reproduced"
        assert found["fewer"] != "reproduced"


def test_a_small_lead_is_a_part_of_it():
    assert verdicts("fig3", mnist(0.3))["m2 gain10"] == "partly"


def test_a_centre_that_is_far_away_or_below():
    def moved(rows, by):
        return [row | {"accuracy": [v + by for v in row["accuracy"]]} if "Cent" in row["case"] else row for row in rows]

    assert verdicts("fig3", moved(mnist(), 0.2))["m2 central"] == "partly"
    assert verdicts("fig3", moved(mnist(), -0.2))["m2 central"] == "not reproduced"


# ---------------------------------------------------------------- Figures 3.5 and 3.6


def timed(data, faster, level=0.95, ratio=True):
    """L&R-aware runs that take `1 - faster` of the time of the others per round, pair by pair a little more."""
    times, rows = module("representativity_times"), []
    grid = times.GRIDS[data]
    for m in (2, 3):
        base = 2.0 / m
        for policy in times.SINGLE:
            for n in times.SIZES:
                rows += [a_row(times.sized(data, m, policy, n), seed, level, base * (1 + n / 1000)) for seed in SEEDS]
        for scale, pairs in (("mean", grid.pairs), ("sum", grid.printed)):
            for rho1, rho2 in pairs:
                slow = 1 + 0.01 * rho1 / rho2 + 0.001 * rho1
                size = [10 * rho1 / rho2 * (1 if ratio else -1) + 100.0] * 200
                round_s = base * 1.01 * (1 - faster) * slow
                key = times.both(data, m, (rho1, rho2), scale)
                rows += [a_row(key, seed, level, round_s + 0.001 * seed, n_scheduled=size) for seed in SEEDS]
    return rows


def test_faster_runs_are_reproduced():
    assert set(verdicts("fig5", timed("mnist", 0.45)).values()) == {"reproduced"}
    assert set(verdicts("fig6", timed("cifar", 0.2)).values()) == {"reproduced"}


def test_slower_runs_are_not():
    for name, data in (("fig5", "mnist"), ("fig6", "cifar")):
        found = verdicts(name, timed(data, -0.3, ratio=False))
        of_time = [key for key in found if "fastest" in key or "to" in key.split()[-1][:2] or key.startswith("worst")]
        assert {found[key] for key in of_time} == {"not reproduced"}
    assert verdicts("fig5", timed("mnist", 0.4, ratio=False))["size"] == "not reproduced"


def test_a_little_faster_is_a_part_of_it():
    assert verdicts("fig5", timed("mnist", 0.05))["m2 to80"] == "partly"


def test_targets_that_are_never_reached():
    never = timed("mnist", 0.4, level=0.6)
    assert verdicts("fig5", never)["m2 to80"] == "not reproduced"
    others_never = [row if "L&R" in row["case"] else row | {"accuracy": [0.1] * 100} for row in timed("mnist", 0.4)]
    assert verdicts("fig5", others_never)["m2 to80"] == "reproduced"
    for rows in (never, others_never):
        module("fig5").EXPERIMENT.plot(rows)


def test_seconds_to_an_accuracy_are_of_three_evaluations_in_a_row():
    setting = module("representativity_setting")
    row = {"accuracy": [0.1, 0.9, 0.1, 0.1, 0.8, 0.8, 0.8], "seconds": [1, 2, 3, 4, 5, 6, 7]}
    assert setting.seconds_to(0.8)(row) == 7
    assert setting.seconds_to(0.5)(row) == 2, "the mean of the first two"
    assert setting.seconds_to(0.95)(row) == np.inf


# ---------------------------------------------------------------- Figure 3.2


def estimates(data, previous, batches):
    figure, rng, rows = module("fig2"), np.random.default_rng(1), []
    for schedule in figure.SCHEDULES:
        for seed in SEEDS:
            columns = {"estimate_previous": (previous + 0.01 * rng.random(200)).tolist()}
            for batch, value in zip(figure.BATCHES, batches, strict=True):
                columns[f"estimate_batch{batch}"] = (value * (1 + 0.2 * rng.random(200))).tolist()
            rows.append(a_row(figure.key(data, schedule), seed, 0.9, **columns))
    return rows


def test_estimates_in_the_printed_order_and_in_another():
    rows = [*estimates("mnist", 1.0, (9.0, 6.0, 4.0)), *estimates("cifar", 5.0, (1.0, 2.0, 3.0))]
    found = verdicts("fig2", rows)
    assert {found["mnist lowest"], found["mnist batch"], found["mnist swing"], found["cifar swing"]} == {"reproduced"}
    assert {found["cifar lowest"], found["cifar batch"]} == {"not reproduced"}
    module("fig2").EXPERIMENT.plot(rows)


# ---------------------------------------------------------------- all of them


@pytest.mark.parametrize("name", FILES)
def test_nothing_run_is_not_judged_but_drawn(name):
    assert set(verdicts(name, []).values()) == {"not run"}
    module(name).EXPERIMENT.plot([])


@pytest.mark.parametrize("name", FILES)
def test_cases_have_settings_that_exist_and_names_of_their_own(name):
    for quick in (True, False):
        cases = module(name).EXPERIMENT.cases(quick)
        assert len({case.key for case in cases}) == len(cases)
        for case in cases:
            method = module(f"fedcell.methods.{case.method}")
            assert set(case.settings) <= set(method.Config.__dataclass_fields__)
            assert quick or case.config.rounds >= 60


def test_figures_share_the_runs_that_they_have_in_common():
    three, five = ({case.key: case for case in module(name).EXPERIMENT.cases(False)} for name in ("fig3", "fig5"))
    common = three.keys() & five.keys()
    assert len(common) == 4, "by representativity, 10 and 20 devices, m = 2 and 3"
    for key in common:
        assert three[key].config == five[key].config
        assert {"weights": "policy", **three[key].settings} == {"weights": "policy", **five[key].settings}


def test_drawn_as_printed():
    for name, rows in (
        ("fig3", mnist()),
        ("fig4", cifar()),
        ("fig5", timed("mnist", 0.4)),
        ("fig6", timed("cifar", 0.2)),
    ):
        assert len(module(name).EXPERIMENT.plot(rows).axes) >= 2


def test_a_case_runs_on_small_data(monkeypatch):
    """The columns that the judges read are those that a run has."""
    from dataclasses import replace

    from fedcell.data.settings import DataConfig
    from fedcell.learn.settings import ModelConfig

    times = module("representativity_times")
    case = next(one for one in times.cases("mnist", True) if "L&R" in one.key)
    config = replace(
        case.config,
        rounds=2,
        data=DataConfig(name="digits", partition="shards"),
        model=ModelConfig(name="logistic"),
        world=replace(case.config.world, n_devices=12),
        train=replace(case.config.train, device="cpu"),
    )
    row = run_case(case._replace(config=config), 1)
    assert module("representativity_setting").n_scheduled(row) >= 1
    assert len(row["error_mean"]) == 2
    watched = run_case(case._replace(config=config, settings={"diagnose": "estimates", "n_selected": 3}), 1)
    assert set(module("fig2").COLUMNS.values()) <= set(watched)


def test_the_ledger_has_every_claim():
    rows = [row for row in ledger(EXPERIMENTS) if row.paper == "representativity"]
    assert {row.experiment for row in rows} == set(FILES)
    assert sum(totals(rows).values()) == 42, "claims of the chapter; second readings are not counted"
