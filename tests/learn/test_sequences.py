"""Compiled kernels of transformers against PyTorch's in double precision, and networks that train with them."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_native import check
from test_traced import Bench
from torch import nn
from torch.nn import functional
from users_networks import IMAGE, N_CLASSES, TOKENS, Attention, Encoder, Multihead, Recurrent

from fedcell.learn.engines.cpu import native, replay, traced
from fedcell.learn.engines.cpu.fusion import is_whole
from fedcell.learn.engines.cpu.native import heads, placing, recurrent, sequences
from fedcell.learn.engines.cpu.trace import Ref

aten = torch.ops.aten
pytestmark = pytest.mark.usefixtures("compiler")
WIDTH = 16  # of a head, that fills the vectors of every processor


def doubled(args):
    return [one.double() if isinstance(one, torch.Tensor) and one.is_floating_point() else one for one in args]


def played(func, *args, **kwargs):
    """What a compiled kernel finds, beside what PyTorch's does in double precision."""
    found = func(*doubled(args), **kwargs)
    wanted = [one.float() for one in (found if isinstance(found, tuple) else (found,))]
    outs = [torch.full_like(one, 7.0) for one in wanted]
    calls = sequences.lowered(func, args, kwargs, outs)
    assert calls is not None
    native.gathered(calls).run()
    return list(zip(outs, wanted, strict=True))


def any_order(draw, rows, columns):
    """A matrix whose rows, or columns, lie one after another, with something between them."""
    room = torch.randn(max(rows, columns), max(rows, columns) + draw(st.integers(0, 3)))
    return room[:rows, :columns] if draw(st.booleans()) else room[:columns, :rows].t()


@st.composite
def products(draw):
    rows, columns = draw(st.integers(1, 45)), draw(st.sampled_from([1, 5, 16, 17, 32, 40, 70, 130]))
    depth = draw(st.sampled_from([1, 3, 16, 33, 520]))
    torch.manual_seed(draw(st.integers(0, 1000)))
    return any_order(draw, rows, depth), any_order(draw, depth, columns), any_order(draw, rows, columns)


@pytest.fixture
def _any_processor(monkeypatch):
    monkeypatch.setattr(sequences, "WIDE_VECTORS", 1)


@pytest.mark.usefixtures("_any_processor")
@settings(max_examples=150)
@given(products(), st.booleans(), st.sampled_from([1.0, -0.3]))
def test_products(drawn, keep, rate):
    left, right, into = drawn
    wanted = keep * into.double() + rate * (left.double() @ right.double())
    native.gathered(sequences.product(into, left, right, torch.tensor(rate), keep)).run()
    check([(into, wanted.float())])


@pytest.mark.usefixtures("_any_processor")
def test_products_of_more_columns_than_the_room_holds():
    left, right, bias = torch.randn(20, 600), torch.randn(300, 600).t(), torch.randn(300)
    check(played(aten.addmm.default, bias, left, right))
    check(played(aten.mm.default, left, right))


@pytest.mark.usefixtures("_any_processor")
@pytest.mark.parametrize("width", [256, 512, 600])
def test_products_of_columns_that_lie_far_apart(width):
    left, right = torch.randn(530, width).t(), torch.randn(530, 70)
    check(played(aten.mm.default, left, right))
    check(played(aten.mm.default, left[3:40], right))


def test_what_products_leave_to_pytorch():
    left, right, into = torch.randn(4, 3), torch.randn(3, 5), torch.randn(4, 2, 5, 2)[:, 0, :, 0]
    one = torch.ones(())
    assert sequences.product(into, left, right, one, keep=False) is None  # neither rows nor columns one after another
    assert sequences.product(torch.randn(5, 4).t(), left, right, one, False, torch.randn(5)) is None
    assert (
        sequences.lowered(aten.addmm.default, (torch.randn(5), left, right), {"beta": 2}, [torch.zeros(4, 5)]) is None
    )


def made_heads(n, n_heads, length, width, packed):
    if packed:  # beside two others, places before heads
        return torch.randn(n, length, 3, n_heads, width)[:, :, 1].transpose(1, 2)
    return torch.randn(n, n_heads, length, width)


