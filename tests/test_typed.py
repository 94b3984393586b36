"""`py.typed` is true: a user's script type-checks, and no public name is Any."""

import re
from pathlib import Path

import pytest
from mypy import api

import fedcell

SCRIPT = """
import numpy as np
import torch

import fedcell
from fedcell.methods import fedavg

data = fedcell.from_arrays(np.zeros((4, 3)), [0, 1, 0, 1], np.zeros((1, 3)), [1], owners=[0, 0, 1, 1])
mine: fedcell.Method = fedavg.build(fedavg.Config())
records = fedcell.run([("mine", mine), "fedavg"], "cell", {"rounds": 2}, dataset=data, model=torch.nn.Linear(3, 2))
infos = fedcell.sweep("fedavg", seeds=[1, 2], model="net.py:wide", dataset=data)
network = fedcell.load_model(records[0], device=3)
reveal_type(data)
reveal_type(records)
reveal_type(records[0].status.state)
reveal_type(records[0].columns["loss"])
reveal_type(infos[0].totals.joule)
reveal_type(network)
reveal_type(fedcell.compare(records).groups[0].label)
reveal_type(fedcell.report.text(records))
fedcell.no_such_name
fedcell.run(rounds=3)
"""
EXPECTED = [
    "fedcell.data.datasets.Dataset",
    "list[.*fedcell.record.reading.Record.*]",
    "str",
    "numpy.ndarray",
    "float",
    "torch.nn.modules.module.Module",
    "str",
    "str",
]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What mypy says of the script, and of the type of every public name."""
    folder = tmp_path_factory.mktemp("user")
    names = [name for name in fedcell.__all__ if name not in ("__version__", "report")]
    (folder / "user.py").write_text(SCRIPT + "".join(f"reveal_type(fedcell.{name})\n" for name in names))
    (folder / "mypy.ini").write_text("[mypy]\nstrict = true\nfollow_imports = silent\n")
    settings = ["--config-file", str(folder / "mypy.ini"), "--cache-dir", str(folder / "cache"), "--hide-error-context"]
    out, err, _ = api.run([*settings, str(folder / "user.py")])
    assert not err
    return out


def test_a_script_of_a_user_type_checks(said):
    assert Path(fedcell.__file__).with_name("py.typed").exists()
    errors = [line for line in said.splitlines() if ": error:" in line]
    assert len(errors) == 2, errors
    assert 'Module has no attribute "no_such_name"' in errors[0]
    assert 'Unexpected keyword argument "rounds"' in errors[1]


def test_no_public_name_is_any(said):
    types = re.findall(r'Revealed type is "(.*)"', said)
    for expected, found in zip(EXPECTED, types, strict=False):
        assert re.search(expected.replace("[", r"\["), found), found
    for name in types[len(EXPECTED) :]:
        assert name != "Any"
        assert not name.endswith("-> Any"), name
