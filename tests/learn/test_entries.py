"""Compiled kernels of entries, softmaxes, batched products and cross-entropies, and lists of kernels that use them."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_native import check
from test_sequences import any_order, played
from test_traced import Bench
from torch import nn
from torch.nn import functional
from users_networks import N_CLASSES, TOKENS, Attention

from fedcell.learn.engines.cpu import fusion, native, replay, traced
from fedcell.learn.engines.cpu.native import entries, heads, scores, sequences

aten = torch.ops.aten
pytestmark = pytest.mark.skipif(native.library(native.SEQUENCES) is None, reason="no compiler")


@pytest.fixture(autouse=True)
def _any_network(monkeypatch):
    monkeypatch.setattr(sequences, "WORTH", 0)


def laid_out(draw, shape):
    """A tensor whose axes lie in any order, with gaps, some of them with one entry for all."""
    order = draw(st.permutations(range(len(shape))))
    gap = draw(st.integers(1, 2))
    room = torch.randn([shape[axis] for axis in order[:-1]] + [gap * shape[order[-1]]])[..., ::gap]
    lies = room.permute([order.index(axis) for axis in range(len(shape))])
    spread = draw(st.sets(st.sampled_from(range(len(shape))), max_size=1))
    return lies.narrow(spread.pop(), 0, 1) if spread else lies


@st.composite
def pairs(draw):
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 17, 40]), min_size=1, max_size=4))
    torch.manual_seed(draw(st.integers(0, 1000)))
    one, other = (laid_out(draw, shape) for _ in range(2))
    whole = torch.broadcast_shapes(one.shape, other.shape)
    into = torch.empty_strided(whole, laid_out(draw, whole).broadcast_to(whole).contiguous().stride())
    return one, other, into


@settings(max_examples=200)
@given(pairs())
def test_entries_in_any_order(given):
    one, other, into = given
    kinds = {aten.add.Tensor: one + other, aten.sub.Tensor: one - other, aten.mul.Tensor: one * other}
    for func, wanted in kinds.items():
        native.gathered(sequences.lowered(func, (one, other), {}, [into.fill_(7)])).run()
        torch.testing.assert_close(into, wanted, rtol=0, atol=0)
    whole = one.broadcast_to(into.shape)
    for func, rest, wanted in (
        (aten.mul.Scalar, (0.3,), whole * 0.3),
        (aten.mul.Scalar, (3,), whole * 3),
        (aten.div.Scalar, (3,), whole / 3),
        (aten.clone.default, (), whole),
    ):
        native.gathered(sequences.lowered(func, (whole, *rest), {}, [into.fill_(7)])).run()
        torch.testing.assert_close(into, wanted)


BENT = [aten.sigmoid, aten.tanh, aten.hardswish, aten.leaky_relu]
BENT_BACK = [
    *[(aten.sigmoid_backward, ()), (aten.tanh_backward, ()), (aten.hardswish_backward, ())],
    *[(aten.leaky_relu_backward, (0.2, False)), (aten.threshold_backward, (0,)), (aten.hardtanh_backward, (0.0, 6.0))],
]


def part_of_images(n_parts):
    """Some channels of images that lie channels-last, at which functions bend."""
    whole = 4 * torch.randn(3, n_parts * 20, 4, 5).contiguous(memory_format=torch.channels_last)
    whole.flatten()[:7] = torch.tensor([0.0, 3, -3, 6, 1e-4, -50, 50])
    return whole[:, :20]


@pytest.mark.parametrize("n_parts", [1, 2])
@pytest.mark.parametrize("packet", BENT, ids=str)
def test_functions_of_entries(packet, n_parts):
    x = part_of_images(n_parts)
    rest = (0.2,) if packet is aten.leaky_relu else ()
    wanted = packet.default(x.double(), *rest).float()
    found = torch.full_like(x, 7.0, memory_format=torch.channels_last)
    native.gathered(sequences.lowered(packet.default, (x, *rest), {}, [found])).run()
    torch.testing.assert_close(found, wanted, rtol=2e-6, atol=1e-7)
    assert sequences.lowered(packet.default, (x, *rest), {}, [torch.empty(x.shape)]) is None, "it lies otherwise"


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize(("packet", "rest"), BENT_BACK, ids=str)
def test_slopes_of_entries(packet, rest, spread):
    x = part_of_images(2)
    sent = torch.randn(3, 20, 1, 1).expand(3, 20, 4, 5) if spread else part_of_images(1)
    wanted = packet.default(sent.double(), x.double(), *rest).float()
    found = torch.full_like(sent, 7.0, memory_format=torch.channels_last)
    native.gathered(sequences.lowered(packet.default, (sent, x, *rest), {}, [found])).run()
    torch.testing.assert_close(found, wanted, rtol=2e-6, atol=1e-6 * float(wanted.abs().max()))


def test_numbers_of_kernels_are_float32():
    torch.set_default_dtype(torch.float64)
    try:
        assert native.floats(1, 0.5).dtype == native.floats(2).dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_entries_that_are_added_in_place():
    whole, part = torch.randn(4, 6, 20), torch.randn(6, 4, 20)
    wanted = whole + part.transpose(0, 1)
    native.gathered(sequences.lowered(aten.add_.Tensor, (whole, part.transpose(0, 1)), {}, [whole])).run()
    assert torch.equal(whole, wanted)


def test_entries_that_are_left_to_pytorch():
    one, into = torch.randn(3, 50), torch.randn(3, 50)
    assert sequences.lowered(aten.add.Tensor, (one, one), {"alpha": 2}, [into]) is None
    assert sequences.lowered(aten.mul.Tensor, (one, 2.0), {}, [into]) is None
    assert sequences.lowered(aten.clone.default, (one.double(),), {}, [into.double()]) is None
    assert sequences.lowered(aten.div.Scalar, (one, 0), {}, [into]) is None
    strange = torch.randn([2] * 7).permute(1, 0, 3, 2, 5, 4, 6)
    assert entries.filled_in(entries.SCALED, torch.empty([2] * 7), strange, strange) is None, "too many axes"


@pytest.mark.parametrize("axes", [[0], [0, 1], [1, 2], [-2]])
def test_sums_over_axes(axes):
    check(played(aten.sum.dim_IntList, torch.randn(7, 5, 3, 40), axes, True))
    assert (
        sequences.lowered(aten.sum.dim_IntList, (torch.randn(7, 5, 8), [0, 2], True), {}, [torch.empty(1, 5, 1)])
        is None
    )


def test_parts_among_zeros():
    check(played(aten.select_backward.default, torch.randn(5, 20), [5, 3, 20], 1, -1))
    check(played(aten.slice_backward.default, torch.randn(5, 4, 20), [5, 9, 20], 1, 1, 9, 2))
    check(played(aten.slice_backward.default, torch.randn(5, 4).t(), [9, 5], 0, 5, 2**62, 1))


@st.composite
def batches(draw):
    n, rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 30)), draw(st.sampled_from([1, 5, 16, 32, 48, 70]))
    depth = draw(st.sampled_from([1, 3, 16, 33]))
    torch.manual_seed(draw(st.integers(0, 1000)))
    sizes = (rows, depth), (depth, columns)
    return [torch.stack([any_order(draw, *size) for _ in range(n)]) for size in sizes], draw(st.booleans())


@settings(max_examples=150)
@given(batches())
def test_batches_of_products(given):
    (left, right), turned = given
    wanted = left.double() @ right.double()
    into = torch.full(wanted.mT.shape, 7.0).mT if turned else torch.full(wanted.shape, 7.0)
    left, right = (one.mT.contiguous().mT if turned else one for one in (left, right))
    calls = heads.products((left, right), [into])
    if calls is not None:  # on processors with wide vectors
        native.gathered(calls).run()
        check([(into, wanted)])


@given(st.integers(1, 4), st.sampled_from([1, 3, 16, 33, 70]), st.floats(0.1, 30))
def test_softmaxes(rows, width, scale):
    torch.manual_seed(rows)
    x, sent = scale * torch.randn(2, rows, width), torch.randn(2, rows, width)
    x[0, 0, : width - 1] = -torch.inf
    check(played(aten._softmax.default, x, -1, False))
    y = x.softmax(-1)
    found = torch.full_like(y, 7.0)
    native.gathered(heads.softmax_back((sent, y, -1, torch.float32), [found])).run()
    exact, back = y.double(), sent.double()
    torch.testing.assert_close(
        found.double(), exact * (back - (exact * back).sum(-1, keepdim=True)), rtol=1e-4, atol=1e-6
    )
    x[0, 0] = -torch.inf
    ((found, wanted),) = played(aten._safe_softmax.default, x, 2)
    assert not found[0, 0].any()
    check([(found, wanted)])
    ((found, _),) = played(aten._softmax.default, x, -1, False)
    assert found[0, 0].isnan().all()


# ---------------------------------------------------------------- cross-entropy


@pytest.mark.parametrize("places", [0, 1, 5])
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("width", [3, 16, 45])
def test_gradients_by_scores(places, mean, width):
    shape = (6, places, width) if places else (6, width)
    scores_ = (9 * torch.randn(shape)).movedim(-1, 1)
    labels = torch.randint(0, width, (6, places) if places else (6,))
    labels[2] = 1
    exact = scores_.double().requires_grad_()
    loss = functional.cross_entropy(exact, labels, ignore_index=1, reduction="mean" if mean else "none")
    sent = torch.randn(loss.shape)
    (wanted,) = torch.autograd.grad(loss, exact, sent.double())
    into = torch.full(shape, 7.0).movedim(-1, 1)
    native.gathered(scores.cross_entropy_back((scores_, labels, sent, 1, mean), [into])).run()
    # a probability near one less one: what is left is as exact as float32 is near one
    torch.testing.assert_close(into, wanted.float(), rtol=1e-4, atol=1e-6 * float(sent.abs().max()))


def test_a_class_that_there_is_not():
    given, labels, into = torch.randn(3, 5), torch.tensor([1, 5, -1]), torch.zeros(3, 5)
    native.gathered(scores.cross_entropy_back((given, labels, torch.ones(()), -100, True), [into])).run()
    assert torch.equal(into.isnan().all(1), torch.tensor([False, True, True]))


class Tagger(nn.Module):
    """A class for every word."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(20, 16), nn.Linear(16, 20)

    def forward(self, tokens):
        return self.out(torch.tanh(self.words(tokens.long())))


