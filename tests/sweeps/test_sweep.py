"""Sweeps: equal to single runs whatever the number of workers, resumable at any instant, extended by more."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forked import Forked

import fedcell
from fedcell import options, record, scenarios, sweeps
from fedcell.cli import main
from fedcell.errors import BadInput, FedcellError
from fedcell.sweeps.runner import LOST, Runner
from fedcell.sweeps.task import Orders, SweepRun, play

SMALL = {"world.n_devices": 4, "model.name": "logistic", "train.workers": 1, "eval_every": 5}
FLAGS = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
WORLD = "cell{}-eval_every-5-world.n_devices-4-model.name-logistic-train.workers-1-seed{}"
CRASH = """import os, signal
from fedcell.methods.fedavg import Config
from fedcell.methods.fedavg import build as plain

def build(config):
    def decide(problem, state, observation):
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(config)._replace(decide=decide)
"""
SLOW = """import time
from fedcell.methods.fedavg import Config
from fedcell.methods.fedavg import build as plain

def build(config):
    method = plain(config)
    def decide(problem, state, observation):
        time.sleep(0.05)
        return method.decide(problem, state, observation)
    return method._replace(decide=decide)
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def alone(method: str, folder: Path, **changes: object) -> Path:
    """The same run as `fedcell run` does it."""
    config = options.override(scenarios.get("cell").config, {**SMALL, **changes})
    (made,) = record.execute(config, [method], folder)
    return made.folder


def same(one: Path, other: Path) -> bool:
    """Whether rows and last state are equal, byte for byte."""
    last = [max(path.glob("checkpoint-*.safetensors")).read_bytes() for path in (one, other)]
    rows = [(path / "rounds.jsonl").read_bytes() for path in (one, other)]
    return rows[0] == rows[1] and last[0] == last[1]


def in_order(**kwargs) -> list[tuple[str, str]]:
    infos = fedcell.sweep(settings={**SMALL, "rounds": 3}, out="s", workers=1, **kwargs)
    return [(str(info.folder.relative_to("s")), info.state) for info in infos]


# ---------------------------------------------------------------- one process


def test_a_task_from_before_an_option_means_what_it_meant_then():
    """`pull_scale` came with another default than what runs had done until then."""
    changes = {**SMALL, "model.name": "mlp", "model.hidden": (8, 4), "rounds": 1}
    config = options.to_dict(options.override(scenarios.get("cell").config, changes))
    new = {"scheduler": "all", "pull_scale": "mean"}
    for name, settings in (("old", {"scheduler": "all"}), ("new", new)):
        outcome = play(SweepRun(name, name, "knowledge", settings, config), Orders("s"), record.silent)
        assert outcome.message == ""
    assert [record.read(Path("s", name)).settings["pull_scale"] for name in ("old", "new")] == ["sum", "mean"]


def test_a_sweep_is_extended_and_what_is_done_is_skipped():
    notes: list[str] = []

    def hear(progress: record.Progress) -> None:
        if progress.note:
            notes.append(progress.note)

    first = in_order(methods="fedavg", seeds=[1])
    assert first == [(WORLD.format("-rounds-3", 1) + "/fedavg", "finished")]
    before = (Path("s") / first[0][0] / "rounds.jsonl").stat().st_mtime_ns
    more = in_order(methods=["fedavg", "fednova"], seeds=[1, 2], watch=hear)
    assert notes == ["1 of 4 runs are skipped: 1 finished before"]
    assert [name.partition("/")[2] for name, _ in more] == ["fedavg", "fednova"] * 2
    assert (Path("s") / first[0][0] / "rounds.jsonl").stat().st_mtime_ns == before
    assert len(record.find("s")) == len(sweeps.going_on("s").tasks) == 4
    assert same(Path("s") / more[3][0], alone("fednova", Path("a"), rounds=3, seed=2))


