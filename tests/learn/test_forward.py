"""Evaluation by lists of kernels: held to the module, for any network, whatever was evaluated before."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import nn
from users_networks import IMAGE, N_CLASSES, NETWORKS, ROW, TOKENS, random_networks

from fedcell.learn import scoring
from fedcell.learn.architecture import Architecture
from fedcell.learn.engines.cpu import forward
from fedcell.learn.engines.cpu.native import SEQUENCES, library, sequences
from fedcell.learn.engines.cpu.trace import record
from fedcell.learn.learner import Learner
from fedcell.learn.samples import Samples
from fedcell.learn.settings import TrainConfig
from fedcell.learn.setup import initialise

CPU = torch.device("cpu")
N = 104  # six batches of 16 and a part of one
FIXED = [name for name in NETWORKS if name != "statistics of its own"]  # that one changes whenever it is called

pytestmark = pytest.mark.skipif(library(SEQUENCES) is None, reason="needs a C++ compiler")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Lists for networks of any size, and batches of 16."""
    monkeypatch.setattr(sequences, "WORTH", 0)
    monkeypatch.setattr(scoring, "samples_at_once", lambda module, sample: 16)


def samples(shape):
    rng = np.random.default_rng(2)
    x = rng.integers(0, 20, (N, *shape)) if shape == TOKENS else rng.standard_normal((N, *shape))
    return Samples(x.astype(np.float32), rng.integers(0, N_CLASSES, N), CPU)


def learner(build, shape, buffers="average", **settings):
    data = samples(shape)
    architecture = Architecture.of(initialise(build, 5), buffers)
    return Learner([architecture], data, data, TrainConfig(**settings), 1)


def whole(one, scale=1.0):
    """The model with its statistics."""
    architecture = one.architectures[0]
    return scale * architecture.whole(architecture.module)


def of_all(one, params):
    found = list(one.scores(params, one.test_samples))
    index, scores = np.concatenate([index for index, _ in found]), torch.cat([part for _, part in found])
    return scores[np.argsort(index)]


def by_module(one, params):
    architecture = one.architectures[0]
    module = architecture.replica(CPU).eval()
    architecture.load(module, params)
    with torch.no_grad():
        parts = [index for index, _ in one.scores(params, one.test_samples)]
        order = np.argsort(np.concatenate(parts))
        return torch.cat([module(one.test_samples.take(index)[0]) for index in parts])[order]


def lists(one):
    """The shapes that are lists of kernels."""
    forward = one._scoring._forward
    return [] if forward is None else [shape for shape, make in forward._makers.items() if make is not None]


@pytest.mark.parametrize("name", FIXED)
def test_scores_are_those_of_the_module(name, monkeypatch):
    monkeypatch.setattr("fedcell.learn.evaluation.MIXED", 20)  # networks that mix samples, in batches of two sizes
    shape, build = NETWORKS[name]
    one = learner(build, shape, workers=2)
    for scale in (1.0, 0.7):  # another model, the same lists
        params = whole(one, scale)
        torch.testing.assert_close(of_all(one, params), by_module(one, params), rtol=1e-3, atol=1e-5)
    assert lists(one), "no list of kernels was used"


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])  # it sets the same each time
@given(net=random_networks())
def test_scores_of_random_networks(net):
    one = learner(lambda: net, IMAGE, workers=2)
    torch.testing.assert_close(of_all(one, whole(one)), by_module(one, whole(one)), rtol=1e-3, atol=1e-5)
    assert lists(one)


