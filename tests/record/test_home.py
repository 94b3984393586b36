"""Taking models home: what is loaded and exported is what was trained and evaluated."""

import json
import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import fedcell
from fedcell import data, methods, options, scenarios
from fedcell.cli import main
from fedcell.errors import BadInput
from fedcell.methods.parts.personal import owners
from fedcell.record import read
from fedcell.simulate import simulate

SMALL = {"rounds": 3, "world.n_devices": 4, "train.steps": 3, "model.hidden": "8"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(method="fedavg", **changes):
    own = {name: changes.pop(name) for name in ("model", "dataset") if name in changes}
    (found,) = fedcell.run(method, settings=SMALL | changes, out="o", **own)
    return found


def right(module, record, index=slice(None)):
    """How many test digits a network has right, scaled as the run says."""
    found = data.scaled(data.load("digits"), record.config["data"]["scaling"])
    with torch.no_grad():
        scores = module(torch.from_numpy(found.x_test[index]))
    return int((scores.argmax(1).numpy() == found.y_test[index]).sum()), len(found.y_test[index])


# ---------------------------------------------------------------- load_model


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"data.scaling": "standard"},
        {"model.name": "cnn", "model.kernel": 3, "model.padding": 1, "model.norm": "group"},
    ],
    ids=["mlp", "scaled", "cnn"],
)
def test_the_model_is_that_of_the_last_row(changes):
    found = run(**changes)
    hits, size = right(fedcell.load_model(found), found)
    assert hits / size == pytest.approx(found.columns["accuracy"][-1])


def test_a_model_of_ones_own_is_given_and_left_as_it_is():
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    before = network[1].weight.clone()
    found = run(model=network)
    loaded = fedcell.load_model(found.folder, model=network)
    assert torch.equal(network[1].weight, before)
    assert not torch.equal(loaded[1].weight, before)
    assert right(loaded, found)[0] / 355 == pytest.approx(found.columns["accuracy"][-1])
    with pytest.raises(BadInput, match=r"with an own model: give it, fedcell.load_model\(run, model=...\)"):
        fedcell.load_model(found)
    with pytest.raises(BadInput, match=r"has 130 parameters and that of .* 650: give the same one"):
        fedcell.load_model(found, model=torch.nn.Linear(64, 2))


def test_the_data_are_not_needed():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 5)).astype(np.float32), np.arange(60) % 3
    found = run(dataset=fedcell.from_arrays(x[:40], y[:40], x[40:], y[40:]))
    assert fedcell.load_model(found)(torch.from_numpy(x[40:])).shape == (20, 3)


def test_records_from_before_ask_the_data():
    found = run()
    path = found.folder / "run.json"
    values = json.loads(path.read_text())
    del values["network"]
    path.write_text(json.dumps(values))
    assert right(fedcell.load_model(found.folder), found)[0] / 355 == pytest.approx(found.columns["accuracy"][-1])


# ---------------------------------------------------------------- models of devices


@pytest.mark.parametrize("method", ["fedrep", "knowledge:scheduler=all", "fedkd", "apfl:tests=split", "apfl"])
def test_the_models_of_devices_are_those_that_were_judged(method):
    """The accuracy of a run over test sets of devices' own is that of the models that they take home."""
    found = run(method)
    config = options.from_dict(scenarios.Config(), found.config)
    problem = scenarios.build_problem(config)
    *_, (_, after) = simulate(problem, methods.parse(method).build())
    models = [fedcell.load_model(found, device=device) for device in range(4)]
    flat = [torch.cat([one.detach().reshape(-1) for one in model.parameters()]) for model in models]
    assert len({tuple(one.tolist()) for one in flat}) == 4
    if method == "apfl":  # judged on samples drawn for each device
        return
    owner = owners(problem.learner.test_samples.labels, after.method.labels, problem.seed)
    counts = [right(model, found, np.flatnonzero(owner == device)) for device, model in enumerate(models)]
    hits, size = np.sum(counts, axis=0)
    assert hits / size == pytest.approx(found.columns["accuracy"][-1])


def test_devices_of_different_widths_have_networks_of_their_own():
    found = run("fedkd", **{"model.hidden": "8,6", "model.widths": "4,9"})
    widths = {fedcell.load_model(found, device=device)[1].out_features for device in range(4)}
    assert widths <= {4, 9}
    with pytest.raises(BadInput, match=r"share no model: name one of them, device=0 \(--device-id 0\)"):
        fedcell.load_model(found)


def test_what_has_no_model_of_its_own_is_refused():
    found = run()
    with pytest.raises(BadInput, match="devices of fedavg keep no models of their own: leave the device out"):
        fedcell.load_model(found, device=1)
    with pytest.raises(BadInput, match=r"o is no folder|is no folder"):
        fedcell.load_model("nowhere")


def test_a_comparison_and_a_run_without_rounds_are_refused(tmp_path):
    fedcell.run(["fedavg", "fedprox"], settings=SMALL, out="two")
    with pytest.raises(BadInput, match="two is a comparison of 2 runs: name one of them, such as two/fedavg"):
        fedcell.load_model("two")
    for path in Path("two/fedavg").glob("checkpoint-*"):
        path.unlink()
    with pytest.raises(BadInput, match="two/fedavg has no whole checkpoint"):
        fedcell.load_model("two/fedavg")


def test_a_damaged_checkpoint_is_passed_over():
    found = run()
    assert main(["run", "--resume", str(found.folder), "--quiet"]) == 0
    newest = sorted(found.folder.glob("checkpoint-*"))[-1]
    newest.write_bytes(newest.read_bytes()[:-8])
    with pytest.raises(BadInput, match="has no whole checkpoint"):
        fedcell.load_model(found)


