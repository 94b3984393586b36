"""The command line: what it prints, where, and how it ends."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from fedcell.cli import main
from fedcell.record import read_all

SMALL = ["--set", "world.n_devices=4", "--set", "model.name=logistic", "--set", "train.steps=1"]
BROKEN = (
    "from fedcell.methods.fedavg import Config, build as plain\n"
    "def misplan(*_):\n    return 1 / 0\n"
    "def build(config):\n    return plain(config)._replace(decide=misplan)\n"
)
RUN = ["run", "fedavg", "--rounds", "2", *SMALL]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def fails(capsys, code: int, *args: str) -> str:
    """The one line an unsuccessful command says, having written nothing."""
    before = written()
    assert main(args) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fedcell: ")
    assert err.count("\n") == 1
    assert written() == before
    return err


def written() -> list[Path]:
    """Everything in this folder but what Python compiled of the user's files."""
    return sorted(path for path in Path().rglob("*") if "__pycache__" not in path.parts)


# ---------------------------------------------------------------- run and show


@pytest.mark.rendered
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


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("world.deadline_s=0.001", "(8 of 8 late): raise world.deadline_s"),
        ("world.energy_per_round_joule=1e-9", "(8 of 8 out of energy): raise world.energy_per_round_joule"),
        ("world.outage_threshold_db=300", "(8 of 8 lost by the channel): lower world.outage_threshold_db"),
    ],
)
def test_a_run_in_which_nobody_is_heard_is_said(capsys, setting, words):
    assert main(["run", "fedavg", "central", "--rounds", "2", "--quiet", "--out", "o", *SMALL, "--set", setting]) == 0
    for args in ([], ["show", "o"], ["show", "o", "--json"]):
        assert not args or main(args) == 0
        assert capsys.readouterr().err.startswith(f"fedcell: fedavg: no update arrived in any round {words}")
    assert main([*RUN, "--quiet", "--out", "heard"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("method", ["osafl", "knowledge"])
def test_a_run_in_which_nobody_is_planned_is_said(capsys, method):
    """FedAvg asks everybody in vain; methods that plan ahead ask nobody, and must not fail silently."""
    settings = [*SMALL, "--set", "world.deadline_s=1e-6", "--set", "world.energy_per_round_joule=1e-12"]
    assert main(["run", method, "central", "--rounds", "2", "--quiet", "--out", "o", *settings]) == 0
    err = capsys.readouterr().err
    assert err.startswith(f"fedcell: {method}: no device was planned in any round")
    assert "raise world.deadline_s" in err
    assert err.count("\n") == 1


def test_an_exception_in_one_method_leaves_its_traceback_and_the_others_continue(capsys):
    Path("mine.py").write_text(BROKEN)
    assert main(["run", "mine.py", "fedavg", "--rounds", "3", "--quiet", "--out", "o", *SMALL]) == 1
    out, err = capsys.readouterr()
    assert "mine.py: failed after 0 of 3 rounds (ZeroDivisionError: division by zero)" in out
    assert [one.status.state for one in read_all("o")] == ["failed", "finished"]
    (told,) = Path("o").rglob("traceback.txt")
    assert "in misplan" in told.read_text()
    assert f"mine.py failed: {Path('mine.py').resolve()}, line 3, in misplan: ZeroDivisionError" in err
    assert f"({told} has the whole traceback)" in err
    Path("mine.py").write_text(BROKEN.replace("1 / 0", "1 / 1"))  # another file is another method
    assert main(["run", "--resume", "o", "--quiet"]) == 1
    assert "changed since this run began" in capsys.readouterr().err


def test_an_exception_in_the_only_method_names_its_line(capsys):
    Path("mine.py").write_text(BROKEN)
    assert main(["run", "mine.py", "--rounds", "3", "--quiet", "--out", "o", *SMALL]) == 1
    (told,) = Path("o").rglob("traceback.txt")
    assert capsys.readouterr().err == (
        f"fedcell: {Path('mine.py').resolve()}, line 3, in misplan: ZeroDivisionError: division by zero: correct it "
        f"({told} has the whole traceback)\n"
    )


def test_an_exception_of_ours_is_raised_as_it_is(monkeypatch):
    monkeypatch.setattr("fedcell.simulate.measure", lambda *_: 1 // 0)  # a line of this file, so hide where it is
    monkeypatch.setattr("fedcell.cli.blame.OURS", Path(__file__).parents[1])
    with pytest.raises(ZeroDivisionError):
        main(["run", "fedavg", "--rounds", "3", "--quiet", "--out", "o", *SMALL])
    assert [*Path("o").rglob("traceback.txt")]


# ---------------------------------------------------------------- records with damage


def damaged(name: str, data: bytes | None) -> Path:
    """A comparison of two runs, in the first of which a file is changed, or deleted for None."""
    assert main(["run", "fedavg", "fedprox", "--rounds", "3", "--quiet", "--out", "o", *SMALL]) == 0
    path = Path("o/fedavg") / name
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("rounds.jsonl", b""),
        ("rounds.jsonl", None),
        ("rounds.jsonl", b"{}\n{}\n{}\n"),
        ("run.json", None),
        ("run.json", b'{"format": 1}'),
        ("status.json", b"null\n"),
        ("status.json", b'{"state": "finished"}'),
    ],
)
def test_a_damaged_run_is_left_out_everywhere_and_said(capsys, name, data):
    damaged(name, data)
    capsys.readouterr()
    assert main(["show", "o"]) == 0
    out, err = capsys.readouterr()
    assert "fedprox" in out
    assert "fedavg" not in out
    assert err.startswith("fedcell: left out: ")
    assert "o/fedavg" in err
    assert main(["compare", "o"]) == 0
    out = capsys.readouterr().out
    assert "note: left out: " in out
    assert out.count("o/fedavg") == 1
    assert " is damaged" in out
    assert "\nfedprox" in out
    assert "\nfedavg" not in out
    assert main(["report", "o", "--out", "r.html"]) == 0
    assert "resume" in Path("r.html").read_text() or name == "run.json"


@pytest.mark.parametrize("data", [b"{}\n{}\n{}\n", b"\n\n"])
def test_rows_that_cannot_be_read_are_said_before_anything_else(capsys, data):
    path = damaged("rounds.jsonl", data)
    capsys.readouterr()
    said = fails(capsys, 1, "run", "--resume", "o")
    assert f"line 1 of {path} is damaged: delete it and all lines after it" in said
    path.write_bytes(b"")
    assert main(["run", "--resume", "o"]) == 0
    out, err = capsys.readouterr()
    assert "o/fedavg is damaged (finished, but with 0 of 3 rows): resuming makes the others anew" in err
    assert "fedavg" in out


def test_a_list_of_runs_is_sorted_and_a_comparison_is_not(capsys):
    main([*RUN, "--quiet", "--out", "o"])
    capsys.readouterr()
    assert "--sort final is for a list of many runs" in fails(capsys, 2, "show", "o", "--sort", "final")
    assert "--last 1 is for a list of many runs" in fails(capsys, 2, "show", "o", "--last", "1")


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
        (
            ["run", "--set", "world.bandwidth_hz=1MHz"],
            ["world.bandwidth_hz = '1MHz'", "in Hz without the unit, 1000000 "],
        ),
        (["run", "--set", "world.radius_m=3km"], ["world.radius_m = '3km'", "in m without the unit, 3000 "]),
        (["run", "--set", "world.cpu_hz=1GHz..2 GHz"], ["world.cpu_hz", "without the unit, 1000000000..2000000000 "]),
        (["run", "--set", "world.deadline_s=10 MHz"], ["world.deadline_s = '10 MHz'", "plain SI numbers such as 1e6"]),
        (["run", "--set", "lr=0.1"], ["unknown key 'lr': did you mean 'train.lr'"]),
        (["run", "fedprox", "--set", "mu=0.1"], ["unknown key 'mu': did you mean 'fedprox.mu'?"]),
        (["run", "--set", "world=3"], ["world is a section: set one of its keys, such as world."]),
        (["run", "fedavg,fedprox"], ["'fedavg,fedprox' is no method: put a space between them, fedavg fedprox"]),
        (
            ["run", "fedavg", "--seeds", "1..5"],
            ["--seeds is no flag of fedcell run: `fedcell sweep` runs several seeds"],
        ),
        (
            ["run", "fedavg", "--grid", "train.lr=1", "2"],
            ["--grid is no flag of fedcell run: `fedcell sweep` runs a grid"],
        ),
        (["run", "fedavg", "--set", "fedprox.mu=1"], ["method 'fedprox' is not part of this run"]),
        (["run", "--set", "rounds"], ["'rounds' has no value", "key=value"]),
        (["run", "--set", "scenario=x"], ["use --scenario x"]),
        (["run", "--rounds", "0"], ["rounds = 0", "at least 1"]),
        (["run", "--rounds", "many"], ["rounds = 'many'", "whole number"]),
        (["run", "--seed", "-1"], ["seed = -1", "at least 0"]),
        (["run", "--set", "world.n_devices=0"], ["world.n_devices = 0", "at least 1"]),
        (["run", "--set", "world.bandwidth_hz=0"], ["world.bandwidth_hz = 0", "above 0"]),
        (["run", "--set", "data.name=none.npz"], ["none.npz"]),
        (["run", "--set", "world.radius_m=abc"], ["world.radius_m = 'abc'", "write a number such as 400"]),
        (["run", "fedavg", "fedavg"], ["'fedavg' is named twice"]),
        (["run", "fedavg:lr=0.1,lr=0.2"], ["'fedavg:lr=0.1,lr=0.2' sets lr twice"]),
        (["run", "fedavg:"], ["'fedavg:' has no settings behind its colon"]),
        (["run", "--set", "world.radius_m=1", "--set", "world.radius_m=2"], ["--set world.radius_m is given twice"]),
        (["run", "--set", "seed=3", "--seed", "4"], ["--set seed=3 and --seed 4: drop one"]),
        (["run", "--set", "rounds=2", "--rounds", "1"], ["--set rounds=2 and --rounds 1: drop one"]),
        (["sweep", "--set", "rounds=2", "--rounds", "1"], ["--set rounds=2 and --rounds 1: drop one"]),
        (["sweep", "--set", "rounds=2", "--set", "rounds=1"], ["--set rounds is given twice"]),
        (["sweep", "--scenario", "cell", "fedavg"], ["'fedavg' is a method", "name methods before --scenario"]),
        (["sweep", "--seeds", "1..1000000000", "--dry-run"], ["makes more than 100000 runs"]),
        (["sweep", "--seeds", "1..90000", "--grid", "train.lr=1", "2"], ["runs and a sweep at most 100000"]),
        (["run", "--round", "3"], ["--round is no flag", "did you mean '--rounds'?", "fedcell run --help"]),
        (["sweep", "fedavg", "--seed", "3"], ["did you mean '--seeds'?", "fedcell sweep --help"]),
        (["rnu"], ["'rnu' is no COMMAND: did you mean 'run'?"]),
        (["plan", "cafe", "--rate", "1"], ["required: --clients", "fedcell plan cafe --help"]),
        (["run", "--set", "world.power_dbm=1e12"], ["world.power_dbm = 1e+12", "at most 200"]),
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


@pytest.mark.parametrize("text", ["abc", "0"])
def test_a_number_of_cores_that_is_none(capsys, monkeypatch, text):
    monkeypatch.setenv("FEDCELL_CORES", text)
    for command in ("run", "sweep"):
        assert f"FEDCELL_CORES = '{text}' is no number" in fails(capsys, 2, command, "fedavg", *SMALL)


def test_a_compiler_that_is_not_there(capsys, monkeypatch):
    monkeypatch.setenv("FEDCELL_COMPILER", "g+++")
    assert "FEDCELL_COMPILER = 'g+++' is not found" in fails(capsys, 2, "run", "fedavg", *SMALL)


def test_settings_that_change_nothing_are_named_once(capsys):
    settings = ["--set", "world.n_blocks=3", "--set", "fedavg.n_selected=2", "--set", "train.lr=0.2"]
    methods = ["fedavg", "fedprox:n_selected=3", "fedprox:n_selected=3,scheduler=random"]
    assert main(["run", *methods, "--rounds", "1", "--quiet", *SMALL, *settings]) == 0
    err = capsys.readouterr().err
    assert [line.partition(" changes nothing")[0] for line in err.splitlines()] == [
        "fedcell: world.n_blocks = 3",
        "fedcell: fedavg.n_selected = 2",
        "fedcell: fedprox.n_selected = 3",
    ]
    sweep = ["sweep", "fedavg", "--dry-run", *settings, "--grid"]
    assert main([*sweep, "world.access=fdma", "own_band"]) == 0
    assert capsys.readouterr().err.count("world.n_blocks = 3 changes nothing") == 1
    assert main([*sweep, "world.access=fdma", "block"]) == 0  # counts in one of them
    assert "world.n_blocks" not in capsys.readouterr().err


def test_a_dry_run_names_the_folder_that_the_sweep_gets(capsys):
    Path("runs/sweep-1").mkdir(parents=True)
    assert main(["sweep", "fedavg", "--dry-run"]) == 0
    assert "1 runs: runs/sweep-2" in capsys.readouterr().out


def test_too_little_memory_is_one_sentence(capsys, monkeypatch):
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")):
        monkeypatch.setattr("fedcell.cli.listing.show", Mock(side_effect=error))
        assert "not enough memory: lower world.n_devices" in fails(capsys, 1, "list")


@pytest.mark.parametrize(
    ("build", "words"),
    [
        ("5", "build() of 'mine.py' returned '5': return a fedcell.Method"),
        (
            "fedavg.build(config)._replace(decide=lambda *any: None)",
            "decide() returned 'None': return a fedcell.Decision",
        ),
        ("(", "correct it (`python mine.py` shows the line)"),
    ],
)
def test_a_method_file_that_is_wrong(capsys, build, words):
    head = "from fedcell.methods import fedavg\nfrom fedcell.methods.fedavg import Config\n"
    Path("mine.py").write_text(f"{head}def build(config): return {build}\n")
    assert main(["run", "mine.py", "--rounds", "1", "--quiet", *SMALL]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_keys_of_a_file_are_named_as_they_are_typed(capsys):
    Path("mine.py").write_text("from fedcell.methods.fedprox import Config, build\n")
    assert "fedcell: mine.mu = -1 is out of range" in fails(capsys, 2, "run", "mine.py", "--set", "mine.mu=-1")


# ---------------------------------------------------------------- folders that cannot be used


def test_what_is_not_a_run_is_refused(capsys):
    Path("empty").mkdir()
    Path("file").write_text("")
    for command in (["show"], ["compare"], ["report"], ["run", "--resume"]):
        for name in ("gone", "file"):
            assert f"{name} is no folder: name one that `fedcell run`" in fails(capsys, 2, *command, name)
        assert "there is no recorded run in empty: name a folder" in fails(capsys, 2, *command, "empty")
    Path("empty/run.json").write_text('{"format": 99}')
    assert "has format 99, not 1" in fails(capsys, 1, "show", "empty")
    Path("empty/run.json").write_text("{")
    assert "run.json is damaged" in fails(capsys, 1, "show", "empty")


def test_a_place_that_cannot_be_written_to(capsys):
    Path("file").write_text("")
    for place in ("file", "file/x"):
        assert "file is a file: choose another folder" in fails(capsys, 2, *RUN, "--out", place)


def test_files_are_written_into_new_folders_and_never_over_a_folder(capsys):
    assert main([*RUN, "--quiet", "--out", "o"]) == 0
    assert main(["compare", "o", "--figure", "a/b/f.png", "--csv", "c/f.csv"]) == 0
    assert main(["report", "o", "--out", "d/r.html"]) == 0
    plan = ["plan", "cafe", "--clients", "9", "--rate", "1", "--waste-weight", "1", "--comm-weight", "1"]
    assert main([*plan, "--figure", "e/p.png"]) == 0
    assert all(Path(name).is_file() for name in ("a/b/f.png", "c/f.csv", "d/r.html", "e/p.png"))
    Path("x.png").mkdir()
    capsys.readouterr()
    for args in (["compare", "o", "--figure"], ["compare", "o", "--csv"], ["report", "o", "--out"]):
        assert "x.png is a folder: give a file" in fails(capsys, 2, *args, "x.png")


def test_the_table_is_printed_though_its_files_cannot_be_written(capsys, monkeypatch):
    def full(path, *parts):
        raise OSError(28, "No space left on device")

    assert main([*RUN, "--quiet", "--out", "o"]) == 0
    monkeypatch.setattr("fedcell.record.files.write_atomic", full)
    for args in (["run", "--quiet", "--resume", "o"], ["compare", "o", "--csv", "f.csv"]):
        capsys.readouterr()
        assert main(args) == 1
        out, err = capsys.readouterr()
        assert "fedavg" in out
        assert "the disk is full" in err
    assert main(["run", "--quiet", "--resume", "o"]) == 1
    assert "then draw it with `fedcell run --resume o` (the record is whole)" in capsys.readouterr().err


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
