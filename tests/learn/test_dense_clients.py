"""All steps of a client in one compiled kernel, against autograd."""

import numpy as np
import pytest
import torch
from torch import nn

from fedcell.learn.architecture import Architecture
from fedcell.learn.engines import batched, dispatch
from fedcell.learn.engines.cpu import dense_clients
from fedcell.learn.engines.cpu.native import DENSE, library
from fedcell.learn.learner import Learner
from fedcell.learn.optimiser import Optimiser
from fedcell.learn.samples import Samples
from fedcell.learn.settings import TrainConfig
from fedcell.learn.setup import initialise
from fedcell.learn.work import Work
from fedcell.types import Start, Store

CPU = torch.device("cpu")
IMAGE, N_CLASSES, N_SAMPLES, N_ROWS = (3, 5, 7), 6, 60, 7
N_IN = 105
NETS = {
    "logistic": lambda: [nn.Flatten(), nn.Linear(N_IN, N_CLASSES)],
    "no bias": lambda: [nn.Flatten(), nn.Linear(N_IN, N_CLASSES, bias=False)],
    "deep": lambda: [
        *(nn.Flatten(), nn.Linear(N_IN, 33), nn.ReLU(), nn.Linear(33, 17, bias=False), nn.Linear(17, 9), nn.ReLU()),
        nn.Linear(9, N_CLASSES),
    ],
    "tanh": lambda: [nn.Flatten(), nn.Linear(N_IN, 9), nn.Tanh(), nn.Linear(9, N_CLASSES)],
}


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    if library(DENSE) is None:
        pytest.skip("no compiler")
    monkeypatch.setattr(dense_clients, "WORTH", 1)
    monkeypatch.setattr(dense_clients, "WIDE_VECTORS", 1)


def learner(net="deep", engine="batched", workers=1, classes=N_CLASSES):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((N_SAMPLES, *IMAGE), dtype=np.float32)
    samples = Samples(x, rng.integers(0, classes, N_SAMPLES), CPU)
    architecture = Architecture.of(initialise(lambda: nn.Sequential(*NETS[net]()), 1))
    return Learner([architecture], samples, samples, TrainConfig(engine=engine, workers=workers), 1)


def work(rows=slice(None), **changes):
    rng = np.random.default_rng(3)
    store = Store(np.stack([rng.permutation(N_SAMPLES)[:30] for _ in range(N_ROWS)]), rng.integers(5, 30, N_ROWS))
    steps, device = rng.integers(1, 6, N_ROWS), np.arange(N_ROWS)
    given = Work(device[rows], Store(store.items[rows], store.size[rows]), steps[rows], lr=0.2, batch_size=10, round=1)
    return given._replace(**changes)


def start(made, rows=slice(None)):
    points = torch.stack([made.initial(), 0.5 * made.initial(), 2 * made.initial()])
    return Start(points, np.array([0, 1, 0, 2, 2, 1, 0])[rows])


def moved(made, given, begun=None):
    return made.train(begun or start(made), given).delta.clone()


def ways(made):
    return [name.rpartition(", ")[2] for name in made.trained_by]


@pytest.mark.parametrize("size", [1, 3, 10, 13, 27, 64, 100, 0])
@pytest.mark.parametrize("net", ["logistic", "no bias", "deep"])
def test_moves_as_autograd_does(net, size):
    fast, slow = learner(net), learner(net, "debug")
    found, wanted = (moved(made, work(batch_size=size)) for made in (fast, slow))
    assert ways(fast) == [batched.ONE_BY_ONE]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("workers", [1, 3])
def test_who_trains_beside_a_client_makes_no_difference(workers, monkeypatch):
    monkeypatch.setattr(dense_clients, "HANDED", 1)  # every client is a thread's
    made = learner(workers=workers)
    together = moved(made, work())
    for row in range(N_ROWS):
        rows = slice(row, row + 1)
        assert torch.equal(moved(made, work(rows), start(made, rows))[0], together[row])


def test_clients_without_steps_stay_where_they_are():
    made = learner()
    found = made.train(start(made), work(steps=np.zeros(N_ROWS, dtype=np.int64))).delta
    assert torch.equal(found, torch.zeros_like(found))


def test_a_client_that_diverges_is_seen():
    made = learner("deep")
    assert not moved(made, work(lr=1e30)).isfinite().all()


@pytest.mark.parametrize("changes", [{"momentum": 0.5}, {"prox": 0.1}, {"optimiser": Optimiser(weight_decay=0.1)}])
def test_other_work_is_left_to_products(changes):
    made = learner()
    moved(made, work(**changes))
    assert ways(made) == [batched.TOGETHER]


@pytest.mark.parametrize("size", [0, dense_clients.MOST + 1])
def test_large_batches_are_left_to_products_on_processors_with_short_vectors(size, monkeypatch):
    monkeypatch.setattr(dense_clients, "widest", lambda file: 8)
    monkeypatch.setattr(dense_clients, "WIDE_VECTORS", 16)
    made = learner()
    moved(made, work(batch_size=size))
    assert ways(made) == [batched.TOGETHER]


@pytest.mark.parametrize(("rows", "expected"), [(slice(None), "batched"), (slice(1), "sequential")])
def test_large_networks_train_here_unless_a_single_client_has_every_core(rows, expected, monkeypatch):
    monkeypatch.setattr(dispatch, "BATCHED_ON_CPU", 10)
    made = learner(engine="auto")
    moved(made, work(rows), start(made, rows))
    assert [name.partition(":")[0] for name in made.trained_by] == [expected]


def test_large_networks_with_momentum_train_one_by_one(monkeypatch):
    monkeypatch.setattr(dispatch, "BATCHED_ON_CPU", 10)
    made = learner(engine="auto")
    moved(made, work(momentum=0.5))
    assert [name.partition(":")[0] for name in made.trained_by] == ["sequential"]


def test_other_networks_are_left_to_products(monkeypatch):
    made = learner("tanh")
    moved(made, work())
    monkeypatch.setattr(dense_clients, "WORTH", 10**6)
    small = learner("deep")
    moved(small, work())
    monkeypatch.setattr(dense_clients, "WORTH", 1)
    monkeypatch.setattr(dense_clients, "library", lambda file: None)
    uncompiled = learner("deep")
    moved(uncompiled, work())
    assert ways(made) == ways(small) == ways(uncompiled) == [batched.TOGETHER]
