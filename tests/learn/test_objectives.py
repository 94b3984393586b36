"""Objectives that change from round to round, in cohorts that are kept."""

from functools import partial

import numpy as np
import torch
from torch.nn import functional

from fedcell.learn.architecture import Architecture
from fedcell.learn.engines.objectives import signature
from fedcell.learn.learner import Learner
from fedcell.learn.models import build
from fedcell.learn.samples import Samples
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.learn.setup import initialise
from fedcell.learn.work import Work
from fedcell.types import Start, Store


def towards(strength, target, module, x, y, weight):
    scores = module(x)
    each = functional.cross_entropy(scores, y, reduction="none") + strength * (scores - target).square().sum(1)
    return each.mean() if weight is None else (each * weight).sum()


def learner(engine):
    rng = np.random.default_rng(0)
    samples = Samples(rng.random((90, 1, 12, 12)).astype(np.float32), rng.integers(0, 7, 90), torch.device("cpu"))
    config = ModelConfig(name="cnn", channels=(4, 6), kernel=3, hidden=(15,))
    layout = Architecture.of(initialise(lambda: build(config, (1, 12, 12), 7), 3))
    return Learner([layout], samples, samples, TrainConfig(engine=engine, device="cpu"), seed=4)


def train(one, objective):
    store = Store(np.arange(90).reshape(3, 30), np.full(3, 30))
    work = Work(np.arange(3), store, np.array([3, 2, 1]), lr=0.05, batch_size=8, round=3, objective=objective)
    return one.train(Start(one.initial()[None], np.zeros(3, dtype=np.int64)), work).delta.clone()


def test_a_kept_cohort_sees_the_tensors_of_its_round():
    fast, plain = learner("vmap"), learner("debug")
    for value in (0.0, 1.0, -2.0):
        objective = partial(towards, 0.3, torch.full((7,), value))
        torch.testing.assert_close(train(fast, objective), train(plain, objective), rtol=1e-4, atol=1e-6)
    assert len(fast._replays._kept) == 1, "all rounds must share a cohort"


def test_other_numbers_and_other_functions_are_other_cohorts():
    fast, plain = learner("vmap"), learner("debug")
    target = torch.zeros(7)
    for objective in (partial(towards, 0.3, target), partial(towards, 0.9, target), None):
        torch.testing.assert_close(train(fast, objective), train(plain, objective), rtol=1e-4, atol=1e-6)
    assert len(fast._replays._kept) == 3


def test_what_is_not_known_is_not_kept():
    target = torch.zeros(7)
    for objective in (
        lambda *given: towards(0.3, target, *given),
        partial(towards, 0.3, target=target),
        partial(towards, [0.3], target),
        partial(towards, (0.3, [0.3]), target),
    ):
        assert signature(objective) is None
    fast = learner("vmap")
    train(fast, lambda *given: towards(0.3, target, *given))
    assert not fast._replays._kept
