"""Mini-batches: fair, repeatable, and the same whoever else trains."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.learn.batches import draw_batches
from fedcell.types import Store

SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=6)


def store_of(sizes):
    index = np.arange(len(sizes) * max(sizes)).reshape(len(sizes), -1)
    return Store(index, np.array(sizes))


def rows(sizes, n_draws, sampling="shuffle", seed=1, round=0, device=None):
    store = store_of(sizes)
    device = np.arange(len(sizes)) if device is None else device
    flat, start = draw_batches(store, device, np.array(n_draws), sampling, seed, round)
    return [flat[s : s + n].tolist() for s, n in zip(start, n_draws, strict=True)]


@given(SIZES, st.integers(1, 40))
def test_every_pass_sees_every_sample_once(sizes, draws):
    store = store_of(sizes)
    for row, (drawn, size) in enumerate(zip(rows(sizes, [draws] * len(sizes)), sizes, strict=True)):
        held = set(store.items[row, :size].tolist())
        for first in range(0, draws, size):
            one_pass = drawn[first : first + size]
            assert len(set(one_pass)) == len(one_pass)
            assert set(one_pass) <= held


@given(SIZES, st.sampled_from(["shuffle", "replace"]), st.integers(0, 5))
def test_more_steps_extend_the_same_draws(sizes, sampling, round):
    short = rows(sizes, [7] * len(sizes), sampling, round=round)
    long = rows(sizes, [19] * len(sizes), sampling, round=round)
    assert all(longer[:7] == shorter for longer, shorter in zip(long, short, strict=True))


@given(SIZES, st.sampled_from(["shuffle", "replace"]))
def test_a_device_draws_alike_alone_and_in_company(sizes, sampling):
    together = rows(sizes, [9] * len(sizes), sampling)
    store = store_of(sizes)
    last = len(sizes) - 1
    alone = Store(store.items[last:], store.size[last:])
    flat, _ = draw_batches(alone, np.array([last]), np.array([9]), sampling, 1, 0)
    assert flat[:9].tolist() == together[last]


def test_rounds_and_seeds_differ():
    assert rows([50], [50]) != rows([50], [50], round=1)
    assert rows([50], [50]) != rows([50], [50], seed=2)


def test_first_place_is_uniform():
    first = [rows([8], [1], round=round)[0][0] for round in range(4000)]
    assert np.abs(np.bincount(first, minlength=8) / 4000 - 1 / 8).max() < 0.03


@pytest.mark.parametrize(("size", "draws"), [(0, 0), (0, 2), (3, 0)])
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_if_all_hold_or_draw_nothing_there_is_nothing(size, draws):
    store = Store(np.zeros((2, 3), dtype=np.int64), np.full(2, size))
    flat, start = draw_batches(store, np.arange(2), np.full(2, draws), "shuffle", 1, 0)
    assert (len(flat), start.tolist()) == (0, [0, 0])
