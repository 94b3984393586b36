"""`fedcell show` on folders of many runs."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from fedcell.cli import main

make_runs = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "many_runs.py"))["make_runs"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_runs("runs", 6, 3, ("fedavg", "fedprox:mu=0.1"))


def shown(capsys, *args: str) -> list[list[str]]:
    """The cells of the lines of the table."""
    assert main(["show", *args]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [line.split() for line in lines[2 : lines.index("")]]


def test_a_line_per_run(capsys):
    rows = shown(capsys, "runs")
    assert [row[0] for row in rows][:2] == ["cell-seed1/fedavg", "cell-seed1/fedprox-mu-0.1"]
    assert rows[1][1:6] == ["fedprox:mu=0.1", "cell", "1", "finished", "3"]
    assert len(rows) == 6


def test_sorting_and_the_newest(capsys):
    final = [float(row[7]) for row in shown(capsys, "runs", "--sort", "final")]
    assert final == sorted(final, reverse=True)
    assert [row[3] for row in shown(capsys, "runs", "--sort", "method")] == ["1", "2", "3", "1", "2", "3"]
    (Path("runs/cell-seed2/fedavg") / "rounds.jsonl").touch()
    assert [row[0] for row in shown(capsys, "runs", "--last", "1")] == ["cell-seed2/fedavg"]


def test_json_holds_the_same_runs(capsys):
    assert main(["show", "runs", "--json", "--last", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [Path(run["folder"]).parent.name for run in found["runs"]] == ["cell-seed3", "cell-seed3"]
    assert {"label", "scenario", "seed", "state", "rounds", "accuracy_final", "simulated_s"} <= set(found["runs"][0])


def test_a_damaged_run_is_said_below_the_table(capsys):
    Path("runs/cell-seed1/fedavg/run.json").write_text("{")
    assert main(["show", "runs"]) == 0
    out = capsys.readouterr().out
    assert "runs/cell-seed1/fedavg: damaged: runs/cell-seed1/fedavg/run.json is damaged" in out


def test_a_terminal_gets_a_table_with_lines(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["show", "runs"]) == 0
    assert "─" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "words"),
    [(["--sort", "x"], "--sort x is no column: choose one of name,"), (["--last", "0"], "--last 0 shows nothing")],
)
def test_bad_flags(capsys, args, words):
    assert main(["show", "runs", *args]) == 2
    assert words in capsys.readouterr().err
