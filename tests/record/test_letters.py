"""Outcomes on file: runs of letters say what the letters say, and damaged runs are refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import record
from fedcell.cli import main
from fedcell.record import letters, rows
from fedcell.record.letters import SHORT, pack, unpack
from fedcell.types import LETTERS, Row

runs = st.lists(st.tuples(st.integers(1, 3 * SHORT), st.sampled_from(LETTERS)), min_size=1, max_size=20)


@given(runs)
def test_packed_letters_come_back_and_are_never_longer(parts):
    text = "".join(count * letter for count, letter in parts)
    packed = pack(text)
    assert unpack(packed) == text
    assert len(packed) <= len(text)
    assert (packed == text) == (len(text) <= SHORT)


def test_short_rows_and_those_without_runs_stay_as_they_are():
    assert pack("." * SHORT) == "." * SHORT
    assert pack("") == ""
    assert pack(".D" * SHORT) == ".D" * SHORT


@pytest.mark.parametrize("text", ["3", "3.D", "3.x2", "0D", "03.", "3..", "3.2 D"])
def test_damaged_runs_are_refused(text):
    with pytest.raises(ValueError, match="no runs of letters"):
        unpack(text)


@pytest.mark.parametrize("text", ["99999999999D", "9000000D9000000.", f"{'9' * 5000}D"])
def test_runs_of_more_letters_than_there_can_be_devices_are_refused(text):
    with pytest.raises(ValueError, match=r"none of ours has more than|Exceeds the limit"):
        unpack(text)


def test_a_million_devices_are_a_short_line_that_reads_back():
    text = "." * 412 + "D" + "." * 999_586 + "T"
    row = Row(0, 1.0, 1.0, 2, 1, 0.0, 0.0, 8.0, text, {"loss": 1.0})
    line = rows.encode(row)
    assert len(line) < 300
    assert rows.decode(line) == row


def test_a_record_of_many_devices_reads_back(tmp_path, monkeypatch):
    """One letter per device for readers, whichever columns they want; and a damaged run is a damaged line."""
    monkeypatch.setattr(letters, "SHORT", 3)
    config = {"world.n_devices": "9", "model.name": "logistic", "rounds": "3", "train.steps": "1"}
    method = "fedavg:scheduler=round-robin,n_selected=1"
    sets = [part for key, value in config.items() for part in ("--set", f"{key}={value}")]
    assert main(["run", method, "--quiet", "--out", str(tmp_path / "run"), *sets]) == 0
    (one,) = record.read_all(tmp_path / "run")
    path = one.folder / "rounds.jsonl"
    assert json.loads(path.read_text().splitlines()[0])["outcome"] == "1D8."
    assert one.columns["outcome"] == ["D" + 8 * ".", ".D" + 7 * ".", "..D" + 6 * "."]
    assert record.read(one.folder, ["outcome"]).columns == {"outcome": one.columns["outcome"]}
    assert "outcome" not in record.read(one.folder, ["round_s"]).columns
    lines = path.read_bytes().splitlines(keepends=True)
    assert not rows.sound(lines[1].replace(b"1.1D7.", b"1.1D7"), 1)
    assert rows.sound(lines[1], 1)
    table = rows.numbers(lines)
    assert "outcome" not in table
    assert table["n_delivered"].tolist() == [1, 1, 1]
