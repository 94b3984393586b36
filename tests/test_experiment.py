"""The frame of experiments, and that every experiment in the tree fits it."""

import importlib.util
import json
import math
import os
import sys
from dataclasses import make_dataclass, replace
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from small_config import SMALL

from fedcell import machine
from fedcell.errors import BadInput
from fedcell.experiment import Case, Claim, Experiment, Finding, judge, main, run_cases, runs, stores
from fedcell.experiment.judging import final
from fedcell.methods import fedprox
from fedcell.options import option, override

ROOT = Path(__file__).parents[1] / "experiments"
FILES = sorted(path for path in ROOT.glob("*/*.py") if "EXPERIMENT = " in path.read_text())


def cases(quick):
    return [Case("short", SMALL, "fedavg"), Case("pulled", SMALL, "fedprox", {"mu": 3})][: 1 if quick else 2]


def check(rows):
    best = {row["case"]: row["final_accuracy"] for row in rows}
    return [Finding("a", f"{best}", "reproduced" if len(best) == 2 else "partly", "counted")]


TOY = Experiment(
    "Toy", (Claim("a", "two cases", "-"), Claim("b", "never run", "-")), cases, lambda rows: Figure(), check
)


def test_cases_run_once(tmp_path, monkeypatch):
    store = tmp_path / "runs.jsonl"
    first = run_cases(cases(False), [1, 2], store, lambda text: None)
    assert [(row["case"], row["seed"]) for row in first] == [("short", 1), ("short", 2), ("pulled", 1), ("pulled", 2)]
    assert first[0]["accuracy"][-1] == pytest.approx(first[0]["final_accuracy"], rel=1e-4)
    assert len(first[0]["rounds"]) == SMALL.rounds
    assert first[0]["final_accuracy"] != first[1]["final_accuracy"]
    with store.open("a") as file:
        file.write('{"key": "half')  # a kill in the middle of a line
    monkeypatch.setattr(runs, "run_case", lambda *_: pytest.fail("everything was done already"))
    assert run_cases(cases(False), [1, 2], store, lambda text: None) == json.loads(json.dumps(first))


def test_a_run_after_a_kill_has_a_line_of_its_own(tmp_path):
    store = tmp_path / "runs.jsonl"
    store.write_text('{"key": "half')
    said = []
    for _ in range(2):
        assert len(run_cases(cases(True), [1], store, said.append)) == 1
    assert len(said) == 1, "the second time everything is on file"


def test_only_some_cases_are_run_and_all_on_file_returned(tmp_path):
    store, said = tmp_path / "runs.jsonl", []
    assert [row["case"] for row in run_cases(cases(False), [1], store, said.append, only="pull")] == ["pulled"]
    found = run_cases(cases(False), [1], store, said.append, only="sho")
    assert [row["case"] for row in found] == ["short", "pulled"]
    assert len(said) == 2


def test_a_costly_case_has_fewer_seeds(tmp_path):
    dear, cheap = Case("dear", SMALL, "fedavg", most_seeds=1), Case("cheap", SMALL, "fedavg")
    rows = run_cases([dear, cheap], [1, 2], tmp_path / "runs.jsonl", lambda text: None)
    assert [(row["case"], row["seed"]) for row in rows] == [("dear", 1), ("cheap", 1), ("cheap", 2)]


def test_a_case_may_have_seeds_of_its_own(tmp_path):
    store = tmp_path / "runs.jsonl"
    fresh, usual = Case("fresh", SMALL, "fedavg", seeds=(31, 32, 33)), Case("usual", SMALL, "fedavg")
    rows = run_cases([fresh, usual], [1, 2], store, lambda text: None)
    assert [(row["case"], row["seed"]) for row in rows] == [("fresh", 31), ("fresh", 32), ("usual", 1), ("usual", 2)]
    more = [1, 2, 3, 4]
    assert [seed for case, seed in runs.missing_runs([fresh, usual], more, store).values()] == [33, 3, 4]
    run_cases([fresh], more, store, lambda text: None)
    run_cases([fresh._replace(seeds=())], [1], store, lambda text: None)  # the same settings on a seed used before
    assert [row["seed"] for row in runs.stored_rows([fresh], store)] == [31, 32, 33], "fresh seeds alone decide"
    assert [row["seed"] for row in runs.stored_rows([usual], store)] == [1, 2]


