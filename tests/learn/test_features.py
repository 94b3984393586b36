"""Networks of the devices' own: widths, counted operations, features."""

import numpy as np
import pytest
import torch
from torch import nn

from fedcell.errors import BadInput
from fedcell.learn import models
from fedcell.learn.architecture import Architecture
from fedcell.learn.features import feature_width, features_and_scores
from fedcell.learn.settings import ModelConfig
from fedcell.tiers.cell_views import cells_of

WIDTHS = (128, 256, 384)


@pytest.mark.parametrize("width", WIDTHS)
def test_published_operations(width):
    """Two per multiply-add of a convolution and one per parameter of a dense layer."""
    mlp = Architecture.of(models.build(ModelConfig(name="mlp", hidden=(512, width, 64)), (1, 28, 28), 10))
    assert mlp.n_params == 402_634 + 577 * width
    assert mlp.flops_per_sample(torch.zeros(1, 28, 28), "parameters") == mlp.n_params
    cnn = Architecture.of(models.build(ModelConfig(name="cnn", hidden=(width, 64)), (3, 32, 32), 10))
    assert cnn.n_params == 3_586 + 465 * width
    assert cnn.flops_per_sample(torch.zeros(3, 32, 32), "parameters") == 1_185_600 + 714 + 465 * width
    assert cnn.flops_per_sample(torch.zeros(3, 32, 32)) > cnn.flops_per_sample(torch.zeros(3, 32, 32), "parameters")


def test_products_of_dense_layers_become_their_parameters_however_often_they_run():
    """A transformer runs its dense layers once per token; the products left are those of attention."""
    config = ModelConfig(name="transformer", width=16, layers=1, heads=2)
    net, tokens = Architecture.of(models.build(config, (10,), 20)), torch.zeros(10)
    parameters = sum(p.numel() for one in net.module.modules() if isinstance(one, nn.Linear) for p in one.parameters())
    assert net.flops_per_sample(tokens, "parameters") == 2 * 2 * 10 * 10 * 16 + parameters == 6400 + 3556

    class Picking(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.spare = nn.Linear(6, 4), nn.Linear(6, 4)

        def forward(self, x):
            return self.used(x)

    assert Architecture.of(Picking()).flops_per_sample(torch.zeros(6), "parameters") == 28


def test_features_end_before_the_last_dense_layer():
    net = models.build(ModelConfig(name="mlp", hidden=(9, 5)), (16,), 3)
    x = torch.randn(4, 16)
    h, scores = features_and_scores(net, x)
    assert h.shape == (4, 5)
    assert (h >= 0).all(), "after the ReLU"
    torch.testing.assert_close(scores, net(x))
    assert feature_width(net) == 5
    with pytest.raises(BadInput, match="no features"):
        feature_width(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))


def test_widths_give_every_device_a_network_and_a_cost_of_its_own(small):
    model = ModelConfig(name="mlp", hidden=(12, 9, 8), widths=(4, 9, 16))
    problem = small({"world.n_devices": 40}, model=model)
    assert [one.n_params for one in problem.learner.architectures] == sorted(
        one.n_params for one in problem.learner.architectures
    )
    kinds = problem.learner.kinds(np.arange(40))
    assert set(kinds) == {0, 1, 2}
    cycles = problem.world.devices.cycles_per_sample
    for kind in range(3):
        assert len(set(cycles[kinds == kind])) == 1
    assert len(set(cycles)) == 3
    again = small({"world.n_devices": 40, "seed": 12}, model=model)
    assert (again.learner.kinds(np.arange(40)) != kinds).any()
    firsts = [problem.learner.initial(kind)[:50] for kind in range(3)]
    assert not torch.equal(firsts[0], firsts[1]), "starts are drawn apart"


def test_cells_know_the_networks_of_their_devices(small):
    settings = {"world.topology": "cells", "world.n_cells": "2", "world.n_devices": "10", "world.edge_rounds": "2"}
    problem = small(settings, model=ModelConfig(name="mlp", hidden=(12, 8), widths=(4, 9)))
    for cell in cells_of(problem):
        found = cell.problem.learner.kinds(np.arange(len(cell.device)))
        assert found.tolist() == problem.learner.kinds(cell.device).tolist()


@pytest.mark.parametrize("changes", [{"hidden": (8,), "widths": (4,)}, {"name": "vgg11", "widths": (4,)}])
def test_refused_widths(changes):
    with pytest.raises(BadInput, match=r"model\.widths"):
        ModelConfig(**changes)
