"""Power-of-choice against a plain loop over its rounds, and the odds of its lots."""

from itertools import permutations

import numpy as np
import pytest
import torch
from torch import nn

from fedcell import methods
from fedcell.errors import BadInput
from fedcell.methods.power_of_choice import State, candidates, lots
from fedcell.simulate import begin, simulate
from fedcell.world import observe

CELLS = {"world.topology": "cells", "world.n_cells": "2", "world.n_devices": "9", "world.availability": "0.8"}


def run(problem, text):
    return list(simulate(problem, methods.parse(text).build()))


def loss_of(problem, w, store, k):
    net = problem.learner.architectures[0].replica(torch.device("cpu"))
    nn.utils.vector_to_parameters(w, net.parameters())
    x, y = problem.learner.train_samples.take(store.items[k, : store.size[k]])
    return nn.functional.cross_entropy(net(x), y).item()


def test_rounds_are_those_of_a_plain_loop(small):
    problem = small(CELLS | {"data.partition": "dirichlet"}, rounds=8)
    method = methods.parse("power_of_choice:n_selected=2,n_candidates=3").build()
    loss, before, chosen = {}, begin(problem, method), set()
    for row, after in simulate(problem, method):
        seen, _ = observe(problem.world, before.world, problem.seed, before.round)
        draw, picked = lots(problem, seen), set()
        for cell in range(2):
            here = [k for k in range(9) if seen.topology.cell[k] == cell and seen.available[k]]
            drawn = sorted(here, key=lambda k: -draw[k])[:3]
            picked |= set(sorted(drawn, key=lambda k: (loss.get(k, np.inf), draw[k]), reverse=True)[:2])
        assert {k for k, letter in enumerate(row.outcome) if letter != "."} == picked
        for k in picked:
            loss[k] = loss_of(problem, before.params, seen.store, k)
        expected = [loss.get(k, np.inf) for k in range(9)]
        np.testing.assert_allclose(after.method.loss, expected, rtol=1e-5)
        before = after
        chosen |= {tuple(picked)}
    assert len(chosen) > 3


def test_lots_are_drawn_by_samples_without_replacement(small):
    """Ordered pairs of three devices, against `p_i p_j / (1 - p_i)`."""
    problem, n = small({"world.n_devices": "3"}), 4000
    seen, _ = observe(problem.world, begin(problem, methods.parse("fedavg").build()).world, problem.seed, 0)
    seen = seen._replace(store=seen.store._replace(size=np.array([10, 20, 70])))
    drawn = [tuple(np.argsort(-lots(problem, seen._replace(round=round)))[:2].tolist()) for round in range(n)]
    share = np.array([0.1, 0.2, 0.7])
    for first, second in permutations(range(3), 2):
        expected = share[first] * share[second] / (1 - share[first])
        error = 4 * np.sqrt(expected * (1 - expected) / n)
        assert drawn.count((first, second)) / n == pytest.approx(expected, abs=error)
    assert candidates(seen, lots(problem, seen), 2).sum() == 2


def test_the_largest_losses_are_picked_if_everyone_is_a_candidate(small):
    problem = small()
    method = methods.parse("power_of_choice:n_selected=2,n_candidates=6").build()
    seen, _ = observe(problem.world, begin(problem, method).world, problem.seed, 0)
    decision = method.decide(problem, State(np.array([1.0, 5.0, 2.0, 4.0, 3.0, 0.0])), seen)
    assert np.flatnonzero(decision.selected).tolist() == [1, 3]


def test_everyone_is_fedavg_with_a_number_more(small):
    problem = small()
    mine, plain = run(problem, "power_of_choice:loss_cost=0"), run(problem, "fedavg:weights=equal")
    assert torch.equal(mine[-1][1].params, plain[-1][1].params)
    assert mine[0][0].uplink_bit == plain[0][0].uplink_bit + 6 * 32


def test_fewer_candidates_than_are_picked_are_refused():
    with pytest.raises(BadInput, match=r"n_candidates = 3 is below n_selected = 5: draw"):
        methods.parse("power_of_choice:n_candidates=3,n_selected=5")
