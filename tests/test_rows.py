"""`rounds.jsonl` read as columns: the fast way and the careful one agree, on sound and on damaged files."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.errors import FedcellError
from fedcell.record import rows
from fedcell.record.folder import ROWS
from fedcell.types import Row

NUMBER = st.floats(allow_nan=True, allow_infinity=True)
METRICS = st.dictionaries(st.sampled_from(["accuracy", "loss", "own"]), NUMBER)


def a_row(number, metrics=None):
    return Row(
        number, 2.0 * number, 2.0, 4, 3, 1.5, 0.5, 1e6, "DDD.", {"accuracy": 0.5} if metrics is None else metrics
    )


def lines_of(count):
    return [rows.encode(a_row(number)) for number in range(count)]


def same(one, other):
    assert list(one) == list(other)
    for name in one:
        if name == "outcome":
            assert one[name] == other[name]
        else:
            assert one[name].dtype == other[name].dtype
            np.testing.assert_array_equal(one[name], other[name])


@given(found=st.lists(METRICS, max_size=6))
def test_fast_reading_gives_what_careful_reading_gives(tmp_path_factory, found):
    folder = tmp_path_factory.mktemp("rows")
    written = [a_row(number, metrics) for number, metrics in enumerate(found)]
    (folder / ROWS).write_bytes(b"".join(map(rows.encode, written)))
    columns, count = rows.load(folder)
    assert count == len(written)
    same(columns, rows.columns(written))


def test_only_what_is_wanted_is_returned(tmp_path):
    (tmp_path / ROWS).write_bytes(b"".join(lines_of(3)))
    columns, count = rows.load(tmp_path, ("accuracy", "clock_s", "loss"))
    assert (sorted(columns), count) == (["accuracy", "clock_s"], 3)


def test_a_folder_without_rows_has_empty_columns(tmp_path):
    columns, count = rows.load(tmp_path)
    assert count == 0
    same(columns, rows.columns([]))


@pytest.mark.parametrize("rest", [b'{"round":3,"clo', b'{"round":3}\n', b"null\n", b"[1]\n", b"\n", lines_of(9)[8]])
def test_a_damaged_end_is_left_out(tmp_path, rest):
    (tmp_path / ROWS).write_bytes(b"".join(lines_of(3)) + rest)
    columns, count = rows.load(tmp_path)
    assert count == len(rows.read(tmp_path)[0]) == 3
    assert columns["round"].tolist() == [0, 1, 2]


def changed(**values):
    return json.dumps({**json.loads(lines_of(2)[1]), **values}).encode() + b"\n"


@pytest.mark.parametrize(
    "damage",
    [
        changed(clock_s=None),
        changed(clock_s=[1.0]),
        changed(clock_s="soon"),
        changed(round=1.5),
        changed(metrics=[]) + b" \n",
        changed(metrics={"accuracy": None}),
        changed(more=1),
        b'{"round":1}\n',
        lines_of(2)[1].strip() + b"," + lines_of(3)[2],
    ],
)
def test_damage_in_the_middle_is_said(tmp_path, damage):
    first, *_, last = lines_of(3)
    (tmp_path / ROWS).write_bytes(first + damage + last)
    with pytest.raises(FedcellError, match=r"line [23] of .* is damaged"):
        rows.load(tmp_path)
