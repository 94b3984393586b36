"""Chains that train without autograd against the plain autograd loop."""

from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from fedcell.learn.architecture import Architecture
from fedcell.learn.engines.common import Job
from fedcell.learn.engines.cpu import dense_layers, kernels, planned
from fedcell.learn.engines.gpu.cuda_graphs import Replays
from fedcell.learn.learner import Learner
from fedcell.learn.samples import Samples
from fedcell.learn.settings import TrainConfig
from fedcell.learn.setup import initialise
from fedcell.learn.work import Work
from fedcell.types import Start, Store

CPU = torch.device("cpu")
N_CLASSES, N_SAMPLES, N_ROWS = 6, 60, 5
IMAGE = (3, 9, 11)


def ending(n_features):
    return nn.Flatten(), nn.Linear(n_features, N_CLASSES)


NETS = {
    "few channels": lambda: [
        nn.Conv2d(3, 5, 3),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(5, 7, 2),
        nn.ReLU(),
        *ending(7 * 6),
    ],
    "padded": lambda: [nn.Conv2d(3, 5, 3, padding=(2, 1)), nn.ReLU(), nn.Conv2d(5, 4, 3, padding=1), *ending(4 * 121)],
    "steps of two": lambda: [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 16, 3, 2), nn.ReLU(), *ending(16 * 12)],
    "many channels": lambda: [nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), *ending(16 * 63)],
    "by channel": lambda: [nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, groups=16), *ending(16 * 12)],
    "uneven kernels": lambda: [nn.Conv2d(3, 5, (1, 4)), nn.ReLU(), nn.Conv2d(5, 4, (3, 1)), *ending(4 * 56)],
    "pixels": lambda: [nn.Conv2d(3, 5, 1), nn.ReLU(), nn.Conv2d(5, 7, 1, padding=1), *ending(7 * 143)],
    "one channel": lambda: [nn.Conv2d(3, 1, 3), nn.ReLU(), nn.Conv2d(1, 5, 3), *ending(5 * 35)],
    "no bias": lambda: [
        *(nn.Conv2d(3, 5, 3, bias=False), nn.ReLU(), nn.Conv2d(5, 16, 3, bias=False), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(16 * 35, 9, bias=False), nn.ReLU(), nn.Linear(9, N_CLASSES, bias=False)),
    ],
    "full vectors": lambda: [nn.Conv2d(3, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 16, 2), *ending(16 * 6)],
    "both kinds": lambda: [nn.Conv2d(3, 32, 2), nn.ReLU(), nn.Conv2d(32, 3, 3), nn.MaxPool2d(2), *ending(3 * 12)],
    "strides and groups": lambda: [
        *(nn.Conv2d(3, 6, 3, stride=(1, 2), padding=1), nn.ReLU(), nn.Conv2d(6, 4, 2, dilation=2), nn.ReLU()),
        *(nn.Conv2d(4, 8, 3, groups=2), *ending(8 * 10)),
    ],
    "uneven pools": lambda: [nn.Conv2d(3, 5, 2), nn.MaxPool2d((3, 4)), nn.ReLU(), nn.MaxPool2d((1, 2)), *ending(10)],
    "pool and ReLU first": lambda: [nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 5, 3), nn.MaxPool2d(1), *ending(5 * 6)],
    "nested": lambda: [nn.Sequential(nn.Conv2d(3, 5, 3), nn.Identity(), nn.ReLU()), *ending(5 * 63)],
    "dense": lambda: [
        nn.Flatten(),
        nn.Linear(297, 20),
        nn.ReLU(),
        nn.Linear(20, 30),
        nn.ReLU(),
        nn.Linear(30, N_CLASSES),
    ],
}
MASK = torch.rand(N_ROWS, 100_000, generator=torch.Generator().manual_seed(1)) < 0.5
VARIANTS = {
    "plain": {},
    "one sample": {"batch_size": 1},
    "full batch": {"batch_size": 0},
    "momentum": {"momentum": 0.8},
    "prox, mask and momentum": {"prox": 0.4, "mask": MASK, "momentum": 0.5},
}


def samples(shape=IMAGE):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((N_SAMPLES, *shape), dtype=np.float32)
    return Samples(x, rng.integers(0, N_CLASSES, N_SAMPLES), CPU)


def work(n_params, **changes):
    rng = np.random.default_rng(3)
    store = Store(np.stack([rng.permutation(N_SAMPLES)[:30] for _ in range(N_ROWS)]), rng.integers(5, 30, N_ROWS))
    steps = rng.integers(1, 5, N_ROWS)
    if "mask" in changes:
        changes["mask"] = changes["mask"][:, :n_params]
    return Work(np.arange(N_ROWS), store, steps, lr=0.1, batch_size=7, round=1)._replace(**changes)