@settings(max_examples=60)
@given(
    st.integers(1, 2),
    st.integers(1, 3),
    st.sampled_from([1, 7, 16, 20, 33]),
    st.sampled_from([1, 5, 16, 30, 48]),
    st.sampled_from([WIDTH, 2 * WIDTH, 3 * WIDTH]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 0.7]),
)
def test_attention(n, n_heads, queries, keys, width, causal, packed, scale):
    torch.manual_seed(n)
    q = made_heads(n, n_heads, queries, width, packed)
    k, v = (made_heads(n, n_heads, keys, width, packed) for _ in range(2))
    given_scale = {} if scale is None else {"scale": scale}
    found = played(heads.ATTENTION, q, k, v, 0.0, causal, **given_scale)
    check(found)
    (out, _), (logs, _) = found
    sent = made_heads(n, n_heads, queries, width, packed)
    # where one key has nearly all of the weight, little is left of the terms that cancel: of their size are the errors
    terms = float((sent.abs() @ v.abs().transpose(-1, -2)).max() * torch.stack([q.abs().max(), k.abs().max()]).max())
    for one, wanted in played(heads.ATTENTION_BACK, sent, q, k, v, out, logs, 0.0, causal, **given_scale):
        torch.testing.assert_close(one, wanted, rtol=1e-4, atol=1e-6 * terms)


def test_attention_that_is_left_to_pytorch():
    q, k, v = (torch.randn(2, 2, 5, WIDTH) for _ in range(3))
    outs = [torch.zeros(2, 2, 5, WIDTH), torch.zeros(2, 2, 5)]
    assert sequences.lowered(heads.ATTENTION, (q, k, v), {}, outs) is not None
    assert sequences.lowered(heads.ATTENTION, (q, k, v), {"attn_mask": torch.zeros(5, 5)}, outs) is None
    assert sequences.lowered(heads.ATTENTION, (q[..., :6], k[..., :6], v[..., :6]), {}, outs) is None
    assert sequences.lowered(heads.ATTENTION, (q, k[:, :1], v[:, :1]), {}, outs) is None
    long = torch.randn(1, 1, 300, WIDTH)
    assert sequences.lowered(heads.ATTENTION, (long, long, long), {}, [long, long[..., 0]]) is None


@settings(max_examples=40)
@given(st.integers(1, 9), st.sampled_from([5, 16, 31, 48, 128]), st.booleans())
def test_layer_norms(n, width, affine):
    torch.manual_seed(n)
    x = 3 * torch.randn(n, 2, width) + 1
    gamma, beta = (torch.randn(width), torch.randn(width)) if affine else (None, None)
    found = played(aten.native_layer_norm.default, x, [width], gamma, beta, 1e-3)
    check(found)
    mean, rstd = found[1][1], found[2][1]
    sent, asked = torch.randn_like(x), [True, affine, affine]
    args = sent, x, [width], mean, rstd, gamma, beta, asked
    wanted = aten.native_layer_norm_backward.default(*doubled(args))
    outs = [None if one is None else torch.full(one.shape, 7.0) for one in wanted]
    native.gathered(sequences.lowered(aten.native_layer_norm_backward.default, args, {}, outs)).run()
    check([(out, one.float()) for out, one in zip(outs, wanted, strict=True) if one is not None])


BENT = {functional.gelu: aten.gelu.default, functional.silu: aten.silu.default}


@pytest.mark.parametrize("n", [1, 16, 1000])
@pytest.mark.parametrize("function", BENT)
def test_gelus_silus_and_their_slopes(function, n):
    x, func = torch.linspace(-12, 12, n), BENT[function]
    check(played(func, x))
    slopes, y = x.clone(), torch.zeros(n)
    native.gathered(sequences.lowered(func, (slopes, True), {}, [y])).run()
    exact = x.double().requires_grad_()
    function(exact).sum().backward()
    check([(y, function(x.double()).float()), (slopes, exact.grad.float())])


def test_silus_of_entries_that_lie_in_another_order():
    one, other = (torch.randn(2, 5, 3, 8).permute(0, 3, 1, 2) for _ in range(2))
    check(played(aten.silu.default, one))
    for odd in (other.contiguous(), torch.randn(2, 8, 5, 6)[..., ::2], torch.randn(2, 1, 5, 3).expand(2, 8, 5, 3)):
        assert sequences.lowered(aten.silu.default, (odd,), {}, [one.clone()]) is None


