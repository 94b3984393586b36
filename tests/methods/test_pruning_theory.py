"""Ages of units, and the outputs of thin networks as they start."""

import numpy as np
import pytest
import torch

from fedcell.learn import models
from fedcell.learn.architecture import Architecture
from fedcell.learn.settings import ModelConfig
from fedcell.learn.setup import initialise
from fedcell.methods.pruning import theory
from fedcell.methods.pruning.units import entry_masks, units_of


def test_ages():
    age = np.array([[2, 0], [1, 5]])
    assert theory.age_cost(age) == (4 + 1 + 25) / 2
    assert theory.next_age(age, np.array([[True, False], [False, True]])).tolist() == [[0, 1], [2, 0]]


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_outputs_of_thin_networks_fade_with_depth(share):
    """VGG-11 as it starts, against sub-models of random units; 9 layers are cut."""
    shape = (3, 32, 32)
    layout = Architecture.of(initialise(lambda: models.build(ModelConfig(name="vgg11"), shape, 10), 1))
    units, rng = units_of(layout, shape), np.random.default_rng(2)
    x = torch.randn(16, *shape, generator=torch.Generator().manual_seed(3))
    network = layout.replica(torch.device("cpu"))

    def spread(mask=None):
        with torch.no_grad():
            start = torch.cat([part.flatten() for part in layout.module.parameters()])
            torch.nn.utils.vector_to_parameters(start if mask is None else start * mask, network.parameters())
            return float(network(x).std(dim=0).mean())

    found = []
    for _ in range(3):
        keep = np.concatenate([rng.permutation(n) < share * n for n in units.sizes])
        found.append(spread(entry_masks(units, keep[None], torch.device("cpu"))[0]) / spread())
    assert np.mean(found) == pytest.approx(theory.output_scale([share] * len(units.sizes)), rel=0.35)
