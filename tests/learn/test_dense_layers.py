"""Compiled dense layers against double precision, for processors of every kind, and which chains use them."""

import platform
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedcell.learn.engines.cpu import dense_layers, native
from fedcell.learn.engines.cpu.kernels import Calls, Slot
from fedcell.learn.engines.cpu.native import DENSE, Native, gathered, library

compiled = pytest.mark.skipif(library(DENSE) is None, reason="no compiler")
PROCESSORS = ["native", *(["x86-64-v3", "x86-64"] if platform.machine() == "x86_64" else [])]
CHAIN = [nn.Linear(400, 300), nn.ReLU(), nn.Linear(300, 6)]
SIZES = [*range(1, 14), 16, 17, 20, 24, 25, 31, 32, 33, 40, 43, 64, 65, 130, 200]
WIDTHS = [1, 2, 3, 7, 10, 13, 15, 16, 17, 28, 29, 32, 33, 50, 64, 100, 129]
LONG_WIDTHS = [*WIDTHS, 256, 511, 513, 785, 1030]


@cache
def kernels_for(processor):
    """The kernels as another processor has them."""
    with pytest.MonkeyPatch.context() as patch:
        flags = (*(flag for flag in native.FLAGS if flag != "-march=native"), f"-march={processor}")
        patch.setattr(native, "FLAGS", flags)
        return library.__wrapped__(DENSE)


@pytest.fixture(params=PROCESSORS)
def processor(request, monkeypatch):
    found = kernels_for(request.param)
    monkeypatch.setattr(native, "library", lambda file: found)
    return request.param


@st.composite
def layers(draw):
    """x, weight, bias and what is sent back, in memory that begins anywhere and has something behind it."""
    n, n_out = draw(st.sampled_from(SIZES)), draw(st.sampled_from(WIDTHS))
    n_in = draw(st.sampled_from(LONG_WIDTHS))
    if draw(st.booleans()):
        n_in, n_out = n_out, n_in
    torch.manual_seed(draw(st.integers(0, 1000)))
    first = draw(st.integers(0, 3))
    shapes = (n, n_in), (n_out, n_in), (n_out,), (n, n_out)
    return [guarded(shape, first) for shape in shapes]


def guarded(shape, first=1):
    """Random numbers in the middle of a memory of sevens, so that whoever writes beside them is seen."""
    room = torch.full((first + torch.Size(shape).numel() + 40,), 7.0)
    view = room[first : first + torch.Size(shape).numel()].view(shape)
    return view.copy_(torch.randn(shape))


def untouched(view):
    whole = view.untyped_storage()
    room = torch.empty(0).set_(whole)
    begin = view.storage_offset()
    beside = torch.cat([room[:begin], room[begin + view.numel() :]])
    return bool((beside == 7).all())


def holds(found, exact, terms):
    """Within the rounding of a sum of so many terms of unit size."""
    torch.testing.assert_close(found, exact.float(), rtol=1e-5, atol=3e-6 * terms**0.5 + 1e-6)
    assert untouched(found)


@compiled
@pytest.mark.usefixtures("processor")
@settings(max_examples=120)
@given(layers(), st.booleans())
def test_layers_in_double_precision(given_layer, has_bias):
    x, weight, bias, sent = given_layer
    n, n_in, n_out = len(x), x.shape[1], len(weight)
    numbers = [n, n_in, n_out]
    y, by_input, by_weight, by_bias = (guarded(like.shape) for like in (sent, x, weight, bias))
    moved, rate = guarded(weight.shape), -0.3
    begun = moved.double()
    gathered(
        [
            Native(DENSE, "dense", numbers, x, weight, bias if has_bias else None, y),
            Native(DENSE, "dense_by_input", numbers, sent, weight, by_input),
            Native(DENSE, "dense_by_weight", numbers, sent, x, by_weight),
            Native(DENSE, "dense_moved", numbers, sent, x, moved, torch.tensor(rate)),
            Native(DENSE, "dense_by_bias", numbers, sent, by_bias),
        ]
    ).run()
    x, weight, bias, sent = (one.double() for one in (x, weight, bias, sent))
    holds(y, x @ weight.T + bias * has_bias, n_in)
    holds(by_input, sent @ weight, n_out)
    holds(by_weight, sent.T @ x, n)
    holds(moved, begun + rate * sent.T @ x, n)
    holds(by_bias, sent.sum(0), n)