@st.composite
def recurrences(draw):
    """Places, samples, inputs and width of an LSTM layer, and whether it runs from the end."""
    sizes = draw(st.integers(1, 5)), draw(st.integers(1, 20)), draw(st.integers(1, 40))
    return *sizes, draw(st.sampled_from([1, 7, 16, 24, 50])), draw(st.booleans())


@settings(max_examples=60)
@given(recurrences(), st.booleans(), st.integers(0, 1000))
def test_lstm_layers(drawn, ended, seed):
    """Beside cells written out in double precision."""
    recurrent.WIDE_VECTORS, before = 1, recurrent.WIDE_VECTORS
    torch.manual_seed(seed)
    places, n, n_in, width, reverse = drawn
    shapes = (
        (places, n, n_in),
        (4 * width, n_in),
        (4 * width, width),
        (4 * width,),
        (4 * width,),
        (n, width),
        (n, width),
    )
    given = [torch.randn(shape) / 2 for shape in shapes]
    workspace = torch.zeros(20 * places * n * width, dtype=torch.uint8)
    outs = [torch.full(shape, 7.0) for shape in ((places, n, width), (n, width), (n, width))]
    args = *given, reverse, [], 2, width, 1, True, False, False, True
    native.gathered(recurrent.lstm(args, [*outs, workspace])).run()
    exact = [one.double().requires_grad_() for one in given]
    wanted = written_out(*exact, reverse)
    check(zip(outs, (one.detach() for one in wanted), strict=True))
    sent = [torch.randn(n, places, width).transpose(0, 1), *(torch.randn(n, width) for _ in range(2))]
    if not ended:
        sent[1:] = None, None
    pairs = [(one, other.double()) for one, other in zip(wanted, sent, strict=True) if other is not None]
    slopes = torch.autograd.grad([one for one, _ in pairs], exact, [other for _, other in pairs])
    found = [torch.full(one.shape, 7.0) for one in given]
    back = *given, *outs, *sent, reverse, 2, width, 1, True, True, False, [], False, workspace
    native.gathered(recurrent.lstm_back(back, found)).run()
    check(zip(found, slopes, strict=True))
    recurrent.WIDE_VECTORS = before


def written_out(x, w, u, b, b_too, h, c, reverse):
    outputs = [None] * len(x)
    for place in reversed(range(len(x))) if reverse else range(len(x)):
        i, f, g, o = (x[place] @ w.t() + b + h @ u.t() + b_too).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        outputs[place] = h
    return torch.stack(outputs), h, c


def test_recurrences_that_are_left_to_pytorch():
    given = [torch.zeros(shape) for shape in ((3, 2, 5), (64, 5), (64, 16), (64,), (64,), (2, 16), (2, 16))]
    outs = [torch.zeros(3, 2, 16), *torch.zeros(2, 2, 16), torch.zeros(20 * 96, dtype=torch.uint8)]
    rest = False, [], 2, 16, 1, True, False, False, True
    small = [*outs[:3], outs[3][:-1]]
    assert recurrent.lstm((*given, *rest), small) is None, "no room for what the backward pass needs"
    assert recurrent.lstm((*given, *rest[:2], 3, *rest[3:]), outs) is None, "a GRU"
    assert recurrent.lstm((*given, False, [2, 1], *rest[2:]), outs) is None, "packed sequences"
    assert recurrent.lstm((given[0].double(), *given[1:], *rest), outs) is None, "double precision"


def test_what_is_no_number_stays_so():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 200.0, -200.0]).repeat(7)
    ((y, wanted),) = played(aten.gelu.default, x)
    torch.testing.assert_close(y[x > -1e9], wanted[x > -1e9], equal_nan=True)
    q = torch.randn(1, 1, 3, WIDTH)
    q[0, 0, 1, 2] = float("nan")
    (out, wanted), _ = played(heads.ATTENTION, q, *(torch.randn(1, 1, 20, WIDTH) for _ in range(2)))
    assert torch.equal(out.isnan(), wanted.isnan())
    assert out.isnan().any()


