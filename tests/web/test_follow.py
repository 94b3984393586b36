"""Rows are read once, as they come, and thinned without losing totals."""

import json

import pytest

from fedcell.record.rows import encode
from fedcell.types import Row
from fedcell.web.downsample import Downsampled
from fedcell.web.follow import Follower


def row(round, **metrics):
    return Row(round, 2.0 * (round + 1), 2.0, 3, 1, 0.5, 0.25, 100.0, "D.T", metrics)


def line(round, **metrics):
    return encode(row(round, **metrics))


@pytest.fixture
def follow(tmp_path):
    """A follower of the journal in `tmp_path`, and the journal."""

    def start(**sizes):
        given = {"total": 1000, "eval_every": 1, "n_devices": 3} | sizes
        return Follower(tmp_path, **given), tmp_path / "rounds.jsonl"

    return start


def test_only_new_bytes_are_read(follow, monkeypatch):
    reader, journal = follow()
    assert not reader.read()  # not there yet
    journal.write_bytes(line(0) + line(1))
    assert reader.read()
    read = []
    monkeypatch.setattr("fedcell.web.follow.rows.decode", lambda text: read.append(text) or row(len(read) + 1))
    assert not reader.read()
    with journal.open("ab") as file:
        file.write(line(2))
    assert reader.read()
    assert read == [line(2)]
    assert reader.columns()["done"] == [1, 2, 3]
    assert reader.columns(after=2)["done"] == [3]


def test_half_a_row_waits_for_its_end(follow):
    reader, journal = follow()
    whole = line(0) + line(1)
    journal.write_bytes(whole[:-9])
    reader.read()
    assert reader.done == 1
    journal.write_bytes(whole)
    reader.read()
    assert (reader.done, reader.epoch) == (2, 1)


def test_a_damaged_row_ends_what_is_shown_until_it_is_mended(follow):
    reader, journal = follow()
    journal.write_bytes(line(0) + b'{"round": 1}\n' + line(2))
    reader.read()
    assert reader.done == 1
    journal.write_bytes(line(0) + line(1))
    reader.read()
    assert reader.done == 2


def test_another_file_in_its_place_is_read_anew(follow):
    reader, journal = follow()
    journal.write_bytes(line(0) + line(1))
    reader.read()
    journal.unlink()
    journal.with_name("other").write_bytes(line(0))
    journal.with_name("other").rename(journal)
    assert reader.read()
    assert (reader.done, reader.epoch) == (1, 2)


def test_totals_are_exact_however_much_is_left_out(follow):
    reader, journal = follow(points=16, letters=30, eval_every=5)
    scores = [0.5 + 0.001 * number for number in range(1000)]
    journal.write_bytes(b"".join(line(n, **{"accuracy": scores[n]} if (n + 1) % 5 == 0 else {}) for n in range(1000)))
    reader.read()
    totals, columns = reader.totals(), reader.columns()
    assert (totals["rounds"], totals["clock_s"], totals["compute_joule"]) == (1000, 2000, 500)
    assert totals["outcomes"] == {".": 1000, "D": 1000, "T": 1000, "E": 0, "O": 0, "X": 0}
    assert totals["final"] == pytest.approx(scores[-1])
    assert totals["means"]["accuracy"] == pytest.approx(sum(scores[4::5]) / 200)
    assert len(columns["done"]) <= 16
    assert len(columns["letters"]) <= 10
    assert (columns["done"][0], columns["done"][-1]) == (1, 1000)
    assert None not in columns["metrics"]["accuracy"][1:]  # evaluated rounds are those that stay
    assert columns["compute_joule"][-1] == 500  # running totals
    json.dumps(columns, allow_nan=False)


@pytest.mark.parametrize(("limit", "unit"), [(2, 1), (10, 1), (10, 7), (100, 40), (5, 3000)])
def test_thinned_series_stay_within_their_limit(limit, unit):
    series = Downsampled(limit, last=2000, unit=unit)
    for done in range(1, 2001):
        series.put(done, None)
        assert len(series.items) <= max(limit, 2) + 1
    kept = [done for done, _ in series.items]
    assert kept[0] == 1
    assert kept[-1] == 2000
    assert all(done % series.stride == 0 for done in kept[1:-1])
