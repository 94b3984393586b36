"""Convolutions as products of patches, and max-pools, for many clients at once.

Kernels run on a GPU, or without one in Triton's interpreter, if TRITON_INTERPRET=1; what needs none runs anywhere.
"""

import copy
import os
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from fedcell.learn.engines.gpu import convolutions, pools
from fedcell.learn.engines.gpu.joining import ChannelsLast
from fedcell.machine import precision

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
CAN = find_spec("triton") is not None and (ON_GPU or os.environ.get("TRITON_INTERPRET") == "1")
needs_triton = pytest.mark.skipif(not CAN, reason="needs Triton, and a CUDA GPU or TRITON_INTERPRET=1")
needs_gpu = pytest.mark.skipif(not (CAN and ON_GPU), reason="needs a CUDA GPU and Triton")
either_way = pytest.mark.parametrize("way", ["plain", pytest.param("kernels", marks=needs_triton)])
ONE = (1, 1)


@cache
def kernel(name):
    return import_module(f"fedcell.learn.engines.gpu.kernels.{name}")


@contextmanager
def using(way):
    """Patches by the kernel, or without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolutions, "kernels", lambda name, device: kernel(name) if way == "kernels" else None)
        yield


def apart(found, wanted):
    return float((found.double() - wanted).norm().detach() / wanted.norm().detach().clamp(min=1e-12))


# ---------------------------------------------------------------- patches


def looped(images, kernel, stride, around, apart):
    """Patches by their definition, place by place and tap by tap."""
    _, _, *sides, _ = images.shape
    whole = [(side - 1) * apart[d] + 1 + around[2 * d] + around[2 * d + 1] for d, side in enumerate(sides)]
    found = []
    for corner in product(*(range(0, whole[d] - kernel[d] + 1, stride[d]) for d in (0, 1))):
        for tap in product(*map(range, kernel)):
            at = [corner[d] + tap[d] - around[2 * d] for d in (0, 1)]
            there = all(0 <= at[d] < sides[d] * apart[d] and at[d] % apart[d] == 0 for d in (0, 1))
            pixel = (
                images[:, :, at[0] // apart[0], at[1] // apart[1]] if there else torch.zeros_like(images[:, :, 0, 0])
            )
            found.append(pixel)
    taps = kernel[0] * kernel[1]
    return torch.stack(found, dim=2).unflatten(2, (-1, taps)).flatten(1, 2).flatten(2)


PATCHES = [  # images, kernel, stride, around, apart
    ((2, 3, 6, 7, 3), (5, 5), ONE, (2, 2, 2, 2), ONE),
    ((2, 3, 5, 6, 4), (3, 3), ONE, (1, 1, 1, 1), ONE),
    ((2, 3, 6, 7, 6), (3, 3), (2, 2), (1, 1, 1, 1), ONE),
    ((2, 1, 4, 5, 144), (3, 2), ONE, (2, 2, 1, 1), (2, 3)),
    ((1, 2, 5, 6, 130), (3, 3), (2, 1), (1, 1, 0, 0), ONE),
    ((1, 2, 4, 3, 3), (3, 3), ONE, (2, 3, 2, 2), (2, 2)),
    ((1, 2, 4, 3, 3), (3, 3), ONE, (2, 3, 0, 1), (2, 1)),
    ((2, 2, 7, 5, 28), ONE, ONE, (0, 0, 0, 0), ONE),
    ((2, 2, 7, 5, 2), ONE, (3, 2), (0, 0, 0, 0), ONE),
    ((2, 2, 7, 5, 5), (2, 2), ONE, (-1, -1, 1, 2), ONE),
    ((1, 2, 3, 4, 2), (2, 1), (2, 1), (-1, 0, -2, -1), (3, 2)),
]


@either_way
@pytest.mark.parametrize("case", PATCHES, ids=str)
def test_patches_are_what_a_convolution_sees(case, way):
    shape, *how = case
    images = torch.randn(shape).to(DEVICE)
    images[0, -1, 1, 2, 0] = torch.nan  # what is not a number stays where it is
    with using(way):
        found = convolutions.patches(images, *how)
    torch.testing.assert_close(found, looped(images, *how), rtol=0, atol=0, equal_nan=True)


side, step = st.integers(1, 6), st.integers(1, 3)
FEW = settings(max_examples=20)


@either_way
@FEW
@given(
    shape=st.tuples(st.integers(1, 2), st.integers(1, 3), side, side, st.integers(1, 9)),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(step, step),
    around=st.tuples(*[st.integers(-2, 4)] * 4),
    apart=st.tuples(step, step),
)
def test_patches_of_any_shape(way, shape, kernel, stride, around, apart):
    for d in (0, 1):
        before, behind, whole = around[2 * d], around[2 * d + 1], (shape[2 + d] - 1) * apart[d] + 1
        assume(whole + before + behind >= kernel[d] and whole + min(before, 0) + min(behind, 0) > 0)
    images = torch.randn(shape).to(DEVICE)
    with using(way):
        found = convolutions.patches(images, kernel, stride, around, apart)
    assert torch.equal(found, looped(images, kernel, stride, around, apart))


@either_way
def test_patches_are_those_of_unfold(way):
    images = torch.randn(2, 3, 9, 7, 5).to(DEVICE)
    with using(way):
        found = convolutions.patches(images, (3, 2), (2, 1), (1, 1, 2, 2))
    flat = images.flatten(0, 1).movedim(-1, 1)
    wanted = functional.unfold(flat, (3, 2), stride=(2, 1), padding=(1, 2))  # [n, channels * taps, places]
    wanted = wanted.unflatten(1, (5, 6)).permute(0, 3, 2, 1)
    assert torch.equal(found, wanted.reshape(2, -1, 30))


@needs_triton
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_patches_keep_their_precision(dtype):
    images, how = torch.randn(2, 2, 5, 6, 6).to(DEVICE, dtype), ((3, 3), (1, 2), (1, 1, 0, 2))
    with using("kernels"):
        found = convolutions.patches(images, *how)
    assert found.dtype == dtype
    assert torch.equal(found, looped(images, *how, ONE))


# ---------------------------------------------------------------- convolutions

LAYERS = {
    "even and odd": lambda: nn.Conv2d(3, 5, (3, 2), padding=1),
    "steps": lambda: nn.Conv2d(3, 4, 3, stride=(2, 3), padding=(1, 0)),
    "unseen pixels": lambda: nn.Conv2d(3, 2, (2, 3), stride=(3, 2)),
    "padded beyond the kernel": lambda: nn.Conv2d(3, 3, (2, 3), stride=2, padding=(4, 3)),
    "single pixels": lambda: nn.Conv2d(3, 6, 1),
    "single pixels, apart": lambda: nn.Conv2d(3, 6, 1, stride=2),
    "single pixels, padded": lambda: nn.Conv2d(3, 2, 1, padding=(1, 2)),
    "no bias": lambda: nn.Conv2d(3, 5, 3, padding=1, bias=False),
    "whole image": lambda: nn.Conv2d(3, 4, (7, 8)),
}
MODES = {torch.float64: 1e-13, torch.float32: 1e-6}


def clients(layer, shape, n_models=3, dtype=torch.float64):
    """Parameters and images of several clients, and what falls back on each result."""
    values = {name: torch.randn(n_models, *part.shape) for name, part in layer.named_parameters()}
    x = torch.randn(n_models, *shape)
    towards = torch.randn(n_models, *layer(torch.zeros(shape)).shape)
    return *({name: part.to(DEVICE, dtype) for name, part in values.items()}, x.to(DEVICE, dtype)), towards.to(
        DEVICE, dtype
    )


def multiplied(layer):
    found = copy.deepcopy(layer)
    convolutions.multiply(found)
    assert "forward" in vars(found)
    return found


def gradients(layer, values, x, towards, in_dims=0):
    """Of parameters and images, and the results, of all clients at once."""

    def loss(values, x, towards):
        found = functional_call(layer, values, (x,))
        return (found * towards).sum(), found

    return vmap(grad(loss, argnums=(0, 1), has_aux=True), in_dims=in_dims)(values, x, towards)


def exact(layer, values, x, towards):
    """The same of one client by PyTorch's convolution, in double precision."""
    asked = {name: part.double().requires_grad_() for name, part in values.items()}
    x = x.double().requires_grad_()
    found = functional.conv2d(x, asked["weight"], asked.get("bias"), layer.stride, layer.padding)
    *slopes, images = torch.autograd.grad(found, [*asked.values(), x], towards.double())
    return dict(zip(asked, slopes, strict=True)), images, found


