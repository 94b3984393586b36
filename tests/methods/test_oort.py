"""Oort-like selection against a plain loop over its rounds."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from fedcell import methods, radio
from fedcell.errors import BadInput
from fedcell.methods.oort import Config, State, choose, paced, utility
from fedcell.methods.parts.resources import plan
from fedcell.simulate import begin, simulate
from fedcell.world import observe

CELLS = {
    "world.topology": "cells",
    "world.n_cells": "2",
    "world.n_devices": "11",
    "world.availability": "0.8",
    "world.cycles_per_sample": "1e5..1e8",
    "data.partition": "dirichlet",
}
TEXT = "oort:n_selected=3,penalty=1.5,pace=0.4,explore=0.7,explore_decay=0.8,explore_least=0.3"


def squared_loss(problem, w, store, k):
    """The mean of squared losses of one device."""
    net = problem.learner.architectures[0].replica(torch.device("cpu"))
    nn.utils.vector_to_parameters(w, net.parameters())
    x, y = problem.learner.train_samples.take(store.items[k, : store.size[k]])
    return nn.functional.cross_entropy(net(x), y, reduction="none").square().mean().item()


def expected_s(problem, seen):
    """Seconds of everyone with a third of the band, for training, a loss, and one number beside the update."""
    batch, loss = problem.train.batch_size, seen.store.size / 3
    trial = plan(problem, seen, np.ones(11, dtype=np.bool_), problem.train.steps, batch + loss / problem.train.steps)
    trial = trial._replace(payload_bit=trial.payload_bit + 32)
    share = trial._replace(bandwidth_hz=np.full(11, problem.world.settings.bandwidth_hz / 3))
    return np.add(*radio.times(problem.world, seen, share))


def test_rounds_are_those_of_a_plain_loop(small):
    problem = small(CELLS, rounds=10)
    method = methods.parse(TEXT).build()
    before, worth, last, both = begin(problem, method), {}, {}, 0
    for row, after in simulate(problem, method):
        seen, _ = observe(problem.world, before.world, problem.seed, before.round)
        there, seconds, now = np.flatnonzero(seen.available).tolist(), expected_s(problem, seen), before.round + 1
        suits, picked = sorted(seconds[k] for k in there)[math.floor(0.4 * (len(there) - 1))], set()

        def value(k, now=now, suits=suits, seconds=seconds):
            found = worth[k] + math.sqrt(0.1 * math.log(now) / last[k])
            return found * (suits / seconds[k]) ** 1.5 if seconds[k] > suits else found

        for cell in range(2):
            old = sorted((k for k in there if seen.topology.cell[k] == cell and k in last), key=value, reverse=True)
            new = sorted((k for k in there if seen.topology.cell[k] == cell and k not in last), key=seconds.__getitem__)
            wanted = min(round(3 * max(0.7 * 0.8**before.round, 0.3)), len(new))
            mine = old[: 3 - wanted]
            picked |= {*mine, *new[: 3 - len(mine)]}
        both += any(k in last for k in picked) and any(k not in last for k in picked)
        assert {k for k, letter in enumerate(row.outcome) if letter != "."} == picked
        for k in picked:
            size = int(seen.store.size[k])
            worth[k] = size * math.sqrt(squared_loss(problem, before.params, seen.store, k))
            last[k] = now
        np.testing.assert_allclose(after.method.worth, [worth.get(k, 0.0) for k in range(11)], rtol=1e-5)
        assert after.method.last.tolist() == [last.get(k, 0) for k in range(11)]
        before = after
    assert both, "some rounds must have both kinds"


def test_slow_devices_lose_and_overlooked_ones_gain(small):
    problem = small()
    seen, _ = observe(problem.world, begin(problem, methods.parse("fedavg").build()).world, problem.seed, 0)
    seen, state = seen._replace(round=99), State(np.full(6, 3.0), np.full(6, 90))
    seconds = np.array([1.0, 1.0, 1.0, 2.0, 4.0, 1.0])
    found = utility(Config(penalty=2.0), state, seen, seconds)
    assert found[3] == pytest.approx(found[0] / 4)
    assert found[4] == pytest.approx(found[0] / 16)
    assert utility(Config(penalty=0.0), state, seen, seconds)[4] == pytest.approx(found[0])
    longer = utility(Config(), state._replace(last=np.array([90, 1, 90, 90, 90, 0])), seen, seconds)
    assert longer[1] == pytest.approx(3.0 + math.sqrt(0.1 * math.log(100)))
    assert longer[1] > longer[0] > longer[5] == 0


def test_it_has_no_weights_that_its_choice_of_devices_forbids():
    with pytest.raises(BadInput, match=r"oort.weights = 'unbiased' is unknown: choose one of samples, equal"):
        methods.parse("oort:weights=unbiased")


def test_who_is_left_over_makes_up_for_who_is_missing(small):
    problem = small()
    seen, _ = observe(problem.world, begin(problem, methods.parse("fedavg").build()).world, problem.seed, 0)
    config, seconds = Config(n_selected=4, explore=0.5, explore_decay=1.0), np.arange(1.0, 7.0)
    for last, expected in [([0] * 6, [0, 1, 2, 3]), ([1] * 6, [0, 1, 2, 3]), ([0, 0, 0, 0, 0, 1], [0, 1, 2, 5])]:
        state = State(np.full(6, 3.0), np.array(last))
        chosen = choose(config, problem, state, seen, seconds)
        assert np.flatnonzero(chosen).tolist() == expected


def test_the_pacer_relaxes_the_time_when_rounds_are_worth_less():
    """Windows of three rounds: 9 then 12 stays, 12 then 11 grows, 11 then 5 grows again."""
    config, state, grown = Config(pace_step=0.1, pace_window=3), State(np.zeros(6), np.zeros(6)), []
    for gain in (3, 3, 3, 4, 4, 4, 4, 4, 3, 2, 2, 1):
        share, gained = paced(config, state, float(gain))
        state = state._replace(grown=share, gained=gained)
        grown.append(share)
    assert grown == pytest.approx([0] * 8 + [0.1] * 3 + [0.2])
    assert len(state.gained) < 6


def test_a_larger_share_suits_slower_devices(small):
    problem = small()
    seen, _ = observe(problem.world, begin(problem, methods.parse("fedavg").build()).world, problem.seed, 0)
    seconds, state = np.arange(1.0, 7.0), State(np.full(6, 3.0), np.ones(6, dtype=np.int64))
    found = [utility(Config(pace=0.2), state._replace(grown=grown), seen, seconds) for grown in (0.0, 0.2, 5.0)]
    for times, suits in zip(found, (2.0, 3.0, 6.0), strict=True):
        plain = times[0]
        assert times == pytest.approx(plain * np.minimum(suits / seconds, 1.0) ** 2)


def test_the_pacer_of_a_run_is_that_of_its_rows(small):
    problem = small({"data.partition": "dirichlet"}, rounds=9)
    *_, (_, after) = simulate(problem, methods.parse("oort:n_selected=3,pace_window=2,pace_step=0.2").build())
    steady = list(simulate(problem, methods.parse("oort:n_selected=3,pace_step=0").build()))[-1][1]
    assert after.method.grown > 0.1, "losses fall, so that later rounds are worth less"
    assert steady.method.grown == 0
