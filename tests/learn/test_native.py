"""Compiled kernels against PyTorch's."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedcell.learn.engines.cpu import native
from fedcell.learn.engines.cpu.native import lowering, norms
from fedcell.learn.engines.cpu.native.lowering import lowered

aten = torch.ops.aten
pytestmark = pytest.mark.usefixtures("compiler")


@pytest.fixture(autouse=True, scope="module")
def _small_groups():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowering, "LEAST_GROUPED", 1)
        yield


def images(*shape):
    return torch.randn(shape).contiguous(memory_format=torch.channels_last)


def room(like):
    """Of the same shape, filled with something else; images lie channels-last."""
    last = torch.channels_last if like.dim() == 4 else torch.preserve_format
    return torch.full_like(like, 7.0, memory_format=last)


def exact(func, *args):
    """What PyTorch finds in double precision; in single its kernels crash if padding goes far beyond narrow images."""
    found = func(*(one.double() if isinstance(one, torch.Tensor) else one for one in args))
    return [one.float() for one in (found if isinstance(found, tuple) else (found,)) if one is not None]


def played(func, *args):
    """What a compiled kernel finds, beside what PyTorch's does."""
    wanted = exact(func, *args)
    outs = [room(one) for one in wanted]
    calls = lowered(func, args, outs)
    assert calls is not None
    native.gathered(calls).run()
    return zip(outs, wanted, strict=True)


def check(pairs):
    for found, wanted in ((one, other.float()) for one, other in pairs):
        scale = float(wanted.abs().max()) + 1e-6
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=2e-5 * scale)


@st.composite
def convolutions(draw):
    """Images, weights, and the settings of a convolution that has at least one pixel."""
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    stride, padding, dilation = draw(pair), draw(st.tuples(st.integers(0, 3), st.integers(0, 3))), draw(pair)
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 5)))
    least = [max(1, gap * (size - 1) + 1 - 2 * pad) for gap, size, pad in zip(dilation, kernel, padding, strict=True)]
    height, width = (side + draw(st.integers(0, 9)) for side in least)
    n_in, n_out = draw(st.sampled_from([4, 8, 10, 16, 23, 40])), draw(st.sampled_from([5, 8, 16, 24, 50, 68, 80]))
    kind, groups = draw(st.sampled_from(["plain", "depthwise", "grouped"])), 1
    if kind == "grouped":
        groups, each = draw(st.sampled_from([(2, 3), (4, 2), (2, 20), (3, 16)]))
        n_in, n_out = groups * each, groups * draw(st.sampled_from([1, 4, 16, 21]))
    elif kind == "depthwise":
        groups, n_out = n_in, n_in
    torch.manual_seed(draw(st.integers(0, 1000)))
    x = images(draw(st.integers(1, 3)), n_in, height, width)
    return x, images(n_out, n_in // groups, *kernel), stride, padding, dilation, groups


@settings(max_examples=60)
@given(convolutions())
def test_convolutions(drawn):
    x, weight, stride, padding, dilation, groups = drawn
    assume(len(weight) >= norms.LEAST_CHANNELS)
    bias, plain = torch.randn(len(weight)), (False, [0, 0], groups)
    check(played(aten.convolution.default, x, weight, bias, stride, padding, dilation, *plain))
    (y,) = exact(aten.convolution.default, x, weight, bias, stride, padding, dilation, *plain)
    sent, wanted = images(*y.shape), [True, True, True]
    back = sent, x, weight, [len(weight)], stride, padding, dilation, *plain, wanted
    check(played(aten.convolution_backward.default, *back))


@settings(max_examples=40)
@given(convolutions(), st.data())
def test_transposed_convolutions(drawn, data):
    """The gradient by the input of the convolution that goes the other way, with a bias; its borders may be uneven."""
    seen, weight, stride, padding, dilation, groups = drawn
    (y,) = exact(aten.convolution.default, seen, weight, None, stride, padding, dilation, False, [0, 0], groups)
    more = [data.draw(st.integers(0, step - 1)) for step in stride]
    assume(len(weight) >= norms.LEAST_CHANNELS)
    own = groups == seen.shape[1] == len(weight)  # these have no bias that compiled kernels add
    x, bias = images(*y.shape), None if own else torch.randn(seen.shape[1])
    rest = stride, padding, dilation, True, more, groups
    steps = zip(y.shape[2:], stride, padding, dilation, weight.shape[2:], more, strict=True)
    assume(all((n - 1) * step - 2 * pad + gap * (size - 1) + 1 + extra > 0 for n, step, pad, gap, size, extra in steps))
    (wanted,) = exact(aten.convolution.default, x, weight, bias, *rest)
    check(played(aten.convolution.default, x, weight, bias, *rest))
    back = images(*wanted.shape), x, weight, [len(wanted[0])], *rest, [True, True, True]
    check(played(aten.convolution_backward.default, *back))


@st.composite
def tiled_convolutions(draw):
    """Kernels of 3 x 3 and 5 x 5 and steps of 1, with images that tiles may not fill."""
    kernel = draw(st.sampled_from([3, 5]))
    padding = draw(st.tuples(*[st.integers(0, kernel - 1)] * 2))
    least = lowering.LEAST_SIDE + kernel - 1
    sides = [draw(st.integers(max(lowering.LEAST_SIDE, least - 2 * pad), least + 7)) for pad in padding]
    n_in, n_out = (draw(st.sampled_from([16, 20, 24, 32, 57])) for _ in range(2))
    torch.manual_seed(draw(st.integers(0, 1000)))
    return images(draw(st.integers(1, 5)), n_in, *sides), images(n_out, n_in, kernel, kernel), padding


@settings(max_examples=80)
@given(tiled_convolutions(), st.booleans())
def test_convolutions_of_tiles(drawn, biased):
    (x, weight, padding), bias = drawn, torch.randn(len(drawn[1])) if biased else None
    rest = [1, 1], padding, [1, 1], False, [0, 0], 1
    assert lowering.kind_of(x, weight, lowering.How(*rest[:3], 1)) == lowering.WINOGRAD
    check(played(aten.convolution.default, x, weight, bias, *rest))
    (y,) = exact(aten.convolution.default, x, weight, bias, *rest)
    back = images(*y.shape), x, weight, [len(weight)], *rest, [True, True, True]
    check(played(aten.convolution_backward.default, *back))


def test_a_gradient_that_lies_otherwise_is_not_of_tiles():
    x, weight = images(2, 16, 6, 6), images(16, 16, 3, 3)
    rest = [1, 1], [1, 1], [1, 1], False, [0, 0], 1
    back = images(2, 16, 6, 6), x, weight, None, *rest, [True, True, False]
    outs = [room(x), torch.full((16, 16, 3, 3), 7.0), None]  # channels first
    native.gathered(lowered(aten.convolution_backward.default, back, outs)).run()
    check(zip(outs[:2], exact(aten.convolution_backward.default, *back), strict=True))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (3, 1, 0, 2)])
