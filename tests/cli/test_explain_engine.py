"""`fedcell run --explain-engine`: what trains the network, and why it falls back."""

import json

import pytest
from torch import nn

import fedcell
from fedcell.cli import main

SMALL = ("--set", "world.n_devices=3", "--set", "train.steps=1", "--set", "data.name=digits")
NORMED = """
from torch import nn


def plain(**_):
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    )


class Deciding(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = plain()

    def forward(self, x):
        return self.net(x) * (2 if x.sum().item() > 0 else 1)


def deciding(**_):
    return Deciding()
"""


@pytest.fixture
def explained(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text(NORMED)

    def explain(*flags):
        assert main(["run", "--quiet", *flags, *SMALL, "--explain-engine"]) == 0
        assert not (tmp_path / "runs").exists()
        return capsys.readouterr().out

    return explain


def test_names_the_engine_of_every_method(explained):
    said = explained("fedavg", "fedprox", "--model", "nets.py:plain").splitlines()
    assert [line.split(":")[0] for line in said] == ["fedavg", "fedprox"]
    assert all("traced list of" in line for line in said)


def test_names_what_made_it_fall_back(explained):
    assert "autograd, because aten._local_scalar_dense" in explained("fedavg", "--model", "nets.py:deciding")


def test_chains_and_chunks(explained):
    assert "batched:" in explained("fedavg", "--model", "logistic")
    said = json.loads(explained("fedavg", "--model", "logistic", "--set", "train.engine=debug", "--json"))
    assert said["fedavg"] == ["debug: autograd and a copy of the module, one device after another"]


def test_refuses_to_resume(explained, capsys):
    assert main(["run", "--resume", "there", "--explain-engine"]) == 2
    assert "drop --explain-engine" in capsys.readouterr().err


def test_from_python():
    net = nn.Sequential(nn.Flatten(), nn.LayerNorm(64), nn.Linear(64, 10))
    settings = {"world.n_devices": 3, "train.steps": 1, "data.name": "digits"}
    told = fedcell.explain_engine("fedavg", settings=settings, model=net)
    assert "traced list of" in told["fedavg"][0]
