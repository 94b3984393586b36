"""On a real GPU: several hundred clients at a time, the CPU's results within float32 rounding."""

import gc

import numpy as np
import pytest
import torch

from fedcell.learn import deferred
from fedcell.learn.architecture import Architecture
from fedcell.learn.engines.gpu.kernels import kernels
from fedcell.learn.learner import Learner
from fedcell.learn.models import build
from fedcell.learn.samples import Samples
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.learn.setup import initialise
from fedcell.learn.work import Work
from fedcell.types import Start, Store, is_deferred

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

MODELS = {
    "logistic": (ModelConfig(name="logistic"), (1, 28, 28)),
    "mlp": (ModelConfig(name="mlp", hidden=(64, 32)), (1, 28, 28)),
    "cnn": (ModelConfig(name="cnn"), (1, 28, 28)),
    "lstm": (ModelConfig(name="lstm", width=32, layers=2), (10,)),
}
VARIANTS = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "prox": {"prox": 0.5},
    "full batch": {"batch_size": 0},
}


def learner(model, device):
    config, shape = MODELS[model]
    rng = np.random.default_rng(0)
    x = rng.integers(0, 10, (2000, *shape)) if model == "lstm" else rng.random((2000, *shape))
    samples = Samples(x.astype(np.float32), rng.integers(0, 10, 2000), torch.device(device))
    layout = Architecture.of(initialise(lambda: build(config, shape, 10), 1))
    return Learner([layout], samples, samples, TrainConfig(), 1)


def train(learner, work):
    start = Start(learner.initial()[None], np.zeros(len(work.steps), dtype=np.int64))
    return learner.train(start, work).delta.cpu()


def agree(gpu, cpu):
    """A start moved by one unit in the last place moves single CNN clients by up to 6 % on a CPU alone, where a ReLU or
    a max-pool flips; all others stay within rounding, and so must they here."""
    apart = (gpu - cpu).norm(dim=1) / cpu.norm(dim=1)
    assert float(apart.median()) < 1e-4
    assert float(apart.quantile(0.98)) < 1e-3


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("model", MODELS)
def test_agrees_with_cpu(model, variant):
    rng = np.random.default_rng(3)
    store = Store(rng.integers(0, 2000, (300, 40)), rng.integers(5, 41, 300))
    work = Work(np.arange(300), store, rng.integers(1, 6, 300), lr=0.05, batch_size=16, round=0)
    work = work._replace(**VARIANTS[variant])
    agree(train(learner(model, "cuda"), work), train(learner(model, "cpu"), work))


@pytest.mark.parametrize("variant", [*VARIANTS, "masks"])
@pytest.mark.parametrize("model", MODELS)
def test_replayed_steps_agree_with_cpu(model, variant):
    """Rounds of other devices, steps and rates, from the second on as graphs."""
    rng, gpu, cpu = np.random.default_rng(4), learner(model, "cuda"), learner(model, "cpu")
    for round in range(4):
        n = 60 + round
        store = Store(rng.integers(0, 2000, (n, 40)), rng.integers(33, 41, n))
        steps = np.concatenate([[5], rng.integers(1, 6, n - 1)])
        work = Work(np.arange(n), store, steps, lr=0.05 / (1 + round), batch_size=16, round=round)
        if variant == "masks":
            work = work._replace(mask=torch.rand(n, gpu.n_params, generator=torch.Generator().manual_seed(round)) < 0.5)
        else:
            work = work._replace(**VARIANTS[variant])
        agree(train(gpu, work), train(cpu, work))
    kept = list(gpu._replays._kept.values())
    whole = model == "logistic" and variant == "plain" and kernels("softmax_regression", gpu.device)
    expected = [] if whole else [True]  # one kernel does all steps
    assert [bool(cohort.graphs) for cohort in kept] == expected, "all four rounds share one cohort and its graphs"


def test_a_network_that_waits_for_the_gpu_trains_without_graphs():
    class Waits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(784, 10)

        def forward(self, x):
            torch.cuda.synchronize()
            return self.layer(x.flatten(1))

    found = []
    for device in ("cuda", "cpu"):
        one = learner("logistic", device)
        module = Waits() if device == "cuda" else torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
        one.architectures = (Architecture.of(module),)
        store = Store(np.arange(400).reshape(10, 40), np.full(10, 40))
        work = Work(np.arange(10), store, np.full(10, 3), lr=0.05, batch_size=16, round=0)
        start = Start(torch.zeros(1, 7850, device=device), np.zeros(10, dtype=np.int64))
        found.append([one.train(start, work).delta.cpu() for _ in range(3)])
    for gpu, cpu in zip(*found, strict=True):
        agree(gpu, cpu)


def test_large_cohorts_are_added_up_in_blocks(monkeypatch):
    one = learner("cnn", "cuda")
    store = Store(np.arange(2000).reshape(50, 40), np.full(50, 40))
    work = Work(np.arange(50), store, np.full(50, 3), lr=0.05, batch_size=16, round=0)
    rows, chosen = train(one, work), np.arange(50) % 3 > 0
    monkeypatch.setattr(deferred, "GPU_BLOCK_BYTES", 4 * one.n_params * 20)
    one = learner("cnn", "cuda")  # which asks for its room once
    updates = one.train(Start(one.initial()[None], np.zeros(50, dtype=np.int64)), work)
    assert is_deferred(updates.rows)
    weights = np.linspace(0.1, 1, chosen.sum())
    total = updates.rows.add_up(chosen, weights)
    assert total.is_cuda
    wanted = torch.from_numpy(weights).float() @ rows[torch.from_numpy(chosen)]
    assert float((total.cpu() - wanted).norm() / wanted.norm()) < 1e-3
    assert updates.finite().all()


def test_a_learner_that_is_gone_leaves_no_memory_behind():
    def rounds():
        one = learner("cnn", "cuda")
        store = Store(np.arange(2000).reshape(50, 40), np.full(50, 40))
        for round in range(3):
            train(one, Work(np.arange(50), store, np.full(50, 3), lr=0.05, batch_size=16, round=round))

    rounds()  # what PyTorch keeps for itself
    gc.collect()
    before = torch.cuda.memory_allocated()
    rounds()
    gc.collect()
    assert torch.cuda.memory_allocated() == before