def test_one_run_that_fails_or_diverges_stops_no_other(capsys):
    Path("broken.py").write_text(
        "from fedcell.methods.fedavg import Config, build as plain\n"
        "def build(config):\n    return plain(config)._replace(decide=lambda *_: 1 / 0)\n"
    )
    args = ["sweep", "broken.py", "fedavg:lr=1e38", "fedavg", "--rounds", "3", "--workers", "1", "--out", "s", *FLAGS]
    assert main(args) == 1
    out, err = capsys.readouterr()
    states = [line.split()[4] for line in out.splitlines()[2:5]]
    assert states == ["failed", "diverged", "finished"]
    assert "ZeroDivisionError: division by zero" in err
    assert "[3/3]" in err
    (told,) = Path("s").rglob("traceback.txt")
    assert "return plain(config)._replace(decide=lambda *_: 1 / 0)" in told.read_text()
    assert main(["sweep", "--resume", "s", "--quiet", "--json", "--workers", "1"]) == 1
    out, err = capsys.readouterr()
    assert [run["state"] for run in json.loads(out)["runs"]] == states
    assert "2 of 3 runs are skipped: 1 finished and 1 diverged before" in err
    assert main(["sweep", "fedavg:lr=1e38", "--rounds", "3", "--quiet", "--out", "s", *FLAGS]) == 3


def test_an_exception_before_the_first_round_leaves_its_traceback_too():
    text = (
        "from fedcell.methods.fedavg import Config, build as plain\n"
        "def init(problem, params):\n    return {}['absent']\n"
        "def build(config):\n    return plain(config)._replace(init=init)\n"
    )
    Path("broken.py").write_text(text)
    args = ["sweep", "broken.py", "--rounds", "3", "--quiet", "--workers", "1", "--out", "s", *FLAGS]
    for _ in range(2):  # what it leaves does not stop another try
        assert main(args) == 1
        (info,) = record.find("s")
        assert (info.state, info.message) == ("failed", "KeyError: 'absent'")
        assert "in init" in (info.folder / "traceback.txt").read_text()
    Path("broken.py").write_text(text.replace("{}['absent']", "()"))
    assert main(args) == 0
    (info,) = record.find("s")
    assert info.state == "finished"
    assert not (info.folder / "traceback.txt").exists()


def test_a_run_that_cannot_begin_is_bad_input_and_the_others_go_on(capsys):
    grid = ["--grid", "data.name=digits", "none.npz"]
    assert main(["sweep", "fedavg", "--rounds", "2", "--quiet", "--workers", "1", "--out", "s", *grid, *FLAGS]) == 2
    out, err = capsys.readouterr()
    assert sorted(line.split()[4] for line in out.splitlines()[2:4]) == ["failed", "finished"]
    assert "none.npz" in err
    assert "none.npz" in out


def test_a_dry_run_lists_and_writes_nothing(capsys):
    args = ["sweep", "fedavg", "--grid", "model.hidden=64", "64,32", "--seeds", "1..2", "--dry-run"]
    assert main(args) == 0
    assert capsys.readouterr().out.count("waiting") == 4
    assert not list(Path().iterdir())


