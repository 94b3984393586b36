"""Parameters that stay as they are: no place in updates, no bits, no movement, in every engine."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import fedcell
from fedcell import options, scenarios
from fedcell.errors import BadInput, FedcellError
from fedcell.learn.architecture import Architecture, choose
from fedcell.learn.learner import Learner
from fedcell.learn.samples import Samples
from fedcell.learn.settings import TrainConfig
from fedcell.learn.work import Work
from fedcell.types import Start, Store

SMALL = {"rounds": 2, "world.n_devices": 4, "train.steps": 2}


class Adapter(nn.Module):
    """A frozen layer and a trained product of rank 2."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = nn.Linear(layer.in_features, 2, bias=False), nn.Linear(2, layer.out_features, bias=False)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def chain(*layers):
    torch.manual_seed(4)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))


def lora():
    net = chain()
    return nn.Sequential(net[0], Adapter(net[1]), net[2], Adapter(net[3]))


class Idle(nn.Module):
    """A network with a head that its output does not use."""

    def __init__(self):
        super().__init__()
        self.used, self.idle = chain(), nn.Linear(64, 3)

    def forward(self, x):
        return self.used(x)


MODELS = {
    "adapters": lora,
    "a head that nothing uses": Idle,
    "last layer": lambda: choose(chain(), "^3"),
    "weights alone": lambda: choose(chain(), "weight"),
    "first layer": lambda: choose(chain(), "^1"),
    "wide": lambda: choose(nn.Sequential(nn.Flatten(), nn.Linear(64, 2000), nn.ReLU(), nn.Linear(2000, 10)), "^1"),
}


def train(model, engine):
    rng = np.random.default_rng(0)
    data = Samples(rng.random((40, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, 40), torch.device("cpu"))
    one = Learner([Architecture.of(model)], data, data, TrainConfig(engine=engine, device="cpu"), 3)
    work = Work(np.arange(2), Store(np.arange(40).reshape(2, 20), np.full(2, 20)), np.array([3, 2]), 0.1, 8, 1)
    return one.train(Start(one.initial()[None], np.zeros(2, dtype=np.int64)), work).delta


@pytest.mark.parametrize("engine", ["auto", "sequential", "vmap"])
@pytest.mark.parametrize("kind", MODELS)
def test_engines_move_what_is_trained_and_nothing_else(kind, engine):
    torch.manual_seed(5)
    model = MODELS[kind]()
    plain, n_trained = model_after(model), sum(one.numel() for one in model.parameters() if one.requires_grad)
    found = train(model, engine)
    assert found.shape == (2, n_trained)
    torch.testing.assert_close(found[0], plain, rtol=1e-3, atol=1e-6)
    assert kind != "a head that nothing uses" or not found[:, -195:].any()


def model_after(model):
    """What the first row's training moves, by the debug engine."""
    return train(model, "debug")[0].clone()


def test_payload_bits_are_32_times_what_is_trained():
    model = lora()
    n_trained = 2 * (64 + 12) + 2 * (12 + 10)
    frozen = [one.detach().clone() for one in model.parameters() if not one.requires_grad]
    (record,) = fedcell.run("fedavg", "cell", SMALL, model=model)
    sent = record.columns["uplink_bit"] / record.columns["n_selected"]
    np.testing.assert_allclose(sent, 32 * n_trained)
    for before, now in zip(frozen, (one for one in model.parameters() if not one.requires_grad), strict=True):
        assert torch.equal(before, now)


def test_model_train_names_what_is_trained():
    config = options.override(scenarios.get("cell").config, {"model.train": r"^3\.", "model.hidden": "16"})
    problem = scenarios.build_problem(config)
    assert problem.learner.architectures[0].names == ("3.weight", "3.bias")
    assert problem.world.payload_bit == 32 * (16 * 10 + 10)
    whole = scenarios.build_problem(options.override(config, {"model.train": "all"}))
    assert torch.equal(problem.learner.initial(), whole.learner.initial()[-170:]), (
        "the start is that of the whole model"
    )


def test_model_train_of_an_own_model_leaves_the_callers_alone():
    model = chain()
    config = options.override(scenarios.get("cell").config, {"model.train": "bias"})
    assert scenarios.build_problem(config, model=model).learner.n_params == 22
    assert all(one.requires_grad for one in model.parameters())


@pytest.mark.parametrize(("names", "words"), [("conv", "matches no parameter"), ("(", "is no regular expression")])
def test_names_that_train_nothing_are_refused(names, words):
    config = options.override(scenarios.get("cell").config, {"model.train": names})
    with pytest.raises(BadInput, match=words):
        scenarios.build_problem(config)


def test_other_frozen_parameters_are_another_run(tmp_path):
    model = lora()
    fedcell.run("fedavg", "cell", SMALL, model=model, out=tmp_path / "run")
    (tmp_path / "run" / "fedavg" / "status.json").unlink()
    with torch.no_grad():
        model[1].layer.weight.mul_(2)
    with pytest.raises(FedcellError, match="would not begin from the state it began from"):
        fedcell.record.resume(tmp_path / "run", model=model)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(Path(tmp_path) / "here")