@pytest.mark.parametrize("axis", [0, 1, -2])
def test_sums_over_an_axis(axis):
    x = torch.randn(7, 5, 40)
    check(played(aten.sum.dim_IntList, x, [axis], True))
    check(played(aten.mean.dim, x, [axis]))


def test_words():
    vectors, words = torch.randn(9, 20), torch.randint(0, 9, (4, 6))
    check(played(aten.embedding.default, vectors, words))
    sent, rate = torch.randn(24, 20), torch.tensor(-0.3)
    wanted = vectors.double().index_add(0, words.flatten(), sent.double(), alpha=-0.3)
    native.gathered(sequences.moved_words(vectors, words.flatten(), sent, rate)).run()
    check([(vectors, wanted.float())])


@pytest.mark.parametrize("word", [9, -1, 2**40])
def test_words_outside_the_vocabulary_are_refused_as_pytorch_does(word):
    """Nothing beyond the table is read or written, and later lists are not blamed."""
    table = torch.randn(11, 20)
    vectors, words, before = table[1:10], torch.tensor([3, word, 5]), table.clone()
    found = torch.zeros(3, 20)
    with pytest.raises(IndexError, match="index out of range in self"):
        native.gathered(sequences.lowered(aten.embedding.default, (vectors, words), {}, [found])).run()
    assert torch.equal(found, torch.stack([vectors[3], torch.zeros(20), vectors[5]]))
    with pytest.raises(IndexError):
        native.gathered(sequences.moved_words(vectors, words, torch.ones(3, 20), torch.tensor(1.0))).run()
    assert torch.equal(table[[0, 10]], before[[0, 10]])
    native.gathered(sequences.lowered(aten.embedding.default, (vectors, words[:1]), {}, [found[:1]])).run()


# ---------------------------------------------------------------- whole networks


class Transformer(nn.Module):
    """Two layers as in GPTs: how q, k and v are cut from one product differs from author to author."""

    def __init__(self, cut, causal=True, norm=nn.LayerNorm):
        super().__init__()
        self.cut, self.causal = cut, causal
        self.words, self.places = nn.Embedding(20, 32), nn.Parameter(0.1 * torch.randn(*TOKENS, 32))
        self.layers = nn.ModuleList(
            nn.ModuleList(
                [norm(32), nn.Linear(32, 96), nn.Linear(32, 32), norm(32), nn.Linear(32, 40), nn.Linear(40, 32)]
            )
            for _ in range(2)
        )
        self.out = nn.Linear(32, N_CLASSES)

    def forward(self, tokens):
        x = self.words(tokens.long()) + self.places
        for first, qkv, mix, second, wide, back in self.layers:
            found = functional.scaled_dot_product_attention(*self.cut(qkv(first(x))), is_causal=self.causal)
            x = x + mix(found.transpose(1, 2).flatten(2))
            x = x + back(functional.gelu(wide(second(x))))
        return self.out(x.mean(1))


def permuted(made):
    return made.view(*made.shape[:2], 3, 2, WIDTH).permute(2, 0, 3, 1, 4)


def split(made):
    return [one.view(*made.shape[:2], 2, WIDTH).transpose(1, 2) for one in made.split(32, 2)]


def heads_first(made):
    return made.view(*made.shape[:2], 2, 3, WIDTH).permute(3, 0, 2, 1, 4)


TRANSFORMERS = {
    "permuted": lambda: Transformer(permuted),
    "split": lambda: Transformer(split),
    "heads first": lambda: Transformer(heads_first, causal=False),
    "norms without weights": lambda: Transformer(permuted, norm=lambda n: nn.LayerNorm(n, elementwise_affine=False)),
    "small heads": Attention,
    "with weights": Multihead,
    "encoder": Encoder,
    "LSTM": lambda: Recurrent(nn.LSTM),
    "LSTM of two layers, both ways": lambda: Recurrent(partial(nn.LSTM, num_layers=2, bidirectional=True), 18),
}


