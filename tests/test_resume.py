"""Runs that are killed, interrupted, starved of disk or tampered with, and what resuming makes of them."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from forked import Forked

from fedcell import methods, options, record, report, scenarios
from fedcell.data import from_arrays
from fedcell.errors import BadInput, FedcellError

SMALL = {"world.n_devices": "4", "model.name": "logistic", "train.steps": "2", "train.workers": "1", "eval_every": "5"}
SETTINGS = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
METHODS = ["fedavg", "fedprox:mu=0.5"]
FOLDERS = ["fedavg", "fedprox-mu-0.5"]


def config(rounds: int) -> scenarios.Config:
    changed: scenarios.Config = options.override(scenarios.get("cell").config, {**SMALL, "rounds": rounds})
    return changed


def result(folder: Path) -> list[tuple[bytes, bytes]]:
    """Rows and final checkpoint of every run, byte for byte."""
    return [((path / "rounds.jsonl").read_bytes(), newest(path).read_bytes()) for path in runs(folder)]


def runs(folder: Path) -> list[Path]:
    return [one.folder for one in record.read_all(folder)]


def newest(folder: Path) -> Path:
    return max(folder.glob("checkpoint-*.safetensors"))


def start(*args: str, most_bytes: int = 0) -> Forked:
    """A real process."""
    return Forked("run", "--quiet", "--checkpoint-every", "0", *args, most_bytes=most_bytes)


def wait_for_rows(folder: Path, count: int, process: Forked) -> None:
    """Return as soon as the runs in a folder have that many rows together."""
    deadline = time.monotonic() + 60
    while sum(len(path.read_bytes().splitlines()) for path in folder.glob("*/rounds.jsonl")) < count:
        assert process.poll() is None, f"ended early: {process.communicate()}"
        assert time.monotonic() < deadline, "no rows"
        time.sleep(0.002)


class Stop:
    """A watcher that presses Ctrl-C after a number of rounds of one method."""

    def __init__(self, label: str, rounds: int) -> None:
        self.label, self.rounds, self.notes = label, rounds, []

    def __call__(self, progress: record.Progress) -> None:
        if progress.note:
            self.notes.append(progress.note)
        if progress.label == self.label and progress.row and progress.done == self.rounds:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """An uninterrupted run of 40 rounds."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    record.execute(config(40), METHODS, folder)
    return folder


def interrupted(folder: Path, label: str = "fedavg", rounds: int = 25, seconds: float = 0.0) -> Path:
    """The same run, stopped in the middle."""
    with pytest.raises(KeyboardInterrupt):
        record.execute(config(40), METHODS, folder, watch=Stop(label, rounds), period=record.Period(seconds))
    return folder


# ---------------------------------------------------------------- real processes


def test_killed_many_times_the_run_ends_bit_identical(tmp_path):
    rounds, folder, whole = 80, tmp_path / "killed", tmp_path / "whole"
    record.execute(config(rounds), METHODS, whole)
    dice = random.Random()
    stops = sorted(dice.sample(range(1, 2 * rounds - 20), 3))
    print("killed after rows", stops)  # shown when the test fails
    process = start(*METHODS, "--rounds", str(rounds), "--out", str(folder), *SETTINGS)
    for stop in stops:
        wait_for_rows(folder, stop, process)
        time.sleep(dice.uniform(0, 0.01))
        process.kill()
        process.communicate()
        states = [one.status.state for one in record.read_all(folder)]
        assert {"interrupted", "waiting"} & set(states), "a kill between two methods leaves the second one waiting"
        assert "running" not in states
        process = start("--resume", str(folder))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert result(folder) == result(whole)