def test_a_run_that_diverges_is_a_row(tmp_path):
    said = []
    wild = Case("wild", replace(SMALL, rounds=7, eval_every=2), "recycling", {"lr": 1e30})
    (row,) = run_cases([wild], [1], tmp_path / "runs.jsonl", said.append)
    assert "lower the learning rate" in row["diverged"]
    assert row["rounds"] == [2, 4, 6, 7]
    assert len(row["accuracy"]) == len(row["loss"]) == len(row["seconds"]) == 4
    assert math.isnan(row["accuracy"][-1])
    assert math.isnan(row["final_accuracy"])
    assert final(row) == 0
    assert len(row["n_feasible"]) == 7
    assert row["n_feasible"][-1] is None
    assert said == [f"[1/1] wild, seed 1: {row['diverged']}"]


def test_experiments_share_a_store(tmp_path, monkeypatch):
    """Another file with the same store finds the runs, and `--stored` takes those of its own cases."""
    shared = TOY._replace(store="common")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "one.py")])
    main(shared, ["--seeds", "1"])
    monkeypatch.setattr(runs, "run_case", lambda *_: pytest.fail("everything was done already"))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "two.py")])
    main(shared, ["--seeds", "1"])
    seen = []
    half = shared._replace(cases=lambda quick: cases(True), check=lambda rows: seen.extend(rows) or [])
    main(half, ["--stored"])
    assert [row["case"] for row in seen] == ["short"]
    assert sorted(path.name for path in (tmp_path / "results").glob("*.json*")) == [
        "common.runs.jsonl",
        "one.json",
        "two.json",
    ]


def threads(config):
    return {"threads": [machine.cores(), torch.get_num_threads(), int(os.environ["OMP_NUM_THREADS"])]}


def test_a_run_beside_others_has_one_thread(tmp_path):
    case = Case("threads", SMALL, "fedavg", seeds=(1, 2), measure=threads)
    before = dict(os.environ)
    for row in run_cases([case], [1], tmp_path / "runs.jsonl", lambda text: None, workers=2):
        assert row["threads"] == [1, 1, 1]
    assert os.environ == before


def test_workers_change_nothing(tmp_path, forked_pool):
    alone, together = (
        run_cases(cases(False), [1], tmp_path / f"{workers}.jsonl", lambda text: None, workers) for workers in (1, 2)
    )
    assert alone == together


def test_settings_that_came_later_repeat_no_run(tmp_path, monkeypatch):
    """A stored run without a setting counts for its default, and for nothing else."""
    store = tmp_path / "runs.jsonl"
    (case,) = cases(True)
    (row,) = run_cases([case], [1], store, lambda text: None)
    line = json.loads(store.read_text())
    name, seed, settings = json.loads(line["key"])
    del settings["config"]["world"]["radius_m"], settings["config"]["video"]
    store.write_text(json.dumps({"key": json.dumps([name, seed, settings]), "row": row}) + "\n")
    changed = case._replace(config=override(SMALL, {"world.radius_m": 123}))
    assert len(runs.missing_runs([changed], [1], store)) == 1
    monkeypatch.setattr(runs, "run_case", lambda *_: pytest.fail("it is on file"))
    assert run_cases([case], [1], store, lambda text: None) == [json.loads(json.dumps(row))]


def broken(config):
    raise BadInput("no such data")


def test_a_failing_run_is_raised_when_the_others_are_through(tmp_path):
    bad = Case("bad", SMALL, "fedavg", build=broken)
    store = tmp_path / "runs.jsonl"
    with pytest.raises(BadInput, match="no such data") as caught:
        run_cases([bad, *cases(True)], [1], store, lambda text: None)
    assert caught.value.__notes__ == ["in the run bad, seed 1"]
    assert len(run_cases(cases(True), [1], store, lambda text: pytest.fail(text))) == 1


def test_a_wrong_setting_is_refused_before_anything_runs(tmp_path):
    bad = Case("bad", SMALL, "fedavg", {"no_such_setting": 1})
    with pytest.raises(BadInput, match="no_such_setting"):
        run_cases([*cases(True), bad], [1], tmp_path / "runs.jsonl", lambda text: pytest.fail(text))