def chain(layout, data, job):
    points, out = layout.flat(layout.module)[None], torch.empty(N_ROWS, layout.n_params)
    return planned.chain_of(Job(layout, data, points, np.zeros(N_ROWS), job, "shuffle", 4, out, Replays()))


def check(layout, data, job, point=None):
    """Both engines from one point; the updates agree."""
    found = []
    for engine in ("sequential", "debug"):
        learner = Learner([layout], data, data, TrainConfig(engine=engine, device="cpu"), seed=4)
        start = learner.initial() if point is None else point
        found.append(learner.train(Start(start[None], np.zeros(N_ROWS, dtype=np.int64)), job).delta)
    fast, slow = found
    scale = float(slow.abs().max())
    assert scale > 1e-3, "nothing was trained"
    torch.testing.assert_close(fast, slow, rtol=2e-4, atol=scale * 2e-5)


def laid_out(parts):
    return Architecture.of(initialise(lambda: nn.Sequential(*parts()), 5))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("net", NETS)
def test_agrees_with_debug(net, variant):
    layout, data = laid_out(NETS[net]), samples()
    job = work(layout.n_params, **VARIANTS[variant])
    assert chain(layout, data, job) is not None
    check(layout, data, job)


@pytest.mark.parametrize("variant", ["plain", "momentum"])
def test_products_are_cut_where_they_are_large(variant, monkeypatch):
    monkeypatch.setattr(planned, "WIDE", 100)
    monkeypatch.setattr(kernels, "CACHED", 64)
    layout = laid_out(NETS["dense"])
    check(layout, samples(), work(layout.n_params, **VARIANTS[variant]))


def test_wide_weights_move_in_the_backward_pass():
    layout = laid_out(lambda: [nn.Flatten(), nn.Linear(297, 400), nn.ReLU(), nn.Linear(400, N_CLASSES)])
    check(layout, samples(), work(layout.n_params))


@pytest.mark.parametrize("variant", ["plain", "full batch", "prox, mask and momentum"])
@pytest.mark.parametrize("net", ["few channels", "dense"])
def test_inputs_that_repeat_are_trained_on_once(net, variant, monkeypatch):
    """Steps have other numbers of distinct inputs, with a share of each label; the plain loop takes every sample."""
    monkeypatch.setattr(planned, "WIDE", 600)  # weights that move in the backward pass
    monkeypatch.setattr(planned, "GRAIN", 3)
    layout, data, rng = laid_out(NETS[net]), samples(), np.random.default_rng(4)
    inputs = rng.integers(0, 12, N_SAMPLES)
    shared = Samples(data.at(torch.arange(12)).contiguous().numpy()[inputs], rng.integers(0, 5, N_SAMPLES), CPU)
    shared.inputs = inputs
    job, widths = work(layout.n_params, **{"batch_size": 9} | VARIANTS[variant]), []
    assert chain(layout, shared, job) is not None
    backward = planned._Plan.backward
    monkeypatch.setattr(planned._Plan, "backward", lambda plan, *xy: (widths.append(len(xy[0])), backward(plan, *xy)))
    check(layout, shared, job)
    assert len(set(widths)) > 1
    assert max(widths) <= 12


@pytest.mark.parametrize("net", ["few channels", "full vectors", "uneven pools"])
def test_the_first_of_equals_counts(net):
    """Whole numbers, so that maxima are shared all the time."""
    layout, rng = laid_out(NETS[net]), np.random.default_rng(6)
    data = Samples(rng.integers(0, 2, (N_SAMPLES, *IMAGE)).astype(np.float32), rng.integers(0, 6, N_SAMPLES), CPU)
    point = torch.from_numpy(rng.integers(-1, 2, layout.n_params).astype(np.float32))
    check(layout, data, work(layout.n_params, steps=np.ones(N_ROWS, dtype=np.int64)), point)


def test_rows_of_numbers():
    layout = laid_out(lambda: [nn.Linear(13, 8), nn.ReLU(), nn.Linear(8, N_CLASSES)])
    data, job = samples((13,)), work(layout.n_params)
    assert chain(layout, data, job) is not None
    check(layout, data, job)


