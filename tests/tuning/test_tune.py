"""The search for the least cost to a target: seeded, resumable, and no better than what it ran."""

import json
import shlex
from math import inf

import numpy as np
import pytest

from fedcell import scenarios
from fedcell.cli import main
from fedcell.errors import BadInput
from fedcell.options import written
from fedcell.record import find
from fedcell.tuning.search import MISSED, Tried, _study, _tell_preset, _value, cost_to, on_file, resume, tune
from fedcell.tuning.space import read_space
from fedcell.until import Goal

SMALL = {"model.name": "logistic", "world.n_devices": 4, "rounds": 8, "data.partition": "iid"}
ASKED = {
    "until": {"accuracy": 0.5},
    "search": {"train.lr": "0.01~1", "train.steps": "1..8"},
    "settings": SMALL,
    "seeds": [1, 2],
    "workers": 1,
}
CELL = scenarios.get("cell")


def values(found):
    return [(dict(one.settings), one.cost, one.reached, one.best) for one in found.trials]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return tune("fedavg", **ASKED, trials=8, batch=4, out=tmp_path_factory.mktemp("tune") / "whole")


def test_costs_are_those_of_the_recorded_runs(whole):
    runs = {info.folder: info for info in find(whole.folder)}
    assert all(info.state in ("finished", "diverged") for info in runs.values())
    for one in (whole.preset, *whole.trials):
        mine = [
            info
            for info in runs.values()
            if all(str(_at(info.config, key)) == value for key, value in one.settings.items())
            and (one.settings or (info.config["train"]["lr"], info.config["train"]["steps"]) == (0.1, 10))
        ]
        costs = [cost_to(info.folder, whole.goal, "seconds")[0] for info in mine]
        assert len(costs) == 2
        assert one.cost == pytest.approx(sum(costs) / 2)
    assert whole.best.cost == min(one.cost for one in (whole.preset, *whole.trials))
    assert whole.preset.settings == {}


def _at(config, key):
    section, _, name = key.partition(".")
    value = config[section][name]
    return int(value) if isinstance(value, float) and value == int(value) else value


def test_a_search_is_seeded_and_more_trials_change_none_before(whole, tmp_path):
    few = tune("fedavg", **ASKED, trials=3, batch=4, out=tmp_path / "few")
    assert values(few) == values(whole)[:3]
    more = resume(tmp_path / "few", trials=8, workers=1)
    assert values(more) == values(whole)
    other = tune("fedavg", **ASKED, trials=1, batch=1, seed=7, out=tmp_path / "other")
    assert values(other)[0][0] != values(whole)[0][0]


def test_a_search_that_was_interrupted_is_resumed(whole, tmp_path):
    def stop(progress):
        if "seed2" in progress.label and progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune("fedavg", **ASKED, trials=8, batch=4, watch=stop, out=tmp_path / "study")
    found = resume(tmp_path / "study", workers=1)
    assert values(found) == values(whole)
    assert found.preset == whole.preset


def test_a_folder_keeps_its_search(whole, tmp_path):
    with pytest.raises(BadInput, match=r"searches with cost = 'seconds' and not 'joules'"):
        tune("fedavg", **ASKED, cost="joules", batch=4, out=whole.folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(BadInput, match="not empty"):
        tune("fedavg", **ASKED, out=tmp_path / "other")
    assert on_file(whole.folder).method == "fedavg"


def test_the_same_search_asked_again_is_resumed_however_its_values_are_written(tmp_path):
    first = {
        **ASKED,
        "search": {"train.lr": (0.05, np.float64(0.5)), "world.n_devices": [np.int64(3), 4]},
        "settings": {"model.name": "logistic", "data.partition": "iid", "rounds": np.int64(2), "world.deadline_s": inf},
        "seeds": np.array([1]),
        "seed": np.int64(3),
    }
    found = tune("fedavg", **first, trials=1, batch=np.int64(1), out=tmp_path / "tuned")
    lists = {"train.lr": [0.05, 0.5], "world.n_devices": [3, 4]}
    plain = {"settings": {**first["settings"], "rounds": 2, "world.deadline_s": "inf"}, "search": lists}
    for asked in (first, {**first, **plain, "seeds": [1], "seed": 3}):
        assert values(tune("fedavg", **asked, trials=1, batch=1, out=tmp_path / "tuned")) == values(found)
    assert values(resume(tmp_path / "tuned", workers=1)) == values(found)


@pytest.mark.parametrize(
    ("key", "choices"),
    [
        ("train.momentum", "0|0.9"),
        ("train.warmup", [0, 1]),
        ("train.tf32", [True, False]),
        ("fedavg.lr", ["none", 0.1]),
    ],
)
def test_the_sampler_knows_a_preset_among_choices(key, choices):
    (knob,), study = read_space({key: choices}, "fedavg", CELL, {}), _study(1)
    assert knob.holds(knob.preset)
    _tell_preset(study, [knob], Tried({}, 3.0, 1, 0.9))
    assert [one.params[key] for one in study.trials] == [knob.values[knob.values.index(written(knob.preset))]]


def test_what_misses_the_target_ranks_below_all_that_reach_it():
    goal = Goal("accuracy", 0.9)
    there, near, far = (Tried({}, cost, 1, best) for cost, best in ((1e9, 0.95), (inf, 0.85), (inf, 0.2)))
    assert _value(goal, there) < MISSED <= _value(goal, near) < _value(goal, far)
    falling = Goal("loss", 0.1)
    assert _value(falling, near._replace(best=0.2)) < _value(falling, far._replace(best=2.0))


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ({}, "nothing to search"),
        ({"train.lrr": "0.1~1"}, "did you mean 'train.lr'"),
        ({"train.lr": "0.1"}, "no choice"),
        ({"train.lr": "1~0.1"}, "no range"),
        ({"train.steps": "1.5..3"}, "whole"),
        ({"train.lr": "-1..1"}, "out of range"),
        ({"fedavg.scheduler": "all|quickest"}, "unknown"),
        ({"rounds": "1..5"}, "set and searched"),
    ],
)
def test_what_cannot_be_searched_is_refused(search, words, tmp_path):
    with pytest.raises(BadInput, match=words):
        tune("fedavg", **{**ASKED, "search": search}, out=tmp_path / "study")
    assert not (tmp_path / "study" / "runs").exists()