def test_ctrl_c_says_how_to_go_on_and_loses_nothing(tmp_path, whole):
    process = start(*METHODS, "--rounds", "4000", "--out", str(tmp_path / "run"), *SETTINGS)
    wait_for_rows(tmp_path / "run", 30, process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"resume with `fedcell run --resume {tmp_path / 'run'}`" in errors
    assert "Traceback" not in errors
    stopped = record.read(tmp_path / "run" / "fedavg")
    assert stopped.status.state == "interrupted"
    saved = int(newest(stopped.folder).name[11:17])
    assert stopped.status.rounds - 1 <= saved <= stopped.status.rounds
    lines = (stopped.folder / "rounds.jsonl").read_bytes().splitlines()
    assert lines[:30] == (whole / "fedavg" / "rounds.jsonl").read_bytes().splitlines()[:30]


def test_a_full_disk_is_said_and_the_run_goes_on_later(tmp_path, whole):
    """With a limit on the size of every file: writing beyond it fails as on a full disk."""
    folder = tmp_path / "run"
    full = start(*METHODS, "--rounds", "40", "--out", str(folder), *SETTINGS, most_bytes=13_000)
    _, errors = full.communicate(timeout=120)
    assert full.returncode == 1
    assert errors.count("\n") == 1
    assert "the disk is full" in errors
    assert f"free some space, then resume with `fedcell run --resume {folder}`" in errors
    record.resume(folder)
    assert result(folder) == result(whole)


def mount(folder: Path, size: str) -> bool:
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "fedcell-test", str(folder)], capture_output=True
    )
    return done.returncode == 0


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root on Linux can mount a small disk")
def test_a_really_full_disk(tmp_path, whole):
    disk = tmp_path / "disk"
    if not mount(disk, "60k"):
        pytest.skip("this machine does not let root mount a tmpfs")
    try:
        full = pytest.raises(FedcellError, match=r"the disk is full .* --resume .* of 40 rounds are kept")
        with full:
            record.execute(config(40), METHODS, disk / "run", period=record.Period(0.0))
        assert record.read(disk / "run" / "fedavg").status.state == "interrupted"
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        record.resume(disk / "run")
        assert result(disk / "run") == result(whole)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# ---------------------------------------------------------------- interruptions and damage


@pytest.mark.parametrize("label", METHODS)
def test_an_interrupted_comparison_finishes_all_its_methods(tmp_path, whole, label):
    folder = interrupted(tmp_path / "run", label)
    states = [one.status.state for one in record.read_all(folder)]
    assert states == (["interrupted", "waiting"] if label == "fedavg" else ["finished", "interrupted"])
    records = record.resume(folder)
    assert [one.status.state for one in records] == ["finished", "finished"]
    assert result(folder) == result(whole)


def test_one_run_of_a_comparison_is_resumed_alone(tmp_path, whole):
    folder = interrupted(tmp_path / "run")
    (alone,) = record.resume(folder / "fedavg")
    assert alone.status.state == "finished"
    assert result(folder / "fedavg") == result(whole)[:1]


def test_without_a_checkpoint_the_run_begins_anew(tmp_path, whole):
    folder = interrupted(tmp_path / "run")
    for path in folder.glob("fedavg/checkpoint-*"):
        path.unlink()
    record.resume(folder)
    assert result(folder) == result(whole)


def test_a_damaged_newest_checkpoint_and_a_half_written_row(tmp_path, whole):
    folder, watch = interrupted(tmp_path / "run"), Stop("", 0)
    damaged = newest(folder / "fedavg")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with (folder / "fedavg" / "rounds.jsonl").open("ab") as file:
        file.write(b'{"round":25,"clo')
    (folder / "fedavg" / "checkpoint-000099.safetensors.tmp").write_bytes(b"{")
    record.resume(folder, watch=watch)
    assert any(f"{damaged} is damaged" in note for note in watch.notes)
    assert any("half-written row (16 bytes)" in note for note in watch.notes)
    assert not list(folder.glob("*/*.tmp"))
    assert result(folder) == result(whole)