@pytest.mark.parametrize("rule", [{}, {"momentum": 0.5}])
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_agrees_with_debug(name, rule, monkeypatch):
    monkeypatch.setattr(sequences, "WORTH", 0)
    monkeypatch.setattr(traced, "WIDE", 50)
    bench = Bench(TRANSFORMERS[name], TOKENS)
    found = bench.found(**rule)
    assert isinstance(found, traced.Traced), found
    assert found.waiting[0].rows.quick
    bench.check(**rule)


def test_silus_of_images(monkeypatch):
    monkeypatch.setattr(sequences, "WORTH", 0)
    layers = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU(), nn.Conv2d(16, 8, 1), nn.SiLU()
    bench = Bench(lambda: nn.Sequential(*layers, nn.Flatten(), nn.Linear(640, N_CLASSES)), IMAGE)
    bench.check()
    kernels = [op.func for op in placing.with_slopes(bench.found().trace.ops, bench.found().trace)]
    assert aten.silu.default in kernels
    assert aten.silu_backward.default not in kernels


@pytest.mark.parametrize("name", ["permuted", "split", "heads first"])
def test_gradients_of_attention_are_not_copied(name, monkeypatch):
    """And GELUs leave their slopes: of each layer, seven kernels forth and back are two."""
    monkeypatch.setattr(sequences, "WORTH", 0)
    seen = []

    def placed(ops, trace):
        seen.append(placing.placed(ops, trace))
        return seen[-1]

    monkeypatch.setattr(replay, "placed", placed)
    Bench(TRANSFORMERS[name], TOKENS).found()
    funcs = [op.func for op in seen[-1]]
    assert funcs.count(heads.ATTENTION_BACK) == 2
    assert not any(one in placing.TOGETHER or one is aten.gelu_backward.default for one in funcs)
    for op in seen[-1]:
        if op.func is heads.ATTENTION_BACK:
            assert len({ref.memory for ref in op.outs}) == 1


def test_embeddings_move_in_the_backward_pass(monkeypatch):
    monkeypatch.setattr(traced, "WIDE", 50)
    bench = Bench(lambda: Transformer(permuted), TOKENS)
    names = [name for name, _ in bench.layout.module.named_parameters()]
    assert names.index("words.weight") in bench.found().waiting[0].moved
    padded = Bench(lambda: nn.Sequential(Padded(), nn.Linear(32, N_CLASSES)), TOKENS)
    assert 0 not in padded.found().waiting[0].moved
    bench.check()
    padded.check()


class Padded(nn.Module):
    """Words of which one does not learn."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 32, padding_idx=3)

    def forward(self, tokens):
        return self.words(tokens.long()).sum(1)


def test_a_single_client_has_pytorchs_kernels(monkeypatch):
    """They make use of every core."""
    monkeypatch.setattr(sequences, "WORTH", 0)
    bench = Bench(lambda: Transformer(permuted), TOKENS)
    job = bench.job()
    assert bench.found().waiting[0].rows.quick
    work = job.work._replace(device=job.work.device[:1], steps=job.work.steps[:1])
    alone = job._replace(work=work, of_row=job.of_row[:1], out=job.out[:1])
    found = traced.find(alone, traced.RowLayout(job.architecture), traced.Batches(alone))
    assert not found.waiting[0].rows.quick


@given(st.data())
def test_where_a_part_of_a_copy_lies(data):
    """Numbers that are written there first are where a copy of the view would have brought them."""
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    order = data.draw(st.permutations(range(len(shape))))
    whole = torch.arange(torch.tensor(shape).prod().item()).view(shape)
    view = whole.permute(order)
    cuts = [sorted(data.draw(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)))) for n in shape]
    part = whole[tuple(slice(low, high + 1) for low, high in cuts)]
    copied = torch.zeros(view.shape, dtype=torch.int64)
    found = placing._through(ref(part), ref(view), ref(copied))
    if found is not None:
        copied.copy_(view)
        assert torch.equal(copied.as_strided(found.size, found.stride, found.offset), part)
    simple = all(low == 0 and high == n - 1 for (low, high), n in zip(cuts, shape, strict=True))
    assert found is not None or not simple


def ref(tensor):
    return Ref(1, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype)


def test_whole_tensors():
    assert is_whole(ref(torch.zeros(3, 1, 4)))
    assert not is_whole(ref(torch.zeros(3, 4).t()))
