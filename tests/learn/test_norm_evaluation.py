"""Evaluation of networks with batch norm: mixed batches that depend on the seed and the number of samples alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedcell.learn import evaluation
from fedcell.learn.evaluation import MIXED, mixed_batches
from fedcell.learn.samples import Samples
from fedcell.learn.settings import ModelConfig
from fedcell.learn.work import Work
from fedcell.methods.parts.gradients import client_losses
from fedcell.methods.streaming import evaluate as evaluate_streaming
from fedcell.options import override
from fedcell.scenarios import build_problem, get
from fedcell.types import Start, Store

NET = ModelConfig(name="cnn", channels=(4, 6), kernel=3, padding=1, hidden=(12,), norm="batch")


@pytest.fixture
def trained(small):
    """A problem, and a model that knows something."""
    problem = small({}, model=NET)
    learner, first = problem.learner, problem.learner.initial()
    n, one = len(learner.train_samples), np.zeros(1, dtype=np.int64)
    job = Work(one, Store(np.arange(n)[None], np.array([n])), np.array([60]), lr=0.5, batch_size=128, round=0)
    return problem, first + learner.train(Start(first[None], one), job).delta[0]


@given(st.integers(1, 4000), st.integers(0, 99))
def test_batches_hold_every_sample_once_and_are_of_about_one_size(n, seed):
    parts = mixed_batches(n, seed)
    assert sorted(np.concatenate(parts)) == list(range(n))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= MIXED
    assert all(map(np.array_equal, parts, mixed_batches(n, seed)))


def test_labels_of_a_sorted_test_set_are_mixed():
    labels = np.repeat(np.arange(10), 1000)
    for part in mixed_batches(len(labels), 3):
        assert np.bincount(labels[part], minlength=10).min() > 25  # of 50


def test_sorted_test_sets_are_judged_as_others_are(trained):
    """By the batch norms of one label at a time the model would know next to nothing."""
    problem, params = trained
    learner, test = problem.learner, problem.learner.test_samples
    whole = learner.evaluate(params)["accuracy"]
    assert whole > 0.7
    order = np.argsort(test.labels, kind="stable")
    x, _ = test.take(order)
    in_order = Samples(x.numpy(), test.labels[order], x.device)
    assert learner.evaluate(params, in_order)["accuracy"] == pytest.approx(whole, abs=0.03)
    alone = [
        learner.evaluate(params, Samples(x.numpy()[in_order.labels == label], np.full(n, label), x.device))["accuracy"]
        for label, n in enumerate(np.bincount(test.labels))
    ]
    assert np.mean(alone) < whole - 0.15


def test_results_do_not_depend_on_memory(trained, monkeypatch):
    problem, params = trained
    learner = problem.learner
    found = learner.evaluate(params)
    monkeypatch.setattr(evaluation, "LAYER_BYTES", 1)
    monkeypatch.setattr(evaluation, "MOST", 2)
    learner._at_once = 0
    assert learner.evaluate(params) == found
    monkeypatch.setattr(evaluation, "MIXED", 40)
    assert learner.evaluate(params) != found, "other batches, other statistics"


def test_columns_of_users_are_in_their_order():
    """Test samples belong to users, row by row; here they are put to the network in another order."""
    config = override(get("rawhfl").config, {"rounds": 1, "train.device": "cpu", "train.top": "1,2"})
    net = nn.Sequential(nn.Linear(43, 30), nn.BatchNorm1d(30, track_running_stats=False), nn.ReLU(), nn.Linear(30, 256))
    learner = build_problem(config, model=net).learner
    test, params = learner.test_samples, learner.initial() * 3
    right = np.zeros(len(test))
    for index, scores in learner.scores(params, test):
        right[index] = scores.argmax(1).numpy() == test.labels[index]
    own = [right[test.user(np.arange(len(test))) == user].mean() for user in range(48)]
    found = learner.evaluate(params)
    assert found["accuracy"] == found["top1"] == pytest.approx(right.mean())
    assert found["accuracy_std"] == pytest.approx(np.std(own))


def test_streaming_weighs_classes_of_mixed_batches(trained):
    problem, params = trained
    law = type("Law", (), {"long_term": np.full((6, 10), 0.1)})
    world = problem.world._replace(stream=problem.world.stream._replace(law=law))
    found = evaluate_streaming(problem._replace(world=world), params, None)
    whole = problem.learner.evaluate(params)
    assert found["accuracy"] == pytest.approx(whole["accuracy"])
    assert found["loss"] == pytest.approx(whole["loss"])
    assert found["weighted_accuracy"] == pytest.approx(found["balanced_accuracy"])
    assert found["balanced_accuracy"] == pytest.approx(whole["accuracy"], abs=0.05)


def test_losses_of_clients_are_of_their_own_batches(trained):
    problem, params = trained
    items = np.arange(24).reshape(3, 8)
    both = client_losses(problem, params, Store(items, np.array([8, 0, 5])))
    alone = [
        client_losses(problem, params, Store(items[[k]], np.array([n])))[0] if n else 0.0
        for k, n in enumerate((8, 0, 5))
    ]
    np.testing.assert_allclose(both, alone, rtol=1e-6)