def test_changed_settings_run_again(tmp_path):
    store = tmp_path / "runs.jsonl"
    said = []
    run_cases([Case("x", SMALL, "fedprox", {"mu": 1})], [1], store, said.append)
    run_cases([Case("x", SMALL, "fedprox", {"mu": 2})], [1], store, said.append)
    assert len(said) == 2


def test_a_changed_default_of_a_method_runs_again(tmp_path, monkeypatch):
    store, case = tmp_path / "runs.jsonl", Case("x", SMALL, "fedprox")
    run_cases([case], [1], store, lambda text: None)
    assert not runs.missing_runs([case], [1], store)
    assert not runs.missing_runs([case._replace(settings={"mu": fedprox.Config().mu})], [1], store)  # the same run
    other = make_dataclass(
        "Config", [("mu", float, option(7.0, "another default"))], bases=(fedprox.Config,), frozen=True
    )
    monkeypatch.setattr(fedprox, "Config", other)
    stores.method_defaults.cache_clear()
    assert len(runs.missing_runs([case], [1], store)) == 1
    stores.method_defaults.cache_clear()


def test_runs_from_before_a_setting_count_for_what_it_meant_then(tmp_path):
    """`pull_scale` came with another default than what runs had done until then."""
    store, before = tmp_path / "runs.jsonl", override(SMALL, {"model.name": "mlp", "model.hidden": (8, 4)})
    old, new = (Case("x", before, "knowledge", {"scheduler": "all", "pull_scale": scale}) for scale in ("sum", "mean"))
    run_cases([old], [1], store, lambda text: None)
    assert '\\"pull_scale\\": \\"sum\\", ' in store.read_text()
    store.write_text(store.read_text().replace('\\"pull_scale\\": \\"sum\\", ', ""))
    assert not runs.missing_runs([old], [1], store)
    assert len(runs.missing_runs([new], [1], store)) == 1
    assert runs.stored_rows([new], store) == []


def test_runs_on_file_with_other_settings_are_not_judged(tmp_path):
    store = tmp_path / "runs.jsonl"
    run_cases([Case("x", SMALL, "fedprox", {"mu": 1}), Case("gone", SMALL, "fedavg")], [1, 2], store, lambda text: None)
    assert [row["seed"] for row in runs.stored_rows([Case("x", SMALL, "fedprox", {"mu": 1})], store)] == [1, 2]
    assert runs.stored_rows([Case("x", SMALL, "fedprox", {"mu": 2})], store) == []


def test_runs_of_a_method_that_is_gone_do_not_stop_the_others(tmp_path):
    store, (case,) = tmp_path / "runs.jsonl", cases(True)
    (row,) = run_cases([case], [1], store, lambda text: None)
    gone = store.read_text().replace("fedavg", "fedgone")
    store.write_text(gone + store.read_text())
    assert runs.stored_rows([case], store) == [json.loads(json.dumps(row))]


@pytest.mark.rendered
def test_results_are_written_and_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "toy.py")])
    main(TOY, ["--seeds", "1"])
    result = json.loads((tmp_path / "results" / "toy.json").read_text())
    assert [claim["verdict"] for claim in result["claims"]] == ["reproduced", "not run"]
    assert (tmp_path / "results" / "toy.png").exists()
    assert "REPRODUCED: two cases" in capsys.readouterr().out


def test_wrong_verdicts_are_caught():
    with pytest.raises(ValueError, match="nonsense"):
        judge(TOY._replace(check=lambda rows: [Finding("a", "", "nonsense", "")]), [])
    with pytest.raises(ValueError, match="unknown claims"):
        judge(TOY._replace(check=lambda rows: [Finding("z", "", "partly", "")]), [])


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_experiments_fit_the_frame(path, monkeypatch):
    monkeypatch.syspath_prepend(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.EXPERIMENT
    keys = [claim.key for claim in found.claims]
    assert keys
    assert len(set(keys)) == len(keys)
    for quick in (True, False):
        named = [case.key for case in found.cases(quick)]
        assert len(set(named)) == len(named)
