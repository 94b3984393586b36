"""Networks with norms: every engine against the plain loop, padding, batches of one sample, and what is counted."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from fedcell.errors import BadInput
from fedcell.learn.architecture import Architecture
from fedcell.learn.engines.gpu import vmap
from fedcell.learn.learner import Learner
from fedcell.learn.models import build
from fedcell.learn.norms import BatchNorm, GroupNorm, adopt, batch_norms, counting, n_groups
from fedcell.learn.samples import Samples
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.learn.setup import initialise
from fedcell.learn.work import Work
from fedcell.types import Start, Store

CPU = torch.device("cpu")
N_CLASSES = 7
SMALL = {"name": "cnn", "channels": (4, 8), "kernel": 3, "hidden": (12, 9)}
MODELS = {
    "cnn batch": (ModelConfig(**SMALL, norm="batch"), (3, 12, 12)),
    "cnn group": (ModelConfig(**SMALL, norm="group"), (3, 12, 12)),
    "vgg11 batch": (ModelConfig(name="vgg11", hidden=(8,), norm="batch"), (3, 32, 32)),
    "squeezenet batch": (ModelConfig(name="squeezenet", norm="batch"), (3, 32, 33)),
    "own batch": (None, (3, 12, 12)),
}
VARIANTS = {
    "plain": {},
    "momentum and prox": {"momentum": 0.9, "prox": 0.7},
    "equal steps": {"steps": np.full(5, 3)},
    "full batch": {"batch_size": 0},
    "full batch, equal steps": {"batch_size": 0, "steps": np.full(5, 2), "momentum": 0.5},
    "one sample": {"batch_size": 1},
}


def own():
    """A network of somebody's own, with PyTorch's layers."""
    first = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5, track_running_stats=False), nn.ReLU(), nn.MaxPool2d(5))
    last = nn.Linear(20, 6), nn.BatchNorm1d(6, affine=False, track_running_stats=False), nn.Linear(6, N_CLASSES)
    return nn.Sequential(first, nn.Flatten(), *last)


def architecture(name):
    config, shape = MODELS[name]
    return Architecture.of(initialise(lambda: build(config, shape, N_CLASSES) if config else own(), 3))


def learner(name, engine, **settings):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((60, *MODELS[name][1])).astype(np.float32) + 0.5
    data = Samples(x, rng.integers(0, N_CLASSES, 60), CPU)
    return Learner([architecture(name)], data, data, TrainConfig(engine=engine, device="cpu", **settings), seed=4)


def work(**changes):
    """Stores of different sizes, one of a single sample where batches are whole stores; steps of 1 to 4."""
    rng = np.random.default_rng(8)
    least = 1 if changes.get("batch_size") == 0 else 6  # statistics of one sample that is drawn often are rounding
    store = Store(np.stack([rng.permutation(60)[:20] for _ in range(5)]), np.array([18, least, 7, 9, 11]))
    return Work(np.arange(5), store, np.array([2, 4, 1, 3, 2]), lr=0.05, batch_size=6, round=3)._replace(**changes)


def starts(one, n_points=2):
    rng = torch.Generator().manual_seed(0)
    return Start(
        one.initial() + 0.02 * torch.randn(n_points, one.n_params, generator=rng), np.array([0, 1, 1, 0, 1]) % n_points
    )


def plain_loop(name, job):
    slow = learner(name, "debug")
    return slow.train(starts(slow), job).delta.clone()


@cache
def plain_variant(name, variant):
    """What the plain loop says of a variant; every engine is held against it."""
    return plain_loop(name, work(**VARIANTS[variant]))


def agree(name, job, wanted, engine="vmap", rounds=1):
    fast, scale = learner(name, engine), float(wanted.abs().max())
    assert scale > 1e-4, "nothing was trained"
    for _ in range(rounds):  # memory of earlier rounds is used again
        found = fast.train(starts(fast), job).delta
        torch.testing.assert_close(found, wanted, rtol=5e-4, atol=5e-5 * scale)
    return found


@pytest.mark.parametrize("engine", ["sequential", "vmap"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["cnn batch", "cnn group", "own batch"])
def test_agrees_with_debug(name, variant, engine):
    """Ragged steps, ragged full batches (one of a single sample), single samples, two start points."""
    agree(name, work(**VARIANTS[variant]), plain_variant(name, variant), engine)


@pytest.mark.parametrize("batch_size", [8, 0])
@pytest.mark.parametrize("name", ["vgg11 batch", "squeezenet batch"])
def test_deep_networks_agree_with_debug(name, batch_size, monkeypatch):
    """Smooth ones: a ReLU or a max-pool that flips by rounding shows in the updates of ten layers."""
    monkeypatch.setattr(nn.functional, "relu", lambda x, inplace=False: x.tanh())
    monkeypatch.setattr(
        nn.MaxPool2d, "forward", lambda self, x: nn.functional.avg_pool2d(x, self.kernel_size, self.stride)
    )
    items = np.random.default_rng(1).permutation(60)[:24].reshape(2, 12)
    job = Work(np.arange(2), Store(items, np.array([12, 8])), np.array([1, 2]), 0.01, batch_size, round=0)
    slow = learner(name, "debug")
    start = Start(slow.initial()[None], np.zeros(2, dtype=np.int64))
    wanted = slow.train(start, job).delta
    for engine in ("sequential", "vmap"):
        found = learner(name, engine).train(start, job).delta
        assert float(((found - wanted).norm(dim=1) / wanted.norm(dim=1)).max()) < 1e-3, engine


@pytest.mark.parametrize("engine", ["sequential", "vmap"])
def test_masks(engine):
    n_params = architecture("cnn batch").n_params
    mask = torch.rand(5, n_params, generator=torch.Generator().manual_seed(2)) < 0.5
    job = work(mask=mask, momentum=0.4)
    found = agree("cnn batch", job, plain_loop("cnn batch", job), engine)
    assert (found[~mask] == 0).all()


@pytest.mark.parametrize("variant", ["equal steps", "full batch, equal steps"])
def test_clients_beside_each_other_agree_with_debug(variant, monkeypatch):
    monkeypatch.setattr(vmap, "BUSY", 0.0)
    agree("cnn batch", work(**VARIANTS[variant]), plain_variant("cnn batch", variant), rounds=2)


def test_one_step_of_mini_batches_and_of_full_ones_do_not_share_a_cohort():
    """Both have one batch of one width: the second is padded."""
    one, start = learner("cnn batch", "vmap"), starts(learner("cnn batch", "vmap"))
    for batch_size in (18, 0, 18):
        job = work(steps=np.ones(5, dtype=np.int64), batch_size=batch_size)
        wanted = learner("cnn batch", "debug").train(start, job).delta
        found = one.train(start, job).delta
        torch.testing.assert_close(found, wanted, rtol=5e-4, atol=5e-5 * float(wanted.abs().max()))


def test_inputs_that_repeat_count_as_often_as_they_come():
    rng = np.random.default_rng(1)
    inputs = rng.integers(0, 9, 60)
    x = rng.standard_normal((9, 3, 12, 12)).astype(np.float32)[inputs]
    data = Samples(x, rng.integers(0, N_CLASSES, 60), CPU)
    data.inputs = inputs
    layout, found = architecture("cnn batch"), []
    for engine in ("debug", "sequential", "vmap"):
        one = Learner([layout], data, data, TrainConfig(engine=engine, device="cpu"), seed=4)
        found.append(one.train(starts(one), work(batch_size=16)).delta)
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=5e-4, atol=5e-5 * float(found[0].abs().max()))


# ---------------------------------------------------------------- the layer


@pytest.mark.parametrize("shape", [(6, 4, 3, 5), (6, 4)])
def test_padding_has_no_part_in_the_statistics(shape):
    norm, x = BatchNorm(4), torch.randn(shape)
    nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)
    plain = nn.BatchNorm2d(4, track_running_stats=False) if len(shape) == 4 else nn.BatchNorm1d(4)
    plain.weight, plain.bias = norm.weight, norm.bias
    torch.testing.assert_close(norm(x), plain(x))
    with counting([norm], torch.tensor([0.25, 0.25, 0.25, 0.25, 0.0, 0.0])):
        padded = norm(x)[:4]
    torch.testing.assert_close(padded, plain(x[:4]))
    assert norm.share is None


def test_one_sample_is_normalised_by_its_pixels_or_passed_on():
    norm, image, row = BatchNorm(4), torch.randn(1, 4, 3, 5), torch.randn(1, 4)
    torch.testing.assert_close(norm(image), nn.functional.instance_norm(image))
    nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)
    torch.testing.assert_close(norm(row), row * norm.weight + norm.bias)
    with counting([norm], torch.tensor([1.0, 0.0, 0.0])):
        torch.testing.assert_close(norm(torch.cat([row, torch.randn(2, 4)]))[:1], norm.weight * row + norm.bias)


def test_groups_divide_the_channels():
    for channels in range(1, 200):
        groups = n_groups(channels)
        assert channels % groups == 0
        assert groups <= 32
        assert groups == 1 or channels // groups >= 4


# ---------------------------------------------------------------- networks


@pytest.mark.parametrize("kind", ["batch", "group"])
@pytest.mark.parametrize(
    ("name", "shape", "plain", "normed"),
    [
        ("vgg11", (3, 32, 32), 9_287_434, 2 * 2880),  # every unit that pruning can cut
        ("cnn", (3, 32, 32), None, 2 * (6 + 16 + 128)),  # the second hidden layer has none
        ("squeezenet", (3, 32, 33), None, 2 * (64 + 2 * (64 + 64 + 128 + 128 + 192 + 192 + 256 + 256))),
    ],
)
def test_norms_add_two_numbers_a_channel_and_nothing_else(name, shape, plain, normed, kind):
    hidden = (128, 64) if name == "cnn" else (128,)
    nets = [
        initialise(lambda norm=norm: build(ModelConfig(name=name, hidden=hidden, norm=norm), shape, 10), 1)
        for norm in ("none", kind)
    ]
    before, after = (Architecture.of(net) for net in nets)
    assert plain in (None, before.n_params)
    assert after.n_params - before.n_params == normed
    assert after.flops_per_sample(torch.zeros(shape)) == before.flops_per_sample(torch.zeros(shape))
    weights, others = ([p for p in net.parameters() if p.dim() > 1] for net in nets)
    assert all(map(torch.equal, weights, others)), "the start of convolutions and dense layers stays"
    assert after.mixes_samples == (kind == "batch")


def test_own_networks_keep_their_own_layers():
    net = own()
    layout = Architecture.of(net)
    assert len(batch_norms(layout.module)) == 2
    assert not batch_norms(net), "the caller's module stays as it is"
    x = torch.randn(8, 3, 12, 12)
    torch.testing.assert_close(layout.module(x), net(x))


def test_unknown_norms_are_refused():
    from fedcell.options import override

    with pytest.raises(BadInput, match="'layer' is unknown"):
        override(ModelConfig(), {"norm": "layer"})


@pytest.mark.parametrize("n_channels", [1, 2, 8])
def test_group_norms_of_images_that_need_no_gradient(n_channels):
    """PyTorch's crash on a CPU, channels-last: as the first layer, or behind frozen ones."""
    net = nn.Sequential(nn.GroupNorm(1, n_channels), nn.ReplicationPad2d(1))
    adopt(net)
    assert type(net[0]) is GroupNorm
    x = torch.randn(6, n_channels, 9, 7, generator=torch.Generator().manual_seed(1))
    found = torch.autograd.grad(
        net(x.contiguous(memory_format=torch.channels_last)).square().sum(), [*net.parameters()]
    )
    plain = nn.GroupNorm(1, n_channels, dtype=torch.float64)
    padded = nn.functional.pad(plain(x.double()), (1, 1, 1, 1), mode="replicate")
    wanted = torch.autograd.grad(padded.square().sum(), [*plain.parameters()])
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-3)
