"""A constant gradient per row: every engine against the plain loop, and the plain loop against `torch.optim`."""

from functools import cache

import numpy as np
import pytest
import torch
from test_engines import MODELS, N_CLASSES, agree, architecture, as_cohort, learner, points, samples, work
from torch import nn

from fedcell.learn.architecture import Architecture, trainable
from fedcell.learn.batches import draw_batches
from fedcell.learn.engines import batched
from fedcell.learn.engines.gpu import vmap
from fedcell.learn.learner import Learner
from fedcell.learn.models import build
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.learn.setup import initialise
from fedcell.methods.pruning import submodels
from fedcell.methods.pruning.units import entry_masks, units_of
from fedcell.types import Start, is_deferred

N_ROWS = 6
VARIANTS = {
    "plain": {},
    "full batch": {"batch_size": 0},
    "prox and momentum": {"prox": 0.4, "momentum": 0.6},
    "equal steps": {"steps": np.full(N_ROWS, 3)},
}


def shift_of(n_params, n_rows=N_ROWS):
    return 0.3 * torch.randn(n_rows, n_params, generator=torch.Generator().manual_seed(7))


def start_of(model):
    return Start(points(model, 3), np.array([0, 2, 1, 1, 0, 2]))


def cases():
    for model in ("logistic", "mlp", "cnn", "lstm"):
        for engine in ("sequential", "vmap", *(["batched", "cohort"] if model in ("logistic", "mlp") else [])):
            for variant in VARIANTS:
                yield model, engine, variant


def shifted(model, variant, round):
    shift = shift_of(architecture(model).n_params) * (1 - 2 * round)
    return work(**VARIANTS[variant], shift=shift, round=round)


@cache
def plain_loops(model, variant, round):
    """What the plain loop says with a shift and without; every engine is held against it."""
    job, slow = shifted(model, variant, round), learner(model, "debug")
    return [slow.train(start_of(model), one).delta.clone() for one in (job, job._replace(shift=None))]


@pytest.mark.parametrize(("model", "engine", "variant"), list(cases()))
def test_agrees_with_debug(model, engine, variant, monkeypatch):
    if engine == "cohort":  # dense chains as a GPU trains them
        monkeypatch.setattr(batched, "_train_chunk", as_cohort)
        engine = "batched"
    start, fast = start_of(model), learner(model, engine, workers=1)
    for round in range(2):  # memory of an earlier round is used again
        slow, plain = plain_loops(model, variant, round)
        agree(fast.train(start, shifted(model, variant, round)).delta, slow)
        assert not torch.allclose(slow, plain, atol=1e-3), "the shift must matter"


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_plain_loop_is_sgd_of_a_loss_with_a_linear_term(variant):
    """`F(w) + <shift, w>` has the gradient of `F` plus the shift; `torch.optim.SGD` descends it."""
    start, changes = start_of("cnn"), VARIANTS[variant]
    job = work(**changes, shift=shift_of(start.points.shape[1]))
    layout, data = architecture("cnn"), samples(MODELS["cnn"][1])
    draws, first = draw_batches(job.store, job.device, job.steps * max(job.batch_size, 1), "shuffle", 4, job.round)
    found = learner("cnn", "debug").train(start, job).delta
    for row in range(N_ROWS):
        module, begin = layout.replica(torch.device("cpu")), start.points[start.of_row[row]]
        nn.utils.vector_to_parameters(begin.clone(), trainable(module))
        optimizer = torch.optim.SGD(module.parameters(), lr=job.lr, momentum=job.momentum)
        for step in range(job.steps[row]):
            index = draws[first[row] + step * job.batch_size :][: job.batch_size]
            if not job.batch_size:
                index = job.store.items[row, : job.store.size[row]]
            x, y = data.take(index)
            now = nn.utils.parameters_to_vector(module.parameters())
            loss = nn.functional.cross_entropy(module(x), y) + job.shift[row] @ now
            loss = loss + job.prox / 2 * (now - begin).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        agree(found[row], nn.utils.parameters_to_vector(module.parameters()).detach() - begin)


@pytest.mark.parametrize("engine", ["sequential", "vmap", "batched"])
def test_masked_entries_do_not_move(engine):
    start = start_of("mlp")
    shift = shift_of(start.points.shape[1])
    job = work(shift=shift, mask=shift > 0, momentum=0.3)
    fast = learner("mlp", engine).train(start, job).delta
    agree(fast, learner("mlp", "debug").train(start, job).delta)
    assert (fast[shift <= 0] == 0).all()


