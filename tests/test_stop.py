"""A run that is asked to stop ends as with Ctrl-C and continues as if nothing had happened."""

import time

import pytest
from forked import Forked

from fedcell import api, options, record
from fedcell.cli import main
from fedcell.errors import BadInput
from fedcell.record.stop import NAME, Stopped, request
from fedcell.scenarios import Config
from fedcell.simulate import begin
from fedcell.sweeps.task import Orders, SweepRun, play

SMALL = ["--set", "world.n_devices=4", "--set", "model.name=logistic", "--set", "train.steps=1"]


def test_a_request_stops_a_process_and_the_run_goes_on_bit_identical(tmp_path):
    rounds = ["--rounds", "100000", "--quiet", *SMALL]
    process = Forked("run", "fedavg", "fedprox", "--out", str(tmp_path / "long"), *rounds)
    folder, deadline = tmp_path / "long" / "fedavg", time.monotonic() + 60
    try:
        while not (folder / "rounds.jsonl").exists() or (folder / "rounds.jsonl").stat().st_size < 2000:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        request(folder)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert f"resume with `fedcell run --resume {tmp_path / 'long'}`" in err
    stopped = record.read(folder)
    assert (stopped.status.state, stopped.status.message) == ("interrupted", "stopped by the user")
    assert not (folder / NAME).exists()
    assert not (tmp_path / "long" / "fedprox").exists()
    assert list(folder.glob("checkpoint-*"))


def test_a_stopped_run_ends_like_one_that_was_not(tmp_path, monkeypatch):
    monkeypatch.setattr("fedcell.record.stop.LOOK_EVERY_S", 0.0)  # rounds are short here
    few = ["fedavg", "--rounds", "8", "--quiet", *SMALL]
    assert main(["run", *few, "--out", str(tmp_path / "whole")]) == 0
    settings = record.read(tmp_path / "whole" / "fedavg").config

    def ask(progress):
        if progress.row and progress.done == 3:
            request(progress.folder)

    with pytest.raises(Stopped):
        record.execute(options.from_dict(Config(), settings), ["fedavg"], tmp_path / "cut", watch=ask)
    assert record.read(tmp_path / "cut" / "fedavg").status.rounds == 3
    assert main(["run", "--resume", str(tmp_path / "cut"), "--quiet"]) == 0
    rows = [(tmp_path / name / "fedavg" / "rounds.jsonl").read_bytes() for name in ("whole", "cut")]
    assert rows[0] == rows[1]


def test_only_a_running_run_is_asked_and_old_requests_are_forgotten(tmp_path):
    folder = tmp_path / "run" / "fedavg"

    def ask(progress):
        if progress.row and progress.done == progress.total:  # too late to stop anything
            request(progress.folder)

    settings = {"rounds": 2, "world.n_devices": 4, "model.name": "logistic", "train.steps": 1}
    (done,) = api.run("fedavg", settings=settings, out=tmp_path / "run", watch=ask)
    assert done.status.state == "finished"
    assert not (folder / NAME).exists()
    with pytest.raises(BadInput, match="is not running: there is nothing to stop"):
        request(folder)


def test_a_request_during_the_first_state_is_heeded(tmp_path, monkeypatch):
    monkeypatch.setattr("fedcell.record.stop.LOOK_EVERY_S", 0.0)
    settings = {"rounds": 4, "world.n_devices": 4, "model.name": "logistic", "train.steps": 1}
    folder = tmp_path / "run" / "fedavg"

    def stop(progress):
        if progress.row:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        api.run("fedavg", settings=settings, out=tmp_path / "run", watch=stop)

    def slow(*given):
        request(folder)
        return begin(*given)

    monkeypatch.setattr("fedcell.record.playing.begin", slow)
    with pytest.raises(Stopped):
        record.resume(tmp_path / "run")
    assert record.read(folder).status.rounds == 2


def test_a_sweep_goes_on_with_its_other_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("fedcell.record.stop.LOOK_EVERY_S", 0.0)
    config = options.override(Config(), {"rounds": 5, "world.n_devices": 4, "model.name": "logistic", "train.steps": 1})
    task = SweepRun("one/fedavg", "fedavg", "fedavg", {}, options.to_dict(config))

    def ask(progress):
        if progress.row and progress.done == 2:
            request(progress.folder)

    assert play(task, Orders(str(tmp_path)), ask).message == "stopped on request"
    assert record.read(tmp_path / "one" / "fedavg").status.state == "interrupted"
    assert play(task, Orders(str(tmp_path)), record.silent).code == 0
    assert record.read(tmp_path / "one" / "fedavg").status.state == "finished"