def test_relus_of_gradients_that_lie_otherwise(order):
    out, sent = images(3, 16, 5, 7).relu(), torch.randn([(3, 16, 5, 7)[axis] for axis in order])
    back = sent.permute([order.index(axis) for axis in range(4)])
    check(played(aten.threshold_backward.default, back, out, 0))
    check(played(aten.threshold_backward.default, torch.randn(3, 16, 1, 1).expand(3, 16, 5, 7), out, 0))


@settings(max_examples=60)
@given(st.data())
def test_max_pools(data):
    """Windows that overlap, lie apart, reach over the border or hold equals and what is no number; sums are exact."""
    kernel = data.draw(st.tuples(*[st.integers(1, 4)] * 2))
    stride, padding = (
        data.draw(st.tuples(*[st.integers(1, 4)] * 2)),
        [data.draw(st.integers(0, k // 2)) for k in kernel],
    )
    sides = [data.draw(st.integers(size, size + 7)) for size in kernel]
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    x = images(data.draw(st.integers(1, 3)), data.draw(st.sampled_from([4, 8, 16, 37])), *sides).round()
    x[torch.rand(x.shape) < data.draw(st.sampled_from([0, 0.1]))] = math.nan
    how = kernel, stride, padding, [1, 1], data.draw(st.booleans())
    wanted = aten.max_pool2d_with_indices.default(x, *how)
    found = [torch.full_like(one, 7, memory_format=torch.channels_last) for one in wanted]
    native.gathered(lowered(aten.max_pool2d_with_indices.default, (x, *how), found)).run()
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
    back = images(*wanted[0].shape).round(), x, *how, found[1]
    slope = aten.max_pool2d_with_indices_backward.default(*back)
    outs = [room(x)]
    native.gathered(lowered(aten.max_pool2d_with_indices_backward.default, back, outs)).run()
    torch.testing.assert_close(outs[0], slope, rtol=0, atol=0)


@pytest.mark.parametrize("n_in", [1, 3])
def test_the_first_convolution_sees_few_channels(n_in):
    x, weight = images(4, n_in, 9, 7), images(16, n_in, 3, 3)
    rest = (1, 1), (1, 1), (1, 1), False, [0, 0], 1
    check(played(aten.convolution.default, x, weight, None, *rest))
    back = images(4, 16, 9, 7), x, weight, None, *rest, [False, True, False]
    found = torch.full_like(weight, 7.0)
    native.gathered(lowered(aten.convolution_backward.default, back, [None, found, None])).run()
    check([(found, *exact(aten.convolution_backward.default, *back))])


@settings(max_examples=30)
@given(
    st.integers(1, 3), st.sampled_from([(8, 2), (16, 1), (24, 8), (20, 5), (64, 64)]), st.integers(2, 6), st.booleans()
)
def test_group_norms(n, shape, side, relu):
    """Beside double precision: PyTorch's variances of few values are less exact."""
    channels, groups = shape
    x, gamma, beta = 3 * images(n, channels, side, side + 1) + 1, torch.randn(channels), torch.randn(channels)
    sizes, exact = (n, channels, side * (side + 1), groups), [one.double() for one in (x, gamma, beta)]
    y, mean, rstd = aten.native_group_norm.default(*exact, *sizes, 1e-5)
    wanted = [one.float() for one in (y.relu() if relu else y, mean, rstd)]
    found = [room(one) for one in wanted]
    args = (x, gamma, beta, *sizes, 1e-5, *([math.inf] if relu else []))
    native.gathered(lowered(aten.native_group_norm.default, args, found)).run()
    check(zip(found, wanted, strict=True))
    sent = images(*x.shape)
    passed = torch.where(wanted[0] > 0, sent, 0.0) if relu else sent
    exact = [one.double() for one in (passed, x, mean, rstd, gamma)]
    slopes = [one.float() for one in aten.native_group_norm_backward.default(*exact, *sizes, [True] * 3)]
    found = [room(one) for one in slopes]
    args = (
        sent,
        x,
        *(one.float() for one in (mean, rstd)),
        gamma,
        *sizes,
        [True] * 3,
        *([math.inf, wanted[0]] if relu else []),
    )
    native.gathered(lowered(aten.native_group_norm_backward.default, args, found)).run()
    scale = float(max(one.abs().max() for one in slopes))
    for one, other in zip(found, slopes, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * scale)


SHAPES = [(3, 8, 4, 5), (2, 24, 1, 7), (1, 16, 3, 3), (6, 40), (5, 16, 9), (4, 5, 3, 4), (3, 115, 2, 3), (9, 10)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("most", [0, 0.5, math.inf])  # that a ReLU lets through; 0: there is none
@pytest.mark.parametrize("running", [False, True])
def test_batch_norms(shape, most, running):
    torch.manual_seed(0)
    channels = shape[1]
    x, sent = (torch.randn(shape[0], *shape[2:], channels).movedim(-1, 1) for _ in range(2))
    x = 3 * x + 50  # far from zero, as sums of squares do not like it
    given = [torch.randn(channels), torch.randn(channels), *(2 * torch.rand(2, channels) if running else [None, None])]
    precise = [None if one is None else one.double() for one in given]
    y, mean, rstd = aten.native_batch_norm.default(x.double(), *precise, True, 0.3, 1e-5)
    wanted = [one.float() for one in (y.clamp(0, most) if most else y, mean, rstd)]
    found = [torch.full_like(one, 7.0) for one in (x, *wanted[1:])]
    then = [most] if most else []
    native.gathered(lowered(aten.native_batch_norm.default, (x, *given, True, 0.3, 1e-5, *then), found)).run()
    check(zip([*found, *given[2:]] if running else found, [*wanted, *precise[2:]] if running else wanted, strict=True))
    passed = torch.where((wanted[0] > 0) & (wanted[0] < most), sent, 0.0) if most else sent
    rest = (
        given[0],
        None,
        None,
        mean.float(),
        rstd.float(),
        True,
        1e-5,
        [True] * 3,
        *([most, found[0]] if most else []),
    )
    exactly = passed.double(), x.double(), precise[0], None, None, mean, rstd, True, 1e-5, [True] * 3
    slopes = [one.float() for one in aten.native_batch_norm_backward.default(*exactly)]
    found = [torch.full_like(one, 7.0) for one in (x, *slopes[1:])]
    native.gathered(lowered(aten.native_batch_norm_backward.default, (sent.clone(), x, *rest), found)).run()
    again = [torch.full_like(one, 7.0) for one in found]
    anew = (*rest[:-1], None, given[1]) if most else rest  # finds anew what the ReLU let through
    native.gathered(lowered(aten.native_batch_norm_backward.default, (sent.clone(), x, *anew), again)).run()
    for one, other, third in zip(found, slopes, again, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * float(other.abs().max()))
        assert torch.equal(one, third)
