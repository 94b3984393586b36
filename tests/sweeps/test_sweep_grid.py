"""From a grid to tasks and folder names."""

import re
from pathlib import Path

import pytest

from fedcell.errors import BadInput
from fedcell.sweeps import plan
from fedcell.sweeps.grid import expand, read_seeds


def names(*args, **kwargs) -> list[str]:
    return [task.name for task in plan(*args, **kwargs).tasks]


def test_all_methods_of_a_seed_come_before_the_next_seed():
    assert names(["fedavg", "fednova"], ["cell", "cells"], [1, 2]) == [
        f"{scenario}-seed{seed}/{method}"
        for seed in (1, 2)
        for scenario in ("cell", "cells")
        for method in ("fedavg", "fednova")
    ]


def test_defaults_are_what_the_scenario_compares_on_its_own_seed():
    found = plan().tasks
    assert [task.label for task in found][:2] == ["fedavg", "fedavg:scheduler=fastest,n_selected=10"]
    assert {task.config["seed"] for task in found} == {1}


def test_equal_settings_meet_in_the_same_folder_however_they_are_written():
    for value in (400, 400.0, "400", "4e2"):  # the preset's own
        assert names("fedavg", settings={"world.radius_m": value}) == ["cell-seed1/fedavg"]
    for value in (200, 200.0, "200", "2e2"):
        assert names("fedavg", settings={"world.radius_m": value}) == ["cell-world.radius_m-200-seed1/fedavg"]


def test_values_with_commas_dots_and_bars_are_told_apart():
    grid = {"world.cpu_hz": ["1e9", "1e9..2e9", "1e9~2e9", "1e9|2e9"], "model.hidden": ["64", "64,32"]}
    found = plan("fedavg", grid=grid).tasks
    assert len({task.name for task in found}) == 8
    assert {task.config["world"]["cpu_hz"] for task in found} == {
        "1000000000",
        "1000000000..2000000000",
        "1000000000~2000000000",
        "1000000000|2000000000",
    }
    assert all(re.fullmatch(r"[a-z0-9._/-]+", task.name) for task in found)


def test_long_names_are_cut_and_told_apart():
    settings = {"world.bandwidth_hz": 1234567.25, "world.cycles_per_sample": "123456..234567", "world.deadline_s": 1.25}
    found = names("fedavg", settings=settings, grid={"train.batch_size": [7, 8], "train.momentum": [0.5]})
    assert len(set(found)) == 2
    assert all(len(name) < 130 for name in found)


def test_settings_of_methods_are_shown_in_the_label():
    found = plan(["fedprox", "fedprox:steps=3", "fedavg"], grid={"fedprox.mu": [0.1, "1"]}).tasks
    assert [task.label for task in found] == [
        "fedprox:mu=0.1",
        "fedprox:steps=3,mu=0.1",
        "fedavg",  # once, since mu is none of its settings
        "fedprox:mu=1",
        "fedprox:steps=3,mu=1",
    ]
    assert [task.settings["mu"] for task in found if "mu" in task.settings] == ["0.1", "0.1", "1", "1"]
    (task,) = plan("central", settings={"central.lr_cuts": "10,20"}).tasks
    assert (task.label, task.settings["lr_cuts"]) == ("central:lr_cuts=10,20", [10, 20])
    assert plan("central:lr_cuts=10,20").tasks[0].name == task.name


def test_files_of_the_same_name_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in ("a", "b"):
        Path(place).mkdir()
        Path(place, "mine.py").write_text("from fedcell.methods.fedavg import Config, build\n")
    first, second = plan(["a/mine.py:lr=0.5", "./b/mine.py"]).tasks
    assert first.name.startswith("cell-seed1/mine-lr-0.5-")
    assert second.name.startswith("cell-seed1/mine-")
    assert first.method == f"{tmp_path}/a/mine.py:lr=0.5"
    assert len(set(names(["a/mine.py", "b/mine.py"]))) == 2
    assert len(set(names(["b/mine.py", "./b/mine.py"]))) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"methods": "fedavgg"}, "unknown method 'fedavgg': did you mean 'fedavg'?"),
        ({"scenarios": "cel"}, "unknown scenario 'cel'"),
        ({"settings": {"world.radus_m": 1}}, "unknown key 'world.radus_m': did you mean 'world.radius_m'?"),
        ({"grid": {"fedprox.mu": [1]}}, "fedprox.mu: method 'fedprox' is not part of this run"),
        ({"grid": {"fdavg.lr": [1]}}, "unknown key 'fdavg.lr': did you mean 'fedavg.lr'?"),
        ({"grid": {"world.radius_m": ["200,400"]}}, "world.radius_m = '200,400' is not a number"),
        ({"grid": {"world.radius_m": "200"}}, "the grid of world.radius_m is '200': give a list"),
        ({"grid": {"world.radius_m": []}}, "the grid of world.radius_m is []: give a list"),
        ({"grid": {"world.radius_m": 100}}, "the grid of world.radius_m is 100: give a list"),
        ({"grid": [1]}, "grid is a list, not a dict"),
        ({"settings": ["rounds=1"]}, "settings is a list, not a dict"),
        ({"seeds": []}, "seeds is empty: give one or more, or leave it out"),
        ({"scenarios": None}, "scenarios is None: give one or more"),
        ({"seeds": range(200_000)}, "the grid has 200000 runs and a sweep at most 100000"),
        ({"grid": {"rounds": [1]}, "settings": {"rounds": 2}}, "rounds is set to one value and has a grid, too"),
        ({"grid": {"fedavg.lr": [1]}, "methods": "fedavg:lr=2"}, "'fedavg:lr=2' fixes lr, which has a grid, too"),
        ({"grid": {"seed": [1, 2]}}, "seed is no setting of a sweep: name seeds with --seeds"),
        ({"settings": {"scenario": "cell"}}, "scenario = cell is no setting: use --scenario cell"),
        ({"methods": [("mine", None)]}, "a sweep runs methods by name or file, not a tuple"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words):
    with pytest.raises(BadInput, match=re.escape(words)):
        plan(**{"methods": "fedavg", **arguments})


@pytest.mark.parametrize("text", ["x", "1..", "..3", "5..1", "-1", "1.5", "1...3"])
def test_what_is_no_seed(text):
    with pytest.raises(BadInput, match=f"--seeds '{re.escape(text)}' is no seed"):
        read_seeds([text])


def test_a_setting_that_changes_nothing_at_a_point_makes_no_run_of_its_own():
    grid = {"world.access": ["tdma", "air"], "world.air_rule": ["analog", "obda"], "world.n_blocks": [3, 4]}
    found, said = expand(["fedavg"], ["cell"], [1], {}, grid)
    worlds = [(task.config["world"]["access"], task.config["world"]["air_rule"]) for task in found]
    assert worlds == [("tdma", "analog"), ("air", "analog"), ("air", "obda")]
    assert {task.config["world"]["n_blocks"] for task in found} == {10}
    assert len(said) == 1
    assert "world.n_blocks = 4 changes nothing" in said[0]
