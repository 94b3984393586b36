"""Layers on blocks of samples against double precision, and which layers go that way."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from fedcell.learn.engines.cpu import native
from fedcell.learn.engines.cpu.kernels import Calls, Slot
from fedcell.learn.engines.cpu.native import lanes

pytestmark = pytest.mark.skipif(native.library(native.LANES) is None, reason="no compiler")


@st.composite
def stages(draw, shape):
    """A convolution that has a pixel left, with a pool that has one, too."""
    kernel, stride, padding = (draw(st.tuples(st.integers(least, most), st.integers(least, most)))
                               for least, most in ((1, 5), (1, 3), (0, 3)))  # fmt: skip
    kernel = tuple(min(size, side + 2 * pad) for size, side, pad in zip(kernel, shape[1:], padding, strict=True))
    layer = nn.Conv2d(shape[0], draw(st.integers(1, 9)), kernel, stride, padding, bias=draw(st.booleans()))
    sides = [(side + 2 * pad - size) // step + 1
             for side, pad, size, step in zip(shape[1:], padding, kernel, stride, strict=True)]  # fmt: skip
    pool = draw(st.none() | st.tuples(*(st.integers(1, min(3, side)) for side in sides)))
    stage = lanes.Stage(layer, pool, draw(st.booleans()), 0)
    return stage, (layer.out_channels, *(side // size for side, size in zip(sides, pool or (1, 1), strict=True)))


@st.composite
def cases(draw):
    """Samples and one or two stages."""
    shape = tuple(draw(st.integers(1, most)) for most in (5, 13, 21))
    x = torch.Size((draw(st.integers(1, 37)), *shape))
    found = []
    torch.manual_seed(draw(st.integers(0, 1000)))
    for _ in range(draw(st.integers(1, 2))):
        stage, shape = draw(stages(shape))
        found.append(stage)
    return torch.randn(x), found


def slots(stage, gradients):
    weight = stage.layer.weight.detach()
    lying = weight.contiguous(memory_format=torch.channels_last) if len(gradients) % 2 else weight
    own = [Slot(lying, torch.full_like(lying, 7.0), 0.1)]
    own.append(
        None if stage.layer.bias is None else Slot(stage.layer.bias.detach(), torch.full((len(weight),), 7.0), 0.1)
    )
    gradients += [one.gradient for one in own if one is not None]
    return tuple(own)


def found_by_blocks(x, parts, flat, sent):
    """The output of some stages and their gradients, for what is sent back."""
    calls, gradients = Calls(), []
    y, back = lanes.layers(calls, x, parts, [slots(stage, gradients) for stage in parts], flat)
    towards = sent.reshape(y.shape)
    back(towards if flat else towards.contiguous(memory_format=torch.channels_last))
    native.gathered(calls).run()
    return [y.reshape(sent.shape), *gradients]


def exactly(x, parts, sent=None):
    """The same in double precision by autograd; with no `sent` the output alone."""
    values = [value.detach().double().requires_grad_() for stage in parts for value in stage.layer.parameters()]
    left, y = iter(values), x.double()
    for stage in parts:
        bias = stage.layer.bias is not None
        y = functional.conv2d(y, next(left), next(left) if bias else None, stage.layer.stride, stage.layer.padding)
        y = functional.max_pool2d(y, stage.pool) if stage.pool else y
        y = y.relu() if stage.relu else y
    return [y.detach(), *torch.autograd.grad(y, values, sent.double())] if sent is not None else y


def check(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        scale = float(other.abs().max()) + 1e-6
        torch.testing.assert_close(one, other.float(), rtol=1e-4, atol=2e-5 * scale)


def in_eighths(numbers):
    return (8 * numbers).round() / 8


@settings(max_examples=150)
@given(cases(), st.booleans())
def test_layers(case, flat):
    """Numbers whose sums are exact, so that no ReLU or max-pool chooses otherwise in double precision."""
    x, parts = in_eighths(case[0]), case[1]
    for value in (value for stage in parts for value in stage.layer.parameters()):
        value.data = in_eighths(2 * value.data)
    sent = torch.randn(exactly(x, parts).shape)
    check(found_by_blocks(x, parts, flat, sent), exactly(x, parts, sent))


@settings(max_examples=40)
@given(st.integers(1, 20), st.booleans(), st.integers(0, 1000))
def test_the_first_of_equals_counts(n, relu, seed):
    """Whole numbers, so that maxima are shared all the time and sums are exact."""
    torch.manual_seed(seed)
    layer = nn.Conv2d(2, 3, 3, padding=1)
    for value in layer.parameters():
        value.data = torch.randint(-1, 2, value.shape).float()
    parts, x = [lanes.Stage(layer, (2, 3), relu, 0)], torch.randint(0, 2, (n, 2, 7, 9)).float()
    sent = torch.randint(-3, 4, exactly(x, parts).shape).float()
    for one, other in zip(found_by_blocks(x, parts, True, sent), exactly(x, parts, sent), strict=True):
        torch.testing.assert_close(one, other.float(), rtol=0, atol=0)


@pytest.mark.parametrize("pool", [None, (2, 2)])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_stays_in_its_sample(pool, value):
    """Of windows of several, the last counts; the other samples know nothing of it."""
    torch.manual_seed(3)
    parts, x = [lanes.Stage(nn.Conv2d(2, 3, 1), pool, True, 0)], torch.randn(5, 2, 6, 6)
    x[1, 0, 2, 3] = x[1, 1, 2, 2] = x[3, 0, 0, 0] = value
    sent = torch.randn(exactly(x, parts).shape)
    found, wanted = found_by_blocks(x, parts, True, sent), exactly(x, parts, sent)
    assert not wanted[1].isfinite().all()
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other.float(), rtol=1e-4, atol=1e-4, equal_nan=True)


def taken(chain, n, image):
    return [stage.layer.out_channels for stage in lanes.stages(chain, torch.Size((n, *image)))]


def test_which_layers_go_by_blocks():
    pool, relu, end = nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()
    lenet = [nn.Conv2d(1, 6, 5), pool, relu, nn.Conv2d(6, 16, 5), pool, relu, end]
    assert taken(lenet, 1, (1, 28, 28)) == taken(lenet, 300, (1, 28, 28)) == [6, 16]
    assert [stage.n_parts for stage in lanes.stages(lenet, torch.Size((4, 1, 28, 28)))] == [3, 3]
    wide = [nn.Conv2d(1, 32, 5), pool, nn.Conv2d(32, 64, 5), relu, end]
    assert taken(wide, 32, (1, 28, 28)) == [32]
    assert taken(wide, 10, (1, 28, 28)) == []
    assert taken([nn.Conv2d(8, 6, 3, dilation=2), end], 8, (8, 9, 9)) == []
    assert taken([nn.Conv2d(8, 6, 3, groups=2), end], 8, (8, 9, 9)) == []
    assert taken([relu, *lenet], 8, (1, 28, 28)) == []
    assert taken([end], 8, (1, 28, 28)) == []


def test_without_a_compiler_none_does(monkeypatch):
    monkeypatch.setattr(lanes, "library", lambda file: None)
    assert taken([nn.Conv2d(1, 6, 5), nn.Flatten()], 8, (1, 28, 28)) == []