def tagged(reduction, kept, module, x, y, _):
    """The next words, of which one does not count, from scores that somebody else may look at, too."""
    found = module(x).transpose(1, 2)
    losses = functional.cross_entropy(found, x.long().roll(-1, 1), ignore_index=3, reduction=reduction)
    return losses.mean() + kept * found.log_softmax(1).square().mean() if kept else losses.mean()


@pytest.mark.parametrize(
    ("reduction", "kept", "joined"), [("mean", 0.0, 1), ("none", 0.0, 1), ("sum", 0.0, 0), ("mean", 0.1, 1)]
)
def test_words_that_come_next(reduction, kept, joined, monkeypatch):
    seen = seen_by(monkeypatch, "from_scores")
    bench, objective = Bench(Tagger, TOKENS), partial(tagged, reduction, kept)
    assert isinstance(bench.found(objective=objective), traced.Traced)
    bench.check(objective=objective)
    funcs = [op.func for op in seen[-1]]
    assert funcs.count(scores.CROSS_ENTROPY) == joined
    assert (aten._log_softmax.default in funcs) == (not joined or kept > 0)


def on_a_grid(weighed, module, x, y, _):
    """Words as the fields of a grid, whose classes or weights lie column by column."""
    columns, rows = (x[:, 1:].unflatten(1, size).long() for size in ((3, 2), (2, 3)))
    logs = module(x[:, :6]).transpose(1, 2).log_softmax(1).unflatten(2, (2, 3))
    if not weighed:
        return functional.nll_loss(logs, columns.transpose(1, 2))
    return (functional.nll_loss(logs, rows, reduction="none").transpose(1, 2) * columns).mean()


