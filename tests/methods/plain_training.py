"""Local training by `torch.optim`, one device at a time, and a world that loses uploads, for tests of methods."""

import numpy as np
import torch
from torch import nn

from fedcell import methods
from fedcell.learn.batches import draw_batches
from fedcell.learn.settings import ModelConfig
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
ENGINES = [("auto", 0.0), ("vmap", 0.0), ("debug", 0.0), ("auto", 0.6)]  # with a momentum


def run(problem, text):
    return list(simulate(problem, methods.parse(text).build()))


def network(problem, vector):
    """The problem's network with the parameters of a flat vector."""
    net = problem.learner.architectures[0].replica(torch.device("cpu"))
    nn.utils.vector_to_parameters(vector.clone(), net.parameters())
    return net


def flat(net):
    return nn.utils.parameters_to_vector(net.parameters())


def trained(problem, begin, device, round, momentum, loss):
    """The end of local SGD of one device from a vector, by `torch.optim.SGD` on `loss(net, x, y)`."""
    net, decay = network(problem, begin), problem.train.weight_decay
    store, batch, steps = problem.world.stream.start(problem.seed)[0], problem.train.batch_size, problem.train.steps
    mine = store.of(np.array([device]))
    index, _ = draw_batches(mine, np.array([device]), np.array([steps * batch]), "shuffle", problem.seed, round)
    optimizer = torch.optim.SGD(net.parameters(), lr=problem.train.lr, momentum=momentum, weight_decay=decay)
    for step in range(steps):
        x, y = problem.learner.train_samples.take(index[step * batch : (step + 1) * batch])
        optimizer.zero_grad()
        loss(net, x, y).backward()
        optimizer.step()
    return flat(net).detach()


def cross_entropy(net, x, y):
    return nn.functional.cross_entropy(net(x), y)


def who(row):
    """(devices that were asked, those of them that were heard)."""
    asked = [device for device, letter in enumerate(row.outcome) if letter != "."]
    return asked, [device for device in asked if row.outcome[device] == "D"]