def test_a_changed_row_is_named(tmp_path):
    folder = interrupted(tmp_path / "run")
    for path in folder.glob("fedavg/checkpoint-*"):
        path.unlink()
    rows = folder / "fedavg" / "rounds.jsonl"
    lines = rows.read_bytes().splitlines(keepends=True)
    lines[7] = lines[7].replace(b'"n_delivered":4', b'"n_delivered":3')
    rows.write_bytes(b"".join(lines))
    with pytest.raises(FedcellError, match=r"rounds.jsonl is damaged \(its first \d+ bytes have checksum"):
        record.resume(folder)
    (folder / "fedavg" / "status.json").unlink()  # and the checksum with it
    with pytest.raises(FedcellError, match=r"round 7 now gives n_delivered = 4 but .* holds 3"):
        record.resume(folder)
    assert rows.read_bytes() == b"".join(lines)


def test_a_finished_run_says_so_and_is_left_alone(tmp_path, whole):
    watch = Stop("", 0)
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()}
    record.resume(whole, watch=watch)
    assert [f"{whole / name} has finished already: nothing to do" for name in FOLDERS] == watch.notes
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("kept", [0, 1, 38, 39])
def test_a_finished_run_that_lost_rows_is_made_whole(tmp_path, whole, kept):
    folder, watch = tmp_path / "run", Stop("", 0)
    record.execute(config(40), METHODS, folder, period=record.Period(0.0))
    rows = folder / "fedavg" / "rounds.jsonl"
    rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[:kept]))
    short, other = record.read_all(folder)
    assert (short.status.state, short.status.rounds, other.status.state) == ("damaged", kept, "finished")
    assert f"(finished, but with {kept} of 40 rows)" in short.status.message
    assert [one.label for one in report.compare([short, other]).groups] == [METHODS[1]]
    records = record.resume(folder, watch=watch)
    assert [one.status.state for one in records] == ["finished", "finished"]
    assert watch.notes[0] == short.status.message
    assert result(folder) == result(whole)
    assert len(list(folder.glob("fedavg/checkpoint-*"))) <= 2


def test_checkpoints_ahead_of_lost_rows_do_not_push_out_new_ones(tmp_path, whole):
    folder = tmp_path / "run"
    record.execute(config(40), METHODS, folder, period=record.Period(0.0))
    (folder / "fedavg" / "rounds.jsonl").unlink()
    with pytest.raises(KeyboardInterrupt):
        record.resume(folder, watch=Stop("fedavg", 25), period=record.Period(0.0))
    assert newest(folder / "fedavg").name == "checkpoint-000025.safetensors"
    record.resume(folder)
    assert result(folder) == result(whole)


def test_settings_come_from_the_record_and_versions_are_compared(tmp_path, whole):
    folder, watch = interrupted(tmp_path / "run"), Stop("", 0)
    about = json.loads((folder / "fedavg" / "run.json").read_text())
    assert options.from_dict(scenarios.Config(), about["config"]) == config(40)
    assert about["made_by"]["torch"] == torch.__version__
    about["made_by"]["numpy"] = "1.0"
    (folder / "fedavg" / "run.json").write_text(json.dumps(about))
    record.resume(folder, watch=watch)
    assert any(f"numpy 1.0 -> {np.__version__}" in note for note in watch.notes)


@pytest.mark.parametrize("name", ["../escaped", "/proc/escaped", "..", ".", "", "a/b", 5])
def test_a_folder_name_that_leads_elsewhere_is_refused(tmp_path, name):
    folder = interrupted(tmp_path / "run", rounds=1)
    values = json.loads((folder / "comparison.json").read_text())
    values["runs"][1]["folder"] = name
    (folder / "comparison.json").write_text(json.dumps(values))
    before = sorted(tmp_path.rglob("*"))
    for read in (record.resume, record.read_all):
        with pytest.raises(FedcellError, match=r"comparison.json is damaged \(.* is no folder of a run\): restore it"):
            read(folder)
    assert sorted(tmp_path.rglob("*")) == before
    damaged, kept = record.find(tmp_path)
    assert (damaged.state, kept.state) == ("damaged", "interrupted")


