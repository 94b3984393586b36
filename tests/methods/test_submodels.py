"""Units of a network, and sub-models trained as small networks or as masked full ones."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedcell.errors import BadInput
from fedcell.learn.architecture import Architecture
from fedcell.learn.learner import Learner
from fedcell.learn.models import build
from fedcell.learn.norms import BatchNorm
from fedcell.learn.samples import Samples
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.learn.setup import initialise
from fedcell.learn.work import Work
from fedcell.methods.pruning import submodels
from fedcell.methods.pruning.units import cut, entry_masks, importance, kept_units, load, units_of
from fedcell.types import Start, Store

CPU = torch.device("cpu")
N_CLASSES = 5
MODELS = {
    "logistic": (ModelConfig(name="logistic"), (1, 8, 8)),
    "mlp": (ModelConfig(name="mlp", hidden=(9, 6)), (1, 8, 8)),
    "cnn": (ModelConfig(name="cnn", channels=(4, 6), kernel=3, hidden=(10,)), (3, 14, 14)),
    "padded cnn": (ModelConfig(name="cnn", channels=(3, 5), kernel=3, padding=1, hidden=(7, 4)), (2, 9, 11)),
    "no bias": (None, (3, 8, 8)),
    "normed cnn": (ModelConfig(name="cnn", channels=(4, 6), kernel=3, hidden=(10, 6), norm="batch"), (3, 14, 14)),
}


def module(name):
    config, shape = MODELS[name]
    if config:
        return build(config, shape, N_CLASSES)
    pool = nn.MaxPool2d(2, padding=1)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2, bias=False), nn.ReLU(), pool, nn.Flatten(), nn.Linear(24, N_CLASSES, bias=False)
    )


def units(name):
    architecture = Architecture.of(initialise(lambda: module(name), 3))
    return units_of(architecture, MODELS[name][1])


def draw_keep(found, n_rows, seed):
    """Random unit masks with at least one unit in every layer."""
    rng = np.random.default_rng(seed)
    parts = []
    for size in found.sizes:
        count = rng.integers(1, size + 1, n_rows)
        parts.append(rng.random((n_rows, size)).argsort(axis=1) < count[:, None])
    return np.concatenate(parts, axis=1) if parts else np.zeros((n_rows, 0), dtype=bool)


def filled(architecture, vector):
    net = architecture.replica(CPU)
    nn.utils.vector_to_parameters(vector, net.parameters())
    return net


# ---------------------------------------------------------------- units


def test_units_of_the_papers_networks():
    cnn = Architecture.of(build(ModelConfig(name="cnn", hidden=(128,)), (1, 28, 28), 10))
    found = units_of(cnn, (1, 28, 28))
    assert found.sizes == (6, 16, 128)
    assert found.n_units == 150
    assert [layer.block for layer in found.layers] == [25, 25, 16, 1]
    vgg = units_of(Architecture.of(build(ModelConfig(name="vgg11", hidden=(128,)), (3, 32, 32), 10)), (3, 32, 32))
    assert vgg.n_units == 2880
    assert int(load(vgg, np.array(vgg.sizes))[0]) == 9_287_434


@pytest.mark.parametrize(
    ("keep", "params", "flops"), [(0.75, 0.566, 0.561), (0.5, 0.261, 0.330), (0.9, 0.787, 0.770), (1.0, 1.0, 1.0)]
)
def test_exact_load_of_the_mnist_network(keep, params, flops):
    """Shares of the full network; FLOPs counted with the sizes of the output maps."""
    net = Architecture.of(build(ModelConfig(name="cnn", hidden=(128,)), (1, 28, 28), 10))
    found = units_of(net, (1, 28, 28))
    full, less = (load(found, np.floor(np.array(found.sizes) * share).astype(int)) for share in (1.0, keep))
    assert full[0] == 36_758
    assert full[1] == net.flops_per_sample(torch.zeros(1, 28, 28))
    assert less[0] / full[0] == pytest.approx(params, abs=6e-4)
    assert less[1] / full[1] == pytest.approx(flops, abs=0.02)


@given(st.sampled_from(list(MODELS)), st.integers(0, 10**6))
@settings(max_examples=25)
def test_masks_counts_and_small_networks_agree(name, seed):
    found = units(name)
    keep = draw_keep(found, 4, seed)
    masks = entry_masks(found, keep, CPU)
    assert (kept_units(found, masks) == keep).all()
    counts = found.counts(keep)
    n_params, flops = load(found, counts)
    for row in range(4):
        small = cut(found, counts[row].tolist())
        assert small.n_params == n_params[row] == int(masks[row].sum())
    assert flops[3] == small.flops_per_sample(torch.zeros(MODELS[name][1]))
    last = found.layers[-1]
    for start in last.vectors:
        assert masks[:, start : start + last.n_out].all(), "class outputs are never dropped"
    rows = entry_masks(found, keep, CPU, whole_rows=True)
    assert (rows | ~masks).all()
    assert (entry_masks(found, np.ones_like(keep), CPU)).all(), "nothing dropped is everything kept"


def test_wide_layers_shrink_with_the_square_of_the_keep_ratio():
    net = Architecture.of(build(ModelConfig(name="mlp", hidden=(2000, 2000, 2000)), (4,), 3))
    found = units_of(net, (4,))
    half, full = (load(found, np.array([n, n, n]))[0] for n in (1000, 2000))
    assert half / full == pytest.approx(0.25, abs=2e-3)


def test_scatter_then_gather_is_the_identity():
    found = units("cnn")
    masks = entry_masks(found, draw_keep(found, 1, 2), CPU)[0]
    small, full = torch.randn(int(masks.sum())), torch.randn(len(masks))
    after = full.clone().masked_scatter_(masks, small)
    assert torch.equal(after[masks], small)
    assert torch.equal(after[~masks], full[~masks])


def test_importance_sums_the_weights_of_a_unit():
    found = units("cnn")
    params = found.architecture.flat(found.architecture.module)
    first, second, third, _ = (part for part in found.architecture.views(params) if part.dim() > 1)
    for absolute in (True, False):
        by_hand = [(part.abs() if absolute else part).flatten(1).sum(1) for part in (first, second, third)]
        np.testing.assert_allclose(importance(found, params, absolute), torch.cat(by_hand), rtol=1e-5)


@pytest.mark.parametrize(
    ("model", "shape", "words"),
    [
        (lambda: build(ModelConfig(name="squeezenet"), (3, 32, 32), 5), (3, 32, 32), "Fire"),
        (lambda: build(ModelConfig(name="lstm", layers=1), (5,), 5), (5,), "TokenLSTM"),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 2)), (4,), "Sigmoid"),
        (lambda: nn.Sequential(nn.Conv2d(4, 4, 1, groups=2), nn.Flatten(), nn.Linear(16, 2)), (4, 2, 2), "2 groups"),
        (lambda: nn.Sequential(*[nn.Linear(4, 4)] * 2, nn.Linear(4, 2)), (4,), "twice"),
        (lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.Linear(4, 2)), (4,), "GroupNorm, whose statistics mix"),
        (lambda: nn.Sequential(BatchNorm(4), nn.Linear(4, 2)), (4,), "BatchNorm that does not scale the units"),
        (
            lambda: nn.Sequential(nn.Conv2d(2, 3, 1), nn.Flatten(), BatchNorm(12), nn.Linear(12, 2)),
            (2, 2, 2),
            "BatchNorm that does not scale the units",
        ),
    ],
)
def test_networks_that_cannot_be_cut_are_refused(model, shape, words):
    with pytest.raises(BadInput, match=words):
        units_of(Architecture.of(model()), shape)


def test_a_layer_without_units_is_refused():
    with pytest.raises(ValueError, match="none of its units"):
        cut(units("mlp"), [0, 3])


# ---------------------------------------------------------------- outputs and gradients


@pytest.mark.parametrize("name", MODELS)
def test_extracted_and_masked_networks_are_one_function(name):
    found = units(name)
    keep = draw_keep(found, 1, 4)
    mask = entry_masks(found, keep, CPU)[0]
    params = found.architecture.flat(found.architecture.module) + 0.01 * torch.randn(len(mask))
    small = filled(cut(found, found.counts(keep)[0].tolist()), params[mask])
    full = filled(found.architecture, params * mask)
    x, y = torch.randn(7, *MODELS[name][1]), torch.arange(7) % N_CLASSES
    torch.testing.assert_close(small(x), full(x), rtol=1e-4, atol=1e-5)
    gradients = []
    for net in (small, full):
        loss = nn.functional.cross_entropy(net(x), y)
        gradients.append(nn.utils.parameters_to_vector(torch.autograd.grad(loss, list(net.parameters()))))
    torch.testing.assert_close(gradients[0], gradients[1][mask], rtol=1e-4, atol=1e-6)


# ---------------------------------------------------------------- training


def learner(name, engine="auto"):
    rng = np.random.default_rng(5)
    shape = MODELS[name][1]
    x = rng.standard_normal((60, *shape)).astype(np.float32)
    data = Samples(x, rng.integers(0, N_CLASSES, 60), CPU)
    return Learner([units(name).architecture], data, data, TrainConfig(engine=engine, device="cpu"), seed=4)


def work(n_rows, **changes):
    rng = np.random.default_rng(8)
    store = Store(np.stack([rng.permutation(60)[:20] for _ in range(n_rows)]), rng.integers(3, 20, n_rows))
    return Work(np.arange(n_rows) * 3, store, rng.integers(1, 5, n_rows), 0.05, 6, round=2)._replace(**changes)


VARIANTS = {"plain": {}, "momentum and prox": {"momentum": 0.9, "prox": 0.2}, "full batches": {"batch_size": 0}}


@pytest.mark.parametrize(
    ("name", "variant"), [*((name, "momentum and prox") for name in MODELS), ("cnn", "plain"), ("cnn", "full batches")]
)
def test_both_forms_move_alike(name, variant):
    """Fast extracted training against the masked full network in the plain autograd loop."""
    found = units(name)
    keep = draw_keep(found, 6, 9)
    keep[4] = keep[1]  # some rows share a shape
    masks = entry_masks(found, keep, CPU)
    start = Start(
        learner(name).initial() + 0.01 * torch.randn(2, len(masks[0]), generator=torch.Generator().manual_seed(1)),
        np.array([0, 1, 1, 0, 0, 1]),
    )
    job = work(6, mask=masks, **VARIANTS[variant])
    slow = submodels.train(learner(name, "debug"), found, start, job, "mask").delta
    scale = float(slow.abs().max())
    assert scale > 1e-4
    for engine, form in [("auto", "extract"), ("debug", "extract"), ("auto", "mask"), ("vmap", "extract")][
        : 4
        if name == "mlp"
        else 3  # vmap takes its time on a CPU
    ]:
        fast = submodels.train(learner(name, engine), found, start, job, form)
        assert (fast.device == job.device).all()
        assert (fast.delta[~masks] == 0).all(), "dropped entries do not move"
        torch.testing.assert_close(fast.delta, slow, rtol=3e-4, atol=3e-5 * scale)
    padded = submodels.train_padded(learner(name), found, start, job, worth=1).delta  # what a GPU does
    torch.testing.assert_close(padded, slow, rtol=3e-4, atol=3e-5 * scale)
    assert (padded[~masks] == 0).all(), "nor do units that fill a layer up"


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_rows_of_one_shape_and_result_does_not_depend_on_workers(name):
    """Rows of one shape go to the engine together, others run side by side in its workers."""
    found = units(name)
    start = Start(learner(name).initial()[None], np.zeros(5, dtype=np.int64))
    one_shape = np.concatenate([np.arange(size)[None] < (size + 1) // 2 for size in found.sizes], axis=1)
    for keep in (np.repeat(one_shape, 5, axis=0), draw_keep(found, 5, 1)):
        job = work(5, mask=entry_masks(found, keep, CPU))
        deltas = []
        for workers in (1, 3):
            some = learner(name)
            some.settings = TrainConfig(device="cpu", workers=workers)
            deltas.append(submodels.train(some, found, start, job).delta)
        assert torch.equal(*deltas)
        slow = submodels.train(learner(name, "debug"), found, start, job).delta
        torch.testing.assert_close(deltas[0], slow, rtol=3e-4, atol=3e-5 * float(slow.abs().max()))


def test_everything_kept_is_the_full_model():
    found = units("cnn")
    start = Start(learner("cnn").initial()[None], np.zeros(4, dtype=np.int64))
    masks = entry_masks(found, np.ones((4, found.n_units), dtype=bool), CPU)
    whole = learner("cnn").train(start, work(4)).delta
    for form in ("extract", "mask"):
        cut_none = submodels.train(learner("cnn"), found, start, work(4, mask=masks), form).delta
        torch.testing.assert_close(cut_none, whole, rtol=1e-5, atol=1e-7)
    assert torch.equal(submodels.train(learner("cnn"), found, start, work(4)).delta, whole), "no mask, no surgery"


@pytest.mark.parametrize(
    ("size", "most", "widths"),
    [(40, (20, 21, 22, 25), (20, 23, 25)), (64, (33, 36, 35, 37), (36, 40))],
)
def test_rounds_share_the_shapes_that_they_are_padded_to(size, most, widths):
    """Recorded steps of a GPU serve again: similar sub-models are padded to one network."""
    layers = nn.Sequential(nn.Linear(4, size), nn.Linear(size, 2))
    found = units_of(Architecture.of(initialise(lambda: layers, 1)), (4,))
    start = Start(torch.zeros(1, found.architecture.n_params), np.zeros(2, dtype=np.int64))
    some = Learner(
        [found.architecture],
        *2 * [Samples(np.zeros((60, 4), np.float32), np.zeros(60, np.int64), CPU)],
        TrainConfig(),
        1,
    )
    for count in most:
        keep = np.arange(size) < np.array([[count], [count // 2]])
        job = work(2, mask=entry_masks(found, keep, CPU))
        submodels.train_padded(some, found, start, job, worth=1)
    assert [small.n_params for small in some._others] == [width * 5 + 2 * width + 2 for width in widths]
    nearly = work(2, mask=entry_masks(found, np.arange(size) < [[size - 4], [size - 2]], CPU))
    submodels.train_padded(some, found, start, nearly)
    assert len(some._others) == len(widths), "the full network with masks is as fast"


def test_layers_share_one_share_of_their_units():
    """One layer decides for all of them, so that few shapes are recorded."""
    layers = nn.Sequential(nn.Linear(4, 32), nn.Linear(32, 48), nn.Linear(48, 2))
    found = units_of(Architecture.of(initialise(lambda: layers, 1)), (4,))
    keep = np.concatenate([np.arange(32) < 3, np.arange(48) < 24])[None]
    widths, wide = submodels._widened(found, keep)
    assert widths == (16, 24)
    assert (wide | keep == wide).all()
    assert wide.sum() == 40


def test_nobody_trains():
    found, empty = units("mlp"), np.zeros(0, dtype=np.int64)
    job = Work(empty, Store(np.zeros((0, 4), dtype=np.int64), empty), empty, 0.1, 4, 0)
    masks = entry_masks(found, np.zeros((0, found.n_units), dtype=bool), CPU)
    for form in ("extract", "mask"):
        start = Start(learner("mlp").initial()[None], empty)
        delta = submodels.train(learner("mlp"), found, start, job._replace(mask=masks), form).delta
        assert delta.shape == (0, found.architecture.n_params)
    padded = submodels.train_padded(learner("mlp"), found, start, job._replace(mask=masks)).delta
    assert padded.shape == (0, found.architecture.n_params)


def test_global_random_state_is_the_callers():
    before = torch.get_rng_state()
    found = units_of(units("cnn").architecture, (3, 14, 14))
    cut(found, [2, 3, 4])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("form", ["extract", "mask"])
@pytest.mark.parametrize("name", ["mlp", "cnn", "normed cnn"])
def test_gpu_agrees_with_cpu(name, form):
    found, deltas = units(name), []
    keep = draw_keep(found, 6, 9)
    keep[4] = keep[1]
    for device in ("cpu", "cuda"):
        some = learner(name)
        x = some.train_samples.take(np.arange(60))[0].numpy()
        moved = Samples(x, some.train_samples.labels, torch.device(device))
        there = Learner([found.architecture], moved, moved, TrainConfig(), seed=4)
        start = Start(there.initial()[None], np.zeros(6, dtype=np.int64))
        job = work(6, mask=entry_masks(found, keep, there.device))
        deltas.append(submodels.train(there, found, start, job, form).delta.cpu())
    torch.testing.assert_close(*deltas, rtol=1e-2, atol=1e-3 * float(deltas[0].abs().max()))
