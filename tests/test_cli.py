"""The command line: what it prints, where, and how it ends."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from fedcell.cli import main
from fedcell.record import read_all

SMALL = ["--set", "world.n_devices=4", "--set", "model.name=logistic", "--set", "train.steps=1"]
RUN = ["run", "fedavg", "--rounds", "2", *SMALL]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def fails(capsys, code: int, *args: str) -> str:
    """The one line an unsuccessful command says, having written nothing."""
    before = sorted(Path().rglob("*"))
    assert main(args) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fedcell: ")
    assert err.count("\n") == 1
    assert sorted(Path().rglob("*")) == before
    return err


# ---------------------------------------------------------------- run and show


def test_run_records_a_table_and_a_figure(capsys):
    assert main(["run", "fedavg", "fedprox:mu=1", "--rounds", "3", "--seed", "7", *SMALL]) == 0
    out, err = capsys.readouterr()
    folder = Path("runs/cell-seed7-1")
    assert [one.label for one in read_all(folder)] == ["fedavg", "fedprox:mu=1"]
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    for word in ("fedavg", "fedprox:mu=1", "delivered", f"figure: {folder}/figure.png", f"record: {folder}"):
        assert word in out
    assert "fedavg: round 3 of 3, accuracy" in err
    assert main(["show", str(folder)]) == 0
    shown, _ = capsys.readouterr()
    assert shown.splitlines()[:4] == out.splitlines()[:4]


def test_every_run_gets_a_folder_of_its_own(capsys):
    for number in (1, 2):
        assert main([*RUN, "--quiet"]) == 0
        assert f"record: runs/cell-seed1-{number}" in capsys.readouterr().out


def test_json_is_all_there_is_on_stdout_even_without_rich(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)  # as if it were not installed
    assert main([*RUN, "--quiet", "--json", "--out", "o"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found = json.loads(out)
    assert (found["scenario"], found["seed"], found["folder"]) == ("cell", 1, "o")
    (run,) = found["runs"]
    assert (run["label"], run["state"], run["rounds"]) == ("fedavg", "finished", 2)
    assert run["simulated_s"] > 0
    assert main(["show", "o", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == found["runs"]


def test_a_terminal_gets_bars_and_a_coloured_table(capsys, monkeypatch):
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert main([*RUN, "--out", "o"]) == 0
    out, err = capsys.readouterr()
    assert "2/2" in err
    assert "simulated" in err
    assert "─" in out


def test_settings_reach_the_config_and_the_methods(capsys):
    settings = ["--set", "world.radius_m=300", "--set", "fedprox.mu=0.25", "--set", "train.lr=0.05"]
    assert main(["run", "fedprox", "fedprox:mu=0.5", "--rounds", "1", "--quiet", "--out", "o", *SMALL, *settings]) == 0
    first, second = read_all("o")
    assert first.config["world"]["radius_m"] == 300
    assert first.config["train"]["lr"] == 0.05
    assert (first.settings["mu"], second.settings["mu"]) == (0.25, 0.5)


def test_a_method_file_runs_by_path_and_takes_settings(capsys):
    Path("mine.py").write_text('"""Mine."""\nfrom fedcell.methods.fedavg import Config, build\n')
    args = ["./mine.py", "--rounds", "1", "--quiet", "--out", "o", "--set", "mine.server_lr=0.5", *SMALL]
    assert main(["run", *args]) == 0
    assert read_all("o")[0].settings["server_lr"] == 0.5


def test_a_diverged_run_ends_with_3_and_is_kept(capsys):
    assert main(["run", "fedavg:lr=1e38", "--rounds", "9", "--quiet", "--out", "o", *SMALL]) == 3
    out, err = capsys.readouterr()
    assert "diverged after" in out
    assert "lower the learning rate" in err
    assert read_all("o")[0].status.state == "diverged"


def test_resume_of_a_finished_run_says_so(capsys):
    main([*RUN, "--quiet", "--out", "o"])
    capsys.readouterr()
    assert main(["run", "--resume", "o"]) == 0
    out, err = capsys.readouterr()
    assert "o/fedavg has finished already: nothing to do" in err
    assert "fedavg" in out


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "fedavgg"], ["unknown method 'fedavgg'", "did you mean 'fedavg'?"]),
        (["run", "--scenario", "cel"], ["unknown scenario 'cel'", "'cell'"]),
        (["run", "--set", "world.radus_m=3"], ["unknown key 'world.radus_m'", "did you mean 'world.radius_m'?"]),
        (["run", "--set", "wrld.radius_m=3"], ["unknown key 'wrld.radius_m'", "did you mean 'world.radius_m'?"]),
        (["run", "fedprox", "--set", "fedprox.nu=1"], ["'fedprox.nu'", "did you mean 'fedprox.mu'?"]),
        (["run", "fedprox:nu=1"], ["'fedprox.nu'", "did you mean 'fedprox.mu'?"]),
        (["run", "--set", "world.bandwidth_hz=1MHz"], ["world.bandwidth_hz = '1MHz'", "plain SI numbers such as 1e6"]),
        (["run", "--set", "world.radius_m=3km"], ["world.radius_m = '3km'", "plain SI numbers such as 1e6"]),
        (["run", "--set", "world.cpu_hz=1GHz..2 GHz"], ["world.cpu_hz", "plain SI numbers such as 1e6"]),
        (["run", "fedavg", "--set", "fedprox.mu=1"], ["method 'fedprox' is not part of this run"]),
        (["run", "--set", "rounds"], ["'rounds' has no value", "key=value"]),
        (["run", "--set", "scenario=x"], ["use --scenario x"]),
        (["run", "--rounds", "0"], ["rounds = 0", "at least 1"]),
        (["run", "--rounds", "many"], ["rounds = 'many'", "whole number"]),
        (["run", "--seed", "-1"], ["seed = -1", "at least 0"]),
        (["run", "--set", "world.n_devices=0"], ["world.n_devices = 0", "at least 1"]),
        (["run", "--set", "world.bandwidth_hz=0"], ["world.bandwidth_hz = 0", "above 0"]),
        (["run", "--set", "data.name=none.npz"], ["none.npz"]),
        (["run", "fedavg", "fedavg"], ["'fedavg' is named twice"]),
        (["run", "--checkpoint-every", "-1"], ["--checkpoint-every -1"]),
        (["run", "fedavg", "--resume", "x", "--rounds", "3"], ["drop --rounds fedavg"]),
        (["list", "keys", "nope"], ["unknown method 'nope'"]),
        (["list", "data", "fedavg"], ["fedcell list keys fedavg"]),
        (["data", "get", "mnits"], ["'mnits'", "'mnist'"]),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(capsys, args, words):
    said = fails(capsys, 2, *args)
    for word in words:
        assert word in said


def test_a_folder_with_content_is_not_written_to(capsys):
    Path("o").mkdir()
    Path("o/notes.txt").write_text("mine")
    assert "o is not empty" in fails(capsys, 2, *RUN, "--out", "o")


def test_unknown_flags_are_the_parsers_business(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", "--round", "3"])
    assert ended.value.code == 2


# ---------------------------------------------------------------- folders that cannot be used


def test_what_is_not_a_run_is_refused(capsys):
    assert "gone is no run folder" in fails(capsys, 1, "show", "gone")
    Path("empty").mkdir()
    assert "empty is no run folder (it has no comparison.json)" in fails(capsys, 1, "run", "--resume", "empty")
    Path("empty/run.json").write_text('{"format": 99}')
    assert "has format 99, not 1" in fails(capsys, 1, "show", "empty")
    Path("empty/run.json").write_text("{")
    assert "run.json is damaged" in fails(capsys, 1, "show", "empty")


def test_a_place_that_cannot_be_written_to(capsys):
    Path("file").write_text("")
    assert "cannot write to file/x: not a directory" in fails(capsys, 1, *RUN, "--out", "file/x")
    assert "cannot write to file: not a directory" in fails(capsys, 1, *RUN, "--out", "file")


@pytest.fixture
def forbidden(tmp_path):
    """A finished run and an empty folder that the present user may not open."""
    place = tmp_path / "forbidden"
    assert main([*RUN, "--quiet", "--out", str(place / "run")]) == 0
    place.chmod(0o000)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)  # permissions do not bind root
    yield place
    if root:
        os.seteuid(0)
    place.chmod(0o700)


def test_a_folder_without_permission(capsys, forbidden):
    capsys.readouterr()
    assert main([*RUN, "--out", str(forbidden / "new")]) == 1
    assert "permission denied" in capsys.readouterr().err
    assert main(["run", "--resume", str(forbidden / "run")]) == 1
    assert "permission denied; make it readable" in capsys.readouterr().err


# ---------------------------------------------------------------- the rest


def test_list_shows_what_there_is(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for word in ("METHODS", "fedavg", "SCENARIOS", "cell", "MODELS", "mlp", "DATA", "digits"):
        assert word in out
    assert main(["list", "keys"]) == 0
    out = capsys.readouterr().out
    for word in ("world.radius_m", "train.lr", "fedprox.mu", "eval_every"):
        assert word in out
    assert main(["list", "keys", "fedprox"]) == 0
    out = capsys.readouterr().out
    assert "fedprox.mu" in out
    assert "world.radius_m" not in out
    assert out.splitlines()[1].split() == ["key", "default", "type", "meaning"]


def test_list_keys_of_a_file_are_those_that_set_takes(capsys):
    path = str(Path(__file__).parent.parent / "examples" / "server_momentum.py")
    assert main(["list", "keys", path]) == 0
    assert "\n  server_momentum.beta " in capsys.readouterr().out
    settings = ["--set", "server_momentum.beta=0.5", *SMALL]
    assert main(["run", path, "--rounds", "1", "--quiet", "--out", "o", *settings]) == 0
    assert read_all("o")[0].settings["beta"] == 0.5


def test_data_list_and_get_of_embedded_data(capsys):
    assert main(["data", "list"]) == 0
    assert "digits" in capsys.readouterr().out
    assert main(["data", "get", "digits"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "digits" in err


def test_help_documents_the_exit_codes_and_the_version_is_told(capsys):
    for args in (["--help"], ["run", "--help"]):
        with pytest.raises(SystemExit) as ended:
            main(args)
        assert ended.value.code == 0
        out = capsys.readouterr().out
        assert all(f"\n  {code:<5}" in out for code in (0, 1, 2, 3, 130))
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"fedcell {version('fedcell')}\n"


def test_a_reader_that_leaves_early_is_no_error():
    command = f"({sys.executable} -m fedcell list keys; echo code $? >&2) | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stderr == "code 0\n"


def test_help_needs_no_heavy_library():
    code = "import sys; from fedcell.cli import parser; parser(); print({'torch', 'rich', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"


def test_data_split_shows_label_counts(capsys):
    assert main(["data", "split", "--set", "data.partition=classes", "--set", "world.n_devices=5", "--json"]) == 0
    counts = np.array(json.loads(capsys.readouterr().out)["counts"])
    assert counts.shape == (5, 10)
    assert ((counts > 0).sum(axis=1) == 2).all()
    assert counts.sum() == 1442
    assert main(["data", "split", "--set", "data.alpha=-1"]) == 2
