"""Random numbers of compiled kernels against NumPy's Mersenne Twister, and networks with dropout that use them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_traced import Bench, dropouts
from torch import nn
from users_networks import IMAGE, N_CLASSES

from fedcell.learn.engines.cpu import native, per_client, traced
from fedcell.learn.engines.cpu.native import dropout, sequences

pytestmark = pytest.mark.skipif(native.library(native.SEQUENCES) is None, reason="no compiler")


@pytest.fixture(autouse=True)
def _any_network(monkeypatch):
    monkeypatch.setattr(sequences, "WORTH", 0)


@given(st.integers(0, 2**63 - 1), st.floats(0, 1), st.lists(st.integers(1, 900), min_size=1, max_size=4))
def test_masks(seed, chance, sizes):
    """Two numbers of 32 bits make one of 53, as PyTorch has it."""
    twister = np.random.RandomState(seed & 0xFFFFFFFF)
    stream = dropout.DropoutStream()
    stream.drawn = True
    stream.manual_seed(seed)
    for size in sizes:
        mask = torch.full((size,), 7.0)
        native.gathered(stream.calls(mask, chance, 0.5)).run()
        drawn = twister.randint(0, 2**32, 2 * size, dtype=np.uint64).reshape(size, 2)
        high, low = drawn.T
        uniform = ((high << np.uint64(32) | low) & np.uint64(2**53 - 1)).astype(np.float64) / 2**53
        assert np.array_equal(mask.numpy(), 2.0 * (uniform < chance))


def drawn_by(bench):
    return bench.found().waiting[0].rows.stream.drawn


@pytest.mark.parametrize("first", [0.3, 0.5])
@pytest.mark.parametrize("last", [nn.Identity, lambda: nn.Dropout(0.2)])
def test_networks_with_dropout(first, last, monkeypatch):
    """A rate of one half is PyTorch's default, which the kernel that it notes leaves out."""
    bench = Bench(lambda: nn.Sequential(nn.Dropout2d(first), *dropouts(), last()), IMAGE)
    assert isinstance(bench.found(), traced.Traced)
    assert drawn_by(bench) == dropout.agrees()
    fast = [bench.trained(lambda job, n=n: per_client.train(job, n)) for n in (1, 3)]
    assert torch.equal(*fast)
    draws_like_autograd(bench, monkeypatch)


def draws_like_autograd(bench, monkeypatch):
    fast = [bench.trained(per_client.train, round=number) for number in (1, 2)]
    monkeypatch.setattr(per_client, "find", lambda *_: "no")
    slow = [bench.trained(per_client.train, round=number) for number in (1, 2)]
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(*slow)


class Noisy(nn.Module):
    def forward(self, x):
        return x + 0.1 * torch.empty_like(x).uniform_()


def test_streams_are_shared_with_what_pytorch_draws(monkeypatch):
    """One stream for all: then PyTorch draws everything."""
    bench = Bench(lambda: nn.Sequential(nn.Dropout(0.3), Noisy(), nn.Flatten(), nn.Linear(240, N_CLASSES)), IMAGE)
    assert isinstance(bench.found(), traced.Traced)
    assert not drawn_by(bench)
    draws_like_autograd(bench, monkeypatch)