@pytest.mark.parametrize("until", ["seconds=3", "accuracy=0.5,joules=3", ""])
def test_a_search_has_one_target(until, tmp_path):
    with pytest.raises(BadInput, match="not one target"):
        tune("fedavg", **{**ASKED, "until": until}, out=tmp_path / "study")


def test_knobs_know_their_kinds():
    space = {"train.lr": "0.1~1", "train.steps": "1..9", "fedavg.steps": "1..9", "fedavg.scheduler": ["all", "random"]}
    lr, steps, own, scheduler = read_space(space, "fedavg", CELL, {})
    assert (lr.kind, lr.whole, lr.preset) == ("log", False, 0.1)
    assert (steps.kind, steps.whole, steps.values) == ("uniform", True, (1, 9))
    assert own.whole
    assert not own.holds(own.preset)  # none: that of `train`
    assert scheduler.values == ("all", "random")
    assert scheduler.holds("all")


def test_settings_of_method_files_and_codings_are_searched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text('"""Mine."""\nfrom fedcell.methods.fedavg import Config, build\n')
    (tmp_path / "code.py").write_text('"""Mine."""\nfrom fedcell.coding.topk import Config, build\n')
    for method, keys in {
        "./mine.py": ["mine.lr"],
        "./mine.py+topk": ["mine.lr", "topk.fraction", "mine+topk.fraction"],
        "mine.py+topk": ["mine.lr", "topk.fraction", "mine+topk.lr"],
        "fedavg+topk": ["fedavg.lr", "topk.fraction", "fedavg+topk.lr"],
        "fedavg+./code.py": ["fedavg.lr", "code.fraction", "fedavg+code.lr"],
    }.items():
        for text in (method, f"{method}:steps=3"):
            knobs = read_space(dict.fromkeys(keys, "0.01~1"), text, CELL, {})
            assert [(knob.key, knob.kind) for knob in knobs] == [(key, "log") for key in keys]


def test_the_command_prints_what_to_run(capsys, tmp_path):
    flags = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    search = ["--search", "train.lr=0.05~1", "--trials", "4", "--workers", "1", "--quiet"]
    words = ["tune", "fedavg", "--until", "accuracy=0.4", "--cost", "joules", *flags, *search]
    assert main([*words, "--out", str(tmp_path / "study")]) == 0
    out = capsys.readouterr().out
    assert "joules" in out
    if "run it: " in out:
        assert main([*shlex.split(out.partition("run it: ")[2])[1:], "--out", str(tmp_path / "run"), "--quiet"]) == 0
        assert find(tmp_path / "run")[0].state == "finished"
    capsys.readouterr()
    assert main(["tune", "--resume", str(tmp_path / "study"), "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["trials"]) == 4
    assert main(["tune", "--resume", str(tmp_path / "study"), "--cost", "bits"]) == 2
    assert main(["tune", "fedavg", "--out", "x"]) == 2


def test_trials_run_on_ray(ray_cluster, whole, tmp_path):
    found = tune("fedavg", **{**ASKED, "workers": 2}, trials=2, batch=4, engine="ray", out=tmp_path / "study")
    assert values(found) == values(whole)[:2]
