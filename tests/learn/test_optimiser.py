"""Weight decay, clipping, AdamW and schedules: every engine against the plain loop, that one against `torch.optim`."""

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
from fedcell.learn.engines.update import clipped
from fedcell.learn.learner import Learner
from fedcell.learn.models import build
from fedcell.learn.optimiser import SCHEDULES, Adam, Optimiser, rate_factor
from fedcell.learn.samples import Samples
from fedcell.learn.settings import TrainConfig
from fedcell.learn.setup import initialise
from fedcell.types import Start

N_ROWS = 6
DECAY, CLIP = Optimiser(weight_decay=0.3), Optimiser(clip=0.4)
ADAMW = Optimiser(weight_decay=0.5, adam=Adam(0.8, 0.95, 1e-3))
EVERY = Optimiser(weight_decay=0.2, clip=0.5, adam=Adam(eps=1e-3))
VARIANTS = {
    "decay": {"optimiser": DECAY},
    "decay and momentum": {"optimiser": DECAY, "momentum": 0.7},
    "clip": {"optimiser": CLIP},
    "clip, full batch, prox": {"optimiser": CLIP, "batch_size": 0, "prox": 0.5, "momentum": 0.4},
    "adamw": {"optimiser": ADAMW, "lr": 0.01},
    "adamw, full batch": {"optimiser": ADAMW, "lr": 0.01, "batch_size": 0},
    "all": {"optimiser": EVERY, "lr": 0.01, "prox": 0.3},
}


def start_of(model):
    return Start(points(model, 3), np.array([0, 2, 1, 1, 0, 2]))


def cases():
    for model in ("mlp", "cnn", "lstm"):
        for engine in ("sequential", "vmap", *(["batched", "cohort"] if model == "mlp" else [])):
            for variant in VARIANTS:
                yield model, engine, variant


@cache
def plain_loops(model, variant, round):
    """What the plain loop says with these options and without; every engine is held against it."""
    job, slow = work(**VARIANTS[variant], round=round), learner(model, "debug")
    return [slow.train(start_of(model), one).delta.clone() for one in (job, job._replace(optimiser=Optimiser()))]


@pytest.mark.parametrize(("model", "engine", "variant"), list(cases()))
def test_agrees_with_debug(model, engine, variant, monkeypatch):
    if engine == "cohort":  # dense chains as a GPU trains them
        monkeypatch.setattr(batched, "_train_chunk", as_cohort)
        engine = "batched"
    start, fast = start_of(model), learner(model, engine, workers=1)
    for round in range(2):  # memory of an earlier round is used again
        slow, plain = plain_loops(model, variant, round)
        agree(fast.train(start, work(**VARIANTS[variant], round=round)).delta, slow)
        assert not torch.allclose(slow, plain, atol=1e-4), "the options must matter"


def torch_optimiser(module, job):
    decay, _, adam = job.optimiser
    if adam is None:
        return torch.optim.SGD(module.parameters(), job.lr, momentum=job.momentum, weight_decay=decay)
    betas = adam.beta1, adam.beta2
    return torch.optim.AdamW(module.parameters(), job.lr, betas=betas, eps=adam.eps, weight_decay=decay)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_the_plain_loop_is_that_of_pytorch(model, variant):
    """`torch.optim` with `clip_grad_norm_`; a pull towards the start comes after clipping."""
    start, job = start_of(model), work(**VARIANTS[variant])
    layout, data = architecture(model), samples(MODELS[model][1])
    draws, first = draw_batches(job.store, job.device, job.steps * max(job.batch_size, 1), "shuffle", 4, job.round)
    found = learner(model, "debug").train(start, job).delta
    for row in range(N_ROWS):
        module, begin = layout.replica(torch.device("cpu")), start.points[start.of_row[row]]
        nn.utils.vector_to_parameters(begin.clone(), trainable(module))
        origin = [part.detach().clone() for part in module.parameters()]
        optimizer = torch_optimiser(module, job)
        for step in range(job.steps[row]):
            index = draws[first[row] + step * job.batch_size :][: job.batch_size]
            if not job.batch_size:
                index = job.store.items[row, : job.store.size[row]]
            x, y = data.take(index)
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(x), y).backward()
            if job.optimiser.clip:
                nn.utils.clip_grad_norm_(module.parameters(), job.optimiser.clip)
            for part, home in zip(module.parameters(), origin, strict=True):
                part.grad += job.prox * (part.detach() - home)
            optimizer.step()
        agree(found[row], nn.utils.parameters_to_vector(module.parameters()).detach() - begin)


