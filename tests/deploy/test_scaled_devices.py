"""Devices scale their samples with the statistics of the server, or say in a sentence why they cannot."""

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord
from inside import federation, notices, play, run_config, share
from safetensors.numpy import load_file
from test_client import context
from test_rounds import TOLERANCE, is_train, kept_by, last_state, own_nodes, simulated
from test_wire import task

from fedcell.data import load, scaled
from fedcell.data.scaling import UNIT, apply, fit
from fedcell.deploy import wire
from fedcell.deploy.client import client_app
from fedcell.deploy.remote import federated_problem
from fedcell.deploy.settings import read
from fedcell.errors import BadInput
from fedcell.learn.samples import Samples
from fedcell.record import read as read_record

WIDE = fit("standard", np.random.default_rng(0).random((9, 4)).astype(np.float32), "x")


@pytest.mark.parametrize("kind", ["half", "standard"])
def test_a_federation_on_scaled_inputs_is_the_simulated_one(kind, tmp_path):
    """Every device holds other labels, so that statistics of its own would lead elsewhere."""
    config = run_config("fedavg", tmp_path / "run", **{"data.scaling": kind})
    found = play(config)
    problem, history = simulated(config)
    assert found.columns["outcome"] == ["DDDD"] * 3
    assert np.allclose(last_state(config).params.numpy(), history[-1][1].params.numpy(), atol=TOLERANCE)
    expected = [row.metrics["accuracy"] for row, _ in history]
    assert np.allclose(found.columns["accuracy"], expected, atol=0.006)
    assert found.scaling == problem.scaling.record() == scaled(load("digits"), kind).scaling.record()


def test_devices_with_models_of_their_own_are_tested_on_scaled_samples(tmp_path):
    changes = {"rounds": "4", "train.lr": "0.05", "data.scaling": "standard"}
    config = run_config("knowledge:scheduler=all", tmp_path / "run", **changes)
    found = play(config, federation(config, app=client_app(share, test=share), nodes=own_nodes(tmp_path)))
    problem, history = simulated(config)
    theirs, mine = history[-1][1].method, last_state(config).method
    assert np.allclose(mine.knowledge.numpy(), theirs.knowledge.numpy(), atol=TOLERANCE)
    right = tested = 0
    for device in range(4):
        model = load_file(kept_by(tmp_path, device) / "model.safetensors")["after"]
        x, y = share(context({"partition-id": device}, config), 0)
        there = Samples(apply(problem.scaling, x, "x"), y, torch.device("cpu"))
        right += problem.learner.evaluate(torch.from_numpy(model), there)["accuracy"] * len(y)
        tested += len(y)
    assert found.columns["accuracy"][-1] == pytest.approx(right / tested)


def test_statistics_travel_with_every_task_and_nothing_if_inputs_stay_as_they_are(tmp_path):
    for kind, arrays in (("unit", {"start"}), ("standard", {"start", "input_shift", "input_scale"})):
        config = run_config("fedavg", tmp_path / kind, **{"data.scaling": kind, "rounds": "1"})
        grid = federation(config)
        play(config, grid)
        asked = [message.content for _, message in grid.sent if is_train(message)]
        assert len(asked) == 4
        assert all(set(content.array_records["arrays"]) == arrays for content in asked)


def test_a_device_with_other_samples_is_turned_away_with_a_sentence(tmp_path):
    def odd(context, round):
        x, y = share(context, round)
        return {0: x, 1: x.reshape(len(x), -1), 2: x * 16, 3: x}[context.node_config["partition-id"]], y

    for kind, outcome in (("standard", "DXDD"), ("half", "DDXD")):
        config = run_config("fedavg", tmp_path / kind, **{"data.scaling": kind, "rounds": "1"})
        config |= {
            "max-norm": "inf",
            "max-loss": "inf",
        }  # samples 16 times as large make an update that is far too long
        found = play(config, federation(config, app=client_app(odd)))
        assert found.columns["outcome"] == [outcome], notices(config)
    assert "the data of this device has samples of shape (64,)" in (tmp_path / "standard/federation.log").read_text()
    assert "the data of this device goes from 0 to 16 but data.scaling = 'half'" in notices(config)


def test_a_run_does_not_go_on_with_another_scaling(tmp_path):
    play(run_config("fedavg", tmp_path / "run", **{"data.scaling": "standard"}))
    with pytest.raises(BadInput, match=r"began with another data.scaling"):
        play(run_config("fedavg", tmp_path / "run", **{"data.scaling": "half"}))
    assert read_record(tmp_path / "run").scaling["kind"] == "standard"


def test_a_server_scales_its_test_samples_by_its_training_samples():
    config, data = read(run_config(**{"data.scaling": "standard"})).config, load("digits")
    expected = scaled(data, "standard")
    for given in (None, data, expected):
        problem = federated_problem(config, given)
        x, _ = problem.learner.test_samples.take(np.arange(len(data.x_test)))
        np.testing.assert_array_equal(x.numpy(), expected.x_test)
        assert problem.scaling.record() == expected.scaling.record()


def test_a_scaling_comes_back_as_it_went():
    assert wire.unpack_task(wire.pack_task(task())).scaling is UNIT
    got = wire.unpack_task(wire.pack_task(task()._replace(scaling=WIDE))).scaling
    assert got.record() == WIDE.record()


@pytest.mark.parametrize(
    "changes",
    [
        {"scale": np.zeros(4)},
        {"shift": np.full(4, np.nan)},
        {"shift": np.zeros(3)},
        {"kind": "other"},
        {"kind": "unit"},
    ],
)
def test_a_scaling_that_makes_no_sense_is_refused(changes):
    content = wire.pack_task(task()._replace(scaling=WIDE._replace(**changes)))
    if changes == {"kind": "unit"}:  # told to scale, and not by what
        content["task"]["scaling"] = "standard"
        content["arrays"] = ArrayRecord({"start": content.array_records["arrays"]["start"]})
    with pytest.raises(wire.MessageError, match="the task scales samples by"):
        wire.unpack_task(content)
