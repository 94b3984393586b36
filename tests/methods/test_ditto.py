"""Ditto against a plain loop with `torch.optim`, and between training alone and the global model."""

import numpy as np
import pytest
import torch
from torch import nn

from fedcell import methods
from fedcell.learn.batches import draw_batches
from fedcell.learn.settings import ModelConfig
from fedcell.methods.parts.personal import own_models
from fedcell.simulate import simulate

MLP = ModelConfig(name="mlp", hidden=(9,))
LOSSY = {
    "world.access": "block",
    "world.n_blocks": "6",
    "world.interference_over_noise": "1e2..1e5",
    "world.outage_threshold_db": "10",
    "world.pathloss": "power_law",
    "world.availability": "0.7",
}
MU = 0.7


def run(problem, text):
    return list(simulate(problem, methods.parse(text).build()))


def trained(problem, begin, anchor, mu, device, round, momentum):
    """The end of local SGD of one device, by `torch.optim.SGD` on a loss with a proximal term."""
    net = problem.learner.architectures[0].replica(torch.device("cpu"))
    nn.utils.vector_to_parameters(begin.clone(), net.parameters())
    store, batch, steps = problem.world.stream.start(problem.seed)[0], problem.train.batch_size, problem.train.steps
    mine = store._replace(items=store.items[[device]], size=store.size[[device]])
    flat, _ = draw_batches(mine, np.array([device]), np.array([steps * batch]), "shuffle", problem.seed, round)
    optimizer = torch.optim.SGD(net.parameters(), lr=problem.train.lr, momentum=momentum)
    for step in range(steps):
        x, y = problem.learner.train_samples.take(flat[step * batch : (step + 1) * batch])
        now = nn.utils.parameters_to_vector(net.parameters())
        optimizer.zero_grad()
        (nn.functional.cross_entropy(net(x), y) + mu / 2 * (now - anchor).square().sum()).backward()
        optimizer.step()
    return nn.utils.parameters_to_vector(net.parameters()).detach()


@pytest.mark.parametrize(("engine", "momentum"), [("auto", 0.0), ("vmap", 0.0), ("debug", 0.0), ("auto", 0.6)])
def test_rounds_are_those_of_a_plain_loop(small, engine, momentum):
    problem = small(LOSSY | {"train.engine": engine}, model=MLP, rounds=5)
    history = run(problem, f"ditto:mu={MU},weights=equal,momentum={momentum}")
    w = problem.learner.initial()
    own, lost = [w] * problem.world.n_devices, 0
    for round, (row, after) in enumerate(history):
        asked = [device for device, letter in enumerate(row.outcome) if letter != "."]
        heard = [device for device in asked if row.outcome[device] == "D"]
        lost += len(asked) - len(heard)
        for k in asked:  # also if the upload is lost
            own[k] = trained(problem, own[k], w, MU, k, round, momentum)
        ends = [trained(problem, w, w, 0.0, k, round, momentum) for k in heard]
        w = sum(ends) / len(ends) if heard else w
        torch.testing.assert_close(after.params, w, rtol=1e-3, atol=1e-5)
        found = own_models(problem, after.params, after.method, np.arange(len(own)))
        torch.testing.assert_close(found, torch.stack(own), rtol=1e-3, atol=1e-5)
    assert lost, "an upload must be lost, or nothing is seen of it"


def test_the_global_model_is_that_of_fedavg_at_twice_the_computing(small):
    problem = small({"data.partition": "shards"}, rounds=3)
    mine, plain = run(problem, "ditto"), run(problem, "fedavg")
    assert torch.equal(mine[-1][1].params, plain[-1][1].params)
    assert mine[0][0].compute_joule == pytest.approx(2 * plain[0][0].compute_joule)
    assert mine[0][0].uplink_bit == plain[0][0].uplink_bit, "own models are never sent"
    own = run(problem, "ditto:judged=own")[-1][0].metrics
    whole, accuracy = mine[-1][0].metrics, plain[-1][0].metrics["accuracy"]
    assert own["global_accuracy"] == whole["accuracy"] == accuracy
    assert own["accuracy"] == whole["personal_accuracy"] != accuracy


def test_a_stronger_pull_ends_nearer_to_the_global_model(small):
    problem, away = small({"data.partition": "shards", "train.steps": "10"}, rounds=5), []
    for mu in (0.0, 0.5, 5.0):
        _, after = run(problem, f"ditto:mu={mu}")[-1]
        own = own_models(problem, after.params, after.method, np.arange(6))
        away.append(float((own - after.params).norm()))
    assert away[0] > 1.1 * away[1] > 1.1**2 * away[2]
    last = run(problem, "ditto")[-1][0].metrics
    assert last["personal_accuracy"] > last["accuracy"] + 0.1, "with two labels per device own models know better"
