"""Convolutions that do the work of the ReLU and the pool behind them; plain PyTorch stands in for the kernels here."""

from collections import OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedcell.learn.architecture import Architecture
from fedcell.learn.batches import draw_batches
from fedcell.learn.engines.common import Batches, Job
from fedcell.learn.engines.gpu import conv_relu_pool, draws, vmap
from fedcell.learn.engines.gpu.cuda_graphs import Replays
from fedcell.learn.learner import Learner
from fedcell.learn.samples import Samples
from fedcell.learn.settings import TrainConfig
from fedcell.learn.work import Work
from fedcell.types import Start, Store

CPU = torch.device("cpu")


def convolved(x, weight, padding):
    """Of every row, channels last."""
    found = [functional.conv2d(a.movedim(-1, 1), w, padding=padding) for a, w in zip(x, weight, strict=True)]
    return torch.stack(found).movedim(2, -1)


def forward(x, weight, bias, padding):
    found = convolved(x, weight, padding) + bias[:, None, None, None]
    rows, columns = (side // 2 for side in found.shape[2:4])
    windows = found[:, :, : 2 * rows, : 2 * columns].unflatten(3, (columns, 2)).unflatten(2, (rows, 2))
    best, place = windows.movedim(3, 4).flatten(4, 5).max(4)
    return best.relu(), place.to(torch.int8)


def spread(towards, place):
    found = towards[..., None] * functional.one_hot(place.long(), 4)
    return found.unflatten(-1, (2, 2)).permute(0, 1, 2, 5, 3, 6, 4).flatten(2, 3).flatten(3, 4)


def slopes(x, weight, towards, padding):
    with torch.enable_grad():
        x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
        found = convolved(x, weight, padding)[:, :, : towards.shape[2], : towards.shape[3]]
        return torch.autograd.grad(found, (x, weight), towards)


PLAIN = SimpleNamespace(
    forward=forward,
    spread=spread,
    towards_weight=lambda x, weight, towards, padding: slopes(x, weight, towards, padding)[1],
    towards_input=lambda towards, weight, padding, height, width: slopes(
        torch.zeros(*towards.shape[:2], height, width, weight.shape[2]), weight, towards, padding
    )[0],
)


@pytest.fixture
def kernels(monkeypatch):
    monkeypatch.setattr(conv_relu_pool, "kernels", lambda name, device: PLAIN if name == "pooled_conv" else None)
    monkeypatch.setattr(draws, "kernels", lambda name, device: None)


def conv(n_in, n_out, **how):
    return nn.Conv2d(n_in, n_out, how.pop("kernel", 3), **how)


NETS = {
    "pool first": lambda: (conv(2, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4)),
    "ReLU first, odd, no bias": lambda: (
        conv(2, 3, kernel=4, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(27, 4),
    ),
    "two, in a chain of chains": lambda: (
        nn.Sequential(conv(2, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        nn.Sequential(conv(3, 5, padding=1), nn.ReLU(), nn.MaxPool2d((2, 2)), nn.Flatten(), nn.Linear(20, 4)),
    ),
    "behind a layer": lambda: (conv(2, 3), conv(3, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 4)),
}


def n_fused(module):
    conv_relu_pool.fuse(module, CPU)
    return sum("forward" in vars(part) for part in module.modules())


def trained(net, shape=(2, 10, 10)):
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    module = nn.Sequential(*net())
    samples = Samples(rng.standard_normal((60, *shape)).astype(np.float32), rng.integers(0, 4, 60), CPU)
    learner = Learner([Architecture.of(module)], samples, samples, TrainConfig(engine="vmap"), 1)
    store = Store(np.arange(60).reshape(5, 12), np.full(5, 12))
    work = Work(np.arange(5), store, np.array([3, 1, 2, 3, 2]), lr=0.05, batch_size=6, round=0)
    return learner.train(Start(learner.initial()[None], np.zeros(5, dtype=np.int64)), work).delta.clone()


@pytest.mark.parametrize("name", NETS)
def test_a_network_trains_as_it_does_layer_by_layer(name, kernels, monkeypatch):
    calls = []
    monkeypatch.setattr(PLAIN, "forward", lambda *given: calls.append(0) or forward(*given))
    found = trained(NETS[name])
    assert calls
    monkeypatch.setattr(vmap, "fuse", lambda module, device: None)
    torch.testing.assert_close(found, trained(NETS[name]), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("expected", "layers"),
    [
        (1, lambda: [conv(2, 3), nn.MaxPool2d(2), nn.ReLU()]),
        (0, lambda: [conv(2, 3), nn.MaxPool2d(2)]),
        (0, lambda: [conv(2, 3), nn.MaxPool2d(2), nn.Tanh()]),
        (0, lambda: [conv(2, 3), nn.MaxPool2d(3), nn.ReLU()]),
        (0, lambda: [conv(2, 3), nn.MaxPool2d(2, 1), nn.ReLU()]),
        (0, lambda: [conv(2, 3), nn.MaxPool2d(2, ceil_mode=True), nn.ReLU()]),
        (0, lambda: [conv(2, 3, stride=2), nn.MaxPool2d(2), nn.ReLU()]),
        (0, lambda: [conv(2, 4, groups=2), nn.MaxPool2d(2), nn.ReLU()]),
        (0, lambda: [conv(2, 3, padding="same"), nn.MaxPool2d(2), nn.ReLU()]),
        (0, lambda: [conv(2, 3, kernel=(3, 2)), nn.MaxPool2d(2), nn.ReLU()]),
        (0, lambda: [conv(2, 3, kernel=9), nn.MaxPool2d(2), nn.ReLU()]),
        (0, lambda: [conv(2, 65), nn.MaxPool2d(2), nn.ReLU()]),
        (0, lambda: [conv(2, 3), nn.BatchNorm2d(3), nn.MaxPool2d(2), nn.ReLU()]),
    ],
)
def test_what_is_fused(expected, layers, kernels):
    assert n_fused(nn.Sequential(*layers())) == expected


def test_layers_that_have_names_are_fused(kernels):
    net = nn.Sequential(OrderedDict(conv=conv(2, 3), relu=nn.ReLU(), pool=nn.MaxPool2d(2)))
    assert n_fused(net) == 1
    assert [type(part) for part in net] == [nn.Conv2d, nn.Identity, nn.Identity]


@pytest.mark.parametrize("watched", [[0], [1], [2], [0, 1]])
def test_layers_with_hooks_stay_as_they_are(watched, kernels):
    """The convolution, the ReLU, the pool, and a chain that holds only the first two."""
    seen, layers = [], [conv(2, 3), nn.ReLU(), nn.MaxPool2d(2)]
    inner = nn.Sequential(*layers[:2])
    part = inner if len(watched) > 1 else layers[watched[0]]
    part.register_forward_hook(lambda *given: seen.append(given[2].shape))
    net = nn.Sequential(inner, layers[2])
    assert n_fused(net) == 0
    net(torch.zeros(1, 2, 8, 8))
    assert seen == [(1, 3, 3, 3) if watched == [2] else (1, 3, 6, 6)]


def test_a_layer_that_is_used_twice_stays_as_it_is(kernels):
    layer = conv(2, 2, padding=1)
    assert n_fused(nn.Sequential(layer, nn.MaxPool2d(2), nn.ReLU(), layer)) == 0


def test_a_network_that_is_no_chain_stays_as_it_is(kernels):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(conv(2, 3), nn.MaxPool2d(2), nn.ReLU())

        def forward(self, x):
            return self.body[0](x).mean((2, 3))

    assert n_fused(Net()) == 0


def test_nothing_is_fused_without_a_gpu():
    assert n_fused(nn.Sequential(conv(2, 3), nn.MaxPool2d(2), nn.ReLU())) == 0


def job(device, **changes):
    rng = np.random.default_rng(1)
    store = Store(rng.integers(0, 60, (5, 12)), rng.integers(6, 13, 5))
    work = Work(np.arange(5), store, np.array([3, 1, 2, 3, 2]), lr=0.05, batch_size=6, round=0)
    layout = Architecture.of(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)))
    samples = Samples(np.zeros((60, 4), dtype=np.float32), np.zeros(60, dtype=np.int64), CPU)
    out = torch.zeros(5, layout.n_params, device=device)
    given = Job(layout, samples, out[:1], np.zeros(5, dtype=np.int64), work, "shuffle", 1, out, Replays())
    return given._replace(**changes)


def drawn(one):
    """As the kernel would draw."""
    flat, start = draw_batches(one.work.store, one.work.device, one.work.steps * 6, "shuffle", one.seed, 0)
    index = np.zeros((3, 5, 6), dtype=np.int64)
    for row, steps in enumerate(one.work.steps):
        index[:steps, row] = flat[start[row] : start[row] + 6 * steps].reshape(-1, 6)
    return torch.from_numpy(index)


def test_draws_of_a_gpu_are_fed_as_those_of_a_cpu(monkeypatch):
    one = job("cpu")
    way = SimpleNamespace(fits=lambda work: True, draw=lambda work, seed, device: drawn(one))
    monkeypatch.setattr(draws, "kernels", lambda name, device: way)
    found, wanted = draws.batches_of(one), Batches(one)
    assert isinstance(found, draws.DrawnThere)
    rows = np.array([3, 0, 4])
    for first, end in ((0, 2), (1, 2)):
        theirs, ours = wanted.feed(rows, first, end), found.feed(rows, first, end)
        np.testing.assert_array_equal(ours.sample.numpy(), theirs.sample)
        np.testing.assert_array_equal(ours.share, theirs.share)


def test_a_gpu_without_room_for_draws_leaves_them_to_the_cpu(monkeypatch):
    def draw(*given):
        raise torch.cuda.OutOfMemoryError

    way = SimpleNamespace(fits=lambda work: True, draw=draw)
    monkeypatch.setattr(draws, "kernels", lambda name, device: way)
    assert type(draws.batches_of(job("cpu"))) is Batches


@pytest.mark.parametrize("change", ["full", "replace", "too large"])
def test_other_batches_are_drawn_on_the_cpu(change, monkeypatch):
    way = SimpleNamespace(fits=lambda work: change != "too large", draw=lambda *given: torch.zeros(3, 5, 6))
    monkeypatch.setattr(draws, "kernels", lambda name, device: way)
    one = job("cpu", sampling="replace" if change == "replace" else "shuffle")
    one = one._replace(work=one.work._replace(batch_size=0)) if change == "full" else one
    assert type(draws.batches_of(one)) is Batches