def test_training_that_diverges_says_nothing():
    """Warnings are errors here."""
    layout, data = laid_out(NETS["few channels"]), samples()
    learner = Learner([layout], data, data, TrainConfig(engine="sequential", device="cpu"), seed=4)
    start = Start(learner.initial()[None], np.zeros(N_ROWS, dtype=np.int64))
    steps = np.full(N_ROWS, 5)
    assert not learner.train(start, work(layout.n_params, lr=1e20, steps=steps)).delta.isfinite().all(1).any()


class Doubled(nn.Sequential):
    def forward(self, x):
        return 2 * super().forward(x)


def hooked():
    layer = nn.Linear(297, N_CLASSES)
    layer.register_forward_hook(lambda module, given, found: 2 * found)
    return nn.Sequential(nn.Flatten(), layer)


def frozen():
    net = nn.Sequential(nn.Flatten(), nn.Linear(297, 9), nn.Linear(9, N_CLASSES))
    net[1].bias.requires_grad_(False)
    return net


def tied():
    layer = nn.Linear(9, 9)
    return nn.Sequential(nn.Flatten(), nn.Linear(297, 9), layer, layer, nn.Linear(9, N_CLASSES))


OTHERS = {
    "overlapping pools": lambda: nn.Sequential(nn.Conv2d(3, 5, 3), nn.MaxPool2d(3, 2), *ending(5 * 12)),
    "padded pools": lambda: nn.Sequential(nn.Conv2d(3, 5, 3), nn.MaxPool2d(2, padding=1), *ending(5 * 20)),
    "rounded-up pools": lambda: nn.Sequential(nn.Conv2d(3, 5, 3), nn.MaxPool2d(2, ceil_mode=True), *ending(5 * 20)),
    "circular": lambda: nn.Sequential(nn.Conv2d(3, 5, 3, padding=1, padding_mode="circular"), *ending(5 * 99)),
    "same": lambda: nn.Sequential(nn.Conv2d(3, 5, 3, padding="same"), *ending(5 * 99)),
    "dense on images": lambda: nn.Sequential(nn.Linear(11, 2), *ending(3 * 9 * 2)),
    "partly flat": lambda: nn.Sequential(nn.Flatten(2), nn.Linear(99, 2), *ending(6)),
    "other layers": lambda: nn.Sequential(nn.Conv2d(3, 5, 3), nn.Tanh(), *ending(5 * 63)),
    "no dense end": lambda: nn.Sequential(nn.Conv2d(3, N_CLASSES, (9, 11)), nn.Flatten()),
    "own forward": lambda: Doubled(*ending(297)),
    "hooks": hooked,
    "frozen": frozen,
    "tied": tied,
    "named": lambda: nn.Sequential(
        OrderedDict(flat=nn.Flatten(), norm=nn.LayerNorm(297), out=nn.Linear(297, N_CLASSES))
    ),
}


@pytest.mark.parametrize("net", OTHERS)
def test_leaves_other_nets_alone(net):
    layout, data = Architecture.of(initialise(OTHERS[net], 5)), samples()
    job = work(layout.n_params)
    assert chain(layout, data, job) is None
    check(layout, data, job)


def test_leaves_other_work_alone():
    layout, data = laid_out(NETS["dense"]), samples()
    job = work(layout.n_params)
    assert chain(layout, data, job._replace(objective=lambda module, x, y, weight: module(x).sum())) is None


@pytest.mark.parametrize("size", [1, 3, 7, 12, 25, 0])
@pytest.mark.parametrize("variant", ["plain", "momentum"])
@pytest.mark.parametrize("net", ["dense", "no bias", "few channels"])
def test_dense_layers_have_kernels_of_their_own(net, variant, size, monkeypatch):
    if dense_layers.library(dense_layers.DENSE) is None:
        pytest.skip("no compiler")
    monkeypatch.setattr(dense_layers, "WORTH", 1)
    monkeypatch.setattr(dense_layers, "WIDE_VECTORS", 1)
    monkeypatch.setattr(planned, "WIDE", 1000)  # weights that move in the backward pass
    used, dense = [], dense_layers.dense
    monkeypatch.setattr(dense_layers, "dense", lambda *given: used.append(1) or dense(*given))
    layout = laid_out(NETS[net])
    check(layout, samples(), work(layout.n_params, **VARIANTS[variant] | {"batch_size": size}))
    assert used


@pytest.mark.parametrize("net", ["dense", "few channels"])
def test_inputs_that_repeat_have_them_too(net, monkeypatch):
    monkeypatch.setattr(dense_layers, "WORTH", 1)
    monkeypatch.setattr(dense_layers, "WIDE_VECTORS", 1)
    test_inputs_that_repeat_are_trained_on_once(net, "plain", monkeypatch)