def agree(layer, parts, result, most):
    """The result of all clients with that of each alone."""
    values, x, towards = parts
    (slopes, images), found = result
    assert set(slopes) == set(values)
    for row in range(len(towards)):
        wanted = exact(layer, {name: part[row] for name, part in values.items()}, x[row], towards[row])
        for name in slopes:
            assert apart(slopes[name][row], wanted[0][name]) < most
        assert apart(images[row], wanted[1]) < most
        assert apart(found[row], wanted[2]) < most


@either_way
@pytest.mark.parametrize("dtype", MODES, ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_every_client_alone(name, dtype, way):
    layer = LAYERS[name]()
    parts = clients(layer, (2, 3, 7, 8), dtype=dtype)
    with using(way):
        agree(layer, parts, gradients(multiplied(layer), *parts), MODES[dtype])


@either_way
@FEW
@given(
    sides=st.tuples(side, side),
    channels=st.tuples(st.integers(1, 6), st.integers(1, 5)),
    n=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(step, step),
    padding=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    bias=st.booleans(),
)
def test_gradients_of_any_shape(way, sides, channels, n, kernel, stride, padding, bias):
    assume(all(sides[d] + 2 * padding[d] >= kernel[d] for d in (0, 1)))
    layer = nn.Conv2d(*channels, kernel, stride, padding, bias=bias)
    parts = clients(layer, (n[1], channels[0], *sides), n_models=n[0])
    with using(way):
        agree(layer, parts, gradients(multiplied(layer), *parts), 1e-11)


@either_way
def test_clients_may_share_images_or_filters(way):
    layer = nn.Conv2d(3, 4, 3, padding=1)
    values, x, towards = clients(layer, (2, 3, 5, 6))
    with using(way):
        found = gradients(multiplied(layer), values, x[0], towards, in_dims=(0, None, 0))
        agree(layer, (values, x[:1].expand_as(x), towards), found, 1e-13)
        one = {"weight": values["weight"][0], "bias": values["bias"]}
        found = gradients(multiplied(layer), one, x, towards, in_dims=({"weight": None, "bias": 0}, 0, 0))
    same = {"weight": values["weight"][:1].expand_as(values["weight"]), "bias": values["bias"]}
    agree(layer, (same, x, towards), found, 1e-13)


@either_way
@pytest.mark.parametrize("name", ["steps", "single pixels"])
def test_one_model_alone_is_one_client(name, way):
    layer = LAYERS[name]()
    values, x, towards = (part[0] if torch.is_tensor(part) else part for part in clients(layer, (2, 3, 7, 8)))
    own = multiplied(layer).to(x)
    own.load_state_dict({name: part[0] for name, part in values.items()})
    x = x.to(memory_format=torch.channels_last).requires_grad_()
    with using(way):
        found = own(x)
        *slopes, images = torch.autograd.grad(found, [*own.parameters(), x], towards)
    parts = {name: part[None].detach() for name, part in own.named_parameters()}
    result = (dict(zip(parts, [one[None] for one in slopes], strict=True)), images[None]), found[None]
    agree(layer, (parts, x.detach()[None], towards[None]), result, 1e-13)


def test_images_that_nobody_asks_for_have_no_gradient(monkeypatch):
    made, theirs = [], convolutions.patches
    monkeypatch.setattr(convolutions, "patches", lambda *how: made.append(how[0].shape[-1]) or theirs(*how))
    net = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.Tanh(), nn.Conv2d(3, 4, 3))
    values = {name: part.detach().expand(2, *part.shape) for name, part in net.named_parameters()}
    x = torch.randn(2, 5, 2, 6, 6)
    convolutions.multiply(net)
    vmap(grad(lambda values, x: functional_call(net, values, (x,)).square().sum()))(values, x)
    assert made == [2, 3, 4]  # channels: forward through both layers, and back through the second one alone