@pytest.mark.parametrize("engine", ["sequential", "vmap", "batched", "debug"])
@pytest.mark.parametrize("options", [DECAY, CLIP, EVERY], ids=["decay", "clip", "all"])
def test_masked_entries_neither_move_nor_count(engine, options):
    """The gradient that is clipped is that of the entries that train: a net without the others trains alike."""
    start = start_of("mlp")
    mask = torch.rand(N_ROWS, start.points.shape[1], generator=torch.Generator().manual_seed(2)) < 0.5
    job = work(mask=mask, optimiser=options, lr=0.01, steps=np.full(N_ROWS, 1))
    found = learner("mlp", engine).train(start, job).delta
    agree(found, learner("mlp", "debug").train(start, job).delta)
    assert (found[~mask] == 0).all()
    if options == CLIP:  # one step of an own gradient of the kept entries
        gradient = -learner("mlp", "debug").train(start, job._replace(optimiser=Optimiser())).delta / job.lr
        norm = gradient.norm(dim=1, keepdim=True)
        assert (norm > CLIP.clip).any()
        agree(found, -job.lr * gradient * (CLIP.clip / norm).clamp(max=1))


def test_clients_that_fill_a_gpu_alone(monkeypatch):
    monkeypatch.setattr(vmap, "BUSY", 0.0)
    start = start_of("cnn")
    job = work(steps=np.full(N_ROWS, 3), optimiser=EVERY, lr=0.01)
    agree(learner("cnn", "vmap").train(start, job).delta, learner("cnn", "debug").train(start, job).delta)


def test_every_row_is_clipped_by_its_own_norm():
    rng = torch.Generator().manual_seed(1)
    parts = [torch.randn(4, 3, 2, generator=rng), torch.randn(4, 5, generator=rng)]
    parts[0][2], parts[1][2] = 1e-3, 0.0  # a row that is short enough
    together = torch.cat([part.flatten(1) for part in clipped(parts, 0.5, by_row=True)], dim=1)
    for row in range(4):
        alone = clipped([part[row] for part in parts], 0.5, by_row=False)
        torch.testing.assert_close(together[row], torch.cat([part.flatten() for part in alone]))
    norms = together.norm(dim=1)
    torch.testing.assert_close(norms[[0, 1, 3]], torch.full((3,), 0.5))
    assert norms[2] < 0.01


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", ["mlp", "cnn"])
@pytest.mark.parametrize("variant", ["decay and momentum", "clip, full batch, prox", "all", "augmented"])
def test_replayed_steps_on_a_gpu(name, variant):
    """The counter of a recorded step corrects AdamW's averages; crops and flips are taken inside it."""
    changes = VARIANTS.get(variant, {"augment": True})
    config, shape = MODELS[name]
    layout = Architecture.of(initialise(lambda: build(config, shape, N_CLASSES), 1))
    found = {}
    for device, engine in (("cuda", "auto"), ("cpu", "debug")):
        rng = np.random.default_rng(5)
        x, y = rng.standard_normal((90, *shape)).astype(np.float32), rng.integers(0, N_CLASSES, 90)
        data = Samples(x, y, torch.device(device))
        settings = TrainConfig(engine=engine, device=device, augment="crop_flip", crop_padding=2)
        one = Learner([layout], data, data, settings, 4)
        start = Start(one.initial()[None], np.zeros(N_ROWS, dtype=np.int64))
        found[device] = [one.train(start, work(**changes, round=number)).delta.cpu() for number in range(4)]
    for gpu, cpu in zip(found["cuda"], found["cpu"], strict=True):
        agree(gpu, cpu)


def torch_rates(name, settings, n):
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scheduler = {
        "step": lambda: torch.optim.lr_scheduler.StepLR(optimizer, settings.lr_every, settings.lr_factor),
        "exponential": lambda: torch.optim.lr_scheduler.ExponentialLR(optimizer, settings.lr_decay),
        "linear": lambda: torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, settings.lr_floor, n),
        "cosine": lambda: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n, settings.lr_floor),
    }[name]()
    rates = []
    for _ in range(n):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize("name", [name for name in SCHEDULES if name != "constant"])
def test_schedules_are_those_of_pytorch(name):
    settings = TrainConfig(schedule=name, lr_every=3, lr_factor=0.5, lr_decay=0.9, lr_floor=0.2)
    ours = [rate_factor(settings, round, 10) for round in range(10)]
    assert ours == pytest.approx(torch_rates(name, settings, 10))
    assert ours[0] == 1 > ours[-1] > 0
    late = TrainConfig(schedule=name, warmup=4, lr_every=3, lr_factor=0.5, lr_decay=0.9, lr_floor=0.2)
    ramp = [rate_factor(late, round, 14) for round in range(14)]
    assert ramp[:4] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert ramp[4:] == pytest.approx(ours)


def test_rounds_beyond_the_last_keep_the_floor():
    settings = TrainConfig(schedule="cosine", lr_floor=0.1)
    assert rate_factor(settings, 50, 10) == pytest.approx(0.1)
    assert rate_factor(TrainConfig(), 50, 10) == 1