@pytest.mark.parametrize("weighed", [False, True])
def test_classes_that_lie_in_another_order(weighed, monkeypatch):
    """That kernel alone is PyTorch's, not the whole network."""
    seen = seen_by(monkeypatch, "from_scores")
    bench, objective = Bench(Tagger, TOKENS), partial(on_a_grid, weighed)
    found = bench.found(objective=objective)
    assert isinstance(found, traced.Traced), found
    bench.check(objective=objective)
    assert scores.CROSS_ENTROPY not in [op.func for op in seen[-1]]


def seen_by(monkeypatch, name):
    """What a pass over lists of kernels makes of them."""
    seen, usual = [], getattr(replay, name)

    def told(ops, *rest):
        seen.append(usual(ops, *rest))
        return seen[-1]

    monkeypatch.setattr(replay, name, told)
    return seen


# ---------------------------------------------------------------- what stays the same


class Masked(nn.Module):
    """Attention by hand with a mask that it makes again and again, and one that it changes."""

    def __init__(self):
        super().__init__()
        self.words, self.attention, self.out = nn.Embedding(20, 16), Attention(), nn.Linear(16, N_CLASSES)

    def forward(self, tokens):
        x = self.words(tokens.long())
        length = x.shape[1]
        later = torch.ones(length, length).triu(1).bool()
        weights = (x @ x.mT / 4).masked_fill(later, -torch.inf).softmax(-1)
        scale = torch.zeros(16)
        scale += 1 + x.mean((0, 1))
        return self.out((weights @ x * scale).mean(1))


