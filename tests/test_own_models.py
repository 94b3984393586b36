"""Networks in files of one's own: run, swept, resumed, compared and deployed by `net.py:function`."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import fedcell
from fedcell import record, scenarios, sweeps
from fedcell.cli import main
from fedcell.errors import BadInput, FedcellError
from fedcell.learn import models
from fedcell.learn.model_files import read_args
from fedcell.learn.settings import ModelConfig
from fedcell.learn.setup import initialise
from fedcell.resolve import configure

NET = """
from math import prod

from torch import nn


def wide(n_classes, in_shape, width=12):
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(in_shape), width), nn.Tanh(), nn.Linear(width, n_classes))


def fixed():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


class Net(nn.Linear):
    def __init__(self, n_classes, bias=True):
        super().__init__(64, n_classes, bias)


def nothing():
    return 3


def broken(n_classes):
    raise RuntimeError("no such layer")


def needy(depth):
    return nn.Linear(depth, 10)
"""
SMALL = {"rounds": 2, "world.n_devices": 4, "train.steps": 2}
FLAGS = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]


@pytest.fixture(autouse=True)
def net(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    return tmp_path / "net.py"


def built(**settings):
    return models.build(ModelConfig(**settings), (1, 8, 8), 10)


# ---------------------------------------------------------------- what a file gives


def test_the_function_gets_what_it_asks_for():
    assert built(name="net.py:wide")[1].weight.shape == (12, 64)
    assert built(name="net.py:wide", args="width=5")[3].weight.shape == (10, 5)
    assert len(built(name="net.py:fixed")) == 2
    assert built(name="net.py:Net", args="bias=false").bias is None


def test_a_grid_may_go_over_networks_and_their_arguments(net):
    plan = sweeps.plan("fedavg", settings=SMALL, grid={"model.name": ["net.py:wide", "net.py:fixed", "mlp"]})
    assert len({task.name for task in plan.tasks}) == 3
    assert [bool(task.config["model"]["sha256"]) for task in plan.tasks] == [True, True, False]
    sizes = {"model.args": ["width=3", "width=4"]}
    assert len(sweeps.plan("fedavg", settings=SMALL, grid=sizes, model="net.py:wide").tasks) == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"name": "gone.py:wide"}, "'gone.py' does not exist"),
        ({"name": "net.py"}, "names no function of its file: write it as net.py:function"),
        ({"name": "net.py:narrow"}, "has no function 'narrow'"),
        ({"name": "net.py:nothing"}, "returns an int: return a torch.nn.Module"),
        ({"name": "net.py:broken"}, "broken() of 'net.py' fails with n_classes=10 (RuntimeError: no such layer)"),
        ({"name": "net.py:needy"}, "needs depth, which is none of n_classes, input_shape, in_shape"),
        ({"name": "net.py:wide", "args": "widht=3"}, "gives widht, which net.py:wide does not take: did you mean"),
        ({"name": "net.py:wide", "args": "width"}, "write key=value,key=value"),
        ({"name": "net.py:wide", "args": "width=1,width=2"}, "gives width twice"),
        ({"name": "net.py:wide", "args": "width=3,"}, "model.args = 'width=3,' has an empty item in 'width=3,': drop"),
        ({"name": "net.py:wide", "args": "width=3,,4"}, "has an empty item in 'width=3,,4'"),
        ({"name": "mlp", "args": "width=3"}, "model.args = width=3 is for a model file and model.name = mlp"),
    ],
)
def test_what_makes_no_network_is_refused_in_a_sentence(settings, words):
    with pytest.raises(BadInput, match=re.escape(words)):
        built(**settings)


def test_a_file_that_cannot_be_loaded_says_why(net):
    net.write_text("def wide(:")
    with pytest.raises(BadInput, match="cannot be loaded"):
        built(name="net.py:wide")


def test_arguments_are_read_by_what_they_look_like():
    assert read_args("a=1,b=2.5,c=x,d=1,2,e=none") == {"a": 1, "b": 2.5, "c": "x", "d": (1, 2), "e": None}


# ---------------------------------------------------------------- runs


def test_a_run_by_file_is_that_of_the_same_network_given_as_an_object(net):
    """The file is called with the run's own random stream, as a built-in model is."""
    (by_file,) = fedcell.run("fedavg", settings=SMALL, model="net.py:wide")
    config = configure(scenarios.get("cell"), {**SMALL, "model.name": "net.py:wide"})
    network = initialise(lambda: models.build(config.model, (1, 8, 8), 10), config.seed)
    (by_object,) = fedcell.run("fedavg", settings=SMALL, model=network)
    assert by_file.columns["loss"].tolist() == by_object.columns["loss"].tolist()
    assert by_file.own == ()
    assert by_object.own == ("model",)
    assert by_file.config["model"]["name"] == f"{net.resolve()}:wide"


