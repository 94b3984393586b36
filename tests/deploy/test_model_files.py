"""A federation with a model file: the server and every device have the same one, and the server names no path."""

from pathlib import Path

import numpy as np
import pytest
from inside import federation, notices, run_config, share
from safetensors.numpy import load_file
from test_rounds import TOLERANCE
from test_wire import task

from fedcell import methods, record
from fedcell.cli import main
from fedcell.deploy import flower, settings
from fedcell.deploy.client import client_app, learner_of
from fedcell.errors import BadInput
from fedcell.scenarios import build_problem
from fedcell.simulate import simulate

NET = """
from torch import nn


def small(n_classes, width=8):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Tanh(), nn.Linear(width, n_classes))
"""


@pytest.fixture
def places(tmp_path):
    """The file of the server, and that of the devices."""
    found = [tmp_path / who / "net.py" for who in ("server", "device")]
    for path in found:
        path.parent.mkdir()
        path.write_text(NET)
    return found


def played(config, places):
    server, device = places
    app = client_app(share, model=f"{device}:small")
    flower.run(federation(config, app=app), settings.read(config), model=f"{server}:small")
    return record.read(config["out"])


def test_a_federation_with_a_model_file_is_the_simulated_one(places, tmp_path):
    config = run_config("fedavg", tmp_path / "run", **{"model.args": "width=5"})
    found = played(config, places)
    asked = settings.with_model(settings.read(config), f"{places[0]}:small")
    problem = build_problem(asked.config)
    *_, (_, after) = simulate(problem, methods.parse("fedavg").build())
    assert problem.learner.n_params == 64 * 5 + 5 + 5 * 10 + 10
    path = sorted(found.folder.glob("checkpoint-*"))[-1]
    trained = load_file(path)["state.params"]
    assert np.allclose(trained, after.params.numpy(), atol=TOLERANCE)
    assert found.columns["outcome"] == ["DDDD"] * 3


def test_a_device_with_another_file_is_told_and_left_out(places, tmp_path):
    places[1].write_text(NET.replace("Tanh", "ReLU"))
    config = run_config("fedavg", tmp_path / "run", rounds="1")
    assert played(config, places).columns["n_delivered"].tolist() == [0]
    assert f"{places[1]}:small is not the model file of the server, net.py:small" in notices(config)


def test_the_server_cannot_name_a_file_to_execute():
    asked = task()._replace(model={"name": "/etc/anything.py:main", "sha256": "0" * 64})
    with pytest.raises(BadInput, match="which this device has not: give client_app"):
        learner_of(asked, np.zeros((2, 64), np.float32), np.zeros(2, np.int64))


def test_a_changed_file_does_not_go_on_with_the_record_and_a_moved_one_does(places, tmp_path):
    config = run_config("fedavg", tmp_path / "run", rounds="1")
    played(config, places)
    moved = tmp_path / "moved" / "net.py"
    moved.parent.mkdir()
    moved.write_text(NET)
    played(config, (moved, places[1]))  # it has finished already, and nothing is wrong with it
    moved.write_text(NET + "\n")
    with pytest.raises(BadInput, match=r"began with another model\.sha256"):
        played(config, (moved, places[1]))


def test_the_example_has_a_copy_of_the_file(places, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["deploy", "example", "app", "--model", f"{places[0]}:small"]) == 0
    assert (tmp_path / "app/digits/network.py").read_text() == NET
    for side in ("server", "client"):
        code = (tmp_path / f"app/digits/{side}.py").read_text()
        assert "with_name('network.py')}:small" in code
        compile(code, side, "exec")
    assert main(["deploy", "example", "other", "--model", "gone.py:small"]) == 2
    assert not Path("other").exists()