def test_a_terminal_gets_one_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert main(["sweep", "fedavg", "fednova", "--rounds", "2", "--workers", "1", *FLAGS]) == 0
    out, err = capsys.readouterr()
    assert "2/2 runs" in err
    assert "2 runs: runs/sweep-1" in out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--workers", "-1"], "-1 workers are too few"),
        (["--engine", "x"], "unknown engine 'x': choose one of local"),
        (["--grid", "world.radius_m"], "--grid 'world.radius_m' has no value: write KEY=VALUE and further values"),
        (["--set", "world.radius_m="], "world.radius_m = '' is not a number"),
        (["--seeds", "5..1"], "--seeds '5..1' is no seed"),
        (["--log", "tensorbord=x"], "unknown logger 'tensorbord': did you mean 'tensorboard'?"),
        (["--checkpoint-every", "-1"], "--checkpoint-every -1 is below 0"),
        (["--resume", "x"], "--resume takes every run from its folder: drop fedavg"),
    ],
)
def test_bad_flags_are_one_sentence_and_write_nothing(capsys, args, words):
    assert main(["sweep", "fedavg", *args]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err
    assert not list(Path().iterdir())


def test_folders_that_are_no_sweep_are_refused(capsys):
    alone("fedavg", Path("run"), rounds=1)
    with pytest.raises(BadInput, match="run is not empty and no folder of a sweep"):
        fedcell.sweep("fedavg", out="run")
    with pytest.raises(BadInput, match=r"run is no folder of a sweep \(it has no sweep.json\)"):
        sweeps.going_on("run")
    in_order(methods="fedavg")
    assert main(["run", "--resume", "s"]) == 2
    assert "s is the folder of a sweep: resume with `fedcell sweep --resume s`" in capsys.readouterr().err


def test_a_preset_that_changed_is_named(monkeypatch):
    in_order(methods="fedavg")
    preset = scenarios.get("cell")
    changed = preset._replace(config=options.override(preset.config, {"world.bandwidth_hz": 5e5}))
    monkeypatch.setattr(scenarios, "get", lambda name: changed)
    with pytest.raises(BadInput, match=r"holds a run with world.bandwidth_hz = 1000000.0 and not 500000.0"):
        in_order(methods="fedavg")


def preset_with(monkeypatch, **settings: object) -> None:
    """From now on the scenario sets these for FedAvg."""
    changed = scenarios.get("cell")._replace(methods={"fedavg": settings})
    monkeypatch.setattr(scenarios, "get", lambda name: changed)


def test_a_preset_that_changed_a_method_is_named(monkeypatch):
    preset_with(monkeypatch, lr=0.1)
    in_order(methods="fedavg")
    preset_with(monkeypatch, lr=0.9)
    with pytest.raises(BadInput, match=r"holds a run with fedavg.lr = 0.1 and not 0.9, because a preset changed"):
        in_order(methods="fedavg")
    assert [name for name, _ in in_order(methods="fedavg:lr=0.9")] == [WORLD.format("-rounds-3", 1) + "/fedavg-lr-0.9"]


def test_a_setting_that_came_later_counts_as_its_default(monkeypatch):
    ((name, _),) = in_order(methods="fedavg")
    path = Path("s", name, "run.json")
    values = json.loads(path.read_text())
    del values["settings"]["server_lr"]
    path.write_text(json.dumps(values))
    assert in_order(methods="fedavg") == [(name, "finished")]
    preset_with(monkeypatch, server_lr=0.5)
    with pytest.raises(BadInput, match=r"holds a run with fedavg.server_lr = 1.0 and not 0.5"):
        in_order(methods="fedavg")


def test_a_run_that_waited_is_done_as_asked_for_last(monkeypatch):
    def stop(progress: record.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_order(methods="fedavg", watch=stop)
    preset_with(monkeypatch, lr=0.9)
    ((name, _),) = in_order(methods="fedavg")
    assert record.read(Path("s", name)).settings["lr"] == 0.9
    infos, code = sweeps.carry_out(sweeps.going_on("s"))
    assert ([info.state for info in infos], code) == (["finished"], 0)


def test_a_method_file_that_went_stops_no_other_run():
    Path("mine.py").write_text("from fedcell.methods.fedavg import Config, build\n")
    in_order(methods=["mine.py", "fedavg"])
    Path("mine.py").unlink()
    infos, code = sweeps.carry_out(sweeps.going_on("s"))
    assert ([info.state for info in infos], code) == (["finished"] * 2, 0)


@pytest.mark.parametrize("name", ["../../escaped/fedavg", "/proc/escaped", "a/..", "a//b", "a", None])
def test_a_sweep_that_names_a_run_elsewhere_is_refused(name):
    in_order(methods="fedavg")
    values = json.loads(Path("s/sweep.json").read_text())
    values["runs"][0]["name"] = name
    Path("s/sweep.json").write_text(json.dumps(values))
    before = sorted(Path().rglob("*"))
    with pytest.raises(FedcellError, match=r"sweep.json is damaged \(.* is no folder of a run\): restore it"):
        sweeps.going_on("s")
    assert sorted(Path().rglob("*")) == before
    assert [info.state for info in record.find("s")] == ["damaged", "finished"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda values: values.pop("runs"), "KeyError: 'runs'"),
        (lambda values: values.update(runs=3), "TypeError: "),
        (lambda values: values["runs"][0].pop("config"), "TypeError: "),
        (lambda values: values["runs"][0]["config"].pop("rounds"), "KeyError: 'rounds'"),
        (lambda values: values["runs"][0].update(method=None), "AttributeError: "),
        (lambda values: values["runs"].clear(), "it names no runs"),
    ],
)
def test_a_damaged_sweep_is_named(capsys, spoil, words):
    in_order(methods="fedavg")
    values = json.loads(Path("s/sweep.json").read_text())
    spoil(values)
    Path("s/sweep.json").write_text(json.dumps(values))
    capsys.readouterr()
    assert main(["sweep", "--resume", "s", "--quiet"]) == 1
    assert f"s/sweep.json is damaged ({words}" in capsys.readouterr().err


