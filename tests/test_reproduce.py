"""`fedcell reproduce` on a small clone of its own: finding, listing, running, failing, going on."""

import json
import os
import runpy
import sys
from pathlib import Path

import pytest

from fedcell.cli import main
from fedcell.errors import BadInput, FedcellError
from fedcell.experiment import catalogue, frame, runs, stores
from fedcell.experiment.ledger import ledger, read_paper, totals

SETTING = """
from fedcell.experiment import Case, Claim, Experiment, Finding
from fedcell.options import override
from fedcell.scenarios import build_problem, get
from matplotlib.figure import Figure

PAPER = "{paper}"
CONFIG = override(get("cell").config, {{"rounds": 2, "world.n_devices": 3, "model.name": "logistic", "train.steps": 1}})

def build(config):
    if config.seed > 7:
        raise RuntimeError(f"no seed above 7 in paper {{PAPER}}")
    return build_problem(config)

def check(rows):
    seeds = len({{row["seed"] for row in rows}})
    return [Finding("ran", f"{{len(rows)}} runs in {{PAPER}}", "reproduced" if seeds > 1 else "partly", "seeds")]

def experiment(title, *methods):
    return Experiment(
        title,
        (Claim("ran", "it runs", "two seeds"), Claim("more", "there is more", "-")),
        lambda quick: [Case(f"{{PAPER}} {{name}}", CONFIG, name, build=build) for name in methods[: 2 - quick]],
        lambda rows: Figure(),
        check,
    )
"""
FIGURE = """
import setting
EXPERIMENT = setting.experiment("{title}", {methods})
if __name__ == "__main__":
    from fedcell.experiment import main
    main(EXPERIMENT)
"""
PAPER = """
title = "The first paper"
reference = "A. Author"
beyond = ["fig10", "fig2/own*"]

[[listed]]
experiment = "fig1"
title = "ignored: the file has one"
reason = "nobody got to it"
claims = [["ran", "absorbed by the file", "-"], ["late", "it holds in the end", "99 %"]]

[[listed]]
experiment = "fig3"
title = "Figure 3: nothing yet"
reason = "no file yet"
claims = [["far", "it goes far", "3 km"]]
"""


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """Two papers whose helper modules have the same name; one experiment does not load."""
    root = tmp_path / "experiments"
    for paper, figures in {
        "first": {"fig1": '"fedavg", "fedprox"', "fig2": "", "fig10": '"fedavg"'},
        "second": {"fig1": '"fedavg"'},
    }.items():
        (root / paper).mkdir(parents=True)
        (root / paper / "setting.py").write_text(SETTING.format(paper=paper))
        for name, methods in figures.items():
            (root / paper / f"{name}.py").write_text(FIGURE.format(title=f"{paper} {name}", methods=methods))
    (root / "first" / "paper.toml").write_text(PAPER)
    (root / "second" / "fig2.py").write_text("import nowhere\nEXPERIMENT = nowhere.EXPERIMENT\n")
    (root / "second" / "results").mkdir()
    (tmp_path / "notes").mkdir()
    monkeypatch.chdir(tmp_path / "notes")  # the clone is found from below
    return root


def whole(clone):
    (clone / "second" / "fig2.py").unlink()


