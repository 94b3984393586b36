"""Networks with norms on a real GPU: the CPU's results within float32 rounding, graphs, and the memory of a VGG-11."""

import numpy as np
import pytest
import torch
from torch import nn

from fedcell import methods
from fedcell.data.datasets import from_arrays
from fedcell.learn.architecture import Architecture
from fedcell.learn.learner import Learner
from fedcell.learn.models import build
from fedcell.learn.samples import Samples
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.learn.setup import initialise
from fedcell.learn.work import Work
from fedcell.options import override
from fedcell.scenarios import build_problem, get
from fedcell.simulate import begin, simulate
from fedcell.types import Start, Store

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

VARIANTS = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "prox": {"prox": 0.5},
    "full batch": {"batch_size": 0},
    "masks": {},
}
GIB = 1 << 30


def learner(config, shape, device):
    rng = np.random.default_rng(0)
    data = Samples(rng.random((500, *shape)).astype(np.float32), rng.integers(0, 10, 500), torch.device(device))
    layout = Architecture.of(initialise(lambda: build(config, shape, 10), 1))
    return Learner([layout], data, data, TrainConfig(), 1)


def train(one, work):
    start = Start(one.initial()[None], np.zeros(len(work.steps), dtype=np.int64))
    return one.train(start, work).delta.cpu()


def apart(gpu, cpu):
    return (gpu - cpu).norm(dim=1) / cpu.norm(dim=1)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_replayed_steps_agree_with_cpu(norm, variant):
    """Ragged steps and full batches of 10 to 40 samples, from the second round on as graphs."""
    config = ModelConfig(name="cnn", norm=norm)
    gpu, cpu = (learner(config, (1, 28, 28), device) for device in ("cuda", "cpu"))
    rng = np.random.default_rng(4)
    for round in range(3):
        n = 60 + round
        store = Store(rng.integers(0, 500, (n, 40)), np.concatenate([[40], rng.integers(10, 41, n - 1)]))
        steps = np.concatenate([[5], rng.integers(1, 6, n - 1)])
        work = Work(np.arange(n), store, steps, lr=0.05, batch_size=16, round=round)._replace(**VARIANTS[variant])
        if variant == "masks":
            work = work._replace(mask=torch.rand(n, gpu.n_params, generator=torch.Generator().manual_seed(round)) < 0.5)
        found = apart(train(gpu, work), train(cpu, work))
        assert float(found.median()) < 1e-4
        assert float(found.quantile(0.9)) < 1e-3, "but for a few whose ReLU or max-pool flips"
    assert [bool(cohort.graphs) for cohort in gpu._replays._kept.values()] == [True]


@pytest.mark.parametrize("batch_size", [16, 0])
def test_vgg11_clients_beside_each_other_agree_with_cpu(batch_size, monkeypatch):
    """A smooth one: a ReLU or a max-pool that flips by rounding shows in the updates of ten layers."""
    monkeypatch.setattr(nn.functional, "relu", lambda x, inplace=False: x.tanh())
    monkeypatch.setattr(
        nn.MaxPool2d, "forward", lambda self, x: nn.functional.avg_pool2d(x, self.kernel_size, self.stride)
    )
    config = ModelConfig(name="vgg11", hidden=(128,), norm="batch")
    gpu, cpu = (learner(config, (3, 32, 32), device) for device in ("cuda", "cpu"))
    store = Store(np.random.default_rng(2).integers(0, 500, (5, 24)), np.array([24, 20, 12, 23, 16]))
    for round in range(3):
        work = Work(np.arange(5), store, np.full(5, 2), lr=0.01, batch_size=batch_size, round=round)
        assert float(apart(train(gpu, work), train(cpu, work)).max()) < 2e-3
    assert all(cohort.graphs for cohort in gpu._replays._kept.values())


@pytest.mark.parametrize("form", ["mask", "extract"])
def test_a_round_of_pruned_vgg11_takes_little_memory(form):
    """Several runs share a GPU; the last gradients of 100 devices alone are 3.5 GiB."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((6000, 3, 32, 32)).astype(np.float32), np.arange(6000) % 10
    data = from_arrays(x, y, x[:1000], y[:1000])
    problem = build_problem(override(get("pruning_vgg").config, {"rounds": 14, "eval_every": 14}), data)
    method = methods.parse(f"pruning:deadline_s=20,form={form}").build()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    heard = [row.outcome for row, _ in simulate(problem, method, begin(problem, method))]
    assert all(outcome.count("D") == 10 for outcome in heard)
    assert len({device for outcome in heard for device, letter in enumerate(outcome) if letter == "D"}) > 70
    assert torch.cuda.max_memory_reserved() < 20 * GIB