def weighed(classes, module, x, y, _):
    """An objective with a tensor, of which it makes another one."""
    return (functional.cross_entropy(module(x), y, reduction="none") * classes.exp()[y]).mean()


def test_tensors_of_an_objective_may_change():
    bench = Bench(Masked, TOKENS)
    for value in (0.0, 1.0):
        objective = partial(weighed, value * torch.linspace(-1, 1, N_CLASSES))
        assert isinstance(bench.found(objective=objective), traced.Traced)
        bench.check(objective=objective)


def test_what_is_the_same_in_every_step_is_found_once(monkeypatch):
    found = []

    def told(ops, trace):
        found.append([ops[place].func for place in sorted(fusion.constants(ops, trace))])
        return fusion.constants(ops, trace)

    monkeypatch.setattr(replay, "constants", told)
    Bench(Masked, TOKENS).check()
    assert aten.triu.default in found[-1]
    assert not any(func in (aten.add_.Tensor, aten.zeros.default, aten.masked_fill.Scalar) for func in found[-1])


class Heads(nn.Module):
    """PyTorch's own attention, which unpacks its projections one by one."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(20, 32), nn.Linear(32, N_CLASSES)
        self.attention = nn.MultiheadAttention(32, 2, batch_first=True)

    def forward(self, tokens):
        x = self.words(tokens.long())
        return self.out(self.attention(x, x, x, need_weights=False)[0].mean(1))


def test_gradients_of_parts_are_put_beside_each_other(monkeypatch):
    seen = seen_by(monkeypatch, "placed")
    bench = Bench(Heads, TOKENS)
    bench.check()
    funcs = [op.func for op in seen[-1]]
    assert aten.select_backward.default not in funcs
    assert aten.stack.default not in funcs
    behind = funcs[funcs.index(heads.ATTENTION_BACK) + 1 :]
    assert aten.clone.default not in behind[: behind.index(aten.mm.default)]
