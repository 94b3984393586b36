"""Many runs at a glance: the index agrees with the rows, whatever state a run is in."""

import json
import math
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from fedcell import record, report
from fedcell.errors import FedcellError, Notice
from fedcell.options import override
from fedcell.record import files, index
from fedcell.scenarios import get

make_runs = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "many_runs.py"))["make_runs"]
SMALL = {"rounds": 4, "eval_every": 2, "world.n_devices": 3, "model.name": "logistic", "train.steps": 1}
CONFIG = override(get("cell").config, SMALL)


def agrees(info: record.RunInfo) -> bool:
    """Whether every number is that of the summary, which is made from the rows."""
    summary = report.summarise(record.read(info.folder))._asdict()
    return all(
        str(summary[name]) == str(getattr(info, name)) for name in summary
    )  # texts, since NaN is not equal to itself


def test_the_index_has_the_numbers_of_the_rows(tmp_path):
    record.execute(CONFIG, ["fedavg", "fedprox:mu=1"], tmp_path / "a")
    first, second = record.find(tmp_path)
    assert (first.label, second.label, second.method) == ("fedavg", "fedprox:mu=1", "fedprox:mu=1")
    assert (first.scenario, first.seed, first.state, first.rounds, first.total_rounds) == ("cell", 1, "finished", 4, 4)
    assert second.settings["mu"] == 1
    assert first.config["world"]["n_devices"] == 3
    assert first.totals.joule == first.totals.compute_joule + first.totals.radio_joule > 0
    assert agrees(first)
    assert agrees(second)


def test_the_rows_are_not_decoded_where_the_totals_are_on_file(tmp_path, monkeypatch):
    """In a record from before rows had a checksum, they are not even read."""
    (run,) = make_runs(tmp_path, 1, 5)
    before = record.find(tmp_path)
    monkeypatch.setattr("fedcell.record.rows.load", None)
    assert record.find(tmp_path) == before
    status = json.loads((run / "status.json").read_text())
    del status["rows"]
    files.write_json(run / "status.json", status)
    rows = (run / "rounds.jsonl").read_bytes()
    (run / "rounds.jsonl").write_bytes(b"x" * len(rows))
    assert record.find(tmp_path) == before


@pytest.mark.parametrize("keep", [0, 1, 3])
def test_totals_that_do_not_belong_to_the_rows_are_made_anew(tmp_path, keep):
    (run,) = make_runs(tmp_path, 1, 5)
    lines = (run / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (run / "rounds.jsonl").write_bytes(b"".join(lines[:keep]))
    (lost,) = record.find(tmp_path)
    assert (lost.state, lost.rounds) == ("damaged", 0)
    assert f"is damaged (finished, but with {keep} of 5 rows): resuming" in lost.message
    status = json.loads((run / "status.json").read_text())
    files.write_json(run / "status.json", status | {"state": "interrupted"})
    (info,) = record.find(tmp_path)
    assert info.rounds == keep
    assert agrees(info)


def test_runs_in_every_state_are_listed(tmp_path):
    def stop(progress: record.Progress) -> None:
        if progress.label == "fedprox" and progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record.execute(CONFIG, ["fedavg", "fedprox", "fednova"], tmp_path / "a", watch=stop)
    record.execute(CONFIG, ["fedavg:lr=1e38"], tmp_path / "b")
    states = [(info.label, info.state, info.rounds) for info in record.find(tmp_path)]
    assert states[:3] == [("fedavg", "finished", 4), ("fedprox", "interrupted", 2), ("fednova", "waiting", 0)]
    assert states[3][:2] == ("fedavg:lr=1e38", "diverged")
    assert "lower the learning rate" in record.find(tmp_path / "b")[0].message
    assert all(agrees(info) for info in record.find(tmp_path) if info.state != "waiting")


def test_a_run_without_a_last_status_was_killed_unless_its_process_lives(tmp_path):
    (run,) = make_runs(tmp_path, 1, 5)
    files.write_json(run / "status.json", record.Status("running", 0, 5)._asdict())
    with files.locked(run):
        assert record.find(tmp_path)[0].state == "running"
    (info,) = record.find(tmp_path)
    assert (info.state, info.rounds) == ("interrupted", 5)
    assert agrees(info)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("run.json", "{", "run.json is damaged"),
        ("run.json", '{"format": 9}', "has format 9, not 1"),
        ("run.json", '{"format": 1}', "is damaged (KeyError"),
        ("status.json", "[]", "is damaged (AttributeError"),
    ],
)
def test_a_damaged_run_is_named_and_hides_no_other(tmp_path, name, text, words):
    first, second = make_runs(tmp_path, 2, 2)
    (first / name).write_text(text)
    bad, good = record.find(tmp_path)
    assert (bad.state, bad.folder, good.folder, good.state) == ("damaged", first, second, "finished")
    assert words in bad.message


def test_damaged_runs_below_a_folder_are_left_out_with_a_warning(tmp_path):
    first, second = make_runs(tmp_path, 2, 2)
    (first / "run.json").write_text("{")
    with pytest.warns(Notice, match=r"run.json is damaged .*; it is left out$"):
        (one,) = record.read_all(tmp_path)
    assert one.folder == second
    said = []
    assert len(record.read_all(tmp_path, said.append)) == 1
    assert len(said) == 1


def test_a_damaged_comparison_is_named(tmp_path):
    record.execute(CONFIG, ["fedavg"], tmp_path / "a")
    (tmp_path / "a" / "comparison.json").write_text("{}")
    bad, good = record.find(tmp_path)
    assert (bad.state, good.label) == ("damaged", "fedavg")


def test_names_are_sorted_by_their_numbers_and_links_are_not_followed(tmp_path):
    make_runs(tmp_path, 11, 1, ("fedavg",))
    (tmp_path / "again").symlink_to(tmp_path)
    assert [info.seed for info in record.find(tmp_path)] == list(range(1, 12))
    assert [one.config["seed"] for one in record.read_all(tmp_path)] == list(range(1, 12))


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(FedcellError, match="gone is no folder"):
        record.find(tmp_path / "gone")
    assert record.find(tmp_path) == []


def test_totals_on_file_are_strict_json(tmp_path):
    (run,) = make_runs(tmp_path, 1, 0)
    totals = json.loads((run / "status.json").read_text(), parse_constant=pytest.fail)["totals"]
    assert totals["accuracy_best"] == "nan"
    assert math.isnan(record.find(tmp_path)[0].totals.accuracy_best)


def test_listing_needs_no_pytorch(tmp_path):
    make_runs(tmp_path, 2, 2)
    code = "import sys; from fedcell.cli import main; main(sys.argv[1:]); print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code, "show", str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "torch" not in done.stdout.splitlines()[-1]
    assert index.find(tmp_path)
