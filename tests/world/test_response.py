"""Drawn answer times, and traces good and bad."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedcell.errors import BadInput
from fedcell.options import Law, check
from fedcell.world.response import read_trace, response_s
from fedcell.world.settings import WorldConfig


def test_exponential_answers_have_their_rate() -> None:
    settings = WorldConfig(n_devices=20_000, response="exponential", response_rate=Law((4.0,)))
    drawn = response_s(settings, None, seed=1, round=0)
    assert drawn is not None
    assert stats.kstest(drawn * 4.0, "expon").pvalue > 1e-3


def test_each_device_keeps_its_rate() -> None:
    settings = WorldConfig(n_devices=20, response="exponential", response_rate=Law((0.1, 10.0), "log"))
    mean = np.mean(np.array([response_s(settings, None, 1, round) for round in range(800)]), axis=0)
    rate = settings.response_rate.draw(np.random.default_rng(0), 5000)
    assert mean.max() / mean.min() > 5
    assert 1 / rate.max() * 0.8 < mean.min()
    assert mean.max() < 1 / rate.min() * 1.2


def test_computed_answers_are_not_drawn() -> None:
    assert response_s(WorldConfig(), None, 1, 0) is None


def test_a_trace_is_drawn_from_with_replacement_per_round() -> None:
    settings = WorldConfig(n_devices=3000, response="trace", response_trace="x")
    trace = np.array([0.5, 1.5, 4.0])
    first, second = response_s(settings, trace, 1, 0), response_s(settings, trace, 1, 1)
    assert first is not None
    assert [np.mean(first == value) for value in trace] == pytest.approx([1 / 3] * 3, abs=0.04)
    assert (first != second).any()
    np.testing.assert_array_equal(first, response_s(settings, trace, 1, 0))


@pytest.mark.parametrize("kind", ["exponential", "trace"])
def test_the_first_devices_answer_at_once_and_the_others_as_before(kind: str) -> None:
    settings = WorldConfig(n_devices=50, response=kind, response_trace="x", response_rate=Law((0.1, 10.0), "log"))
    trace = np.array([0.5, 1.5, 4.0])
    plain, fast = (response_s(replace(settings, n_fast=n), trace, 1, 3) for n in (0, 20))
    assert plain is not None
    assert fast is not None
    assert (plain > 0).all()
    np.testing.assert_array_equal(fast, np.where(np.arange(50) < 20, 0.0, plain))
    np.testing.assert_array_equal(trace, [0.5, 1.5, 4.0])


def test_no_more_devices_answer_at_once_than_there_are() -> None:
    assert response_s(WorldConfig(n_devices=6, n_fast=6), None, 1, 0) is None
    with pytest.raises(BadInput, match=r"world.n_fast = 9 but there are 6 devices: lower it to at most 6"):
        WorldConfig(n_devices=6, n_fast=9)
    with pytest.raises(BadInput, match=r"world.n_fast = -1 is out of range"):
        check(WorldConfig(n_fast=-1), "world.")


@pytest.mark.parametrize(
    "text",
    [
        "0.5\n2\n0\n",
        "seconds\n0.5\n2\n0",
        "\ufeffseconds\r\n0.5\r\n2\r\n0\r\n",
        "device, seconds ,note\n1,0.5,a\n2, 2 ,b\n\n3,0,c\n",
        "\n0.5\n\n2\n 0 \n",
    ],
)
def test_good_traces(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(text.encode())
    np.testing.assert_array_equal(read_trace(str(path)), [0.5, 2.0, 0.0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "holds no seconds: write one number per line"),
        (b"seconds\n", "holds no seconds"),
        (b"1\n-2\n", "line 2: '-2' is not a time"),
        (b"1\nnan\n", "line 2: 'nan'"),
        (b"1\ninf\n", "line 2: 'inf'"),
        (b"time\n1\n", "line 1: 'time' is not a time: write finite seconds, at least 0"),
        (b"a,b\n1,2\n", "line 1 has 2 columns: name one of them 'seconds'"),
        (b"a,seconds\n1,2\n3\n", "line 3: '' is not a time"),
        (b"\xff\xfe1\n", "not a CSV text in UTF-8"),
    ],
)
def test_bad_traces_are_named(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(text)
    with pytest.raises(BadInput) as caught:
        read_trace(str(path))
    assert said in str(caught.value)
    assert "bad.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"world\.response_trace = .*none\.csv' cannot be read \(no such file"):
        read_trace(str(tmp_path / "none.csv"))
    with pytest.raises(BadInput, match="cannot be read"):
        read_trace(str(tmp_path))
    with pytest.raises(BadInput, match=r"world\.response_trace = 'a\\x00b' cannot be read \(no path of a file\)"):
        read_trace("a\x00b")