def test_clients_that_fill_a_gpu_alone(monkeypatch):
    monkeypatch.setattr(vmap, "BUSY", 0.0)
    monkeypatch.setattr(vmap, "TOGETHER", 4)
    start = start_of("cnn")
    job = work(steps=np.full(N_ROWS, 3), shift=shift_of(start.points.shape[1]))
    agree(learner("cnn", "vmap").train(start, job).delta, learner("cnn", "debug").train(start, job).delta)


def test_wide_layers_that_move_inside_their_backward_pass():
    """With a shift they must not: their gradient has to be written out."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 600), nn.ReLU(), nn.Linear(600, N_CLASSES))
    odd = nn.Sequential(nn.Flatten(), nn.Linear(192, 600), nn.Tanh(), nn.Linear(600, N_CLASSES))
    for module in (net, odd):  # without autograd, and with it
        layout, data, found = Architecture.of(module), samples((3, 8, 8)), []
        job = work(shift=shift_of(layout.n_params))
        for engine in ("sequential", "debug"):
            one = Learner([layout], data, data, TrainConfig(engine=engine, device="cpu"), 4)
            found.append(one.train(Start(one.initial()[None], np.zeros(N_ROWS, dtype=np.int64)), job).delta)
        agree(*found)


def test_large_cohorts_and_several_architectures(in_blocks):
    start = start_of("mlp")
    job = work(shift=shift_of(start.points.shape[1]))
    whole = learner("mlp", "auto", workers=1).train(start, job).delta.clone()
    in_blocks(2)
    parts = learner("mlp", "auto", workers=1).train(start, job)
    assert is_deferred(parts.rows)
    one = np.arange(N_ROWS) == 4
    assert torch.equal(parts.rows.add_up(one, np.ones(1)), whole[4])


def test_several_architectures():
    wide, narrow = architecture("mlp"), Architecture.of(nn.Sequential(nn.Flatten(), nn.Linear(192, N_CLASSES)))
    data, kinds = samples((3, 8, 8)), np.array([0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1])
    job, found = work(shift=shift_of(wide.n_params)), []
    for engine in ("auto", "debug"):
        both = Learner([wide, narrow], data, data, TrainConfig(engine=engine, device="cpu"), 4, of_device=kinds)
        start = Start(torch.stack([both.initial(0), both.initial(1)]), kinds[job.device])
        found.append(both.train(start, job).delta)
    agree(*found)
    assert (found[0][torch.from_numpy(kinds[job.device] == 1), narrow.n_params :] == 0).all(), "a tail stays zero"


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_sub_models_take_the_part_that_they_keep(model):
    shape = MODELS[model][1]
    units = units_of(architecture(model), shape)
    rng = np.random.default_rng(3)
    half = [rng.random((N_ROWS, size)).argsort(axis=1) < (size + 1) // 2 for size in units.sizes]
    keep = np.concatenate(half, axis=1)
    keep[2] = True
    masks = entry_masks(units, keep, torch.device("cpu"))
    job = work(mask=masks, shift=shift_of(masks.shape[1]))
    slow = submodels.train(learner(model, "debug"), units, start_of(model), job, "mask").delta
    agree(submodels.train(learner(model, "auto"), units, start_of(model), job, "extract").delta, slow)
    assert (slow[~masks] == 0).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_replayed_steps_on_a_gpu(name):
    shape = (1, 12, 12)
    layout = Architecture.of(initialise(lambda: build(ModelConfig(name=name, kernel=3), shape, N_CLASSES), 1))
    found = {}
    for device, engine in (("cuda", "auto"), ("cpu", "debug")):
        rng = np.random.default_rng(5)
        x, y = rng.standard_normal((90, *shape)).astype(np.float32), rng.integers(0, N_CLASSES, 90)
        data = type(samples(shape))(x, y, torch.device(device))
        one = Learner([layout], data, data, TrainConfig(engine=engine, device=device), 4)
        start = Start(one.initial()[None], np.zeros(N_ROWS, dtype=np.int64))
        found[device] = [
            one.train(start, work(shift=(number + 1) * shift_of(layout.n_params).to(device), round=number)).delta.cpu()
            for number in range(4)
        ]
    for gpu, cpu in zip(found["cuda"], found["cpu"], strict=True):
        agree(gpu, cpu)
