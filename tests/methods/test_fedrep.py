"""FedRep: which entries are shared, training in two parts, heads that stay."""

import numpy as np
import pytest
import torch
from knowledge_worlds import EQUAL, SHARDS, TRAIN

from fedcell import methods
from fedcell.learn import models
from fedcell.learn.architecture import Architecture
from fedcell.learn.features import head_entries
from fedcell.learn.settings import ModelConfig
from fedcell.methods.fedrep import personal
from fedcell.simulate import SIMULATED, begin, play_round

PUBLISHED = {  # parameters: all, and those of the body
    "mlp": (ModelConfig(name="mlp", hidden=(512, 256, 64)), (1, 28, 28), 550_346, 533_248),
    "cnn": (ModelConfig(name="cnn", hidden=(128, 64)), (3, 32, 32), 63_106, 54_200),
    "normed cnn": (ModelConfig(name="cnn", hidden=(128, 64), norm="batch"), (3, 32, 32), 63_406, 54_500),
    "normed head": (ModelConfig(name="cnn", hidden=(128,), norm="batch"), (3, 32, 32), 55_790, 2_916),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_numbers_of_parameters(name):
    settings, shape, n_all, n_body = PUBLISHED[name]
    network = Architecture.of(models.build(settings, shape, 10))
    assert network.n_params == n_all
    assert n_all - int(head_entries(network, 2).sum()) == n_body


def test_one_layer_is_left_to_share():
    network = Architecture.of(models.build(ModelConfig(name="logistic"), (64,), 10))
    assert not head_entries(network, 2).any()
    deep = Architecture.of(models.build(ModelConfig(name="mlp", hidden=(5,)), (64,), 10))
    assert int(head_entries(deep, 9).sum()) == 60


def test_round_is_head_then_body_and_a_mean_of_bodies(small):
    problem = small(data=SHARDS, model=EQUAL, train=TRAIN)
    choice = methods.parse("fedrep")
    method, head = choice.build(), head_entries(problem.learner.architectures[0], 2)
    first = begin(problem, method)
    row, after = play_round(SIMULATED, problem, method, first)
    store = problem.world.stream.start(problem.seed)[0]
    bodies, size = [], store.size / store.size.sum()
    for device in range(6):
        net = problem.learner.architectures[0].replica(torch.device("cpu"))
        x, y = problem.learner.train_samples.take(store.items[device, : store.size[device]])
        for part in (list(net[3:].parameters()), list(net[:3].parameters())):
            optimiser = torch.optim.SGD(part, lr=0.05, momentum=0.9)
            for _ in range(2):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(net(x), y).backward()
                optimiser.step()
        end = torch.nn.utils.parameters_to_vector(net.parameters()).detach()
        bodies.append(end * float(size[device]))
        own = personal(choice.config, problem, after.params, after.method, np.array([device]))[0]
        torch.testing.assert_close(own[head], end[head], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(after.params[~head], sum(bodies)[~head], rtol=1e-4, atol=1e-6)
    assert torch.equal(after.params[head], first.params[head]), "heads never leave their devices"
    assert row.uplink_bit == 6 * 32 * int((~head).sum())
