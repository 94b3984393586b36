"""What is kept of very many devices: few bytes move in a round that hears few, in memory as in files."""

import os

import numpy as np
import pytest
import torch
from kept_rows import matrix

from fedcell.learn import memory
from fedcell.methods.parts import contributions
from fedcell.methods.parts.contributions import MOST_PAGES, nothing, remember, rows_of, weighted_sum

N, P, HEARD = 1_000_000, 650, 1_000  # of a logistic model on 8 x 8 pixels


def heard(seed, n=N, k=HEARD):
    return np.sort(np.random.default_rng(seed).choice(n, k, replace=False))


def steps(device):
    return np.full(len(device), 5, dtype=np.int64)


def test_a_round_of_a_million_devices_replaces_small_pages():
    kept = nothing(N, P)
    device = heard(1)
    rows = torch.randn(len(device), P, generator=torch.Generator().manual_seed(1))
    after = remember(kept, device, rows, steps(device), np.ones(len(device)))
    moved = sum(page.nbytes for page in after.pages if page is not None)
    assert moved <= HEARD * (contributions.SMALL_BYTES + 4 * P)
    assert torch.equal(rows_of(after, device, rows[0]), rows)
    assert after.seen.sum() == HEARD
    weights = np.zeros(N)
    weights[device] = 1.0
    assert torch.allclose(weighted_sum(after, weights, rows[0]), rows.sum(dim=0), atol=1e-3)
    again = remember(after, device[:1], -rows[:1], steps(device[:1]), np.ones(1))
    shared = sum(a is b for a, b in zip(after.pages, again.pages, strict=True))
    assert shared == len(after.pages) - 1
    assert torch.equal(rows_of(after, device[:1], rows[0]), rows[:1]), "the snapshot before stays whole"


@pytest.mark.parametrize("n_params", [650, 7850, 10**6])
def test_pages_are_never_more_than_files_that_can_be_mapped(n_params):
    assert len(nothing(N, n_params).pages) <= MOST_PAGES


def test_the_pages_of_few_devices_are_as_they_were():
    """Sums are taken page by page, so their last bits depend on it."""
    assert nothing(1000, 650).height == contributions.PAGE_BYTES // 2600
    assert nothing(100, 2 * 10**6).height == 1


@pytest.mark.parametrize("page_bytes", [1, 3 * 40, 4 * 2**20])
def test_sums_do_not_depend_on_the_pages(monkeypatch, page_bytes):
    """Large models have one row to a page."""
    monkeypatch.setattr(contributions, "PAGE_BYTES", page_bytes)
    device = np.array([0, 2, 3, 6])
    rows = torch.randn(4, 10, generator=torch.Generator().manual_seed(1))
    kept = remember(nothing(7, 10), device, rows, steps(device), np.ones(4))
    assert kept.height == max(1, page_bytes // 40)
    weights = np.random.default_rng(1).random(7)
    expected = (torch.from_numpy(weights[device])[:, None] * rows).sum(dim=0)
    torch.testing.assert_close(weighted_sum(kept, weights, rows[0]), expected.float())


def test_many_pages_in_files_hold_no_open_files(monkeypatch):
    monkeypatch.setattr(contributions, "MANY_BYTES", 0)
    monkeypatch.setattr(contributions, "SMALL_BYTES", 2 * memory.mmap.PAGESIZE)
    monkeypatch.setattr(memory, "ALWAYS_BYTES", 0)
    monkeypatch.setattr(memory, "available_bytes", lambda: 1)
    kept = nothing(600, memory.mmap.PAGESIZE // 4)
    device = np.arange(600)
    rows = torch.arange(600.0)[:, None].expand(600, memory.mmap.PAGESIZE // 4)
    before = len(os.listdir("/proc/self/fd"))
    after = remember(kept, device, rows, steps(device), np.ones(600))
    assert len(after.pages) == 300
    assert len(os.listdir("/proc/self/fd")) == before
    assert torch.equal(matrix(after, rows[0]), rows)
