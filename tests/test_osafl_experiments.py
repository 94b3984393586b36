"""Verdicts of the experiments on OSAFL, on made-up runs: the paper's own numbers, and others."""

from importlib import import_module as module

import numpy as np
import pytest
from judged import opened

from fedcell.experiment import judge
from fedcell.scenarios import get

ROUNDS = np.arange(1, 101)
PAPERS_OWN = {"m_fednova_printed": "m_fednova", "m_afa_cd_zero": "m_afa_cd"}

_opened = opened("osafl")


def a_row(model, k, entry, seed, best, loss=2.0, full=30):
    """A run whose accuracy has 98 % of its best after `full` rounds.

    The paper's users and requests are another draw: the best has the ceiling of ours, one that names a single file the
    share of the commonest file.
    """
    setting = module("osafl_setting")
    limit, one_file = setting.ceiling(k, seed), {1: 0.0566, 2: 0.0448}[k]
    scale = limit.one_file / one_file if best <= one_file else limit.on_test / {1: 0.6630, 2: 0.3441}[k]
    accuracy = best * scale * (1 - np.exp(-ROUNDS * np.log(50) / full))
    return {
        "case": setting.key(model, k, entry),
        "seed": seed,
        "rounds": ROUNDS.tolist(),
        "accuracy": accuracy.tolist(),
        "loss": (loss + 2.6 * np.exp(-ROUNDS * np.log(50) / full)).tolist(),
        "best_accuracy": float(accuracy.max()),
        "final_accuracy": float(accuracy[-1]),
        "score_mean": [0.6] * len(ROUNDS),
    }


def published(table, change=lambda entry: entry):
    """The runs that the paper's table would come from; `change` renames entries."""
    titles = module("osafl_setting").TITLES
    return [
        a_row(model, table.K, entry, seed, *own[change(PAPERS_OWN.get(entry, entry))])
        for model, own in table.PRINTED.items()
        for entry in titles
        for seed in (1, 3)
    ]


def verdicts(experiment, rows):
    return {finding.claim: finding.verdict for finding in judge(experiment, rows)}


@pytest.mark.parametrize("name", ["table2", "table3", "table4", "table5"])
def test_the_papers_own_numbers_are_reproduced(name):
    table = module(name)
    assert set(verdicts(table.EXPERIMENT, published(table)).values()) == {"reproduced"}


@pytest.mark.parametrize("name", ["table2", "table4"])
def test_other_numbers_are_not(name):
    table = module(name)
    swapped = {"osafl": "m_afa_cd", "m_afa_cd": "osafl", "m_fedprox": "central", "m_fednova": "central"}
    found = verdicts(table.EXPERIMENT, published(table, lambda entry: swapped.get(entry, entry)))
    assert found["order"] == "partly"
    assert found["collapse"] == "not reproduced"
    assert found["values"] == "partly"
    assert found.get("genie", found.get("ratio")) == "not reproduced"


@pytest.mark.parametrize("name", ["table2", "table5", "fig4", "fig5", "fig6", "ablation", "rates", "fig1"])
def test_nothing_run_is_not_judged_but_drawn(name):
    experiment = module(name).EXPERIMENT
    assert set(verdicts(experiment, []).values()) == {"not run"}
    experiment.plot([])


def test_some_models_alone_are_judged_in_part():
    table = module("table2")
    rows = [row for row in published(table) if row["case"].startswith("fcn ")]
    found = verdicts(table.EXPERIMENT, rows)
    assert found["order"] == "partly"
    assert found["shrink"] == found["squeeze_loss"] == "not run"
    table.EXPERIMENT.plot(rows)


def test_when_curves_saturate():
    figure = module("fig4")
    pace = {("osafl", 1): 32, ("osafl", 2): 60, ("m_fednova", 1): 85, ("m_fednova", 2): 82}
    rows = [a_row("fcn", k, entry, 1, 0.6, full=full) for (entry, k), full in pace.items()]
    rows += [a_row("fcn", 1, "m_afa_cd", 1, 0.05, full=1)]
    found = verdicts(figure.EXPERIMENT, rows)
    assert found["osafl_fcn"] == "partly"
    assert found["nova_fcn"] == "reproduced"
    assert found["afa_flat"] == "reproduced"
    assert found["squeeze_30"] == found["cnn_80"] == "not run"
    figure.EXPERIMENT.plot(rows)


