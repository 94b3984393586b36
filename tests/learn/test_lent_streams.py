"""Streams of random numbers that a process shares: lent to networks, and afterwards as they were."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from fedcell.learn import streams
from fedcell.learn.setup import initialise

CPU = torch.device("cpu")


def drawn_by_three():
    net = nn.Linear(3, 2)
    numbers = [random.random(), float(np.random.rand())]  # noqa: NPY002
    net.bias.data.copy_(torch.tensor(numbers))
    return net


def test_first_weights_depend_on_the_seed_alone():
    found = []
    for seed in (1, 1, 2):
        torch.rand(1), random.random(), np.random.rand()  # somebody else draws  # noqa: NPY002
        before = streams.stand(CPU)
        found.append(torch.cat([one.detach().flatten() for one in initialise(drawn_by_three, seed).parameters()]))
        assert streams.stand(CPU) == before
    assert torch.equal(found[0], found[1])
    assert not (found[0] == found[2]).any(), "every stream begins with the seed"


def test_streams_are_put_back_when_code_of_a_user_raises():
    def broken():
        raise ZeroDivisionError(random.random())

    before = streams.stand(CPU)
    with pytest.raises(ZeroDivisionError):
        initialise(broken, 5)
    assert streams.stand(CPU) == before


def test_nothing_is_lent_unless_it_is_wanted():
    before = streams.stand(CPU)
    with streams.lent(wanted=False):
        random.random()
    assert streams.stand(CPU) != before
