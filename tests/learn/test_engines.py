"""The fast engines against the plain autograd loop."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedcell.errors import BadInput
from fedcell.learn.architecture import Architecture
from fedcell.learn.engines import batched, common
from fedcell.learn.engines.common import Batches
from fedcell.learn.engines.cpu.native import lowering, norm_relu
from fedcell.learn.engines.gpu import vmap
from fedcell.learn.engines.gpu.cuda_graphs import train_rows
from fedcell.learn.learner import Learner
from fedcell.learn.models import build
from fedcell.learn.samples import Samples
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.learn.setup import initialise
from fedcell.learn.work import Work
from fedcell.types import Start, Store

CPU = torch.device("cpu")
N_CLASSES = 7
MODELS = {
    "logistic": (ModelConfig(name="logistic"), (1, 12, 12)),
    "mlp": (ModelConfig(name="mlp", hidden=(20, 9)), (3, 8, 8)),
    "cnn": (ModelConfig(name="cnn", channels=(4, 6), kernel=3, hidden=(15,)), (3, 12, 12)),
    "lstm": (ModelConfig(name="lstm", vocabulary=11, embedding=6, width=10, layers=2), (5,)),
    "squeezenet": (ModelConfig(name="squeezenet"), (3, 32, 33)),
}
ENGINES = {"logistic": ["sequential", "batched", "vmap"], "mlp": ["sequential", "batched", "vmap"]}


def samples(shape, n=90):
    rng = np.random.default_rng(5)
    tokens = len(shape) == 1
    x = rng.integers(0, 11, (n, *shape)) if tokens else rng.standard_normal((n, *shape))
    return Samples(x.astype(np.float32), rng.integers(0, N_CLASSES, n), CPU)


def architecture(name, seed=3):
    config, shape = MODELS[name]
    return Architecture.of(initialise(lambda: build(config, shape, N_CLASSES), seed))


def learner(name, engine, **settings):
    data = samples(MODELS[name][1])
    return Learner([architecture(name)], data, data, TrainConfig(engine=engine, device="cpu", **settings), seed=4)


def work(n_rows=6, **changes):
    rng = np.random.default_rng(8)
    size = rng.integers(3, 30, n_rows)
    store = Store(np.stack([rng.permutation(90)[:30] for _ in range(n_rows)]), size)
    steps = rng.integers(1, 5, n_rows)
    return Work(np.arange(n_rows) * 2, store, steps, lr=0.05, batch_size=8, round=3)._replace(**changes)


def points(name, count=1):
    rng = torch.Generator().manual_seed(0)
    base = learner(name, "debug").initial()
    return base + 0.02 * torch.randn(count, len(base), generator=rng)


VARIANTS = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "prox": {"prox": 0.7},
    "equal steps": {"steps": np.full(6, 3)},
    "full batch": {"batch_size": 0},
    "full batch, prox and momentum": {"batch_size": 0, "prox": 0.3, "momentum": 0.5},
    "one device": {"device": np.array([5]), "steps": np.array([3])},
}


def cases():
    for model in MODELS:
        for engine in ENGINES.get(model, ["sequential", "vmap"]):
            for variant in VARIANTS if model != "squeezenet" else ["plain"]:
                yield model, engine, variant


def agree(fast, slow):
    scale = slow.abs().max()
    assert scale > 1e-4, "nothing was trained"
    torch.testing.assert_close(fast, slow, rtol=2e-4, atol=float(scale) * 2e-5)


def both(model, engine, job, start):
    fast = learner(model, engine).train(start, job)
    slow = learner(model, "debug").train(start, job)
    assert (fast.device == job.device).all()
    return fast.delta, slow.delta


def varied(variant, round=3):
    """Rows of a variant; learning rates differ by round."""
    changes = {"round": round, "lr": 0.05 + 0.1 * (round % 3), **VARIANTS[variant]}
    return work(n_rows=len(changes.get("device", range(6))), **changes)


def start_of(model, job):
    return Start(points(model), np.zeros(len(job.steps), dtype=np.int64))


@cache
def plain_loop(model, variant, round=3):
    """What the plain loop says of a variant; every engine is held against it."""
    job = varied(variant, round)
    return learner(model, "debug").train(start_of(model, job), job).delta.clone()


@pytest.mark.parametrize(("model", "engine", "variant"), list(cases()))
def test_agrees_with_debug(model, engine, variant, monkeypatch):
    if model == "squeezenet":  # the rounding of compiled kernels decides between values of a pool that are 1e-6 apart
        for user in (lowering, norm_relu):
            monkeypatch.setattr(user, "library", lambda file: None)
    job = varied(variant)
    found = learner(model, engine).train(start_of(model, job), job)
    assert (found.device == job.device).all()
    agree(found.delta, plain_loop(model, variant))


def test_compiled_kernels_agree_with_debug_but_for_ties():
    job = work(steps=np.ones(6, dtype=np.int64))
    fast, slow = both("squeezenet", "sequential", job, Start(points("squeezenet"), np.zeros(6, dtype=np.int64)))
    apart = (fast - slow).norm(dim=1) / slow.norm(dim=1)
    assert apart.median() < 1e-5  # most rows have no such ties
    assert apart.max() < 0.01


@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_rows_that_leave_the_finite_numbers_are_returned_as_they_are(model):
    """No warning, which would be an error here: who is not finite is looked for when updates arrive."""
    job = work(lr=1e38, steps=np.full(6, 4))
    found = learner(model, "batched").train(Start(points(model), np.zeros(6, dtype=np.int64)), job)
    assert not found.finite().any()


def as_cohort(job, layers, batches, rows):
    """Dense chains as a GPU trains them, here on a CPU."""
    train_rows(job, lambda: batched.kernel(layers), batches, rows)


@pytest.mark.parametrize("model", ["logistic", "mlp"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_dense_cohorts_agree_with_debug(model, variant, monkeypatch):
    monkeypatch.setattr(batched, "_train_chunk", as_cohort)
    fast = learner(model, "batched", workers=1)
    for round in range(3):  # memory of earlier rounds is used again
        job = varied(variant, round)
        agree(fast.train(start_of(model, job), job).delta, plain_loop(model, variant, round))


@pytest.mark.parametrize("variant", ["plain", "full batch", "full batch, prox and momentum"])
@pytest.mark.parametrize("engine", ["sequential", "batched", "vmap", "cohort"])
def test_inputs_that_repeat_are_trained_on_once(engine, variant, monkeypatch):
    """Few distinct inputs with many labels each: label shares give the gradient of the plain loop."""
    if engine == "cohort":
        monkeypatch.setattr(batched, "_train_chunk", as_cohort)
        engine = "batched"
    rng, seen = np.random.default_rng(6), []
    inputs = rng.integers(0, 12, 90)
    x = rng.standard_normal((12, 3, 8, 8)).astype(np.float32)[inputs]

    class Watched(Samples):
        def at(self, index):
            seen.append(len(index))
            return super().at(index)

    data = Watched(x, rng.integers(0, N_CLASSES, 90), CPU)
    settings = TrainConfig(engine=engine, device="cpu", workers=1)
    job = work(**{"batch_size": 24, **VARIANTS[variant]})  # more draws than there are inputs
    start = Start(points("mlp"), np.zeros(6, dtype=np.int64))
    found = []
    for data.inputs in (None, inputs):
        seen.clear()
        learner = Learner([architecture("mlp")], data, data, settings, seed=4)
        found += [learner.train(start, job).delta, sum(seen), learner.evaluate(start.points[0])]
    every, n_every, judged_every, once, n_once, judged_once = found
    agree(once, every)
    assert n_once < n_every
    assert judged_once == pytest.approx(judged_every, rel=1e-5)


@pytest.mark.parametrize("own", [False, True])
def test_inputs_that_repeat_have_noise_of_their_own(own):
    """Draws of one input are not merged if the network draws random numbers, in layers of PyTorch or of a user."""

    class Noise(nn.Module):
        def forward(self, x):
            return functional.dropout(x, 0.5)

    rng = np.random.default_rng(6)
    inputs = rng.integers(0, 12, 90)
    data = Samples(rng.standard_normal((12, 20)).astype(np.float32)[inputs], rng.integers(0, N_CLASSES, 90), CPU)
    data.inputs = inputs
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), Noise() if own else nn.Dropout(0.5), nn.Linear(30, N_CLASSES))
    job, found = work(batch_size=24), []
    for engine in ("debug", "sequential"):
        learner = Learner([Architecture.of(net)], data, data, TrainConfig(engine=engine, device="cpu"), seed=4)
        found.append(learner.train(Start(learner.initial()[None], np.zeros(6, dtype=np.int64)), job).delta.clone())
    assert found[0].abs().max() > 1e-3
    agree(*found)


def test_rounds_of_other_numbers_of_inputs_share_the_memory_of_a_cohort(monkeypatch):
    """As on a GPU, where a shape that occurs again replays recorded steps."""
    seen = set()

    class AsOnGpu(Batches):
        def __init__(self, job):
            super().__init__(job)
            self._pads = True

        def feed(self, rows, first, end):
            found = super().feed(rows, first, end)
            seen.add(int((found.number // 7 % found.sample.shape[2]).max()) + 1)  # distinct inputs of the fullest batch
            return found

    monkeypatch.setattr(vmap, "batches_of", AsOnGpu)
    monkeypatch.setattr(common, "DISTINCT_ON_GPU", 1)
    rng = np.random.default_rng(6)
    inputs = rng.integers(0, 200, 2000)
    data = Samples(rng.standard_normal((200, 3, 8, 8)).astype(np.float32)[inputs], rng.integers(0, 7, 2000), CPU)
    data.inputs = inputs
    fast = Learner([architecture("mlp")], data, data, TrainConfig(engine="vmap", device="cpu"), seed=4)
    slow = Learner([architecture("mlp")], data, data, TrainConfig(engine="debug", device="cpu"), seed=4)
    store = Store(rng.permutation(2000)[:1800].reshape(6, 300), np.full(6, 300))
    start = Start(points("mlp"), np.zeros(6, dtype=np.int64))
    for number in range(12):
        job = work(store=store, batch_size=100, steps=np.full(6, 3), round=number)
        agree(fast.train(start, job).delta, slow.train(start, job).delta)
    assert len(seen) > 3
    assert len(fast._replays._kept) < 3


@pytest.mark.parametrize("model", ["mlp", "cnn", "lstm"])
@pytest.mark.parametrize("engine", ["sequential", "batched", "vmap"])
def test_many_start_points_and_row_masks(model, engine):
    if engine == "batched" and model != "mlp":
        pytest.skip("batched is for dense chains")
    start = Start(points(model, 3), np.array([0, 2, 1, 1, 0, 2]))
    mask = torch.rand(6, start.points.shape[1], generator=torch.Generator().manual_seed(2)) < 0.5
    fast, slow = both(model, engine, work(mask=mask, momentum=0.4), start)
    agree(fast, slow)
    assert (fast[~mask] == 0).all(), "masked entries must not move"
    common = work(mask=mask[0])
    agree(*both(model, engine, common, start))


@pytest.mark.parametrize("engine", ["sequential", "vmap"])
def test_own_objective(engine):
    def pulled(module, x, y, weight):
        loss = nn.functional.cross_entropy(module(x), y, reduction="none")
        mean = loss.mean() if weight is None else (loss * weight).sum()
        return mean + 0.1 * sum(p.square().sum() for p in module.parameters())

    job = work(objective=pulled)
    start = Start(points("cnn"), np.zeros(6, dtype=np.int64))
    fast, slow = both("cnn", engine, job, start)
    agree(fast, slow)
    plain = learner("cnn", "debug").train(start, work()).delta
    assert not torch.allclose(plain, slow, atol=1e-4), "the objective must matter"


def test_several_architectures_at_once():
    wide, narrow = architecture("mlp"), Architecture.of(nn.Sequential(nn.Flatten(), nn.Linear(192, N_CLASSES)))
    data, kinds = samples((3, 8, 8)), np.array([0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1])
    job = work(mask=torch.rand(6, wide.n_params) < 0.7)
    deltas = []
    for engine in ("auto", "debug"):
        settings = TrainConfig(engine=engine, device="cpu")
        both_kinds = Learner([wide, narrow], data, data, settings, 4, of_device=kinds)
        start = Start(torch.stack([both_kinds.initial(0), both_kinds.initial(1)]), kinds[job.device])
        deltas.append(both_kinds.train(start, job).delta)
    agree(*deltas)
    is_narrow = torch.from_numpy(kinds[job.device] == 1)
    assert is_narrow.any()
    assert (deltas[0][is_narrow, narrow.n_params :] == 0).all()
    assert (deltas[0][is_narrow, : narrow.n_params] != 0).any()


@pytest.mark.parametrize(("model", "engine"), [("cnn", "sequential"), ("mlp", "batched"), ("mlp", "sequential")])
def test_result_does_not_depend_on_workers(model, engine):
    start, job = Start(points(model), np.zeros(40, dtype=np.int64)), work(40)
    one, three = (learner(model, engine, workers=workers).train(start, job).delta for workers in (1, 3))
    assert torch.equal(one, three)


def test_main_thread_keeps_its_threads():
    before = torch.get_num_threads()
    learner("cnn", "sequential").train(Start(points("cnn"), np.zeros(6, dtype=np.int64)), work())
    assert torch.get_num_threads() == before


def test_dropout_repeats_exactly():
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 30), nn.Dropout(0.5), nn.ReLU(), nn.Linear(30, N_CLASSES))
    data, start = samples((3, 8, 8)), None
    before = torch.get_rng_state()
    deltas = []
    for workers in (1, 3):
        layout = Architecture.of(net)
        drops = Learner([layout], data, data, TrainConfig(device="cpu", workers=workers), 4)
        start = start or Start(drops.initial()[None], np.zeros(6, dtype=np.int64))
        deltas.append(drops.train(start, work()).delta)
    assert torch.equal(*deltas)
    assert torch.equal(torch.get_rng_state(), before), "the global random state is the caller's"
    assert not torch.equal(deltas[0], drops.train(start, work(round=4)).delta)


def test_shared_layer_is_not_fused():
    layer = nn.Linear(192, 192)
    net = nn.Sequential(nn.Flatten(), layer, nn.ReLU(), layer, nn.Linear(192, N_CLASSES))
    data, results = samples((3, 8, 8)), []
    for engine in ("auto", "debug"):
        tied = Learner([Architecture.of(net)], data, data, TrainConfig(engine=engine, device="cpu"), 4)
        results.append(tied.train(Start(tied.initial()[None], np.zeros(6, dtype=np.int64)), work()).delta)
    agree(*results)


def test_vmap_refuses_networks_that_draw():
    net, data = nn.Sequential(nn.Flatten(), nn.Linear(192, N_CLASSES), nn.Dropout(0.1)), samples((3, 8, 8))
    one = Learner([Architecture.of(net)], data, data, TrainConfig(engine="vmap", device="cpu"), 4)
    with pytest.raises(BadInput, match=r"train.engine = 'vmap' cannot train networks that draw random numbers"):
        one.train(Start(one.initial()[None], np.zeros(6, dtype=np.int64)), work())


def test_no_rows():
    empty = np.zeros(0, dtype=np.int64)
    nobody = work(device=empty, steps=empty, store=Store(np.zeros((0, 4), dtype=np.int64), empty))
    for engine in ("sequential", "batched", "vmap", "debug"):
        delta = learner("mlp", engine).train(Start(points("mlp"), empty), nobody).delta
        assert delta.shape == (0, architecture("mlp").n_params)


def test_chain_recognises_dense_nets_only():
    assert len(batched.chain(architecture("mlp"))) == 3
    assert batched.chain(architecture("cnn")) is None
    assert batched.chain(Architecture.of(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2)))) is None
    assert batched.chain(Architecture.of(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))) is None


@pytest.mark.parametrize(
    "layer",
    [
        lambda: torch.nn.Conv2d(3, 16, 3, padding="same"),
        lambda: torch.nn.Conv2d(3, 16, 1, stride=2),
        lambda: torch.nn.Conv2d(3, 16, 3, padding=(2, 1), stride=(1, 2)),
        lambda: torch.nn.Conv2d(3, 16, 3, dilation=2),
        lambda: torch.nn.Conv2d(3, 18, 3, groups=3, bias=False),
        lambda: torch.nn.Conv2d(3, 16, 3, padding=1, padding_mode="circular"),
    ],
    ids=["same", "pixels", "uneven", "dilated", "groups", "circular"],
)
def test_convolutions_of_every_kind_batch_over_models(layer):

    def net():
        first = layer()
        second = torch.nn.Conv2d(first.out_channels, 4, 2)
        pooled = (torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(4, N_CLASSES))
        return torch.nn.Sequential(first, torch.nn.ReLU(), second, *pooled)

    data, layout = samples((3, 8, 8)), Architecture.of(initialise(net, 1))
    found = []
    for engine in ("vmap", "debug"):
        one = Learner([layout], data, data, TrainConfig(engine=engine, device="cpu"), seed=4)
        found.append(one.train(Start(one.initial()[None], np.zeros(6, dtype=np.int64)), work()).delta)
    agree(*found)
