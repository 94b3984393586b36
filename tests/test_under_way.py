"""Runs of experiments that were interrupted resume, and come to what they would have come to."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from small_config import SMALL

from fedcell import effort
from fedcell.experiment import Case, run_cases, stores, under_way
from fedcell.simulate import simulate

CASES = [
    Case("plain", SMALL, "fedavg"),
    Case("with a state", SMALL, "scaffold"),
    Case("diverging", replace(SMALL, train=replace(SMALL.train, lr=1e18)), "fedavg"),
]


def nothing(text):
    pass


def left(folder):
    return list(folder.glob("*.under_way/*"))


@pytest.fixture
def stops_after(monkeypatch):
    """Makes the time be up when so many rounds of this try are over; None: never."""

    def stop(n_rounds):
        asked = []

        def is_up(way):
            asked.append(way)
            return n_rounds is not None and len(asked) > n_rounds

        monkeypatch.setattr(under_way.Way, "time_is_up", property(is_up))

    return stop


@pytest.fixture
def begun(monkeypatch):
    """The rounds from which runs are simulated."""
    found = []

    def noted(problem, method, snapshot):
        found.append(snapshot.round)
        return simulate(problem, method, snapshot)

    monkeypatch.setattr(under_way, "simulate", noted)
    return found


def test_all_runs_end_however_often_the_time_is_up(tmp_path, stops_after):
    store, found, tries = tmp_path / "some.runs.jsonl", [], 0
    while len(found) < 2 * len(CASES):
        stops_after(3)  # the question before each run counts, too
        found, tries = run_cases(CASES, [1, 2], store, nothing), tries + 1
    assert tries > 4
    stops_after(None)
    assert json.dumps(found) == json.dumps(run_cases(CASES, [1, 2], tmp_path / "other.runs.jsonl", nothing))


def test_a_stopped_run_goes_on_where_it_stood(tmp_path, stops_after, begun):
    store = tmp_path / "some.runs.jsonl"
    for round in range(SMALL.rounds - 1):
        stops_after(1)
        assert run_cases(CASES[1:2], [1], store, nothing) == []
        assert begun.pop() == round
        (folder,) = left(tmp_path)
        assert len(list(folder.glob("checkpoint-*"))) == min(round + 1, 2)
    stops_after(None)
    said = []
    found = run_cases(CASES[1:2], [1], store, said.append)
    assert begun == [SMALL.rounds - 1]
    assert len(said) == 1
    assert found == run_cases(CASES[1:2], [1], tmp_path / "other.runs.jsonl", nothing)
    assert not list(tmp_path.glob("*.under_way")), "nothing is left once a run has ended"


def test_seconds_of_all_tries_count(tmp_path, stops_after, monkeypatch):
    store = tmp_path / "some.runs.jsonl"
    stops_after(1)
    run_cases(CASES[:1], [1], store, nothing)
    (folder,) = left(tmp_path)
    (folder / under_way.SPENT).write_text('{"seconds": 1000}')
    stops_after(None)
    run_cases(CASES[:1], [1], store, nothing)
    (line,) = stores.lines_of(store)
    assert line["machine_s"] > 1000


def test_other_versions_begin_anew(tmp_path, stops_after, begun, monkeypatch):
    store = tmp_path / "some.runs.jsonl"
    stops_after(1)
    run_cases(CASES[:1], [1], store, nothing)
    stops_after(None)
    monkeypatch.setattr("fedcell.experiment.runs.maker", lambda device: {"torch": "another", "device": device})
    run_cases(CASES[:1], [1], store, nothing)
    assert begun == [0, 0]


def test_a_damaged_state_is_passed_over(tmp_path, stops_after, begun):
    store = tmp_path / "some.runs.jsonl"
    for _ in range(2):
        stops_after(1)
        run_cases(CASES[:1], [1], store, nothing)
    newest = max(left(tmp_path)[0].glob("checkpoint-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    stops_after(None)
    found = run_cases(CASES[:1], [1], store, nothing)
    assert begun == [0, 1, 1]
    assert found == run_cases(CASES[:1], [1], tmp_path / "other.runs.jsonl", nothing)


def test_nothing_begins_after_the_time_is_up(tmp_path):
    for workers in (1, 2):
        assert run_cases(CASES, [1], tmp_path / "some.runs.jsonl", nothing, workers, until_s=time.time()) == []
    assert not left(tmp_path)


def _slowly(store):
    """A process that saves after every round, each of which takes its time."""
    under_way.EVERY_S = under_way.THRIFT = 0.0
    rounds = simulate

    def slow(*given):
        for one in rounds(*given):
            yield one
            time.sleep(0.3)

    under_way.simulate = slow
    run_cases(CASES[1:2], [1], store, nothing)


def test_a_killed_run_resumes(tmp_path, begun):
    store = tmp_path / "some.runs.jsonl"
    process = multiprocessing.get_context("forkserver").Process(target=_slowly, args=(store,))
    process.start()
    while not list(tmp_path.glob("*.under_way/*/spent.json")):
        assert process.is_alive()
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    found = run_cases(CASES[1:2], [1], store, nothing)
    assert begun[0] > 0
    assert found == run_cases(CASES[1:2], [1], tmp_path / "other.runs.jsonl", nothing)


def test_minutes_of_the_command_line(tmp_path, capsys):
    from fedcell.cli import main

    assert main(["reproduce", "sionna", "--stored", "--minutes", "none"]) == 2
    assert "'none' is no number above 0" in capsys.readouterr().err
    parser = effort.ArgumentParser()
    effort.flags(parser)
    now = time.time()
    found = effort.effort_of(parser.parse_args(["--minutes", "0.5"])).until_s
    assert 30 <= found - now < 60
    assert json.dumps(effort.Effort().until_s) == "Infinity"


ASLEEP = """
import os, sys, time
from pathlib import Path
from fedcell.experiment import pool
from fedcell.experiment.under_way import Way

def sleep(way, n):
    way.folder.joinpath(f"{os.getpid()}.process").touch()
    time.sleep(300)

if __name__ == "__main__":
    list(pool.play({1: sleep, 2: sleep}, dict.fromkeys((1, 2), Way(Path(sys.argv[1]))), 2))
"""


def test_processes_end_with_the_one_that_started_them(tmp_path):
    """Killed, it cannot end them itself."""
    script = tmp_path / "asleep.py"
    script.write_text(ASLEEP)
    parent = subprocess.Popen([sys.executable, str(script), str(tmp_path)])

    def processes():
        return [int(path.stem) for path in tmp_path.glob("*.process")]

    def alive():
        return [one for one in processes() if Path(f"/proc/{one}").exists()]

    try:
        wait_for(lambda: len(processes()) == 2)
        assert len(alive()) == 2
    finally:
        parent.kill()
        parent.wait()
    wait_for(lambda: not alive())


def wait_for(holds, patience_s=60):
    until = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)