def test_the_command_line_runs_it_and_resume_needs_no_python(net, capsys):
    assert main(["run", "fedavg", "fedprox", "--model", "net.py:wide", "--quiet", "--out", "o", *FLAGS]) == 0
    assert main(["run", "--resume", "o", "--quiet"]) == 0
    assert main(["run", "--resume", "o", "--model", "net.py:wide"]) == 2
    assert "drop --model" in capsys.readouterr().err
    assert main(["run", "--model", "net.py:wide", "--set", "model.name=cnn"]) == 2
    assert "model.name is set to cnn and to net.py:wide: drop one of them" in capsys.readouterr().err


def interrupted(folder):
    def stop(progress):
        if progress.done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedcell.run("fedavg", settings=SMALL, model="net.py:wide", out=folder, watch=stop)


def test_resume_goes_on_with_the_same_file_and_refuses_a_changed_one(net, capsys, monkeypatch):
    interrupted("o")
    fedcell.run("fedavg", settings=SMALL, model="net.py:wide", out="straight")
    net.write_text(NET.replace("Tanh", "ReLU"))
    assert main(["run", "--resume", "o", "--quiet"]) == 1
    assert f"{net.resolve()} changed since this run began: restore it" in capsys.readouterr().err
    net.write_text(NET)
    monkeypatch.chdir("/")  # found from any folder
    assert main(["run", "--resume", str(net.parent / "o"), "--quiet"]) == 0
    ends = [record.read_all(net.parent / name)[0].folder / "rounds.jsonl" for name in ("o", "straight")]
    assert ends[0].read_bytes() == ends[1].read_bytes()


def test_compare_tells_files_apart_by_what_is_in_them(net):
    elsewhere = net.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "net.py").write_text(NET)
    fedcell.run("fedavg", settings={**SMALL, "seed": 1}, model="net.py:wide", out="a")
    fedcell.run("fedavg", settings={**SMALL, "seed": 2}, model="elsewhere/net.py:wide", out="b")
    net.write_text(NET.replace("Tanh", "ReLU"))
    for seed in (1, 2):
        fedcell.run("fedavg", settings={**SMALL, "seed": seed}, model="net.py:wide", out=f"c{seed}")
    found = fedcell.compare(["a", "b", "c1", "c2"])
    assert [len(one.records) for one in found.groups] == [2, 2]  # one text in two places is one model
    assert all(re.fullmatch(r"fedavg model\.sha256=[0-9a-f]{8}", one.label) for one in found.groups)


# ---------------------------------------------------------------- sweeps


def test_a_sweep_of_own_models_and_data_resumes_in_other_processes(net, capsys):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 5)).astype(np.float32), np.arange(60) % 3
    data = fedcell.from_arrays(x[:40], y[:40], x[40:], y[40:], name="My bottles")
    infos = fedcell.sweep(
        ["fedavg", "fedprox"], seeds=[1, 2], settings=SMALL, model="net.py:wide", dataset=data, out="s", workers=2
    )
    assert [one.state for one in infos] == ["finished"] * 4
    (file,) = Path("s").glob("my-bottles-*.npz")
    assert infos[0].config["data"]["name"] == str(file.resolve())
    (alone,) = fedcell.run("fedavg", settings={**SMALL, "seed": 1}, model="net.py:wide", dataset=data)
    assert fedcell.read(infos[0].folder).columns["loss"].tolist() == alone.columns["loss"].tolist()
    again = fedcell.sweep(["fedavg"], seeds=[1, 3], settings=SMALL, model="net.py:wide", dataset=data, out="s")
    assert [one.state for one in again] == ["finished"] * 2
    assert len(json.loads(Path("s/sweep.json").read_text())["runs"]) == 5
    assert main(["sweep", "--resume", "s", "--quiet"]) == 0


def test_the_runs_of_a_changed_file_are_other_runs(net):
    first, second = (
        fedcell.sweep("fedavg", settings=SMALL, model="net.py:wide", out="s", workers=1)[0]
        for text in (NET, NET.replace("Tanh", "ReLU"))
        if net.write_text(text)
    )
    assert first.folder != second.folder
    assert first.config["model"]["sha256"] != second.config["model"]["sha256"]


def test_a_sweep_refuses_what_no_file_holds(tmp_path):
    with pytest.raises(BadInput, match=r"not a Linear: write a function .* model='net.py:function'"):
        fedcell.sweep("fedavg", model=torch.nn.Linear(64, 10))
    with pytest.raises(BadInput, match="dataset is an int"):
        fedcell.sweep("fedavg", dataset=3)
    with pytest.raises(BadInput, match=r"'gone.py' cannot be read \(No such file or directory\)"):
        fedcell.sweep("fedavg", model="gone.py:wide")
    assert not list(tmp_path.glob("runs"))


def test_a_run_of_a_sweep_refuses_a_changed_file(net):
    fedcell.sweep("fedavg", settings=SMALL, model="net.py:wide", out="s", workers=1)
    (run,) = Path("s").glob("*/fedavg")
    (run / "status.json").unlink()  # as if it had been killed
    net.write_text(NET + "\n")
    (info,) = sweeps.carry_out(sweeps.going_on("s"), workers=1)[0]
    assert info.state != "finished"
    with pytest.raises(FedcellError, match="changed since this run began"):
        record.resume(run)
