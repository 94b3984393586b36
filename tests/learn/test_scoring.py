"""Evaluation: batches side by side, networks that threads cannot share, and what the result depends on."""

import random
from threading import current_thread

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedcell.learn import scoring, streams
from fedcell.learn.architecture import Architecture
from fedcell.learn.evaluation import leaves_no_trace, samples_at_once
from fedcell.learn.learner import Learner
from fedcell.learn.samples import Samples
from fedcell.learn.settings import TrainConfig

N, CPU = 400, torch.device("cpu")


class Own(nn.Module):
    """A network of a user's own; `call` is what it does besides."""

    def __init__(self, call=lambda self, x: None):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10))
        self.register_buffer("seen", torch.zeros(1), persistent=False)
        self.call = call

    def forward(self, x):
        self.call(self, x)
        return self.layers(x)


CHANGING = {
    "an attribute": lambda self, x: setattr(self, "last", x),
    "a number": lambda self, x: setattr(self, "calls", getattr(self, "calls", 0) + 1),
    "a buffer in place": lambda self, x: self.seen.add_(1),
    "a new buffer": lambda self, x: setattr(self, "seen", self.seen + 1),
    "random numbers of PyTorch": lambda self, x: torch.rand(1),
    "random numbers of Python": lambda self, x: random.random(),
    "random numbers of NumPy": lambda self, x: np.random.rand(),  # noqa: NPY002
}


@pytest.fixture
def samples():
    rng = np.random.default_rng(0)
    return Samples(rng.random((N, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, N), torch.device("cpu"))


def learner(module, samples, **settings):
    return Learner([Architecture.of(module)], samples, samples, TrainConfig(**settings), 1)


def of_all(one, samples):
    found = list(one.scores(one.initial(), samples))
    return np.concatenate([index for index, _ in found]), torch.cat([scores for _, scores in found])


@pytest.mark.parametrize("what", CHANGING)
def test_a_network_that_changes_when_called_is_seen(what, samples):
    module = Own(CHANGING[what]).eval()
    module(samples.take(np.arange(1))[0])  # a first call may add what is not there yet
    assert not leaves_no_trace(module, samples.take(np.arange(1))[0])


def test_a_plain_network_leaves_no_trace(samples):
    assert leaves_no_trace(Own().eval(), samples.take(np.arange(1))[0])
    assert leaves_no_trace(nn.Sequential(nn.BatchNorm2d(1), nn.Dropout()).eval(), samples.take(np.arange(1))[0])


@pytest.mark.parametrize("workers", [1, 3])
def test_scores_are_those_of_the_network_in_order(workers, samples, monkeypatch):
    """Waves of batches smaller than the samples, and a last one that is not full."""
    monkeypatch.setattr("fedcell.learn.evaluation.LAYER_BYTES", 30 * 4 * 36 * 4)  # 16 samples of the convolution
    monkeypatch.setattr(scoring, "AT_A_TIME", 2)
    one = learner(Own(), samples, workers=workers)
    index, scores = of_all(one, samples)
    assert index.tolist() == list(range(N))
    with torch.no_grad():
        torch.testing.assert_close(scores, one.architectures[0].module.eval()(samples.take(np.arange(N))[0]))


def test_scores_do_not_depend_on_the_workers(samples, monkeypatch):
    monkeypatch.setattr("fedcell.learn.evaluation.LAYER_BYTES", 30 * 4 * 36 * 4)
    module = Own()
    found = [of_all(learner(module, samples, workers=workers), samples)[1] for workers in (1, 2, 5)]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("changes", [False, True])
def test_threads_share_a_network_that_leaves_no_trace(changes, samples, monkeypatch):
    monkeypatch.setattr("fedcell.learn.evaluation.LAYER_BYTES", 30 * 4 * 36 * 4)
    callers = set()

    def call(self, x):
        callers.add(current_thread().name)
        if changes:
            CHANGING["a number"](self, x)

    of_all(learner(Own(call), samples, workers=2), samples)
    assert any(name.startswith("fedcell") for name in callers) is not changes


class Noisy(nn.Module):
    """Dropout that is not switched off for evaluation."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        return self.out(functional.dropout(x.flatten(1), 0.5) + random.random() + np.random.rand())  # noqa: NPY002


def test_evaluation_that_draws_random_numbers_repeats(samples, monkeypatch):
    """Whatever was drawn or evaluated before; and it leaves the global streams as they were."""
    monkeypatch.setattr(scoring, "samples_at_once", lambda module, sample: 64)
    module, found = Noisy(), []
    one = learner(module, samples)
    for other in (one, one, learner(module, samples)):
        torch.rand(3), random.random(), np.random.rand()  # noqa: NPY002
        before = streams.stand(CPU)
        found.append(of_all(other, samples)[1])
        assert streams.stand(CPU) == before
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
    plain = functional.linear(samples.take(np.arange(N))[0].flatten(1), module.out.weight, module.out.bias)
    away = (found[0] - plain).abs().amax(1)
    assert len(set(away.tolist())) > N / 2, "every sample has noise of its own"
    other = Learner(one.architectures, samples, samples, TrainConfig(), 2)
    assert not torch.equal(of_all(other, samples)[1], found[0])


@pytest.mark.parametrize("shared", [True, False])
def test_looking_at_a_network_leaves_the_streams_alone(shared, samples):
    module = Noisy().eval()  # its start is drawn
    before = streams.stand(CPU)
    one = samples.take(np.arange(1))[0]
    assert samples_at_once(module, one) if shared else not leaves_no_trace(module, one)
    assert streams.stand(CPU) == before
