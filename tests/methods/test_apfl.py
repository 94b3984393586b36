"""APFL: the pair of models against a plain loop, and its limits."""

import numpy as np
import pytest
import torch
from kept_rows import matrix
from torch import nn

from fedcell import methods
from fedcell.learn.batches import draw_batches
from fedcell.learn.engines.gpu import vmap
from fedcell.learn.settings import ModelConfig
from fedcell.simulate import SIMULATED, begin, play_round, simulate

NET = ModelConfig(name="mlp", hidden=(9,))
CONVOLUTIONS = ModelConfig(name="cnn", channels=(3,), kernel=3, padding=1, hidden=())


def run(problem, text):
    return list(simulate(problem, methods.parse(text).build()))


@pytest.mark.parametrize(
    ("engine", "net"), [("auto", NET), ("vmap", NET), ("debug", NET), ("auto", CONVOLUTIONS), ("vmap", CONVOLUTIONS)]
)
def test_both_models_move_as_in_a_plain_loop(small, monkeypatch, engine, net):
    """One round, one device at a time, with torch autograd on two networks."""
    monkeypatch.setattr(vmap, "BUSY", 0.0)  # convolutions train client by client there
    mixture, problem = 0.3, small({"train.engine": engine}, model=net)
    method = methods.parse(f"apfl:mixture={mixture}").build()
    first = begin(problem, method)
    _, after = play_round(SIMULATED, problem, method, first)
    _, later = play_round(SIMULATED, problem, method, after)
    store = problem.world.stream.start(problem.seed)[0]
    train, n = problem.train, problem.world.n_devices
    shared, own = first.params, [first.params.clone() for _ in range(n)]
    for round, snapshot in enumerate((after, later)):
        ends = []
        for device in range(n):
            mine = store._replace(items=store.items[[device]], size=store.size[[device]])
            draws = np.array([train.steps * train.batch_size])
            flat, _ = draw_batches(mine, np.array([device]), draws, "shuffle", problem.seed, round)
            w, v = shared.clone(), own[device]
            for step in range(train.steps):
                index = flat[step * train.batch_size : (step + 1) * train.batch_size]
                mixed = mixture * v + (1 - mixture) * w
                w, v = (
                    w - train.lr * gradient(problem, w, index),
                    v - train.lr * mixture * gradient(problem, mixed, index),
                )
            ends.append(w)
            own[device] = v
        shared = torch.stack(ends).mean(dim=0)
        torch.testing.assert_close(snapshot.params, shared, rtol=1e-4, atol=1e-6)
        kept = matrix(snapshot.method.own, shared) + snapshot.method.origin
        torch.testing.assert_close(kept, torch.stack(own), rtol=1e-4, atol=1e-6)


def gradient(problem, vector, index):
    net = problem.learner.architectures[0].replica(torch.device("cpu"))
    nn.utils.vector_to_parameters(vector, net.parameters())
    x, y = problem.learner.train_samples.take(index)
    loss = nn.functional.cross_entropy(net(x), y)
    return nn.utils.parameters_to_vector(torch.autograd.grad(loss, list(net.parameters())))


def test_global_model_is_that_of_fedavg(small):
    problem = small({}, model=NET)
    mine, plain = run(problem, "apfl:mixture=0.7"), run(problem, "fedavg:weights=equal")
    for (_, left), (_, right) in zip(mine, plain, strict=True):
        torch.testing.assert_close(left.params, right.params, rtol=1e-4, atol=1e-6)


def test_without_a_share_the_mixture_is_the_global_model(small):
    problem = small({}, model=NET)
    last = run(problem, "apfl:mixture=0,judged=2000")[-1][0].metrics
    assert last["personal_overall_accuracy"] == pytest.approx(last["accuracy"], abs=0.03)


def test_own_models_suit_their_owners(small):
    problem = small({"data.partition": "classes", "data.classes_per_device": "2"}, model=NET, rounds=15)
    last = run(problem, "apfl:mixture=0.9")[-1][0].metrics
    assert last["personal_accuracy"] > 0.75
    assert last["personal_accuracy"] > last["personal_overall_accuracy"] + 0.1
    assert last["personal_accuracy"] > last["personal_chance"] + 0.05
    assert 0.5 <= last["personal_chance"] <= 0.8, "the larger of two classes"


def test_two_models_cost_twice_the_computing(small):
    problem = small({}, model=NET)
    mine, plain = run(problem, "apfl")[0][0], run(problem, "fedavg")[0][0]
    assert mine.compute_joule == pytest.approx(2 * plain.compute_joule)
    assert mine.uplink_bit == plain.uplink_bit, "only the shared model is sent"


def test_own_model_stays_where_its_upload_is_lost(small):
    problem = small({"world.deadline_s": "1e-9", "world.cycles_per_sample": "1e6"}, model=NET)
    row, after = run(problem, "apfl")[-1]
    assert row.n_delivered == 0
    assert torch.equal(after.params, problem.learner.initial())
    assert (matrix(after.method.own, after.params) != 0).any(dim=1).all()
