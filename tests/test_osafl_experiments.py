"""Verdicts of the experiments on OSAFL, on made-up runs: the paper's own numbers, and others."""

from importlib import import_module as module

import numpy as np
import pytest
from judged import opened

from fedcell.experiment import judge
from fedcell.scenarios import get

ROUNDS = np.arange(1, 101)
SEEDS = (31, 32, 33)
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
        for seed in SEEDS
    ]


def verdicts(experiment, rows):
    return {finding.claim: finding.verdict for finding in judge(experiment, rows)}


@pytest.mark.parametrize("name", ["table2", "table3", "table4", "table5"])
def test_the_papers_own_numbers_are_reproduced(name):
    table = module(name)
    rows = published(table)
    found = {one.claim: one for one in judge(table.EXPERIMENT, rows) if not one.claim.endswith("_norm")}
    assert not {one.claim: one for one in found.values() if one.verdict != "reproduced"}
    two = [row for row in rows if row["seed"] in SEEDS[:2]]
    assert {one.verdict for one in judge(table.EXPERIMENT, two) if not one.claim.endswith("_norm")} == {"indicated"}


@pytest.mark.parametrize("name", ["table2", "table4"])
def test_other_numbers_are_not(name):
    table = module(name)
    swapped = {"osafl": "m_afa_cd", "m_afa_cd": "osafl", "m_fedprox": "central", "m_fednova": "central"}
    found = verdicts(table.EXPERIMENT, published(table, lambda entry: swapped.get(entry, entry)))
    assert found["order"] in ("partly", "not reproduced")
    assert found["collapse"] == "not reproduced"
    assert found["values"] in ("partly", "not reproduced")
    assert found.get("genie", found.get("ratio")) == "not reproduced"


@pytest.mark.parametrize(
    "name",
    [
        "table2",
        "table5",
        "fig4",
        "fig5",
        "fig6",
        "ablation",
        "rates",
        "fig1",
        "fig2",
        "local_step",
        "content_scaling",
        "pictures",
        "tuned",
    ],
)
def test_nothing_run_is_not_judged_but_drawn(name):
    experiment = module(name).EXPERIMENT
    assert set(verdicts(experiment, []).values()) == {"not run"}
    experiment.plot([])


def test_some_models_alone_leave_claims_about_all_open():
    table = module("table2")
    rows = [row for row in published(table) if row["case"].startswith(("fcn ", "cnn "))]
    found = verdicts(table.EXPERIMENT, rows)
    assert found["order"] == "partly"
    assert found["squeeze_loss"] == "not run"
    assert found["shrink"] == "reproduced", "it is about these two"
    alone = verdicts(table.EXPERIMENT, [row for row in rows if row["case"].startswith("fcn ")])
    assert alone["order"] == alone["shrink"] == "not run"
    table.EXPERIMENT.plot(rows)


def test_when_curves_saturate():
    figure = module("fig4")
    pace = {("osafl", 1): 32, ("osafl", 2): 60, ("m_fednova", 1): 85, ("m_fednova", 2): 82}
    rows = [a_row("fcn", k, entry, seed, 0.6, full=full) for (entry, k), full in pace.items() for seed in SEEDS]
    rows += [a_row("fcn", k, "m_afa_cd", seed, 0.05, full=1) for seed in SEEDS for k in (1, 2)]
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
        a_row("lstm", 1, "m_fednova_printed" if entry == "m_fednova" else entry, seed, value / at_40 + seed / 1e5)
        for entry, value in figure.AT_40[1].items()
        for seed in SEEDS
    ]
    found = verdicts(figure.EXPERIMENT, rows)
    assert found["k1_40"] == "reproduced"
    assert found["k2_40"] == "not run"
    slow = [row for row in rows if "osafl" not in row["case"]] + [
        a_row("lstm", 1, "osafl", seed, 0.05) for seed in SEEDS
    ]
    assert verdicts(figure.EXPERIMENT, slow)["k1_40"] != "reproduced"


def test_scores_and_a_literal_reading():
    ablation = module("ablation")
    pairs = [(model, k) for model, k in ablation.PAIRS]
    same = [
        a_row(model, k, entry, s, 0.6) for model, k in pairs for entry in ("osafl", ablation.MATCHED) for s in SEEDS
    ]
    lost = [a_row("fcn", 1, ablation.START, seed, 0.1) | {"final_accuracy": float("nan")} for seed in SEEDS]
    lost = [row | {"diverged": "round 4", "accuracy": [0.1, *[float("nan")] * 99]} for row in lost]
    found = verdicts(ablation.EXPERIMENT, same + lost)
    assert found["early"] == found["best"] == found["start"] == "not reproduced"
    ablation.EXPERIMENT.plot(same + lost)
    better = [row for row in same if "score=mean" not in row["case"]]
    better += [a_row(model, k, ablation.MATCHED, seed, 0.5, full=60) for model, k in pairs for seed in SEEDS]
    assert verdicts(ablation.EXPERIMENT, better)["early"] == "reproduced"


