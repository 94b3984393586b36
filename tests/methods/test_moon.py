"""MOON against a plain loop with `torch.optim` on the paper's loss, and what its contrast does."""

import numpy as np
import pytest
import torch
from plain_training import ENGINES, LOSSY, MLP, network, run, trained, who
from torch import nn

from fedcell.learn.settings import ModelConfig
from fedcell.methods.parts.personal import models_of

DEEP = ModelConfig(name="mlp", hidden=(9, 7))  # whose features do not keep their angles if all parameters shrink
CNN = ModelConfig(name="cnn", channels=(3,), kernel=3, padding=1, hidden=(8,))
MU, TEMPERATURE = 2.0, 0.4


def contrasted(problem, w, last):
    """`F - mu log(e^near / (e^near + e^far))`, sample by sample."""
    whole, before = network(problem, w), network(problem, last)

    def loss(net, x, y):
        z = net[:-1](x)
        with torch.no_grad():
            others = [other[:-1](x) for other in (whole, before)]
        near, far = (((z * o).sum(1) / (z.norm(dim=1) * o.norm(dim=1)) / TEMPERATURE).exp() for o in others)
        return nn.functional.cross_entropy(net[-1](z), y) - MU * (near / (near + far)).log().mean()

    return loss


@pytest.mark.parametrize(
    ("engine", "momentum", "net", "decay"),
    [
        *((engine, momentum, MLP, 0.0) for engine, momentum in ENGINES),
        ("auto", 0.0, CNN, 0.0),
        ("auto", 0.0, DEEP, 0.9),  # which must leave the frozen networks alone
    ],
)
def test_rounds_are_those_of_a_plain_loop(small, engine, momentum, net, decay):
    problem = small(LOSSY | {"train.engine": engine, "train.weight_decay": str(decay)}, model=net, rounds=5)
    history = run(problem, f"moon:mu={MU},temperature={TEMPERATURE},weights=equal,momentum={momentum}")
    w = problem.learner.initial()
    last, lost = [w] * problem.world.n_devices, 0
    for round, (row, after) in enumerate(history):
        asked, heard = who(row)
        lost += len(asked) - len(heard)
        for k in asked:  # also if the upload is lost
            last[k] = trained(problem, w, k, round, momentum, contrasted(problem, w, last[k]))
        w = sum(last[k] for k in heard) / len(heard) if heard else w
        torch.testing.assert_close(after.params, w, rtol=1e-3, atol=1e-5)
        kept = models_of(problem, after.method.own, after.method.origin, np.arange(len(last)))
        torch.testing.assert_close(kept, torch.stack(last), rtol=1e-3, atol=1e-5)
    assert lost, "an upload must be lost, or nothing is seen of it"


def test_without_contrast_or_hidden_layers_it_is_fedavg_at_more_computing(small):
    for net, text in ((MLP, "moon:mu=0"), (ModelConfig(name="logistic"), "moon")):
        problem = small({"data.partition": "shards"}, model=net, rounds=3)
        mine, plain = run(problem, text), run(problem, "fedavg")
        torch.testing.assert_close(mine[-1][1].params, plain[-1][1].params, rtol=1e-4, atol=1e-6)
        assert mine[0][0].compute_joule == pytest.approx(5 / 3 * plain[0][0].compute_joule)
        assert mine[0][0].uplink_bit == plain[0][0].uplink_bit, "what devices keep is never sent"