def test_a_run_in_use_is_refused(tmp_path):
    folder = tmp_path / "run"

    def intrude(progress: record.Progress) -> None:
        if progress.done == 5 and progress.row:
            with pytest.raises(BadInput, match="in use by another"):
                record.resume(folder)
            with pytest.raises(BadInput, match="in use by another"):
                record.resume(folder / "fedavg")
            assert record.read(folder / "fedavg").status.state == "running"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record.execute(config(40), METHODS, folder, watch=intrude)


def test_a_diverged_run_is_kept_and_the_others_go_on(tmp_path):
    texts = ["fedavg:lr=1e38", "fedavg"]
    wild, tame = record.execute(config(5), texts, tmp_path / "run")
    assert wild.status.state == "diverged"
    assert "finite" in wild.status.message
    assert tame.status.state == "finished"
    again, _ = record.resume(tmp_path / "run")
    assert again.status == wild.status


def test_a_failing_method_is_recorded_as_failed(tmp_path):
    method = methods.parse("fedavg").build()

    def decide(problem, state, observation):
        if observation.round == 3:
            raise ZeroDivisionError("by zero")
        return method.decide(problem, state, observation)

    own = ("mine", method._replace(decide=decide))
    with pytest.raises(ZeroDivisionError):
        record.execute(config(5), [own], tmp_path / "run")
    status = record.read(tmp_path / "run" / "mine").status
    assert status == record.Status("failed", 3, 5, "ZeroDivisionError: by zero")


# ---------------------------------------------------------------- own objects and method files


def own_objects(scale: float = 1.0) -> dict:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 6)) * scale, rng.integers(0, 3, 200)
    torch.manual_seed(0)
    return {"dataset": from_arrays(x[:150], y[:150], x[150:], y[150:]), "model": torch.nn.Linear(6, 3)}


def test_own_model_data_and_method_resume_from_python(tmp_path):
    mine = [("mine", methods.parse("fedavg").build())]
    record.execute(config(12), mine, tmp_path / "whole", **own_objects())
    with pytest.raises(KeyboardInterrupt):
        record.execute(config(12), mine, tmp_path / "run", watch=Stop("mine", 5), **own_objects())
    with pytest.raises(BadInput, match=r"own model and dataset and method: resume it with fedcell\.record\.resume"):
        record.resume(tmp_path / "run")
    with pytest.raises(FedcellError, match="would not begin from the state"):
        record.resume(tmp_path / "run", methods=mine, **own_objects(scale=2.0))
    record.resume(tmp_path / "run", methods=mine, **own_objects())
    assert result(tmp_path / "run") == result(tmp_path / "whole")


def test_own_objects_that_a_run_did_not_use_are_refused(tmp_path):
    folder = interrupted(tmp_path / "run")
    with pytest.raises(BadInput, match="without an own dataset and model"):
        record.resume(folder, **own_objects())


def test_a_method_file_that_changed_is_refused(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from fedcell.methods.fedavg import Config, build\n")
    with pytest.raises(KeyboardInterrupt):
        record.execute(config(9), [f"{file}:server_lr=0.9"], tmp_path / "run", watch=Stop(f"{file}:server_lr=0.9", 4))
    file.write_text("from fedcell.methods.fedprox import Config, build\n")
    with pytest.raises(FedcellError, match=r"mine\.py changed since this run began"):
        record.resume(tmp_path / "run")
    file.write_text("from fedcell.methods.fedavg import Config, build\n")
    (done,) = record.resume(tmp_path / "run")
    assert done.status.state == "finished"
    assert done.settings["server_lr"] == 0.9


def test_period_by_rounds(tmp_path):
    folder = tmp_path / "run"
    seen = []

    def look(progress: record.Progress) -> None:
        seen.append(sorted(path.name[11:17] for path in folder.glob("fedavg/checkpoint-*")))

    record.execute(replace(config(10), rounds=10), ["fedavg"], folder, watch=look, period=record.Period(1e9, 4))
    assert seen[-1] == ["000008", "000010"]
    assert ["000004"] in seen