def test_a_sweep_of_no_scenario_is_refused():
    with pytest.raises(BadInput, match="scenarios is empty: give one or more, or leave it out"):
        fedcell.sweep("fedavg", scenarios=[], out="s")
    assert not Path("s").exists()


def test_a_worker_killed_in_mid_message_is_lost(monkeypatch):
    code = 'import os; input(); os.write(1, b\'["progress", {}]\\n["outc\'); os.kill(os.getpid(), 9)'
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    monkeypatch.setattr(Runner, "_start", lambda self: subprocess.Popen([sys.executable, "-c", code], **pipes))
    first, last = Runner(1).play({}, {})
    assert first == ("progress", {})
    how = "its process ended with signal SIGKILL; perhaps memory ran out: use fewer workers"
    assert last == (LOST, {"code": 1, "message": how})


def test_owners_of_processes_import_nothing_heavy():
    code = "import sys, fedcell.sweeps.host; print({'torch', 'numpy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


# ---------------------------------------------------------------- several processes


def test_workers_change_no_result_a_dead_one_is_replaced_and_ctrl_c_leaves_all_resumable(capsys):
    Path("crash.py").write_text(CRASH)
    Path("slow.py").write_text(SLOW)
    slow = ["slow.py", "slow.py:lr=0.2", "slow.py:lr=0.3", "slow.py:lr=0.4"]
    notes: list[str] = []
    seen: set[str] = set()

    def stop(progress: record.Progress) -> None:
        notes.append(progress.note)
        if progress.row and "slow" in progress.label:
            seen.add(progress.label)
        if len(seen) >= 2 and killed in notes:  # on a busy machine the others may be quicker
            raise KeyboardInterrupt

    killed = "its process ended with signal SIGKILL; perhaps memory ran out: use fewer workers"
    shared = {"settings": {**SMALL, "rounds": 25}, "out": "s"}
    with pytest.raises(KeyboardInterrupt):
        fedcell.sweep(["crash.py", "fedavg", *slow], **shared, workers=2, watch=stop)
    found = {info.label: info for info in record.find("s")}
    assert (found["crash.py"].state, found["fedavg"].state) == ("interrupted", "finished")
    assert {found[label].state for label in slow} - {"finished"} == {"interrupted", "waiting"}
    assert all(list(Path("s", label).glob("checkpoint-*")) for label in seen)
    assert main(["show", "s"]) == 0
    assert "waiting" in capsys.readouterr().out
    infos = fedcell.sweep(["fedavg", *slow[:2]], **shared, workers=1)
    assert [info.state for info in infos] == ["finished"] * 3
    for info, method in zip(infos, ("fedavg", "fedavg", "fedavg:lr=0.2"), strict=True):
        assert same(info.folder, alone(method, Path("alone") / info.folder.name, rounds=25))


def test_a_killed_sweep_goes_on_and_ends_bit_identical(capsys):
    Path("slow.py").write_text(SLOW)
    args = ["slow.py", "--seeds", "1..2", "--rounds", "25", "--out", "s", "--checkpoint-every", "0", *FLAGS]
    process = Forked("sweep", "--quiet", "--workers", "2", *args)
    deadline = time.monotonic() + 60
    while len({path.parent for path in Path("s").glob("*/*/checkpoint-*.safetensors")}) < 2:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    while main(["sweep", "--resume", "s", "--workers", "1", "--quiet"]):  # a worker may let go of its run late
        assert time.monotonic() < deadline, capsys.readouterr()
    for info in record.find("s"):
        assert same(info.folder, alone("fedavg", Path(f"a{info.seed}"), rounds=25, seed=info.seed))