@pytest.mark.parametrize("side", [8, 9])
def test_chains_with_few_channels_work_on_blocks_of_samples(side, monkeypatch):
    made = Counter()
    kept = forward._chained

    def chained(*about):
        made["lists"] += 1
        return kept(*about)

    monkeypatch.setattr(forward, "_chained", chained)
    convolutions = nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 10, 3), nn.ReLU()
    n_pixels = (side // 2 - 2) ** 2
    dense = nn.Flatten(), nn.Linear(10 * n_pixels, 20), nn.ReLU(), nn.Linear(20, N_CLASSES)
    one = learner(lambda: nn.Sequential(*convolutions, *dense), (3, side, side))
    for scale in (1.0, 0.7):
        params = whole(one, scale)
        torch.testing.assert_close(of_all(one, params), by_module(one, params), rtol=1e-3, atol=1e-5)
    assert made["lists"]


@pytest.mark.parametrize("buffers", ["average", "local", "frozen"])
def test_running_statistics_are_those_of_the_model(buffers):
    shape, build = NETWORKS["resnet, batch norm"]
    one = learner(build, shape, buffers)
    architecture = one.architectures[0]
    rows = [torch.cat([architecture.flat(architecture.module), scale * architecture.tail.of(architecture.module)])
            for scale in (1.0, 3.0)]  # fmt: skip
    found = [of_all(one, row) for row in rows]
    for row, scores in zip(rows, found, strict=True):
        torch.testing.assert_close(scores, by_module(one, row), rtol=1e-3, atol=1e-5)
    assert torch.equal(*found) is (buffers == "frozen")
    assert lists(one)


def test_what_was_evaluated_before_does_not_show():
    """A run that was resumed has evaluated nothing yet, and comes to the same bits."""
    shape, build = NETWORKS["resnet, group norm"]
    fresh, old = learner(build, shape), learner(build, shape)
    of_all(old, whole(old, 0.1))
    assert torch.equal(of_all(fresh, whole(fresh)), of_all(old, whole(old)))


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_number_of_workers_does_not_show(workers):
    shape, build = NETWORKS["attention"]
    first, other = (learner(build, shape, workers=count) for count in (1, workers))
    assert torch.equal(of_all(first, whole(first)), of_all(other, whole(other)))


class Chosen(nn.Module):
    """Another layer for samples of another sign: what a list of kernels cannot do."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(ROW[0], N_CLASSES), nn.Linear(ROW[0], N_CLASSES)

    def forward(self, x):
        return self.up(x) if x.sum() > 0 else self.down(x)


def hooked():
    net = nn.Linear(ROW[0], N_CLASSES)
    net.register_forward_hook(lambda module, given, found: 2 * found)
    return net


@pytest.mark.parametrize("build", [Chosen, hooked])
def test_others_are_judged_by_the_module(build):
    one = learner(build, ROW)
    torch.testing.assert_close(of_all(one, whole(one)), by_module(one, whole(one)))
    assert not lists(one)


def test_a_list_that_finds_something_else_is_not_used(monkeypatch):
    monkeypatch.setattr(forward, "record", lambda scores, *rest: record(lambda *given: (2 * scores(*given)[0],), *rest))
    one = learner(lambda: nn.Linear(ROW[0], N_CLASSES), ROW)
    torch.testing.assert_close(of_all(one, whole(one)), by_module(one, whole(one)))
    assert not lists(one)


class Masked(nn.Module):
    """Scores of which one is minus infinity for every sample."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(ROW[0], N_CLASSES)

    def forward(self, x):
        return self.out(x).index_fill(1, torch.tensor([1]), -torch.inf)


@pytest.mark.parametrize("factor", [1, 2])
def test_scores_that_are_not_all_finite_are_held_to_the_module_too(factor, monkeypatch):
    def spoilt(scores, *rest):
        return record(lambda *given: (factor * scores(*given)[0],), *rest)

    monkeypatch.setattr(forward, "record", spoilt)
    one = learner(Masked, ROW)
    torch.testing.assert_close(of_all(one, whole(one)), by_module(one, whole(one)))
    assert bool(lists(one)) == (factor == 1)


def test_a_list_is_not_chosen_by_a_model_that_diverged():
    """Its scores show nothing: a list that is wrong for finite weights must not be kept because of them."""
    one = learner(Chosen, ROW)
    assert of_all(one, whole(one) * torch.nan).isnan().all()
    torch.testing.assert_close(of_all(one, whole(one)), by_module(one, whole(one)))


def test_a_model_that_diverged_has_no_scores():
    shape, build = NETWORKS["resnet, group norm"]
    one = learner(build, shape)
    assert of_all(one, whole(one) * torch.nan).isnan().all()
    torch.testing.assert_close(of_all(one, whole(one)), by_module(one, whole(one)), rtol=1e-3, atol=1e-5)


def test_memory_is_given_back_even_if_nobody_asks_for_the_rest():
    shape, build = NETWORKS["resnet, group norm"]
    one = learner(build, shape, workers=1)
    part = one.scores(whole(one), one.test_samples)
    next(part)
    assert one._scoring._forward._waiting
    part.close()
    assert not one._scoring._forward._waiting


def test_small_networks_need_no_compiler(monkeypatch):
    monkeypatch.setattr(sequences, "WORTH", 10_000)
    one = learner(lambda: nn.Linear(ROW[0], N_CLASSES), ROW)
    of_all(one, whole(one))
    assert not lists(one)


def test_inputs_that_repeat_are_put_to_the_network_once(monkeypatch):
    shape, build = NETWORKS["resnet, group norm"]
    one = learner(build, shape)
    inputs, put = np.random.default_rng(1).permutation(N) % 70, []
    x, y = one.test_samples.take(np.arange(N))
    repeating = Samples(x[inputs].numpy(), y.numpy(), CPU)
    repeating.inputs = inputs
    params = whole(one)
    wanted = torch.cat([scores for _, scores in one.scores(params, one.test_samples)])[inputs]
    kept = Samples.take
    monkeypatch.setattr(Samples, "take", lambda self, index: put.append(len(index)) or kept(self, index))
    found = list(one.scores(params, repeating))
    assert np.concatenate([index for index, _ in found]).tolist() == list(range(N))
    torch.testing.assert_close(torch.cat([scores for _, scores in found]), wanted, rtol=1e-3, atol=1e-5)
    assert sum(size for size in put if size > 1) == 70