def test_both_readings_of_a_local_step():
    step = module("local_step")
    level = {entry: 0.6 - 0.02 * place for place, entry in enumerate(step.METHODS)}
    rows = [a_row("fcn", 1, entry, seed, value) for entry, value in level.items() for seed in SEEDS]
    rows += [a_row("fcn", 1, step.sequence(entry), seed, 0.3) for entry in level for seed in SEEDS]
    found = verdicts(step.EXPERIMENT, rows)
    assert found == {"mean": "reproduced", "lead_mean": "reproduced", "lead_sequence": "not reproduced"}
    assert {case.settings["inner"] for case in step.cases(False) if "inner=" in case.key} == {"sequential"}


def test_scaling_is_judged_on_every_seed():
    scaling = module("content_scaling")
    entries = ["osafl", *module("osafl_setting").BASELINES]
    rows = [a_row("fcn", 1, entry, s, 0.66 - 0.05 * bool(i), full=10) for i, entry in enumerate(entries) for s in SEEDS]
    found = verdicts(scaling.EXPERIMENT, rows)
    assert found["quick"] == found["stable"] == found["ahead"] == "reproduced"
    assert found["unit"] == found["standard"] == "not run"
    slow = [
        row | ({"accuracy": [0.3] * 100} if row["case"].endswith(" osafl") and row["seed"] == 31 else {})
        for row in rows
    ]
    assert verdicts(scaling.EXPERIMENT, slow)["quick"] != "reproduced"
    settings = {case.key: case.config.video.scaling for case in scaling.cases(False)}
    assert (settings["fcn K=1 osafl"], settings["cnn K=1 osafl standard"]) == ("half", "standard")


def test_every_method_at_its_best_rate():
    tuned = module("tuned")
    rows = [
        a_row(model, 1, tuned.entry(method, times), seed, 0.3 * (method == "osafl") + 0.2 + 0.01 * place)
        for model, rivals in tuned.RIVALS.items()
        for method in (tuned.OURS, *rivals)
        for place, times in enumerate(tuned.grid(model, method))
        for seed in SEEDS
    ]
    assert set(verdicts(tuned.EXPERIMENT, rows).values()) == {"reproduced"}
    assert tuned.best_rate(rows, "lstm", "m_fedavg") == "m_fedavg rate x10"
    fewer = [row for row in rows if not row["case"].endswith("m_fedavg rate x3")]
    assert tuned.best_rate(fewer, "lstm", "m_fedavg") == "m_fedavg rate x3", "nobody knows its best rate yet"
    less = [row for row in rows if not row["case"].endswith(" osafl")]
    assert verdicts(tuned.EXPERIMENT, less)["ahead lstm"] == "not run"
    rates = {case.key: case.settings for case in tuned.cases(False)}
    assert rates["lstm K=1 m_fedavg rate x3"]["lr"] == 3 * rates["lstm K=1 m_fedavg"]["lr"]
    assert {key for key in rates if key.startswith("squeezenet K=1") and "rate" in key} == {
        "squeezenet K=1 osafl rate x0.333333",
        "squeezenet K=1 osafl rate x3",
    }, "the baselines stay as they are in the tables"


def test_static_against_time_varying():
    figure = module("fig1")
    smooth = [a_row("fcn", 1, "osafl", seed, 0.6, loss=1.0) | {"case": figure.STATIC} for seed in SEEDS]
    rough = [a_row("fcn", 1, "osafl", seed, 0.5, loss=1.5) | {"case": figure.VARYING} for seed in SEEDS]
    for row in rough:
        shake = 0.01 * np.random.default_rng(row["seed"]).normal(size=len(ROUNDS))
        row |= {name: (np.array(row[name]) + shake).tolist() for name in ("accuracy", "loss")}
    assert set(verdicts(figure.EXPERIMENT, smooth + rough).values()) == {"reproduced"}
    turned = {figure.STATIC: figure.VARYING, figure.VARYING: figure.STATIC}
    swapped = [row | {"case": turned[row["case"]]} for row in smooth + rough]
    assert set(verdicts(figure.EXPERIMENT, swapped).values()) == {"not reproduced"}


def test_the_chosen_rate_is_found():
    rates = module("rates")
    chosen = rates.step("central", rates.setting.method_of("fcn", "central")[1])
    grid = rates.CENTRAL["fcn"]
    assert chosen in grid
    for winner, words in ((chosen, ": holds"), (next(rate for rate in grid if rate != chosen), "does not hold")):
        rows = [
            a_row("fcn", 1, rates.name("central", rate), 1, 0.6 if rate == winner else 0.3, full=10) for rate in grid
        ]
        found = {one.claim: one for one in judge(rates.EXPERIMENT, rows)}["central"]
        assert found.verdict == "indicated"
        assert words in found.reason


def test_files_that_share_runs_agree_on_them():
    """A case key stands for one set of settings in every file of the store."""
    known = {}
    shared = (
        "fig4",
        "fig5",
        "fig6",
        "table2",
        "table3",
        "table4",
        "table5",
        "ablation",
        "local_step",
        "content_scaling",
        "tuned",
    )
    for name in shared:
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