@compiled
@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("size", [3, 33])
def test_what_a_step_has_besides_products(size):
    torch.manual_seed(1)
    x, labels = torch.randn(size, 19), torch.randint(0, 19, (size,))
    found, sent = torch.empty_like(x), torch.randn(size, 19)
    calls = Calls()
    dense_layers.error(calls, x, labels, found)
    cut, back = dense_layers.relu(calls, x.clone())
    towards = back(sent.clone())
    gathered(calls).run()
    exact = (torch.softmax(x.double(), 1) - nn.functional.one_hot(labels, 19)) / size
    torch.testing.assert_close(found, exact.float())
    assert torch.equal(cut, x.relu())
    assert torch.equal(towards, sent * (x > 0))


@compiled
def test_a_layer_moves_or_leaves_its_gradient():
    torch.manual_seed(2)
    x, sent = torch.randn(40, 70), torch.randn(40, 30)
    for gradient in (None, torch.empty(30, 70)):
        weight, bias = Slot(torch.randn(30, 70), gradient, 0.1), Slot(torch.randn(30), torch.empty(30), 0.1)
        begun, calls = weight.value.clone(), Calls()
        y, back = dense_layers.dense(calls, x, weight, bias, False)
        found = back(sent)
        gathered(calls).run()
        torch.testing.assert_close(y, x @ begun.T + bias.value)
        torch.testing.assert_close(found, sent @ begun)
        torch.testing.assert_close(bias.gradient, sent.sum(0))
        torch.testing.assert_close(weight.value, begun if gradient is not None else begun - 0.1 * sent.T @ x)
        if gradient is not None:
            torch.testing.assert_close(gradient, sent.T @ x)


@pytest.fixture
def _with_kernels(monkeypatch):
    """Any kernels, wide vectors, and a thread with a core of its own."""
    monkeypatch.setattr(dense_layers, "library", lambda file: object())
    monkeypatch.setattr(dense_layers, "widest", lambda file: dense_layers.WIDE_VECTORS)
    monkeypatch.setattr(dense_layers.torch, "get_num_threads", lambda: 1)


@pytest.mark.usefixtures("_with_kernels")
@pytest.mark.parametrize("size", [1, dense_layers.MOST, 1000])
def test_chains_of_wide_layers_use_them(size):
    assert dense_layers.wins(CHAIN, size)


@pytest.mark.usefixtures("_with_kernels")
def test_small_networks_are_not_worth_a_compiler(monkeypatch):
    assert not dense_layers.wins(CHAIN[2:], 1)
    monkeypatch.setattr(dense_layers, "library", lambda file: None)
    assert not dense_layers.wins(CHAIN, 1)


@pytest.mark.usefixtures("_with_kernels")
def test_a_single_client_with_every_core_has_them_for_small_batches(monkeypatch):
    monkeypatch.setattr(dense_layers.torch, "get_num_threads", lambda: 2)
    assert dense_layers.wins(CHAIN, dense_layers.MOST)
    assert not dense_layers.wins(CHAIN, dense_layers.MOST + 1)


@pytest.mark.usefixtures("_with_kernels")
def test_processors_with_short_vectors_have_them_for_small_batches(monkeypatch):
    monkeypatch.setattr(dense_layers, "widest", lambda file: dense_layers.WIDE_VECTORS // 2)
    assert dense_layers.wins(CHAIN, dense_layers.MOST)
    assert not dense_layers.wins(CHAIN, dense_layers.MOST + 1)


@pytest.mark.parametrize("n", [4, 10, 32, 200])
def test_a_step_is_added_to_weights_once(n, compiler):
    """Terms of a step are small beside a weight: added to it one by one, each would round."""
    sent, x, weight = torch.full((n, 40), 1e-3) * torch.rand(n, 40), torch.rand(n, 600), torch.ones(40, 600)
    wanted = weight.double() - 0.01 * sent.double().T @ x.double()
    native.Native(native.DENSE, "dense_moved", [n, 600, 40], sent, x, weight, torch.tensor(-0.01))()
    assert float((weight - wanted).abs().max()) < 4e-8, "half a unit in the last place"
