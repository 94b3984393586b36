"""FedKD: public samples, the digest against plain autograd, scores as uploads."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from kept_rows import matrix
from knowledge_worlds import MIXED, SHARDS, TRAIN

from fedcell import methods
from fedcell.methods.fedkd import private, public_samples
from fedcell.simulate import SIMULATED, begin, play_round
from fedcell.types import Store

TEXT = "fedkd:public_per_class=3"


def test_public_samples_are_even_and_in_nobodys_private_store(small):
    problem = small(data=SHARDS, model=MIXED, train=TRAIN)
    public = public_samples(3, problem)
    labels = problem.learner.train_samples.labels
    assert np.bincount(labels[public]).tolist() == [3] * 10
    store = problem.world.stream.start(problem.seed)[0]
    mine = private(store, public)
    for device in range(6):
        before = store.items[device, : store.size[device]]
        after = mine.items[device, : mine.size[device]]
        assert after.tolist() == [item for item in before if item not in public]


def test_a_store_of_public_samples_alone_is_empty():
    found = private(Store(np.array([[4, 7, 2], [7, 0, 0]]), np.array([3, 1])), np.array([2, 7]))
    assert found.size.tolist() == [1, 0]
    assert found.items[0, 0] == 4


@pytest.mark.parametrize("engine", ["auto", "vmap"])
def test_two_rounds_as_in_a_plain_loop(small, engine):
    problem = small(data=SHARDS, model=MIXED, train=replace(TRAIN, engine=engine))
    method = methods.parse(TEXT).build()
    snapshot = begin(problem, method)
    public, kinds = snapshot.method.public, problem.learner.kinds(np.arange(6))
    mine = private(problem.world.stream.start(problem.seed)[0], public)
    shown, _ = problem.learner.train_samples.take(public)
    nets = []
    for kind in kinds:
        nets.append(problem.learner.architectures[kind].replica(torch.device("cpu")))
    agreed = None
    for _ in range(2):
        row, snapshot = play_round(SIMULATED, problem, method, snapshot)
        said = []
        for device, net in enumerate(nets):
            x, y = problem.learner.train_samples.take(mine.items[device, : mine.size[device]])
            if agreed is not None:
                descend(net, lambda net=net, z=agreed: ((net(shown) - z) ** 2).mean())
            descend(net, lambda net=net, x=x, y=y: torch.nn.functional.cross_entropy(net(x), y))
            said.append(net(shown).detach())
        agreed = torch.stack(said).mean(dim=0)
        torch.testing.assert_close(snapshot.method.scores, agreed, rtol=1e-3, atol=1e-5)
        kept = matrix(snapshot.method.own, problem.learner.initial())
        for device, net in enumerate(nets):
            end = torch.nn.utils.parameters_to_vector(net.parameters()).detach()
            torch.testing.assert_close(kept[device, : len(end)], end, rtol=1e-3, atol=1e-5)
        assert row.uplink_bit == 6 * 30 * 10 * 32


def descend(net, loss):
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(2):
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()


def test_digest_costs_computing(small):
    problem = small(data=SHARDS, model=MIXED, train=TRAIN)
    method = methods.parse(TEXT).build()
    first, snapshot = play_round(SIMULATED, problem, method, begin(problem, method))
    second, _ = play_round(SIMULATED, problem, method, snapshot)
    assert second.compute_joule > first.compute_joule