@pytest.mark.parametrize(
    ("n_models", "n", "pieces"),
    [(1, 2048, 8), (1, 2050, 2), (3, 4096, 16), (1, 511, 1), (264, 1024, 1), (140, 1024, 2)],
)
def test_long_sums_are_cut(n_models, n, pieces, monkeypatch):
    asked, theirs = [], torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda *given: asked.append(len(given[0])) or theirs(*given))
    left, right = torch.randn(n_models, n, 3, dtype=torch.double), torch.randn(n_models, n, 5, dtype=torch.double)
    found = convolutions._long_product(left, right)
    assert asked == [n_models * pieces]
    assert apart(found, torch.einsum("mni,mnj->mij", left, right)) < 1e-11


@FEW
@given(st.integers(1, 3), st.integers(1, 40), st.integers(1, 4), st.integers(1, 4))
def test_sums_of_any_length_are_those_of_a_product(n_models, n, inwards, outwards):
    left, right = (torch.randn(n_models, n, width, dtype=torch.double) for width in (inwards, outwards))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolutions, "LEAST", 2)
        found = convolutions._long_product(left, right)
    assert apart(found, torch.einsum("mni,mnj->mij", left, right)) < 1e-11


@either_way
def test_autocast_rounds_what_a_convolution_is_given(way):
    """In the backward pass, too, which runs outside of it."""
    layer = nn.Conv2d(3, 4, 3, padding=1).to(DEVICE)
    x, towards = torch.randn(2, 3, 6, 6).to(DEVICE).requires_grad_(), torch.randn(2, 4, 6, 6).to(DEVICE)
    ours = multiplied(layer)
    with using(way):
        with torch.autocast(DEVICE.type, torch.bfloat16):
            found = ours(x)
        slopes = torch.autograd.grad(found, [x, *ours.parameters()], towards.bfloat16())
    assert found.dtype == torch.bfloat16
    rounded = [part.detach().bfloat16().double().requires_grad_() for part in (x, layer.weight, layer.bias)]
    wanted = functional.conv2d(*rounded, padding=1)
    assert apart(found, wanted) < 4e-3
    for one, other in zip(slopes, torch.autograd.grad(wanted, rounded, towards.bfloat16().double()), strict=True):
        assert one.dtype == torch.float32
        assert apart(one, other) < 4e-3


