"""`fedcell deploy example`: what it writes, and what it refuses."""

import subprocess
import sys
import tomllib

import pytest

from fedcell.cli import main
from fedcell.deploy import settings
from fedcell.deploy.refusals import deployable
from fedcell.errors import BadInput


def test_the_app_reads_its_own_settings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["deploy", "example", "--devices", "5", "--method", "cafe:quorum=3", "--port", "9100"]) == 0
    out = capsys.readouterr().out
    assert [f"partition-id={device} " in out for device in range(6)] == [True] * 5 + [False]
    assert "--superlink 127.0.0.1:9100 --port 9105" in out
    project = tomllib.loads((tmp_path / "fedcell-digits" / "pyproject.toml").read_text())
    asked = settings.read(project["tool"]["flwr"]["app"]["config"])
    assert asked.method == "cafe:quorum=3"
    assert asked.config.world.n_devices == 5
    assert asked.out == str(tmp_path / "fedcell-digits" / "runs" / "digits")
    assert asked.federation.patience_s == 120


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--devices", "0"], "--devices 0 is out of range: give 1 to 100"),
        (["--port", "99999"], "--port 99999 is out of range: give 1 to 65532"),
        (["--method", "cafe:quorum=9"], "cafe.quorum = 9 but there are 3 devices"),
        (["--method", "fedavgg"], "did you mean 'fedavg'?"),
        (["--method", "fedavg:lr=-1"], "out of range"),
        (["--method", "central"], "central cannot be deployed"),
        (["--method", "fedrep"], "fedrep cannot be deployed"),
        (["--method", "representativity"], "representativity cannot be deployed"),
        (["--method", "./mine.py"], "does not exist"),
        (["full"], "is not empty: choose another folder"),
        (["full/file"], "is a file: choose another folder"),
    ],
)
def test_bad_input_writes_nothing(arguments, reason, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert main(["deploy", "example", *arguments]) == 2
    assert reason in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full"]


def test_the_example_needs_no_flower(tmp_path):
    code = "import sys; sys.modules['flwr'] = None; from fedcell.cli import main; main(['deploy', 'example'])"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "fedcell-digits" / "pyproject.toml").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rounds", "settings .rounds. has no value"),
        ("round=3", "did you mean 'rounds'"),
        ("data.name='digits", "cannot be split .no closing quotation.: close the quote"),
    ],
)
def test_settings_of_a_run_configuration(text, reason):
    with pytest.raises(BadInput, match=reason):
        settings.read({"settings": text})


def test_a_setting_of_the_federation_is_given_once():
    assert settings.read({"settings": "deploy.strikes=3"}).federation.strikes == 3
    with pytest.raises(BadInput, match=r"strikes = 5 in the run configuration and deploy.strikes = 3 .* drop one"):
        settings.read({"settings": "deploy.strikes=3", "strikes": 5})


def test_a_run_configuration_takes_the_keys_of_its_method():
    asked = settings.read({"method": "fedprox:lr=0.1", "settings": "fedprox.mu=0.5 rounds=3"})
    assert asked.config.rounds == 3
    _, choice = deployable(asked)
    assert (choice.config.mu, choice.config.lr) == (0.5, 0.1)
    with pytest.raises(BadInput, match="method 'fedprox' is not part of this run"):
        settings.read({"method": "fedavg", "settings": "fedprox.mu=0.5"})
