"""Compiled layers of GRU cells and plain recurrent cells against PyTorch's, and networks that train with them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_traced import Bench
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from users_networks import N_CLASSES, TOKENS

from fedcell.learn.engines.cpu import native, per_client, traced
from fedcell.learn.engines.cpu.native import cells, sequences, vectors

KINDS = {
    "gru": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *sizes, **how: nn.RNN(*sizes, nonlinearity="relu", **how),
}
narrow = native.library(native.SEQUENCES) is None or vectors.widest() < vectors.WIDE_VECTORS
pytestmark = pytest.mark.skipif(narrow, reason="no compiler, or no wide vectors")


@st.composite
def layers(draw):
    sizes = draw(st.integers(1, 30)), draw(st.sampled_from([1, 7, 16, 24, 50]))
    how = {"num_layers": draw(st.integers(1, 2))}
    how |= {name: draw(st.booleans()) for name in ("bidirectional", "bias", "batch_first")}
    torch.manual_seed(draw(st.integers(0, 1000)))
    layer = KINDS[draw(st.sampled_from(sorted(KINDS)))](*sizes, **how)
    return layer, torch.randn(draw(st.integers(1, 5)), draw(st.integers(1, 17)), sizes[0]), draw(st.booleans())


@settings(max_examples=100)
@given(layers())
def test_layers_and_their_gradients(given):
    layer, x, begins = given
    n = x.shape[0 if layer.batch_first else 1]
    first = torch.randn(layer.num_layers * (1 + layer.bidirectional), n, layer.hidden_size) if begins else None
    found = outcome(layer, cells.way, x, first)
    wanted = outcome(
        layer.double(), lambda layer, *args: layer(*args), x.double(), first if first is None else first.double()
    )
    for one, other in zip(found, wanted, strict=True):
        scale = 1 + float(other.abs().max())  # a tanh of next to nothing is rounded as one of 1
        torch.testing.assert_close(one, other.float(), rtol=1e-4, atol=1e-6 * scale)


def outcome(layer, way, x, first):
    """Outputs, last states, and gradients of a sum that weighs both."""
    given = [one.clone().requires_grad_() for one in (x, first) if one is not None]
    made = way(layer, *given)
    total = sum((one * torch.linspace(-1, 2, one.numel(), dtype=x.dtype).view(one.shape)).sum() for one in made)
    return [*(one.detach() for one in made), *torch.autograd.grad(total, [*given, *layer.parameters()])]


class Reader(nn.Module):
    """Words, recurrent layers, perhaps with dropout between them, and the last place of both directions."""

    def __init__(self, kind, dropout=0.0):
        super().__init__()
        self.words = nn.Embedding(20, 6)
        self.cells = KINDS[kind](6, 9, num_layers=2, batch_first=True, bidirectional=True, dropout=dropout)
        self.out = nn.Linear(36, N_CLASSES)

    def forward(self, tokens):
        y, last = self.cells(self.words(tokens.long()))
        return self.out(torch.cat([y[:, -1], last[-2], last[0]], 1))


@pytest.mark.parametrize("kind", KINDS)
def test_networks(kind, monkeypatch):
    monkeypatch.setattr(sequences, "WORTH", 0)
    bench = Bench(lambda: Reader(kind), TOKENS)
    found = bench.found()
    assert isinstance(found, traced.Traced), found
    assert [op.func for op in found.trace.ops].count(cells.RECURRENCE_BACK) == 4
    bench.check()
    bench.check(momentum=0.5)


def test_a_single_client(monkeypatch):
    """Without the other kernels, these are among PyTorch's."""
    monkeypatch.setattr(sequences, "WORTH", 0)
    monkeypatch.setattr(traced, "_alone", lambda job: True)
    bench = Bench(lambda: Reader("gru"), TOKENS)
    assert not bench.found().waiting[0].rows.quick
    bench.check()


def test_dropout_between_layers(monkeypatch):
    """As PyTorch draws it: by autograd, with its own layers."""
    monkeypatch.setattr(sequences, "WORTH", 0)
    bench = Bench(lambda: Reader("gru", 0.3), TOKENS)
    fast = bench.trained(per_client.train)
    assert any(op.random for op in bench.found().trace.ops)
    monkeypatch.setattr(sequences, "WORTH", 1 << 40)
    monkeypatch.setattr(per_client, "find", lambda *_: "no")
    torch.testing.assert_close(fast, bench.trained(per_client.train), rtol=1e-4, atol=1e-6)


def test_small_networks_and_machines_without_a_compiler_have_pytorchs(monkeypatch, no_compiler):
    monkeypatch.setattr(sequences, "WORTH", 0)
    bench = Bench(lambda: Reader("gru"), TOKENS)
    assert cells.RECURRENCE not in [op.func for op in bench.found().trace.ops]
    bench.check()


def test_layers_that_are_left_to_pytorch():
    layer = nn.GRU(4, 5)
    packed = pack_sequence([torch.randn(3, 4), torch.randn(2, 4)])
    assert torch.equal(cells.way(layer, packed)[0].data, layer(packed)[0].data)
    single = torch.randn(3, 4)
    assert torch.equal(cells.way(layer, single)[0], layer(single)[0])
    x = torch.randn(3, 2, 4)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(cells.way(layer, x)[0], layer(x)[0])
    assert not torch.equal(cells.way(layer, x)[0], layer(x)[0]), "rounding differs"


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_wrong_shapes_are_refused_in_pytorchs_words(kind, batch_first):
    """The kernels would read and write behind the tensors."""
    layer, x = KINDS[kind](32, 64, batch_first=batch_first), torch.randn(5, 6, 32)
    with pytest.raises(RuntimeError, match=r"input_size\. Expected 32, got 40"):
        cells.way(layer, torch.randn(5, 6, 40))
    for odd in [(1, 2, 64), (2, 5 if batch_first else 6, 64), (1, 6, 32)]:
        with pytest.raises(RuntimeError, match="Expected hidden size"):
            cells.way(layer, x, torch.randn(odd))