def error(capsys, *arguments):
    assert main(["reproduce", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


# ---------------------------------------------------------------- finding


def test_experiments_are_found_from_below_and_sorted(clone):
    assert catalogue.find() == clone
    names = [str(entry) for entry in catalogue.entries(clone)]
    assert names == ["first/fig1", "first/fig2", "first/fig10", "second/fig1", "second/fig2"]


def test_no_experiments_is_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert "--experiments DIR" in error(capsys)
    assert "no experiments in nowhere" in error(capsys, "--experiments", "nowhere")


def test_names_are_papers_figures_and_files(clone):
    def chosen(*names):
        return [str(entry) for entry in catalogue.choose(clone, names)]

    assert chosen("first") == ["first/fig1", "first/fig2", "first/fig10"]
    assert chosen("second/fig1", "first/fig2", "second/fig1") == ["second/fig1", "first/fig2"]
    assert chosen("experiments/first/fig2.py", str(clone / "second" / "fig1.py")) == ["first/fig2", "second/fig1"]
    assert chosen("experiments/first") == chosen("first")


def test_unknown_names_get_a_suggestion(clone, capsys):
    assert "did you mean 'first/fig10'?" in error(capsys, "first/figg10")
    assert "did you mean 'second'?" in error(capsys, "secnd")
    assert "which of first/fig1, second/fig1?" in error(capsys, "fig1")


def test_flags_that_contradict_are_refused(clone, capsys):
    assert "drop it, or drop first" in error(capsys, "first", "--all")
    assert "name experiments, or give --all" in error(capsys, "--quick")
    assert "--seeds 0 is below 1" in error(capsys, "first", "--seeds", "0")
    assert "--workers -1 is below 0" in error(capsys, "first", "--workers", "-1")
    assert "--only zzz is in the name of no case: cases are" in error(capsys, "first", "--only", "zzz")


def test_a_paper_without_experiments_has_only_claims(clone, capsys):
    (clone / "third").mkdir()
    (clone / "third" / "paper.toml").write_text('title = "Third"\n')
    assert "third has no experiment yet" in error(capsys, "third")


def test_modules_of_papers_do_not_meet(clone):
    before = dict(sys.modules), list(sys.path)
    titles = []
    for paper in ("first", "second"):
        with catalogue.opened(clone / paper):
            titles.append(catalogue.load(catalogue.ExperimentFile(paper, "fig1", clone / paper / "fig1.py")).title)
            assert paper == sys.modules["setting"].PAPER
    assert titles == ["first fig1", "second fig1"]
    assert "setting" not in sys.modules
    assert (set(before[0]) - set(sys.modules), before[1]) == (set(), sys.path)


# ---------------------------------------------------------------- the list


def test_the_list_needs_no_results(clone, capsys):
    whole(clone)
    assert main(["reproduce"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith("first")] == [["first", "6"]]
    assert any(line.split()[:9] == ["first/fig3", "1", *"......", "1"] for line in lines)
    assert any(line.endswith("Figure 3: nothing yet (no experiment yet)") for line in lines)
    assert "Sums leave out 2 checks, questions and second readings that are not the papers'." in lines


def test_a_file_that_does_not_load_is_named(clone):
    with pytest.raises(FedcellError, match=r"fig2\.py does not load: ModuleNotFoundError: No module named 'nowhere'"):
        ledger(clone)


def test_the_ledger_joins_files_results_and_lists(clone, capsys):
    whole(clone)
    assert main(["reproduce", "first/fig1", "--seeds", "2"]) == 0
    assert main(["reproduce", "second/fig1", "--quick"]) == 0
    rows = {(row.name, row.key): row for row in ledger(clone)}
    ran = rows["first/fig1", "ran"]
    assert (ran.verdict, ran.ours, ran.seeds, ran.claim) == ("reproduced", "4 runs in first", (1, 2), "it runs")
    assert ran.result == clone / "first" / "results" / "fig1.json"
    assert rows["first/fig1", "more"].reason == "no run decides it yet"
    assert rows["first/fig1", "late"][:3] == ("first", "fig1", "first fig1")
    assert rows["first/fig1", "late"].reason == "nobody got to it"
    assert rows["first/fig2", "ran"].reason == "its experiment is not run yet"
    assert rows["second/fig1", "ran"].verdict == "not run", "quick results stay out"
    assert [key for key, row in rows.items() if row.kind == "beyond"] == [
        ("first/fig10", "ran"),
        ("first/fig10", "more"),
    ]
    assert totals(list(rows.values())) == {"reproduced": 1, "not run": 7}
    capsys.readouterr()
    assert main(["reproduce", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(rows)


def test_a_damaged_list_of_claims_is_named(clone):
    for text in ("title = ", 'name = "x"\ntitel = "y"', '[[listed]]\nexperiment = "fig1"'):
        (clone / "first" / "paper.toml").write_text(text)
        with pytest.raises(BadInput, match=r"first/paper\.toml is not a list of claims"):
            read_paper(clone / "first")


# ---------------------------------------------------------------- running


def test_one_that_fails_stops_no_other_and_runs_are_not_repeated(clone, capsys, monkeypatch):
    assert main(["reproduce", "--all", "--seeds", "2"]) == 1
    out, err = capsys.readouterr()
    assert "second/fig2 failed: " in out
    assert "No module named 'nowhere'" in out
    assert "REPRODUCED: it runs" in out
    assert out.splitlines()[-2].split()[:3] == ["all", "8", "3"]
    assert "first/fig1 [1/4] first fedavg, seed 1: accuracy" in err
    assert "(run 8 of 8)" in err
    assert sorted(path.name for path in clone.glob("*/results/*.json")) == [
        "fig1.json",
        "fig1.json",
        "fig10.json",
        "fig2.json",
    ]
    monkeypatch.setattr(runs, "run_case", lambda *_: pytest.fail("everything was done already"))
    assert main(["reproduce", "first", "second/fig1", "--seeds", "2"]) == 0
    assert capsys.readouterr().err == ""


def test_a_failing_run_keeps_the_others(clone, capsys):
    assert main(["reproduce", "second/fig1", "--seeds", "9"]) == 1
    out, err = capsys.readouterr()
    assert "second/fig1 failed: RuntimeError: no seed above 7 in paper second, in the run second fedavg, seed 8" in out
    assert "Traceback" in err
    assert not (clone / "second" / "results" / "fig1.json").exists()
    assert main(["reproduce", "second/fig1", "--stored"]) == 0
    assert "7 runs in second" in capsys.readouterr().out


def test_processes_find_the_modules_of_a_paper(clone, capsys):
    assert main(["reproduce", "second/fig1", "--seeds", "1", "--workers", "2", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["experiment"], one["failed"], one["seeds"]) == ("second/fig1", False, [1])
    assert one["claims"][0]["ours"] == "1 runs in second"


def test_a_result_of_more_seeds_stays(clone, capsys):
    assert main(["reproduce", "second/fig1", "--seeds", "2"]) == 0
    assert main(["reproduce", "second/fig1", "--seeds", "1"]) == 0
    out = capsys.readouterr().out
    assert "the result on file stays: it is from 2 seeds, this one from 1" in out
    assert "second/fig1/ran: partly; the result on file says reproduced" in out
    os.remove(clone / "second" / "results" / "fig1.runs.jsonl")  # a fresh clone has no runs
    assert main(["reproduce", "second/fig1", "--stored"]) == 0
    assert "verdicts on file, seeds [1, 2]" in capsys.readouterr().out
    (row,) = [row for row in ledger_of(clone, "second/fig1") if row.key == "ran"]
    assert row.verdict == "reproduced"


def ledger_of(clone, name):
    whole(clone)
    return [row for row in ledger(clone) if row.name == name]


def test_quick_and_other_folders_are_kept_apart(clone, capsys):
    assert main(["reproduce", "first/fig1", "--quick", "--out", "mine"]) == 0
    assert "stay out of the ledger" in capsys.readouterr().out
    assert sorted(map(str, Path("mine").rglob("*.*"))) == [
        f"mine/first/quick/fig1.{end}" for end in ("json", "png", "runs.jsonl")
    ]
    assert main(["reproduce", "first/fig1", "--seeds", "1", "--out", "mine", "--only", "prox"]) == 0
    capsys.readouterr()
    assert not (clone / "first" / "results").exists()
    whole(clone)
    assert main(["reproduce", "--out", "mine"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "first/fig1 " in line)
    assert line.split()[:9] == ["first/fig1", "3", ".", ".", "1", ".", ".", ".", "2"]


def test_interrupted_says_how_to_go_on(clone, capsys, monkeypatch):
    played = []

    def interrupted(case, seed, way, run_case=runs.run_case):
        if played:
            raise KeyboardInterrupt
        played.append(seed)
        return run_case(case, seed, way)

    monkeypatch.setattr(runs, "run_case", interrupted)
    assert main(["reproduce", "first/fig1", "second/fig1", "--seeds", "2"]) == 130
    out, err = capsys.readouterr()
    assert "the same command continues" in err
    assert "2 of 2 experiments were not reached" in out
    monkeypatch.undo()
    assert main(["reproduce", "first/fig1", "--seeds", "2", "--experiments", str(clone)]) == 0
    assert "[1/3]" in capsys.readouterr().err


def test_a_script_does_the_same(clone, monkeypatch, capsys):
    script = clone / "first" / "fig1.py"
    monkeypatch.setattr(sys, "argv", [str(script)])
    with catalogue.opened(script.parent):
        runpy.run_path(str(script), run_name="__main__")
    assert json.loads((clone / "first" / "results" / "fig1.json").read_text())["runs"] == 10
    capsys.readouterr()
    assert main(["reproduce", "first/fig1"]) == 0
    assert capsys.readouterr().err == ""


# ---------------------------------------------------------------- side by side


def stored(clone, paper, name="fig1"):
    return sorted(stores.done(clone / paper / "results" / f"{name}.runs.jsonl"))


def test_runs_of_several_papers_share_the_processes(clone, forked_pool, capsys, monkeypatch):
    """They are the runs of one after the other, and are on file before the first experiment is judged."""
    whole(clone)
    assert main(["reproduce", "first", "second", "--seeds", "2", "--out", "alone"]) == 0
    kept, asked = [], runs.run_cases
    monkeypatch.setattr(frame, "run_cases", lambda *given: [kept.append(stored(clone, "second")), asked(*given)][1])
    assert main(["reproduce", "first", "second", "--seeds", "2", "--workers", "2"]) == 0
    assert len(kept[0]) == 2
    err = capsys.readouterr().err
    for paper, name, n in (("first", "fig1", 4), ("first", "fig10", 2), ("second", "fig1", 2)):
        alone = clone.parent / "notes" / "alone" / paper / f"{name}.runs.jsonl"
        with_others = clone / paper / "results" / f"{name}.runs.jsonl"
        assert stores.done(alone) == stores.done(with_others)
        assert len(stores.done(alone)) == n
        assert f"{paper}/{name} [{n}/{n}]" in err
    assert "run 8 of 8" in err


def test_what_fails_beside_others_is_named_in_its_turn(clone, forked_pool, capsys):
    whole(clone)
    assert main(["reproduce", "first/fig1", "second", "--seeds", "8", "--workers", "2"]) == 1
    out, err = capsys.readouterr()
    assert (
        "second/fig1 failed: RuntimeError: no seed above 7 in paper second, in the run second fedavg, seed 8"
        in out + err
    )
    assert len(stored(clone, "first")) == 14, "every other run is on file"
    assert len(stored(clone, "second")) == 7


def test_time_that_is_up_begins_no_run_beside_others(clone, capsys):
    whole(clone)
    assert main(["reproduce", "first", "second", "--seeds", "2", "--workers", "2", "--minutes", "0.00001"]) == 0
    assert not (clone / "second" / "results" / "fig1.runs.jsonl").exists()
    assert "time is up with 8 runs to do" in capsys.readouterr().err
