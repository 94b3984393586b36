"""Batch norms of many clients by kernels: on a GPU, or without one by Triton's interpreter, if TRITON_INTERPRET=1."""

import copy
import os
from importlib import import_module

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from fedcell.learn.engines.gpu import convolutions, norms
from fedcell.learn.norms import BatchNorm, RunningNorm, counting

pytest.importorskip("triton", reason="needs Triton, which comes with PyTorch for GPUs")
ON_GPU = torch.cuda.is_available()
needs_gpu = pytest.mark.skipif(not ON_GPU, reason="needs a CUDA GPU")
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
if not ON_GPU and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs a CUDA GPU, or TRITON_INTERPRET=1", allow_module_level=True)
WAY = import_module("fedcell.learn.engines.gpu.kernels.batch_norm")

SHAPES = [(3, 1, 5), (2, 7, 3), (10, 4096 if ON_GPU else 1024, 28), (2, 300, 70), (1, 9, 1), (2, 500, 96), (3, 33, 64)]
EPS = 1e-5


def apart(found, wanted):
    return float((found.double() - wanted).norm().detach() / wanted.norm().detach().clamp(min=1e-12))


def affine(x, weight, bias):
    return (x if weight is None else x * weight) + (0 if bias is None else bias)


def exact(x, weight, bias, relu):
    """One client, `[m, channels]`, in double precision."""
    if len(x) == 1:
        found = affine(x, weight, bias)
    else:
        weight = torch.ones_like(x[0]) if weight is None else weight  # a bias alone has no gradient in PyTorch 2.11
        bias = torch.zeros_like(x[0]) if bias is None else bias
        found = functional.batch_norm(x, None, None, weight, bias, True, 0.0, EPS)
    return found.relu() if relu else found


@pytest.mark.parametrize("mean", [0.0, 100.0])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_kernels_agree_with_double_precision(shape, relu, mean):
    check(shape, relu, mean)


@pytest.mark.parametrize("given", [(True, False), (False, True), (False, False)])
@pytest.mark.parametrize("relu", [True, False])
def test_weight_and_bias_may_be_absent(relu, given):
    check((2, 70, 6), relu, 1.0, *given)


def test_many_pieces_are_merged(monkeypatch):
    """Tiles of 4 places: pieces of several tiles, the last one short, and more pieces than a tile of them."""
    monkeypatch.setattr(WAY, "TILE", 64)
    for enough in (7, 90):
        monkeypatch.setattr(WAY, "ENOUGH", enough)
        check((2, 391, 20), True, 100.0)


@needs_gpu
@pytest.mark.parametrize("shape", [(10, 65536, 28), (100, 32768, 32), (300, 32, 512)])
def test_large_activations_agree_with_double_precision(shape):
    check(shape, True, 100.0)


def check(shape, relu, mean, has_weight=True, has_bias=True):
    n, m, channels = shape
    x = (mean + torch.randn(shape)).to(DEVICE)
    weight = (0.5 + torch.rand(n, channels)).to(DEVICE) if has_weight else None
    bias = (torch.randn(n, channels)).to(DEVICE) if has_bias else None
    most = 3e-6 if mean < 10 else 3e-5  # a mean of 100 is itself rounded to a part in 3e5 of the spread
    out, centre, rstd = WAY.forward(x, weight, bias, EPS, relu)
    exactly = [[None if part is None else part[row].double() for part in (x, weight, bias)] for row in range(n)]
    clear = torch.stack([exact(*given, False).abs() > 1e-4 for given in exactly])  # rounding turns no ReLU
    g = torch.where(clear, torch.randn(shape).to(DEVICE), 0.0)
    found = WAY.backward(g, x, weight, bias, centre, rstd, relu)
    for row, given in enumerate(exactly):
        asked = [part.requires_grad_() for part in given if part is not None]
        wanted = exact(*given, relu)
        slopes = torch.autograd.grad(wanted, asked, g[row].double())
        ours = [part[row] for part, exists in zip(found, given, strict=True) if exists is not None]
        assert apart(out[row], wanted) < most
        for one, other in zip(ours, slopes, strict=True):
            assert apart(one, other) < most
        if m > 1:
            assert apart(centre[row], x[row].double().mean(0)) < 1e-6
            assert apart(rstd[row], (x[row].double().var(0, unbiased=False) + EPS).rsqrt()) < 1e-6


def test_what_is_not_a_number_stays_so():
    x = torch.randn(2, 40, 3).to(DEVICE)
    x[1, 7, 2] = torch.nan
    out, *_ = WAY.forward(x, None, None, EPS, True)
    assert out[1, :, 2].isnan().all()
    assert int(out.isnan().sum()) == 40


def test_few_clients_fill_a_gpu():
    size = WAY._size(torch.empty(10, 65536, 28, device="meta"))
    assert 1000 < 10 * size.pieces * size.blocks <= WAY.ENOUGH
    for shape in SHAPES:
        size, m = WAY._size(torch.empty(shape, device="meta")), shape[1]
        assert (size.pieces - 1) * size.tiles * size.tile_m < m <= size.pieces * size.tiles * size.tile_m


def chain(kind=BatchNorm):
    """Norms before a ReLU, before a pool, behind a dense layer, and without scale and shift."""
    first = nn.Sequential(nn.Conv2d(2, 5, 3), kind(5), nn.ReLU(), nn.MaxPool2d(2))
    second = nn.Sequential(nn.Conv2d(5, 6, 3, padding=1), kind(6), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten())
    return nn.Sequential(first, second, nn.Linear(24, 7), kind(7), nn.ReLU(), nn.Linear(7, 4))


