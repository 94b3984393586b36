"""Streaming FL: plain gradient descent where it must be, and what a row says about the caches."""

import numpy as np
import pytest
import torch
from small_config import SMALL
from torch import nn
from torch.nn import functional

from fedcell import methods
from fedcell.methods.streaming.theory import label_trace
from fedcell.options import override
from fedcell.scenarios import Config, build_problem
from fedcell.simulate import SIMULATED, begin, play_round, simulate

MARKOV = {"stream.kind": "markov", "stream.capacity": "30", "stream.batch": "10", "data.partition": "dirichlet"}


def gradient_descent(problem, params, items, lr, steps):
    """Full-batch gradient descent of the logistic model, written out."""
    x, y = problem.learner.train_samples.take(items)
    x = x.flatten(1)
    weight, bias = params[: 10 * x.shape[1]].view(10, -1).clone(), params[10 * x.shape[1] :].clone()
    for _ in range(steps):
        error = (x @ weight.T + bias).softmax(1) - functional.one_hot(y, 10)
        weight -= lr * error.T @ x / len(y)
        bias -= lr * error.mean(0)
    return torch.cat([weight.flatten(), bias])


def test_one_device_is_plain_gradient_descent(small):
    problem = small({**MARKOV, "world.n_devices": "1"})
    first = begin(problem, methods.parse("streaming").build())
    _, after = play_round(SIMULATED, problem, methods.parse("streaming:steps=1,lr=0.2").build(), first)
    want = gradient_descent(problem, first.params, after.world.store.items[0], 0.2, 1)
    torch.testing.assert_close(after.params, want, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("server_lr", [1.0, 0.5])
def test_global_step_scales_the_mean_of_local_changes(small, server_lr):
    """All devices count alike, whatever their caches hold."""
    problem = small({**MARKOV, "stream.capacity": "10|30"})
    method = methods.parse(f"streaming:steps=3,lr=0.1,server_lr={server_lr}").build()
    first = begin(problem, method)
    _, after = play_round(SIMULATED, problem, method, first)
    store = after.world.store
    held = [row[:size] for row, size in zip(store.items, store.size, strict=True)]
    assert len({len(items) for items in held}) == 2
    ends = [gradient_descent(problem, first.params, items, 0.1, 3) for items in held]
    want = first.params + server_lr * (torch.stack(ends).mean(0) - first.params)
    torch.testing.assert_close(after.params, want, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("cache", ["fifo", "srsr", "drsr", "lazy", "full"])
@pytest.mark.parametrize("initial", ["cold", "prefill"])
def test_recorded_discrepancy_is_that_of_the_label_only_simulation(small, cache, initial):
    problem = small({**MARKOV, "stream.cache": cache, "stream.initial": initial}, rounds=8, eval_every=8)
    recorded = [row.metrics["discrepancy"] for row, _ in simulate(problem, methods.parse("streaming").build())]
    settings = override(Config(), {**MARKOV, "stream.cache": cache, "stream.initial": initial}).stream
    want = label_trace(settings, problem.world.stream.law, 8, problem.seed).sum(axis=1)
    np.testing.assert_allclose(recorded, want, rtol=1e-12)


def test_row_has_accuracies_by_class_weight(small):
    problem = small(MARKOV, rounds=3)
    method = methods.parse("streaming").build()
    row, after = list(simulate(problem, method))[-1]
    plain = problem.learner.evaluate(after.params)
    assert row.metrics["accuracy"] == pytest.approx(plain["accuracy"], abs=1e-12)
    assert row.metrics["loss"] == pytest.approx(plain["loss"], rel=1e-5)
    labels = problem.learner.test_samples.labels
    x, y = problem.learner.test_samples.take(np.arange(len(labels)))
    weight, bias = after.params[:640].view(10, 64), after.params[640:]
    right = ((x.flatten(1) @ weight.T + bias).argmax(1) == y).numpy()
    by_class = np.array([right[labels == label].mean() for label in range(10)])
    share = problem.world.stream.law.long_term.mean(axis=0)
    assert row.metrics["balanced_accuracy"] == pytest.approx(by_class.mean())
    assert row.metrics["weighted_accuracy"] == pytest.approx(by_class @ share)
    assert 0 < row.metrics["discrepancy_max"] < row.metrics["discrepancy"]
    assert row.metrics["eigenvalue"] == pytest.approx(problem.world.stream.law.second_eigenvalue.mean())


def test_row_has_the_columns_that_training_asks_for(small):
    plain, asked = (small({**MARKOV, "train.top": top}, rounds=2) for top in ("", "1,3"))
    (left, _), (right, after) = (list(simulate(one, methods.parse("streaming").build()))[-1] for one in (plain, asked))
    assert {name: value for name, value in right.metrics.items() if not name.startswith("top")} == left.metrics
    assert right.metrics["top1"] == pytest.approx(right.metrics["accuracy"])
    assert right.metrics["top3"] == asked.learner.evaluate(after.params)["top3"] > right.metrics["top1"]


def test_static_data_have_no_such_columns(small):
    row, _ = list(simulate(small(), methods.parse("streaming").build()))[-1]
    assert set(row.metrics) == {"accuracy", "loss"}


def test_devices_with_norms_of_their_own_are_judged_with_them():
    """Accuracy and loss are those of FedAvg with the same steps: each device by its own statistics."""
    changes = {**MARKOV, "model.buffers": "local", "rounds": "3", "eval_every": "3"}
    config = override(SMALL, changes)
    found = []
    for text in ("streaming", "fedavg:weights=equal,batch_size=0"):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 10))
        method = methods.parse(text).build()
        found.append(list(simulate(build_problem(config, model=net), method))[-1][0].metrics)
    mine, plain = found
    assert {name: mine[name] for name in plain} == pytest.approx(dict(plain))
    assert "balanced_accuracy" not in mine
