"""Integrity at rest: a changed byte is found by everything that reads a record, and repaired where that is possible."""

import json
import shutil
from pathlib import Path

import pytest

from fedcell import record
from fedcell.cli import main
from fedcell.errors import FedcellError
from fedcell.record import check, files
from fedcell.record.files import MOST_DEPTH, parse_json
from fedcell.record.rows_sum import RowsSum
from fedcell.web.board import Board

COMMAND = ["run", "fedavg", "fedprox", "--rounds", "6", "--set", "world.n_devices=3", "--quiet", "--checkpoint-every"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two finished runs, with a checkpoint after every round."""
    folder = tmp_path_factory.mktemp("integrity") / "runs"
    assert main([*COMMAND, "0", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def runs(made, tmp_path):
    shutil.copytree(made, tmp_path / "runs")
    return tmp_path / "runs"


def change_digit(path):
    """Another accuracy in the third row, as long as before and valid JSON."""
    lines = path.read_bytes().splitlines(keepends=True)
    before, mark, behind = lines[2].partition(b'"accuracy":0.')
    assert mark
    digit = b"1" if behind[:1] != b"1" else b"2"
    lines[2] = before + mark + digit + behind[1:]
    path.write_bytes(b"".join(lines))


def test_a_changed_digit_is_shown_by_nobody(runs, capsys):
    path = runs / "fedavg" / "rounds.jsonl"
    change_digit(path)
    with pytest.raises(FedcellError, match=r"rounds.jsonl is damaged \(its first \d+ bytes have checksum"):
        record.read(runs / "fedavg")
    assert [(info.label, info.state) for info in record.find(runs)] == [("fedavg", "damaged"), ("fedprox", "finished")]
    for command in (["show", str(runs / "fedavg")], ["run", "--resume", str(runs)]):
        assert main(command) == 1
        assert "rounds.jsonl is damaged" in capsys.readouterr().err
    main(["compare", str(runs)])
    assert "rounds.jsonl is damaged" in "".join(capsys.readouterr())
    assert main(["report", str(runs), "--out", str(runs / "page.html")]) == 0
    assert "rounds.jsonl is damaged" in (runs / "page.html").read_text(), "and the run is left out of the page"
    states = {one["label"]: one["state"] for one in Board(runs).listing()["runs"]}
    assert states == {"fedavg": "damaged", "fedprox": "finished"}


def test_a_run_that_changes_under_the_dashboard_is_found(runs):
    board = Board(runs)
    assert {one["state"] for one in board.listing()["runs"]} == {"finished"}
    path = runs / "fedavg" / "rounds.jsonl"
    change_digit(path)
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    copy.replace(path)
    (runs / "fedavg" / "status.json").touch()
    board._look_due_s = 0.0
    states = {one["label"]: one["state"] for one in board.listing()["runs"]}
    assert states == {"fedavg": "damaged", "fedprox": "finished"}


def test_a_record_from_before_checksums_is_read_as_it_was(runs):
    status = json.loads((runs / "fedavg" / "status.json").read_text())
    del status["rows"]
    files.write_json(runs / "fedavg" / "status.json", status)
    change_digit(runs / "fedavg" / "rounds.jsonl")
    assert record.read(runs / "fedavg").status.state == "finished"
    assert main(["check", str(runs)]) == 0


def test_rows_of_a_killed_run_are_held_against_its_last_checkpoint(runs):
    """The status of a run that continues has the checksum of the rows behind its last checkpoint."""
    path = runs / "fedavg"
    status = json.loads((path / "status.json").read_text())
    whole = (path / "rounds.jsonl").read_bytes()
    four = b"".join(whole.splitlines(keepends=True)[:4])
    kept = {"byte": len(four), "crc32": RowsSum(len(four), "").of(four)}
    files.write_json(path / "status.json", {**status, "state": "running", "rounds": 4, "rows": kept, "totals": None})
    assert record.read(path).status.state == "interrupted"
    change_digit(path / "rounds.jsonl")
    with pytest.raises(FedcellError, match="checksum"):
        record.read(path)


@pytest.mark.parametrize("spoil", ["digit", "line", "checkpoint", "checkpoints", "status", "deep status"])
def test_damage_is_named_and_repaired_and_resuming_ends_bit_identical(spoil, runs, made, capsys):
    folder = runs / "fedavg"
    newest = max(folder.glob("checkpoint-*.safetensors"))
    if spoil == "digit":
        change_digit(folder / "rounds.jsonl")
    elif spoil == "line":
        lines = (folder / "rounds.jsonl").read_bytes().splitlines(keepends=True)
        (folder / "rounds.jsonl").write_bytes(b"".join([*lines[:4], b'{"round":4}\n', *lines[5:]]))
    elif spoil.startswith("checkpoint"):
        for path in [newest] if spoil == "checkpoint" else folder.glob("checkpoint-*.safetensors"):
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            path.write_bytes(data)
    else:
        (folder / "status.json").write_text("{" if spoil == "status" else '{"a":' * 100_000)
    assert main(["check", str(runs)]) == 1
    said = capsys.readouterr().out
    assert str(folder) in said
    assert "; --repair: put aside" in said
    assert "2 runs checked, 1 damaged" in said
    assert main(["check", str(runs), "--repair"]) == 0
    assert "resume with `fedcell run --resume" in capsys.readouterr().out
    assert main(["run", "--resume", str(runs), "--quiet"]) == 0
    assert (folder / "rounds.jsonl").read_bytes() == (made / "fedavg" / "rounds.jsonl").read_bytes()
    last = newest.name
    assert (folder / last).read_bytes() == (made / "fedavg" / last).read_bytes()
    assert main(["check", str(runs)]) == 0


def test_what_cannot_be_repaired_is_said_and_left(runs, capsys):
    (runs / "fedavg" / "run.json").write_text("{")
    before = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    assert main(["check", str(runs), "--repair"]) == 1
    assert "run.json is damaged" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in before} == before


def test_an_infinite_number_of_rounds_is_damage_of_one_run(runs):
    path = runs / "fedavg" / "run.json"
    path.write_text(path.read_text().replace('"rounds": ', '"rounds": 1e999, "was": ', 1))
    states = {info.folder.name: info.state for info in record.find(runs)}
    assert states.pop("fedavg") == "damaged"
    assert set(states.values()) == {"finished"}


@pytest.mark.parametrize("name", ["rounds", "seed", "scenario"])
def test_settings_that_lack_what_every_run_has_are_damage(runs, capsys, name):
    values = json.loads((runs / "fedavg" / "run.json").read_text())
    del values["config"][name]
    files.write_json(runs / "fedavg" / "run.json", values)
    assert main(["show", str(runs / "fedavg")]) == 1
    assert f"run.json is damaged (KeyError: '{name}'): restore it" in capsys.readouterr().err
    assert main(["check", str(runs)]) == 1
    out = capsys.readouterr().out
    assert "run.json is damaged" in out
    assert "2 runs checked, 1 damaged" in out


def test_rows_that_cannot_be_opened_are_damage_that_nothing_repairs(runs, capsys, monkeypatch):
    path = runs / "fedavg" / "rounds.jsonl"
    path.unlink()
    path.mkdir()
    assert main(["check", str(runs), "--repair"]) == 1
    out = capsys.readouterr().out
    assert f"cannot read {path}: is a directory; make it readable" in out
    assert "2 runs checked, 1 damaged" in out
    path.rmdir()
    shutil.copy(runs / "fedprox" / "rounds.jsonl", path)
    plain_read = Path.read_bytes

    def refuse(self):
        if self == path:
            raise PermissionError(13, "Permission denied")
        return plain_read(self)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    for info in record.find(runs):
        assert (info.state == "damaged") == (info.folder == path.parent)
    (one,) = check.examine(path.parent).damage
    assert one == check.Damage(path, f"cannot read {path}: permission denied; make it readable and try again")


def test_a_repair_that_cannot_write_says_so(runs, monkeypatch):
    change_digit(runs / "fedavg" / "rounds.jsonl")
    found = check.examine(runs / "fedavg")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(files.DiskError, match="permission denied; make the folder writable, then repair again"):
        check.repair(found)


def test_rows_of_real_devices_are_not_thrown_away(runs):
    """Nobody can make them anew."""
    folder = runs / "fedavg"
    values = json.loads((folder / "run.json").read_text())
    files.write_json(folder / "run.json", values | {"own": ["federation"]})
    change_digit(folder / "rounds.jsonl")
    (damage,) = check.examine(folder).damage
    assert damage.fix == ""
    assert "begin a federation in a new folder" in damage.what
    assert check.repair(check.examine(folder)) == []


# ---------------------------------------------------------------- JSON that is too deep or too large

DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000


@pytest.mark.parametrize("name", ["run.json", "status.json"])
@pytest.mark.parametrize("text", [DEEP, "[" * 200 + "]" * 200])
def test_deep_nesting_takes_nothing_down(runs, capsys, name, text):
    (runs / "fedavg" / name).write_text(text)
    assert main(["show", str(runs / "fedavg")]) == 1
    assert f"{name} is damaged (it is nested more than {MOST_DEPTH} deep)" in capsys.readouterr().err
    assert main(["show", str(runs)]) in (0, 1)
    listed = {one["id"]: one["state"] for one in Board(runs).listing()["runs"]}
    assert listed["fedavg"] == "damaged"
    assert listed["fedprox"] == "finished"


def test_deep_rows_are_damaged_rows(runs, capsys):
    path = runs / "fedavg" / "rounds.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for text in (DEEP.encode(), b'{"round":2,"outcome":[[[]]]}'):
        path.write_bytes(b"".join([*lines[:2], text + b"\n", *lines[3:]]))
        assert main(["show", str(runs / "fedavg")]) == 1
        assert "line 3 of" in capsys.readouterr().err
        assert Board(runs).listing()["runs"][0]["state"] == "damaged"


def test_a_file_that_is_far_too_large_is_not_read(runs, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTE", 10)
    with pytest.raises(FedcellError, match="none of ours has more than 10"):
        record.read(runs / "fedavg")


def test_what_is_not_too_deep_is_read():
    text = "[" * (MOST_DEPTH - 1) + "]" * (MOST_DEPTH - 1)
    assert parse_json(text)
    assert parse_json('{"a": {"b": [1, {"c": null}]}}') == {"a": {"b": [1, {"c": None}]}}
    with pytest.raises(ValueError, match="deep"):
        parse_json("[" * 60 + "]" * 60)