@pytest.fixture
def by_kernels(monkeypatch):
    monkeypatch.setattr(norms, "kernels", lambda name, device: WAY if name == "batch_norm" else None)


def fused(module):
    found = copy.deepcopy(module)
    norms.fuse_norms(found, DEVICE)
    return found


def gradients(module, n=3, batch=6):
    """Of several clients with parameters of their own, what they lose and their buffers after."""
    torch.manual_seed(7)
    rows = {
        name: part.detach() + 0.1 * torch.randn(n, *part.shape).to(DEVICE) for name, part in module.named_parameters()
    }
    after = {name: part.expand(n, *part.shape).clone() for name, part in module.named_buffers()}
    x, y = torch.randn(n, batch, 2, 10, 10).to(DEVICE), torch.randint(0, 4, (n, batch)).to(DEVICE)

    def loss(parameters, buffers, x, y):
        found = functional.cross_entropy(functional_call(module, {**parameters, **buffers}, (x,)), y)
        return found, (found.detach(), {name: part.clone() for name, part in buffers.items()})

    return vmap(grad(loss, has_aux=True))(rows, after, x, y)


@pytest.mark.parametrize("batch", [1, 6])
def test_gradients_of_all_clients_are_those_of_the_layers(batch, by_kernels, monkeypatch):
    calls = []
    theirs = WAY.forward
    monkeypatch.setattr(WAY, "forward", lambda *given: calls.append(given[-1]) or theirs(*given))
    module = chain().to(DEVICE)
    found, (loss, _) = gradients(fused(module), batch=batch)
    assert calls == [True, False, True]
    wanted, (expected, _) = gradients(module, batch=batch)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-3, atol=2e-6)


@pytest.mark.parametrize(("batch", "kernel"), [(6, 3), (1, 10), (2, 10)])
def test_a_bias_that_a_norm_takes_away_is_not_added(batch, kernel, by_kernels, monkeypatch):
    """A single value has no variance, so that its norm takes nothing away."""
    torch.manual_seed(3)
    side = (11 - kernel) ** 2
    module = nn.Sequential(nn.Conv2d(2, 5, kernel), BatchNorm(5), nn.Flatten(), nn.Linear(5 * side, 4)).to(DEVICE)
    biases, theirs = [], convolutions._Convolved.over_rows
    monkeypatch.setattr(
        convolutions._Convolved, "over_rows", lambda *given: biases.append(given[2] is not None) or theirs(*given)
    )
    ours = fused(module)
    convolutions.multiply(ours)
    found, (loss, _) = gradients(ours, batch=batch)
    wanted, (expected, _) = gradients(module, batch=batch)
    alone = batch * side == 1
    assert biases == [False, *[True] * alone]
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-3, atol=2e-6)
    assert alone or not found["0.bias"].any()


def test_running_statistics_move_as_they_did(by_kernels):
    def running(n):
        return RunningNorm(n, momentum=0.3)

    module = chain(running).to(DEVICE)
    found, (_, moved) = gradients(fused(module))
    wanted, (_, expected) = gradients(module)
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-3, atol=2e-6)
    assert set(moved) == set(expected)
    for name in moved:
        torch.testing.assert_close(moved[name], expected[name], rtol=1e-5, atol=1e-6)


def test_a_frozen_running_norm_stays_as_it_is(by_kernels):
    module = chain(RunningNorm).to(DEVICE).eval()
    found, wanted = gradients(fused(module))[0], gradients(module)[0]
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name])


def test_padding_and_double_precision_are_left_to_the_layer(by_kernels, monkeypatch):
    monkeypatch.setattr(WAY, "forward", None)
    layer = nn.Sequential(BatchNorm(3), nn.ReLU()).to(DEVICE)
    ours, x, share = fused(layer), torch.randn(4, 3).to(DEVICE), torch.tensor([0.5, 0.5, 0, 0]).to(DEVICE)
    with counting([layer[0]], share), counting([ours[0]], share):
        torch.testing.assert_close(ours(x), layer(x))
    torch.testing.assert_close(fused(layer.double())(x.double()), layer(x.double()))


def test_one_model_alone_is_one_client(by_kernels):
    module, x = chain().to(DEVICE), torch.randn(5, 2, 10, 10).to(DEVICE)
    torch.testing.assert_close(fused(module)(x), module(x), rtol=1e-4, atol=1e-5)


def test_whoever_takes_a_chain_apart_sees_the_norm_alone(by_kernels):
    module = nn.Sequential(BatchNorm(3), nn.ReLU()).to(DEVICE)
    ours, x, seen = fused(module), torch.randn(8, 3).to(DEVICE), []
    torch.testing.assert_close(ours[0](x), module[0](x))
    torch.testing.assert_close(ours[:1](x), module[:1](x))
    ours[0].register_forward_hook(lambda layer, given, found: seen.append(found))
    torch.testing.assert_close(ours(x), module(x))
    torch.testing.assert_close(seen[0], module[0](x))


def test_nothing_is_fused_without_kernels(monkeypatch):
    monkeypatch.setattr(norms, "kernels", lambda name, device: None)
    assert not any("forward" in vars(part) for part in fused(chain()).modules())


@needs_gpu
def test_a_graph_replays_what_the_kernels_do():
    def both():
        out, mean, rstd = WAY.forward(x, weight, bias, EPS, True)
        return out, *WAY.backward(g, x, weight, bias, mean, rstd, True)

    x, g = (torch.randn(10, 5000, 28, device="cuda") for _ in range(2))
    weight, bias = (torch.rand(10, 28, device="cuda") for _ in range(2))
    both()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = both()
    x.normal_(), g.normal_()
    graph.replay()
    for found, wanted in zip(kept, both(), strict=True):
        assert torch.equal(found, wanted)
