"""`fedcell.run` from Python: what it takes, and what it says to what it cannot take."""

import re
import subprocess
import sys

import pytest

import fedcell
from fedcell import methods, report
from fedcell.errors import BadInput

SMALL = {"rounds": 1, "world.n_devices": 4, "model.name": "logistic", "train.steps": 1}
FEDAVG = methods.parse("fedavg").build()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_one_text_is_one_method():
    (record,) = fedcell.run("fedavg:lr=0.1", settings=SMALL)
    assert record.label == "fedavg:lr=0.1"


def test_the_table_is_that_of_records_or_of_their_summaries():
    records = fedcell.run(["fedavg", ("mine", FEDAVG)], settings=SMALL)
    table = report.text(records)
    assert [line.split()[0] for line in table.splitlines()[2:4]] == ["fedavg", "mine"]
    assert table == report.text([report.summarise(one) for one in records])


@pytest.mark.parametrize("wrong", [FEDAVG, methods.load("fedavg"), None, ("mine",), ("mine", "fedavg"), (1, FEDAVG)])
def test_what_is_no_method_is_refused_with_the_fix(tmp_path, wrong):
    with pytest.raises(BadInput, match=r"is no method to run: give a pair such as \(.*, Method\(\.\.\.\)\), or a text"):
        fedcell.run([wrong], settings=SMALL)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("fedprox.mu", "'fedprox.mu' is a setting of a method: write it in the method's text, 'fedprox:mu=1'"),
        ("world.radus_m", "unknown key 'world.radus_m': did you mean 'world.radius_m'?"),
        ("qqqqqq", "unknown key 'qqqqqq' (fedcell list keys shows all)"),
    ],
)
def test_a_key_that_is_no_setting_says_what_to_write(key, words):
    with pytest.raises(BadInput, match=re.escape(words) + "$"):
        fedcell.run("fedprox", settings={key: 1})


def test_a_run_needs_no_slow_imports(tmp_path):
    """Packages that take longer to import than a small run are left to those who need them."""
    code = (
        "import sys, fedcell\n"
        "fedcell.run('fedavg', settings={'rounds': 1, 'world.n_devices': 5}, out=sys.argv[1])\n"
        "print({'numpy.ma', 'scipy', 'sklearn', 'torch._dynamo', 'matplotlib', 'pandas'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
