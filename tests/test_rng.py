"""Random streams: the same key gives the same numbers, and different keys have nothing to do with each other."""

from zlib import crc32

import numpy as np
import pytest
from scipy import stats

from fedcell.rng import SETUP, stream, uniforms

N = 20_000


def test_a_key_repeats_itself() -> None:
    np.testing.assert_array_equal(stream(3, 7, "fading").random(5), stream(3, 7, "fading").random(5))
    np.testing.assert_array_equal(uniforms(3, 7, "x", [[1], [2]], [0, 1]), uniforms(3, 7, "x", [[1], [2]], [0, 1]))


@pytest.mark.parametrize("key", [(4, 7, "fading"), (3, 8, "fading"), (3, SETUP, "fading"), (3, 7, "los")])
def test_another_key_is_unrelated(key: tuple[int, int, str]) -> None:
    a, b = stream(3, 7, "fading").standard_normal(N), stream(*key).standard_normal(N)
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(N)
    rows = np.arange(N)
    c, d = uniforms(3, 7, "fading", rows, 0), uniforms(*key, rows, 0)
    assert abs(np.corrcoef(c, d)[0, 1]) < 4 / np.sqrt(N)


@pytest.mark.parametrize("seed", [0, 3, 2**32 - 1, 2**32, 2**70])
def test_a_stream_starts_from_the_three_parts_of_its_key(seed: int) -> None:
    start = np.random.SeedSequence([seed, 8, crc32(b"fading")])
    expected = np.random.Generator(np.random.Philox(start)).random(5)
    np.testing.assert_array_equal(stream(seed, 7, "fading").random(5), expected)


@pytest.mark.parametrize("along", ["rows", "columns"])
def test_uniforms_are_uniform(along: str) -> None:
    index, other = np.arange(N), 5
    drawn = uniforms(1, 2, "x", *((index, other) if along == "rows" else (other, index)))
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    assert stats.kstest(drawn, "uniform").pvalue > 1e-3
    low_bits = np.bincount((drawn * 2**53).astype(np.uint64) % np.uint64(16), minlength=16)
    assert stats.chisquare(low_bits).pvalue > 1e-3


def test_uniforms_of_different_rows_are_independent() -> None:
    drawn = uniforms(1, 0, "x", np.arange(40)[:, None], np.arange(5000))
    correlation = np.corrcoef(drawn) - np.eye(40)
    assert np.abs(correlation).max() < 5 / np.sqrt(5000)
    assert len(np.unique(drawn)) == drawn.size


def test_neighbours_in_a_row_are_independent() -> None:
    drawn = uniforms(1, 0, "x", 3, np.arange(N))
    cells, _, _ = np.histogram2d(drawn[:-1], drawn[1:], bins=8, range=[[0, 1], [0, 1]])
    assert stats.chisquare(cells.ravel()).pvalue > 1e-3


def test_a_row_does_not_depend_on_its_company() -> None:
    alone = uniforms(9, 4, "batch", [17], np.arange(6))
    among = uniforms(9, 4, "batch", np.arange(30)[:, None], np.arange(6))
    np.testing.assert_array_equal(alone, among[17])


def test_a_longer_draw_begins_like_a_shorter_one() -> None:
    np.testing.assert_array_equal(stream(0, 0, "x").random(3), stream(0, 0, "x").random(9)[:3])