# ---------------------------------------------------------------- files


def test_exported_files_say_what_the_model_says(capsys):
    found = run(**{"model.name": "cnn", "model.kernel": 3, "model.padding": 1, "data.scaling": "standard"})
    module, x = fedcell.load_model(found), torch.rand(5, 1, 8, 8)
    expected = module(x).detach().numpy()
    for ending in ("safetensors", "pt2", "onnx"):
        assert main(["export", str(found.folder), "--to", f"m.{ending}"]) == 0
    said = capsys.readouterr()
    assert "scaled by data.scaling = standard" in said.out
    assert said.err == ""
    weights = load_file("m.safetensors")
    assert weights.keys() == module.state_dict().keys()
    assert all(torch.equal(weights[name], value) for name, value in module.state_dict().items())
    with safe_open("m.safetensors", "pt") as file:
        about = json.loads(file.metadata()["fedcell"])
    assert about["scaling"] == found.scaling
    assert (about["input_shape"], about["n_classes"], about["method"]) == ([1, 8, 8], 10, "fedavg")
    program = torch.export.load("m.pt2").module()
    np.testing.assert_allclose(program(x).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    session = onnxruntime.InferenceSession("m.onnx")
    for n in (1, 5):  # any number of samples
        (scores,) = session.run(["scores"], {"input": x[:n].numpy()})
        np.testing.assert_allclose(scores, expected[:n], rtol=1e-4, atol=1e-5)
    assert json.loads(session.get_modelmeta().custom_metadata_map["fedcell"]) == about


def test_layers_keep_their_names_in_onnx():
    """Those of norms too, which exporters like to fold into convolutions."""
    onnx, net = pytest.importorskip("onnx"), Path(__file__).parents[2] / "examples" / "resnet18.py"
    few = {"rounds": 1, "world.n_devices": 3, "train.steps": 1, "model.args": "width=2"}
    (found,) = fedcell.run("fedavg", settings=few, model=f"{net}:resnet18", out="o")
    assert main(["export", "o", "--to", "m.onnx"]) == 0  # a comparison of one run is that run
    names = {name for name in fedcell.load_model(found).state_dict() if "num_batches" not in name}
    assert {one.name for one in onnx.load("m.onnx").graph.initializer} >= names


def test_the_model_of_a_device_is_exported(capsys):
    found = run("fedrep")
    assert main(["export", str(found.folder), "--to", "d.safetensors", "--device-id", "3"]) == 0
    expected = fedcell.load_model(found, device=3).state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in load_file("d.safetensors").items())
    assert main(["export", str(found.folder), "--to", "d.safetensors", "--device-id", "4"]) == 2
    assert "device 4 is none of o/fedrep: give 0 to 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("to", "words"),
    [("m.pkl", "'m.pkl' names no kind of model file: let it end in .safetensors, .pt2, .onnx"), ("o", "names no kind")],
)
def test_other_kinds_are_refused_and_nothing_is_written(to, words, capsys):
    found = run()
    assert main(["export", str(found.folder), "--to", to]) == 2
    assert words in capsys.readouterr().err
    assert not Path("m.pkl").exists()


def test_onnx_without_its_packages_says_what_to_install(monkeypatch, capsys):
    found = run()
    monkeypatch.setattr("fedcell.record.home.find_spec", lambda name: None)
    assert main(["export", str(found.folder), "--to", "m.onnx"]) == 2
    assert re.search(r"needs onnx, which is not installed: .* 'fedcell\[onnx\]'", capsys.readouterr().err)


def test_records_and_data_sets_are_one_line_and_a_frame():
    found = run()
    assert re.fullmatch(r"<Record fedavg, seed 1: finished, 3 of 3 rounds, accuracy 0\.\d+, in o/fedavg>", repr(found))
    assert repr(data.load("digits")) == "<Dataset digits: 1442 train and 355 test samples of 1x8x8, 10 classes>"
    frame = read(found.folder).frame()
    assert frame.index.tolist() == [0, 1, 2]
    assert frame["accuracy"].tolist() == found.columns["accuracy"].tolist()
    assert frame["outcome"].tolist() == found.columns["outcome"]


def test_a_frame_without_pandas_says_what_to_install(monkeypatch):
    found = run()
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(BadInput, match="a frame needs pandas, which is not installed"):
        found.frame()


def test_frozen_entries_are_those_of_the_start():
    found = run(**{"model.train": "3"})  # the last layer alone
    assert right(fedcell.load_model(found), found)[0] / 355 == pytest.approx(found.columns["accuracy"][-1])


def test_a_regression_is_swept_with_its_owners_and_taken_home():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 4)).astype(np.float32)
    y = np.rint(x @ np.array([1, -2, 0.5, 3])).clip(0)  # whole numbers, which look like labels
    data = fedcell.from_arrays(x[:60], y[:60], x[60:], y[60:], task="regression", owners=np.arange(60) % 3)
    changes = {"rounds": 3, "world.n_devices": 3, "data.partition": "given", "model.name": "mlp", "train.lr": 0.01}
    (info,) = fedcell.sweep("fedavg", settings=changes, dataset=data, out="s", workers=1)
    assert info.state == "finished", info.message
    found = fedcell.read(info.folder)
    with torch.no_grad():
        error = fedcell.load_model(found)(torch.from_numpy(x[60:]))[:, 0].numpy() - y[60:]
    assert np.sqrt((error**2).mean()) == pytest.approx(found.columns["rmse"][-1], rel=1e-4)
    assert "RMSE" in repr(found)
