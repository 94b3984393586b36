"""Clients whose convolutions fill a GPU alone: kernels of their own beside each other."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedcell.learn.architecture import Architecture
from fedcell.learn.engines.gpu import vmap
from fedcell.learn.learner import Learner
from fedcell.learn.models import build
from fedcell.learn.samples import Samples
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.learn.setup import initialise
from fedcell.learn.work import Work
from fedcell.machine import precision
from fedcell.types import Start, Store

SHAPE, N_ROWS = (3, 12, 12), 11


def shifted(by, module, x, y, weight):
    """A loss with a tensor of its own, which every round may change."""
    each = functional.cross_entropy(module(x) + by, y, reduction="none")
    return each.mean() if weight is None else (each * weight).sum()


VARIANTS = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "prox": {"prox": 0.5},
    "masks": {},
    "full batch": {"batch_size": 0},
    "objective": {"objective": shifted, "batch_size": 0},
}


def train(device, engine, variant, rounds=1, tf32=False):
    """Updates of some rounds, and the learner; an objective has other values in every round."""
    rng = np.random.default_rng(3)
    x, y = rng.random((200, *SHAPE)).astype(np.float32), rng.integers(0, 10, 200)
    samples = Samples(x, y, torch.device(device))
    layout = Architecture.of(
        initialise(lambda: build(ModelConfig(name="cnn", channels=(4, 8), kernel=3), SHAPE, 10), 1)
    )
    learner = Learner([layout], samples, samples, TrainConfig(engine=engine, tf32=tf32), 1)
    store = Store(rng.integers(0, 200, (N_ROWS, 60)), rng.integers(50, 61, N_ROWS))
    work = Work(np.arange(N_ROWS), store, np.full(N_ROWS, 3), lr=0.05, batch_size=16, round=0)
    work = work._replace(**VARIANTS[variant])
    if variant == "masks":
        work = work._replace(mask=torch.rand(N_ROWS, layout.n_params, generator=torch.Generator().manual_seed(1)) < 0.5)
    start = Start(learner.initial()[None], np.zeros(N_ROWS, dtype=np.int64))
    found = []
    for number in range(rounds):
        if work.objective:
            work = work._replace(objective=partial(shifted, torch.linspace(-number, 1, 10, device=device)))
        found.append(learner.train(start, work).delta.cpu().clone())
    return found, learner


@pytest.fixture
def beside(monkeypatch):
    """Every cohort counts as busy; says how often one was trained client by client, and in groups of at most 4."""
    calls, gradients = [], vmap._Beside.__call__
    monkeypatch.setattr(vmap, "BUSY", 0.0)
    monkeypatch.setattr(vmap, "TOGETHER", 4)
    monkeypatch.setattr(
        vmap._Beside, "__call__", lambda self, *given: calls.append(len(given[1])) or gradients(self, *given)
    )
    return calls


@pytest.mark.parametrize("variant", VARIANTS)
def test_agrees_with_debug(variant, beside):
    """Filters lie as they do in the client's module."""
    found, learner = train("cpu", "vmap", variant, rounds=2)
    wanted, _ = train("cpu", "debug", variant, rounds=2)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)
    assert beside == 2 * [4, 4, 4, 4, 4, 4, 3, 3, 3]
    assert not any(map(lies_channels_last, filters(learner)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_clients_train_together_if_products_are_rounded(variant, beside):
    """On a CPU nothing is rounded. Filters lie channels last, as the products of patches read them."""
    found, learner = train("cpu", "vmap", variant, rounds=2, tf32=True)
    wanted, _ = train("cpu", "debug", variant, rounds=2)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)
    assert beside == []
    assert all(map(lies_channels_last, filters(learner)))


def filters(learner):
    """Those of one client of every cohort whose layouts differ in memory."""
    cohorts = learner._replays._kept.values()
    found = [part[0] for cohort in cohorts for part in cohort.weights if part.dim() == 5 and part.shape[2] > 1]
    assert found
    return found


def lies_channels_last(filters):
    return filters.is_contiguous(memory_format=torch.channels_last)


def test_chosen_by_precision_work_layers_and_even_steps():
    _, learner = train("cpu", "vmap", "plain")
    job = Job(learner)
    with precision(tf32=False):
        assert not vmap._busy_alone(job())
        assert vmap._busy_alone(job(batch_size=1 << 20))
        assert not vmap._busy_alone(job(batch_size=1 << 20, steps=np.array([1, 2])))
        assert not vmap._busy_alone(job(batch_size=0))
        assert vmap._busy_alone(job(batch_size=0, store=Store(np.zeros((2, 0), dtype=np.int64), np.full(2, 1 << 20))))
        assert not vmap._busy_alone(job(batch_size=1 << 20, objective=lambda *_: None))
        assert vmap._busy_alone(job(batch_size=1 << 20, objective=partial(shifted, torch.zeros(10))))
    with precision(tf32=True):
        assert not vmap._busy_alone(job(batch_size=1 << 20))


class Job:
    """The parts of a job that decide."""

    def __init__(self, learner):
        self.architecture, self.samples = learner.architectures[0], learner.train_samples

    def __call__(self, **changes):
        store = Store(np.zeros((2, 4), dtype=np.int64), np.full(2, 4))
        work = Work(np.arange(2), store, np.full(2, 3), lr=0.1, batch_size=32, round=0)
        self.work = work._replace(**changes)
        return self


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("variant", VARIANTS)
def test_graphs_agree_with_cpu(variant, beside):
    wanted, _ = train("cpu", "debug", variant, rounds=3)
    found, learner = train("cuda", "vmap", variant, rounds=3)
    for gpu, cpu in zip(found, wanted, strict=True):
        apart = (gpu - cpu).norm(dim=1) / cpu.norm(dim=1)
        assert float(apart.median()) < 1e-4  # single clients whose ReLU or max-pool flips may be further away
    assert all(cohort.graphs for cohort in learner._replays._kept.values())


def test_networks_of_whole_numbers_are_counted():
    """Embeddings take no floating-point numbers."""

    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.mix, self.out = nn.Embedding(9, 4), nn.Conv2d(1, 2, 3), nn.Linear(2, 5)

        def forward(self, x):
            return self.out(self.mix(self.words(x)[:, None]).mean((2, 3)))

    data = Samples(np.arange(60).reshape(10, 6) % 9, np.arange(10) % 5, torch.device("cpu"))
    learner = Learner([Architecture.of(Tokens())], data, data, TrainConfig(engine="vmap", device="cpu"), 1)
    work = Work(np.arange(2), Store(np.arange(10).reshape(2, 5), np.full(2, 5)), np.ones(2, int), 0.1, 5, 0)
    with precision(False):  # else clients never train alone
        found = learner.train(Start(learner.initial()[None], np.zeros(2, int)), work).delta
    assert found.abs().max() > 0
