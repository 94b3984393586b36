"""A network and data of one's own, each in a file, all the way: run, stop, resume, sweep, compare, export, load."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import fedcell
from fedcell.cli import main

NETWORK = f"{Path(__file__).parent.parent / 'examples' / 'small_network.py'}:residual"
SETTINGS = {
    "rounds": "4",
    "data.name": "points.npz",
    "data.partition": "given",
    "data.scaling": "standard",
    "world.n_devices": "3",
    "train.lr": "0.2",
    "model.args": "width=8,depth=1",
}


@pytest.fixture
def points(tmp_path, monkeypatch):
    """Three owners, each with a view of its own on two classes."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    owner, y = np.arange(240) % 3, np.arange(240) // 3 % 2
    x = rng.normal(0, 0.5, (240, 4)) + 2 * y[:, None] + owner[:, None]
    arrays = {"x_train": x[:180], "y_train": y[:180], "x_test": x[180:], "y_test": y[180:]}
    np.savez("points.npz", **arrays, owners=owner[:180], test_owners=owner[180:])
    return arrays


def rows_of(folder, method):
    return Path(folder, method, "rounds.jsonl").read_bytes()


def test_all_the_way_from_the_command_line(points, capsys):
    flags = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
    flags += ["--model", NETWORK, "--quiet"]
    asked = [
        part
        for key in ("data.name", "data.partition", "world.n_devices")
        for part in ("--set", f"{key}={SETTINGS[key]}")
    ]
    assert main(["data", "split", *asked]) == 0
    assert "3 devices hold 60 to 60 samples" in capsys.readouterr().out
    assert main(["run", "fedavg", "fedrep", "--out", "straight", *flags]) == 0

    def stop(progress):
        if progress.label == "fedavg" and progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedcell.run(["fedavg", "fedrep"], settings=SETTINGS, model=NETWORK, out="stopped", watch=stop)
    assert main(["run", "--resume", "stopped", "--quiet"]) == 0
    for method in ("fedavg", "fedrep"):
        assert rows_of("straight", method) == rows_of("stopped", method)

    assert main(["sweep", "fedavg", "fedrep", "--seeds", "1..2", "--workers", "2", "--out", "many", *flags]) == 0
    swept = fedcell.read(next(Path("many").glob("*seed1/fedavg")))
    assert (swept.folder / "rounds.jsonl").read_bytes() == rows_of("straight", "fedavg")
    capsys.readouterr()
    assert main(["compare", "many", "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)["groups"]
    assert [one["label"] for one in groups] == ["fedavg", "fedrep"]

    assert main(["export", "straight/fedavg", "--to", "net.onnx"]) == 0
    module = fedcell.load_model("straight/fedavg")
    record = fedcell.read("straight/fedavg")
    scaling = record.scaling
    x = (points["x_test"] - scaling["shift"]) / scaling["scale"]
    inputs = torch.from_numpy(x.astype(np.float32))
    scores = module(inputs).detach().numpy()
    assert (scores.argmax(1) == points["y_test"]).mean() == pytest.approx(record.columns["accuracy"][-1])
    (exported,) = onnxruntime.InferenceSession("net.onnx").run(None, {"input": inputs.numpy()})
    np.testing.assert_allclose(exported, scores, rtol=1e-3, atol=1e-4)
    own = [fedcell.load_model("straight/fedrep", device=device)(inputs).detach() for device in range(3)]
    right = [(one.argmax(1).numpy() == points["y_test"])[np.arange(60) % 3 == k].mean() for k, one in enumerate(own)]
    assert np.mean(right) == pytest.approx(fedcell.read("straight/fedrep").columns["accuracy"][-1])