def test_points_of_a_curve():
    figure = module("fig6")
    at_40 = 1 - np.exp(-40 * np.log(50) / 30)
    rows = [
        a_row("lstm", 1, "m_fednova_printed" if entry == "m_fednova" else entry, 1, value / at_40)
        for entry, value in figure.AT_40[1].items()
    ]
    found = verdicts(figure.EXPERIMENT, rows)
    assert found["k1_40"] == "reproduced"
    assert found["k2_40"] == "not run"
    slow = [row for row in rows if "osafl" not in row["case"]] + [a_row("lstm", 1, "osafl", 1, 0.05)]
    assert verdicts(figure.EXPERIMENT, slow)["k1_40"] == "not reproduced"


def test_scores_and_literal_readings():
    ablation = module("ablation")
    same = [a_row("fcn", 1, entry, seed, 0.6) for entry in ("osafl", ablation.MATCHED) for seed in (1, 2)]
    lost = a_row("fcn", 1, ablation.START, 1, 0.1) | {"diverged": "round 4", "final_accuracy": float("nan")}
    lost["accuracy"] = [0.1, *[float("nan")] * 99]
    fine = a_row("fcn", 1, ablation.SEQUENCE, 1, 0.6)
    rows = [*same, lost, fine]
    found = verdicts(ablation.EXPERIMENT, rows)
    assert found["early"] == found["best"] == found["start"] == "not reproduced"
    assert found["sequence"] == "reproduced"
    ablation.EXPERIMENT.plot(rows)
    better = [row for row in same if "score=mean" not in row["case"]]
    better += [a_row("fcn", 1, ablation.MATCHED, seed, 0.5, full=60) for seed in (1, 2)]
    assert verdicts(ablation.EXPERIMENT, better)["early"] == "reproduced"


def test_static_against_time_varying():
    figure = module("fig1")
    smooth = a_row("fcn", 1, "osafl", 1, 0.6, loss=1.0) | {"case": figure.STATIC}
    rough = a_row("fcn", 1, "osafl", 1, 0.5, loss=1.5) | {"case": figure.VARYING}
    shake = 0.01 * np.random.default_rng(1).normal(size=len(ROUNDS))
    rough |= {name: (np.array(rough[name]) + shake).tolist() for name in ("accuracy", "loss")}
    assert set(verdicts(figure.EXPERIMENT, [smooth, rough]).values()) == {"reproduced"}
    swapped = [smooth | {"case": figure.VARYING}, rough | {"case": figure.STATIC}]
    assert set(verdicts(figure.EXPERIMENT, swapped).values()) == {"not reproduced"}


def test_the_chosen_rate_is_found():
    rates = module("rates")
    chosen = rates.step("central", rates.setting.method_of("fcn", "central")[1])
    grid = rates.CENTRAL["fcn"]
    assert chosen in grid
    for winner, verdict in ((chosen, "reproduced"), (next(rate for rate in grid if rate != chosen), "not reproduced")):
        rows = [
            a_row("fcn", 1, rates.name("central", rate), 1, 0.6 if rate == winner else 0.3, full=10) for rate in grid
        ]
        assert verdicts(rates.EXPERIMENT, rows)["central"] == verdict


def test_files_that_share_runs_agree_on_them():
    """A case key stands for one set of settings in every file of the store."""
    known = {}
    for name in ("fig4", "fig5", "fig6", "table2", "table3", "table4", "table5", "ablation"):
        experiment = module(name).EXPERIMENT
        assert experiment.store == "tables"
        for case in experiment.cases(False):
            assert known.setdefault(case.key, case) == case
    assert "lstm K=2 m_fednova_printed" in known


def test_users_and_stragglers_need_no_runs():
    stragglers, shares = module("fig3"), module("fig2")
    assert stragglers.parameters() == {"squeezenet": 773_796, "cnn": 1_026_772, "lstm": 1_414_500, "fcn": 2_217_956}
    assert {claim.key for claim in shares.CLAIMS} == {"top", "least", "users"}
    wandering = np.array([[0.5, 0.3, 0.1, 0.1, 0.0], [0.6, 0.2, 0.15, 0.05, 0.0]])
    common, rare = shares.picked(wandering)
    assert common.tolist() == [0, 1]
    assert rare.tolist() == [2, 3]


@pytest.mark.parametrize("name", ["osafl", "osafl_cnn", "osafl_squeezenet", "osafl_lstm"])
def test_scenarios_have_rates_for_every_method_they_compare(name):
    preset = get(name)
    assert set(preset.methods) == set(preset.compare)
    assert preset.config.scenario == name
    printed = module(f"fedcell.scenarios.{name}").PRINTED["m_fednova"]
    assert printed["lr"] == preset.methods["m_fednova"]["lr"]
    assert printed["server_lr"] != preset.methods["m_fednova"]["server_lr"]