@pytest.mark.parametrize(
    "how", [{"groups": 2}, {"dilation": 2}, {"padding_mode": "reflect", "padding": 1}, {"padding": "same"}], ids=str
)
def test_other_convolutions_stay_as_they_are(how):
    layer = nn.Conv2d(4, 4, 3, **how)
    convolutions.multiply(layer)
    assert "forward" not in vars(layer)


def test_a_convolution_that_is_fused_stays_so():
    layer = nn.Conv2d(4, 4, 3)
    layer.forward = other = lambda x: x
    convolutions.multiply(nn.Sequential(layer))
    assert layer.forward is other


# ---------------------------------------------------------------- joined channels


class Joined(nn.Module):
    """Two convolutions side by side, joined, and one behind."""

    def __init__(self, join):
        super().__init__()
        self.left, self.right, self.last = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(9, 2, 1)
        self.join, self.seen = join, []

    def forward(self, x):
        both = self.join(self.left(x), self.right(x))
        self.seen.append(both)
        return self.last(both)


JOINS = {
    "cat": lambda *parts: torch.cat(parts, 1),
    "by name": lambda *parts: torch.concat(parts, dim=-3),
    "twice": lambda one, two: torch.cat([torch.cat([one, two], dim=1)], dim=1),
}


@either_way
@pytest.mark.parametrize("name", JOINS)
def test_joined_images_stay_channels_last(name, way):
    torch.manual_seed(3)
    module = Joined(JOINS[name]).double()
    values = {key: torch.randn(3, *part.shape, dtype=torch.float64) for key, part in module.named_parameters()}
    x = torch.randn(3, 2, 3, 6, 5, dtype=torch.float64)

    def loss(parts, images):
        return functional_call(module, parts, (images,)).square().sum()

    wanted = [grad(loss)({key: part[row] for key, part in values.items()}, x[row]) for row in range(3)]
    convolutions.multiply(module)
    with using(way), ChannelsLast():
        found = vmap(grad(loss))(values, x)
        vmap(lambda parts, images: functional_call(module, parts, (images,)))(values, x)
    for key, part in found.items():
        for row in range(3):
            assert apart(part[row], wanted[row][key]) < 1e-12
    assert torch.func.debug_unwrap(module.seen[-1]).movedim(2, -1).is_contiguous()


