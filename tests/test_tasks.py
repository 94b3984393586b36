"""Runs of every task: they learn, are recorded and shown by their leading metric, and refuse what needs labels."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import fedcell
from fedcell import methods, options, record, report, scenarios
from fedcell.cli import main
from fedcell.errors import BadInput, Diverged
from fedcell.metrics import SCORES, TASKS, leading
from fedcell.record.prepare import prepare
from fedcell.record.reading import Records
from fedcell.report import figure
from fedcell.simulate import simulate
from fedcell.web import report as page

CURVES = Path(fedcell.__file__).parent / "web" / "assets" / "curves.js"
TINY = {
    "diabetes": {"world.n_devices": 4, "train.steps": 2},
    "tags": {"world.n_devices": 4, "train.steps": 2},
    "characters": {
        "world.n_devices": 4,
        "train.steps": 2,
        "train.batch_size": 8,
        "model.width": 16,
        "model.layers": 1,
        "characters.length": 16,
        "characters.samples": 12,
        "characters.test_samples": 4,
    },
}
TASK_OF = {"diabetes": "regression", "tags": "multi-label", "characters": "next-token"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def tiny(name, **changes):
    return options.override(scenarios.get(name).config, {"rounds": 2, **TINY[name], **changes})


# ---------------------------------------------------------------- they learn


LEARNERS = ["fedavg", "fedprox", "scaffold", "fedavg:scheduler=round-robin,n_selected=5"]
BEATEN = {  # rounds, settings, and how far below or above a constant answer each must end
    "diabetes": (8, {}, lambda score, chance: score < 0.85 * chance),
    "tags": (8, {}, lambda score, chance: score > chance + 0.1),
    "characters": (
        6,
        {"model.width": 32, "model.layers": 1, "train.steps": 8},
        lambda score, chance: score < 0.75 * chance,
    ),
}


@pytest.mark.parametrize("method", LEARNERS)
@pytest.mark.parametrize("name", BEATEN)
def test_scenarios_learn_more_than_a_constant_answer(name, method):
    rounds, changes, ahead = BEATEN[name]
    (one,) = fedcell.run([method], name, {"rounds": rounds, "eval_every": rounds, **changes})
    final = float(one.columns[leading(TASK_OF[name]).name][-1])
    assert one.task == TASK_OF[name]
    assert ahead(final, one.chance)
    if name == "characters":
        assert final < 26 / 2  # of a fair die with as many sides as there are characters


NEED = {"apfl", "ditto", "fedkd", "fedrep", "knowledge", "m_feddisco", "moon", "streaming", "top_popular"}


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("method", sorted(NEED))
def test_methods_that_need_labels_are_refused_by_name(name, method):
    with pytest.raises(
        BadInput, match=f"'{method}' needs class labels, which the task '{TASK_OF[name]}' does not have"
    ):
        prepare(tiny(name), [method])


RUN = [
    (method, name)
    for method in methods.names()
    for name in TINY
    if method not in NEED and (method, name) != ("pruning", "characters")  # a transformer has no units to prune
]


@pytest.mark.parametrize(("method", "name"), RUN)
def test_all_other_methods_run_every_task(method, name):
    tamed = f"{method}:server_lr=1e-6" if method == "m_afa_cd" else method  # it steps by gradients, whatever their size
    problem, jobs = prepare(tiny(name), [tamed])
    wanted = [one.name for one in TASKS[TASK_OF[name]]]
    for row, _ in simulate(problem, jobs[0].method):
        assert [column for column in wanted if np.isfinite(row.metrics[column])] == wanted


def test_methods_that_look_at_labels_say_so():
    needs = {name for name in methods.names() if methods.parse(name).build().needs_labels}
    assert needs == NEED
    assert methods.parse("osafl:score=kkt").build().needs_labels


def test_a_run_that_diverges_is_judged_by_the_scale_of_its_targets():
    problem, jobs = prepare(tiny("diabetes", **{"train.lr": 0.02, "rounds": 30}), ["fedavg"])
    assert problem.hopeless_loss > 1e9
    with pytest.raises(Diverged):
        list(simulate(problem, jobs[0].method))


def test_statistics_of_devices_need_labels():
    from torch import nn

    model = nn.Sequential(nn.Linear(10, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))
    settings = {"rounds": 2, **TINY["diabetes"]}
    (one,) = fedcell.run("fedavg", "diabetes", {**settings, "model.buffers": "average"}, model=model)
    assert np.isfinite(one.columns["rmse"]).all()
    with pytest.raises(BadInput, match=r"model.buffers = 'local' needs class labels, which the task 'regression'"):
        fedcell.run("fedavg", "diabetes", {**settings, "model.buffers": "local"}, model=model)


# ---------------------------------------------------------------- they are recorded


@pytest.fixture
def runs(tmp_path):
    return fedcell.run(["fedavg", "fedprox"], "diabetes", {"rounds": 3, **TINY["diabetes"]}, out=tmp_path / "runs")


def test_records_hold_the_task(runs, tmp_path):
    spec = json.loads((tmp_path / "runs" / "fedavg" / "run.json").read_text())
    assert spec["task"] == "regression"
    assert spec["chance"] == pytest.approx(77.05, abs=0.01)
    totals = json.loads((tmp_path / "runs" / "fedavg" / "status.json").read_text())["totals"]
    scores = runs[0].columns["rmse"]
    assert (totals["rmse_best"], totals["rmse_final"]) == (scores.min(), scores[-1])
    (info, _) = record.find(tmp_path / "runs")
    assert (info.task, info.totals.best, info.totals.final) == ("regression", scores.min(), scores[-1])
    assert record.as_json(info)["rmse_final"] == scores[-1]


def test_records_without_a_task_are_of_classification(tmp_path):
    fedcell.run("fedavg", "cell", {"rounds": 2, "world.n_devices": 3}, out=tmp_path / "old")
    path = tmp_path / "old" / "fedavg" / "run.json"
    spec = json.loads(path.read_text())
    for name in ("task", "chance"):
        del spec[name]
    for section, name in (("data", "task"), ("model", "train"), ("model", "heads")):
        del spec["config"][section][name]
    del spec["config"]["characters"]
    path.write_text(json.dumps(spec))
    one = record.read(tmp_path / "old" / "fedavg")
    assert (one.task, one.metric.name) == ("classification", "accuracy")
    table = report.text([one])
    assert table.split()[:4] == ["method", "best", "final", "time"]
    assert "best, final: test accuracy in %. time: simulated." in table
    assert record.resume(tmp_path / "old")[0].status.state == "finished"
    assert record.find(tmp_path / "old")[0].totals.accuracy_best == max(one.columns["accuracy"])


def test_a_notebook_shows_each_metric_in_its_own_unit(runs):
    shown = runs[0].metric.shown(runs[0].columns["rmse"][-1])
    html = Records(runs)._repr_html_()
    assert "<th>final RMSE</th>" in html
    assert f">{shown}</td>" in html
    assert " %" not in html
    labels = runs[0]._replace(
        task="classification", columns={**runs[0].columns, "accuracy": np.array([0.1, 0.2, 0.914])}
    )
    assert ">91.4 %</td>" in labels._repr_html_()
    assert "<th>final</th>" in labels._repr_html_()
    html = Records([labels, runs[1]])._repr_html_()
    assert ">91.4 % accuracy</td>" in html
    assert " RMSE</td>" in html


def test_a_run_resumes(runs, tmp_path):
    whole = runs[0].columns["rmse"].tolist()
    for name in ("status.json", "rounds.jsonl"):
        (tmp_path / "runs" / "fedavg" / name).unlink()
    for state in (tmp_path / "runs" / "fedavg").glob("checkpoint-*"):
        state.unlink()
    assert record.resume(tmp_path / "runs")[0].columns["rmse"].tolist() == whole


# ---------------------------------------------------------------- they are shown


def test_the_metric_heads_the_table(runs):
    table = report.text(runs)
    assert "best RMSE" in table
    assert "final RMSE" in table
    assert "test RMSE (less is better); a constant answer has 77.05." in table
    assert f"{runs[0].columns['rmse'].min():.4g}" in table


def test_the_better_run_stands_out(runs):
    from fedcell.record import summarise
    from fedcell.report.table import rich_table

    final = [one.columns["rmse"][-1] for one in runs]
    styles = [row.style for row in rich_table([summarise(one) for one in runs]).rows]
    assert [style == "bold" for style in styles] == [one == min(final) for one in final]


def test_the_metric_is_drawn(runs):
    axes = figure.draw(runs).axes
    assert axes[0].get_ylabel() == "test RMSE"
    np.testing.assert_allclose(axes[0].get_lines()[0].get_ydata(), runs[0].columns["rmse"])


def test_a_target_is_reached_from_above(runs, tmp_path):
    target = float(runs[0].columns["rmse"][1])
    found = report.compare(tmp_path / "runs", targets=[target])
    assert found.metric == leading("regression")
    assert found.groups[0].measures[f"rounds_to_{target}"].values.tolist() == [2.0]
    assert found.groups[0].measures["rmse_best"].values[0] == runs[0].columns["rmse"].min()
    easy = report.compare(tmp_path / "runs").targets[0]
    assert (
        max(one.columns["rmse"].min() for one in runs) / 0.95
        <= easy
        < 1.01 * max(one.columns["rmse"].min() for one in runs) / 0.95
    )
    assert f"to reach RMSE {easy:g}" in report.comparison_text(report.compare(tmp_path / "runs"))


def test_runs_of_different_tasks_are_not_compared(runs, tmp_path):
    fedcell.run("fedavg", "cell", {"rounds": 2, "world.n_devices": 3}, out=tmp_path / "other")
    with pytest.raises(BadInput, match=r"learns regression and .* classification: compare runs of one task"):
        report.compare([tmp_path / "runs", tmp_path / "other"])


def test_lists_name_what_differs(runs, tmp_path, capsys):
    fedcell.run("fedavg", "cell", {"rounds": 2, "world.n_devices": 3}, out=tmp_path / "other")
    assert main(["show", str(tmp_path), "--sort", "final"]) == 0
    out = capsys.readouterr().out
    assert " RMSE" in out
    assert re.search(r"\d accuracy", out)
    assert main(["show", str(tmp_path / "runs"), "--json"]) == 0
    assert "rmse_final" in capsys.readouterr().out


def test_progress_names_the_metric(capsys):
    assert main(["run", "fedavg", "--scenario", "diabetes", "--rounds", "1", "--set", "world.n_devices=3"]) == 0
    assert "round 1 of 1, RMSE " in capsys.readouterr().err


def test_pages_show_the_metric(runs, tmp_path):
    data = page.collect(tmp_path / "runs")
    assert data["runs"][0]["metric"] == {"name": "rmse", "title": "RMSE", "share": False, "rises": False}
    assert data["runs"][0]["totals"]["best"] == pytest.approx(runs[0].columns["rmse"].min(), rel=1e-5)


def test_pages_know_every_metric():
    text = CURVES.read_text()
    listed = text[text.index("fedcell.SCORES = {") : text.index("const SCORES")]
    found = dict(re.findall(r'(\w+): \["test ([^"]+)", "', listed))
    assert found == {one.name: one.title for metrics in TASKS.values() for one in metrics}
    shares = {name for name in SCORES if f'{name}: ["test {found[name]}", "%"]' in listed}
    assert shares == {one.name for metrics in TASKS.values() for one in metrics if one.share}


def test_splits_count_samples(capsys):
    assert main(["data", "split", "--scenario", "diabetes"]) == 0
    assert "10 devices hold 35 to 36 samples (354 in all)\n" in capsys.readouterr().out
