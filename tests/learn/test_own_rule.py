"""A local rule of one's own against the engines, in large cohorts, on a GPU, and with random numbers of its own."""

import numpy as np
import pytest
import torch
from test_engines import agree, architecture, learner, points, samples, work
from torch import nn

from fedcell.errors import BadInput
from fedcell.learn.architecture import Architecture
from fedcell.learn.learner import Learner
from fedcell.learn.optimiser import Adam, Optimiser
from fedcell.learn.settings import TrainConfig
from fedcell.types import Start, is_deferred


def start_of(model):
    return Start(points(model, 3), np.array([0, 2, 1, 1, 0, 2]))


def sgd(device, module, batches):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.5)
    for x, y in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()


@pytest.mark.parametrize("model", ["mlp", "cnn", "lstm"])
@pytest.mark.parametrize("batch_size", [8, 0])
@pytest.mark.parametrize("engine", ["auto", "debug"])
def test_sgd_written_by_hand_moves_as_the_engines_do(model, batch_size, engine):
    start = start_of(model)
    before = start.points.clone()
    found = learner(model, engine).train(start, work(batch_size=batch_size, rule=sgd)).delta
    agree(found, learner(model, "debug").train(start, work(batch_size=batch_size, momentum=0.5)).delta)
    assert torch.equal(start.points, before), "the start is not trained in place"


def test_it_sees_every_device_with_its_own_batches():
    seen = {}

    def watching(device, module, batches):
        seen[device] = [len(y) for _, y in batches]

    job = work(rule=watching)
    moved = learner("mlp", "batched").train(start_of("mlp"), job).delta
    assert not moved.any()
    assert seen == {int(device): [8] * steps for device, steps in zip(job.device, job.steps, strict=True)}


def test_random_numbers_are_keyed_by_round_and_device():
    def noisy(device, module, batches):
        sgd(device, module, batches)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter += torch.randn_like(parameter)

    before = torch.get_rng_state()
    first, again, other = (
        learner("mlp", "auto").train(start_of("mlp"), work(rule=noisy, round=round)).delta.clone()
        for round in (3, 3, 4)
    )
    assert torch.equal(first, again)
    assert not torch.allclose(first, other, atol=0.1)
    assert not torch.allclose(first[0], first[1], atol=0.1), "devices draw noise of their own"
    assert torch.equal(torch.get_rng_state(), before), "the global random state is the caller's"


def test_large_cohorts(in_blocks):
    whole = learner("cnn", "auto").train(start_of("cnn"), work(rule=sgd)).delta.clone()
    in_blocks(2)
    parts = learner("cnn", "auto").train(start_of("cnn"), work(rule=sgd))
    assert is_deferred(parts.rows)
    assert torch.equal(parts.delta, whole)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_on_a_gpu():
    found = []
    for device in ("cuda", "cpu"):
        rng = np.random.default_rng(5)
        x, y = rng.standard_normal((90, 3, 12, 12)).astype(np.float32), rng.integers(0, 7, 90)
        data = type(samples((3, 12, 12)))(x, y, torch.device(device))
        one = Learner([architecture("cnn")], data, data, TrainConfig(device=device), 4)
        found.append(one.train(Start(one.initial()[None], np.zeros(6, dtype=np.int64)), work(rule=sgd)).delta.cpu())
    agree(*found)


def test_shards_run_it_too(ray_cluster):
    from fedcell.learn.engines import sharded

    def shrink(device, module, batches):  # inside: a worker has no file of this name
        with torch.no_grad():
            for parameter in module.parameters():
                parameter *= 0.9

    data, found = samples((3, 8, 8)), []
    layout = Architecture.of(nn.Sequential(nn.Flatten(), nn.Linear(192, 7)))
    for shards in (0, 2):
        one = Learner([layout], data, data, TrainConfig(device="cpu", shards=shards), 4)
        start = Start(one.initial()[None], np.zeros(6, dtype=np.int64))
        found.append(one.train(start, work(rule=shrink)).delta.clone())
    sharded.dismiss()
    assert torch.equal(*found)
    assert found[0].abs().max() > 1e-3


@pytest.mark.parametrize(
    ("optimiser", "key"),
    [
        (Optimiser(weight_decay=0.1), "weight_decay"),
        (Optimiser(clip=1.0), "clip"),
        (Optimiser(adam=Adam()), "optimiser"),
    ],
)
def test_options_that_the_rule_would_ignore_are_refused(optimiser, key):
    start = Start(points("mlp"), np.zeros(6, dtype=np.int64))
    with pytest.raises(BadInput, match=f"train.{key} changes local steps, which this method has a rule of its own for"):
        learner("mlp", "auto").train(start, work(optimiser=optimiser, rule=lambda device, module, batches: None))