def test_other_joins_are_those_of_pytorch():
    images = [torch.randn(2, n, 4, 4) for n in (3, 5)]
    rows, into = torch.randn(2, 3), torch.empty(2, 8, 4, 4)
    with ChannelsLast():
        assert torch.cat(images, 1).permute(0, 2, 3, 1).is_contiguous()
        assert torch.equal(torch.cat([rows, rows], 1), torch.hstack([rows, rows]))
        assert torch.cat([images[0], images[0]]).is_contiguous()
        assert torch.cat(images, 1, out=into) is into
    assert torch.cat(images, 1).is_contiguous()


@either_way
def test_a_part_of_the_channels_is_read_where_it_lies(way):
    """The way back of a join hands out parts of its gradient, which nobody copies."""
    whole = torch.randn(2, 3, 4, 5, 12, dtype=torch.float64).movedim(-1, 2)
    for part, stays in ((whole[:, :, 2:6], True), (whole, True), (whole[:, :, :, 1:], False), (whole.mT, False)):
        places = convolutions._places(part)
        assert torch.equal(places.movedim(-1, 2), part)
        assert (places.data_ptr() == part.data_ptr()) == stays
        with using(way):
            assert torch.equal(convolutions.patches(places, ONE, ONE, (0, 0, 0, 0)), places.flatten(1, 3))
            shown = convolutions.patches(places, (3, 3), ONE, (1, 1, 1, 1))
            assert torch.equal(shown, convolutions.patches(places.contiguous(), (3, 3), ONE, (1, 1, 1, 1)))


# ---------------------------------------------------------------- max-pools


def kept(images):
    """In plain PyTorch what the kernels do."""
    width = images.shape[2]
    found, at = functional.max_pool2d(images.movedim(-1, 1).contiguous(), 2, return_indices=True)
    place = at // width % 2 * 2 + at % width % 2
    return tuple(part.movedim(1, -1).contiguous() for part in (found, place.to(torch.int8)))


