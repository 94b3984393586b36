"""FedDyn against a plain loop of the paper's algorithm with `torch.optim`, and what holds of what it remembers."""

import numpy as np
import pytest
import torch
from torch import nn

from fedcell import methods
from fedcell.learn.batches import draw_batches
from fedcell.learn.settings import ModelConfig
from fedcell.methods.parts.contributions import matrix
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
ALPHA = 0.5


def run(problem, text):
    return list(simulate(problem, methods.parse(text).build()))


def trained(problem, w, device, round, gradient, momentum):
    """The end of local SGD of one device, by `torch.optim.SGD` on the objective as the paper writes it."""
    net = problem.learner.architectures[0].replica(torch.device("cpu"))
    nn.utils.vector_to_parameters(w.clone(), net.parameters())
    store, batch, steps = problem.world.stream.start(problem.seed)[0], problem.train.batch_size, problem.train.steps
    mine = store._replace(items=store.items[[device]], size=store.size[[device]])
    flat, _ = draw_batches(mine, np.array([device]), np.array([steps * batch]), "shuffle", problem.seed, round)
    optimizer = torch.optim.SGD(net.parameters(), lr=problem.train.lr, momentum=momentum)
    for step in range(steps):
        x, y = problem.learner.train_samples.take(flat[step * batch : (step + 1) * batch])
        now = nn.utils.parameters_to_vector(net.parameters())
        loss = nn.functional.cross_entropy(net(x), y) - gradient @ now + ALPHA / 2 * (now - w).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return nn.utils.parameters_to_vector(net.parameters()).detach()


@pytest.mark.parametrize(("engine", "momentum"), [("auto", 0.0), ("vmap", 0.0), ("debug", 0.0), ("auto", 0.6)])
def test_rounds_are_those_of_a_plain_loop(small, engine, momentum):
    problem = small(LOSSY | {"train.engine": engine}, model=MLP, rounds=5)
    history, n = run(problem, f"feddyn:alpha={ALPHA},momentum={momentum}"), problem.world.n_devices
    w = problem.learner.initial()
    h, own = torch.zeros_like(w), torch.zeros(n, len(w))
    lost = 0
    for round, (row, after) in enumerate(history):
        heard = [device for device, letter in enumerate(row.outcome) if letter == "D"]
        lost += row.n_selected - len(heard)
        ends = {k: trained(problem, w, k, round, own[k], momentum) for k in heard}
        for k, end in ends.items():
            own[k] -= ALPHA * (end - w)
            h = h - ALPHA / n * (end - w)
        w = sum(ends.values()) / len(heard) - h / ALPHA if heard else w
        torch.testing.assert_close(after.params, w, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(after.method.common, h, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(matrix(after.method.own, w), own, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(after.method.common, own.mean(dim=0), rtol=1e-3, atol=1e-5)
    assert lost, "an upload must be lost, or nothing is seen of it"


def test_devices_with_other_data_drift_less(small):
    """Two labels per device and many full-batch steps: the average of local optima is not the optimum of all."""
    changes = {"data.partition": "shards", "train.batch_size": "0", "train.steps": "50", "train.lr": "0.3"}
    problem = small(changes, rounds=15)
    losses = {text: run(problem, text)[-1][0].metrics["loss"] for text in ("feddyn", "fedavg:weights=equal")}
    assert losses["feddyn"] < 0.9 * losses["fedavg:weights=equal"]