def spread(towards, place, height, width):
    n, rows, columns, channels = towards.shape
    found = towards.new_zeros(n, height, width, channels)
    for window in range(4):
        at = slice(window // 2, 2 * rows, 2), slice(window % 2, 2 * columns, 2)
        found[:, at[0], at[1]] = torch.where(place == window, towards, 0.0)
    return found


PLAIN = SimpleNamespace(forward=kept, backward=spread)


@pytest.fixture(params=["plain", pytest.param("kernels", marks=needs_triton)])
def way(request, monkeypatch):
    found = PLAIN if request.param == "plain" else kernel("max_pool")
    monkeypatch.setattr(pools, "kernels", lambda name, device: found if name == "max_pool" else None)
    return found


ODD = {"not a number": torch.nan, "infinite": -torch.inf}
POOLED = [(3, 6, 8, 28), (2, 5, 7, 3), (2, 2, 2, 130), (4, 4, 4, 6), (1, 3, 2, 64)]


@pytest.mark.parametrize("shape", POOLED, ids=str)
@pytest.mark.parametrize("kind", ["plain", "ties", *ODD])
def test_pools_keep_what_pytorch_keeps(kind, shape, way):
    """Of ties the first, and what is not a number wherever it is."""
    images = torch.randn(shape) if kind == "plain" else torch.randint(-2, 1, shape).float()
    if kind in ODD:
        images[torch.rand(shape) < 0.4] = ODD[kind]
    agrees_with_pytorch(way, images.to(DEVICE))


@FEW
@given(shape=st.tuples(st.integers(1, 3), st.integers(2, 7), st.integers(2, 7), st.integers(1, 9)), ties=st.booleans())
@needs_triton
def test_pools_of_any_shape(shape, ties):
    images = torch.randint(-1, 2, shape).float() if ties else torch.randn(shape)
    agrees_with_pytorch(kernel("max_pool"), images.to(DEVICE))


def agrees_with_pytorch(way, images):
    found, place = way.forward(images)
    x = images.movedim(-1, 1).contiguous().requires_grad_()
    wanted = functional.max_pool2d(x, 2)
    towards = torch.randn_like(wanted)
    wanted.backward(towards)
    back = way.backward(towards.movedim(1, -1).contiguous(), place, *images.shape[1:3])
    torch.testing.assert_close(found.movedim(-1, 1), wanted, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(back.movedim(-1, 1), x.grad)


class Pooled(nn.Module):
    """Two pools of odd images, and one that stays as it is; no chain of layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 5, 3, padding=1), nn.Conv2d(5, 5, 3, padding=1)
        self.halves, self.last = nn.MaxPool2d(2), nn.MaxPool2d((2, 2), stride=2)
        self.other, self.scores = nn.MaxPool2d(3, stride=1, padding=1), nn.Linear(20, 4)

    def forward(self, x):
        x = self.halves(self.first(x))
        return self.scores(self.last(x.tanh() + self.other(self.second(x))).flatten(1))


def both(module, n=3):
    """What every client loses, and its gradients."""
    torch.manual_seed(7)
    values = {name: part + 0.1 * torch.randn(n, *part.shape).to(part) for name, part in module.state_dict().items()}
    x, y = torch.randn(n, 4, 2, 11, 9).to(DEVICE), torch.randint(0, 4, (n, 4)).to(DEVICE)

    def loss(values, x, y):
        found = functional.cross_entropy(functional_call(module, values, (x,)), y)
        return found, found.detach()

    with precision(tf32=False):
        return vmap(grad(loss, has_aux=True))(values, x, y)


def fused(module):
    found = copy.deepcopy(module)
    pools.fuse_pools(found, DEVICE)
    return found


def test_a_network_with_fused_pools_has_the_same_gradients(way, monkeypatch):
    made, theirs = [], (way.forward, way.backward)
    monkeypatch.setattr(way, "forward", lambda *given: made.append("forward") or theirs[0](*given))
    monkeypatch.setattr(way, "backward", lambda *given: made.append("backward") or theirs[1](*given))
    module = Pooled().to(DEVICE)
    found, wanted = both(fused(module)), both(module)
    assert made == ["forward", "forward", "backward", "backward"]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=2e-6)


def test_one_model_alone_pools_as_its_layers_do(way):
    module, x = Pooled().to(DEVICE), torch.randn(3, 2, 11, 9).to(DEVICE)
    with precision(tf32=False):
        torch.testing.assert_close(fused(module)(x), module(x))


def test_what_no_kernel_serves_is_left_to_pytorch(way, monkeypatch):
    monkeypatch.setattr(way, "forward", None)
    layer, x = nn.MaxPool2d(2), torch.randn(3, 2, 5, 7).to(DEVICE)
    for images in (x.double(), x[0]):
        assert torch.equal(fused(layer)(images), layer(images))


@pytest.mark.parametrize(
    "how", [{"kernel_size": 3}, {"stride": 1}, {"padding": 1}, {"ceil_mode": True}, {"return_indices": True}], ids=str
)
def test_other_pools_stay_as_they_are(how, way):
    assert "forward" not in vars(fused(nn.MaxPool2d(**{"kernel_size": 2, **how})))


def test_pools_stay_as_they_are_without_kernels(monkeypatch):
    monkeypatch.setattr(pools, "kernels", lambda name, device: None)
    assert not any("forward" in vars(part) for part in fused(Pooled()).modules())


# ---------------------------------------------------------------- on a real GPU

LARGE = {  # images of a client, channels behind, kernel, stride, padding
    "first": ((16, 3, 32, 32), 64, 3, 1, 1),
    "middle": ((16, 64, 16, 16), 64, 3, 1, 1),
    "down": ((16, 64, 17, 15), 128, 3, 2, 1),
    "shortcut": ((16, 64, 16, 16), 128, 1, 2, 0),
    "uneven": ((4, 37, 9, 7), 130, 5, 3, 2),
}
ROUNDED = {"float32": (False, 2e-6), "tf32": (True, 3e-3)}


@needs_gpu
@pytest.mark.parametrize("mode", ROUNDED)
@pytest.mark.parametrize("n_models", [2, 100])
@pytest.mark.parametrize("name", LARGE)
def test_large_convolutions_agree_with_double_precision(name, n_models, mode):
    tf32, most = ROUNDED[mode]
    shape, *how = LARGE[name]
    layer = nn.Conv2d(shape[1], *how)
    values, x, towards = clients(layer, shape, n_models, torch.float32)
    with precision(tf32):
        (slopes, images), found = gradients(multiplied(layer), values, x, towards)
    some = [0, n_models - 1]
    few = {part: value[some] for part, value in values.items()}
    seen = {part: value[some] for part, value in slopes.items()}
    agree(layer, (few, x[some], towards[some]), ((seen, images[some]), found[some]), most)


@needs_gpu
@pytest.mark.parametrize("name", LARGE)
def test_large_patches_and_pools_are_those_of_pytorch(name):
    shape, _, side, stride, padding = LARGE[name]
    images = torch.randn(20, shape[0], *shape[2:], shape[1], device="cuda")
    for around, beside in ([padding] * 4, ONE), ([side - 1 - padding] * 4, (stride, stride)):
        how = (side, side), ONE if beside != ONE else (stride, stride), tuple(around), beside
        found = kernel("patches").patches(images, *how)
        with using("plain"):
            assert torch.equal(found, convolutions.patches(images, *how))
    agrees_with_pytorch(kernel("max_pool"), images.flatten(0, 1))


@needs_gpu
def test_a_graph_replays_what_the_kernels_do():
    def run():
        found, place = kernel("max_pool").forward(images.flatten(0, 1))
        back = kernel("max_pool").backward(found, place, *images.shape[2:4])
        return kernel("patches").patches(images, (3, 3), (2, 1), (1, 1, 1, 1), ONE), found, place, back

    images = torch.randn(10, 8, 9, 11, 28, device="cuda")
    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = run()
    images.normal_()
    graph.replay()
    for found, wanted in zip(recorded, run(), strict=True):
        assert torch.equal(found, wanted)
