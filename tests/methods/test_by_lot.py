"""Schedulers by lot: chances against brute-force counts, fixed numbers of devices, and means that stay unbiased."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from fedcell import methods, radio, world
from fedcell.errors import BadInput
from fedcell.methods import fedavg
from fedcell.methods.parts.by_lot import drawn, inclusion
from fedcell.methods.parts.resources import Wanted, plan
from fedcell.methods.parts.schedulers import chances, schedule
from fedcell.simulate import simulate
from fedcell.types import Outcome, Round, Updates

UNEQUAL = {
    "world.n_devices": "8",
    "world.cycles_per_sample": "1e5..1e8",
    "world.availability": "0.9",
    "data.partition": "dirichlet",
}
CELLS = UNEQUAL | {"world.topology": "cells", "world.n_cells": "2", "world.n_devices": "11"}


def observed(problem, round=0):
    return world.observe(problem.world, world.start(problem.world, problem.seed), problem.seed, round)[0]


def foreseen(problem, seen, n):
    """(seconds, joules) of every device alone, each with an n-th of the band, from a round that is played."""
    devices = problem.world.n_devices
    seconds, joules = np.empty(devices), np.empty(devices)
    for k in range(devices):
        selected = np.arange(devices) == k
        decision = plan(problem, seen, selected, problem.train.steps, problem.train.batch_size)
        decision = decision._replace(bandwidth_hz=decision.bandwidth_hz / n, deadline_s=np.inf)
        uplink = radio.transmit(problem.world, seen._replace(available=selected), decision, problem.seed)
        seconds[k] = (uplink.compute_s + uplink.upload_s)[k]
        joules[k] = uplink.spent_joule[k]
    return seconds, joules


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=12), st.integers(0, 12))
def test_chances_are_inverse_to_the_price_and_sum_to_the_number(price, n):
    price = np.array(price)
    found = inclusion(price, n)
    assert found.sum() == pytest.approx(min(n, len(price)))
    if n >= len(price) or n == 0:
        return
    c = brentq(lambda c: np.minimum(1, c / price).sum() - n, 1e-12, n * price.max() + 1)
    np.testing.assert_allclose(found, np.minimum(1, c / price), rtol=1e-6)


def test_what_costs_nothing_is_sure():
    assert inclusion(np.array([0.0, 1.0, 2.0, 2.0]), 2).tolist() == [1.0, 0.5, 0.25, 0.25]
    assert inclusion(np.array([0.0, 3.0, 0.0]), 2).tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_costs_are_those_that_a_round_would_have(small, number):
    problem = small(UNEQUAL)
    seen, wanted = observed(problem), Wanted(3, problem.train.steps, problem.train.batch_size)
    seconds, joules = foreseen(problem, seen, 3)
    price = (np.ones(8), seconds, joules)[number]
    there = seen.available
    expected = np.zeros(8)
    expected[there] = inclusion(price[there], 3)
    name = ("random", "latency", "energy")[number]
    np.testing.assert_allclose(chances(name, problem, seen, wanted), expected, rtol=1e-9)
    assert number == 0 or len(set(expected[there].round(6))) > 3


@pytest.mark.parametrize("worlds", [UNEQUAL, CELLS])
@pytest.mark.parametrize("name", ["random", "latency", "energy"])
def test_devices_are_picked_with_their_chances(small, name, worlds):
    """Counts over many draws in one and the same round of the world."""
    problem, n = small(worlds), 4000
    seen = observed(problem)
    wanted = Wanted(3, problem.train.steps, problem.train.batch_size)
    chance = chances(name, problem, seen, wanted)
    picked = np.array([schedule(name, 3, problem, seen._replace(round=round)) for round in range(n)])
    cell = seen.topology.cell
    for number in range(problem.world.n_cells):
        here = int(np.count_nonzero(seen.available & (cell == number)))
        assert set(picked[:, cell == number].sum(axis=1)) == {min(3, here)}, "always as many"
    error = 4.5 * np.sqrt(chance * (1 - chance) / n) + 1e-12
    assert (np.abs(picked.mean(axis=0) - chance) <= error).all()
    assert not picked[:, ~seen.available].any()


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=9), st.integers(1, 5), st.integers(0, 999))
def test_as_many_are_drawn_as_chances_sum_to(small, price, n, round):
    problem = small({"world.n_devices": str(len(price))})
    seen = observed(problem)._replace(round=round)
    chance = inclusion(np.array(price), n)
    assert drawn(problem, seen, chance).sum() == min(n, len(price))


def heard_round(problem, seen, picked, uplink):
    """A round in which all that were picked are heard, with the costs of another."""
    decision = plan(problem, seen, picked, 1, 1)
    outcome = np.where(picked, int(Outcome.DELIVERED), int(Outcome.IDLE))
    updates = Updates(np.flatnonzero(picked), problem.learner.initial()[None].repeat(int(picked.sum()), 1))
    return Round(seen, decision, updates, uplink._replace(outcome=outcome))


@pytest.mark.parametrize("name", ["random", "latency", "energy"])
def test_unbiased_weights_have_the_mean_of_all(small, name):
    """The mean over draws of a weighted sum of one number per device; weights by samples lean to cheap devices."""
    problem, n = small(UNEQUAL), 3000
    seen, config = observed(problem), fedavg.Config(scheduler=name, n_selected=3, weights="unbiased")
    value = np.arange(8.0) ** 2
    size = np.where(seen.available, seen.store.size, 0)
    expected, found = size @ value / size.sum(), []
    uplink = radio.transmit(problem.world, seen, plan(problem, seen, seen.available, 1, 1), 1)
    for round in range(n):
        here = seen._replace(round=round)
        played = heard_round(problem, here, schedule(name, 3, problem, here), uplink)
        found.append(fedavg.weights_of(config, problem, played) @ value[played.heard()])
    assert np.mean(found) == pytest.approx(expected, abs=5 * np.std(found) / np.sqrt(n))


def test_runs_with_unbiased_weights_are_those_of_the_weights(small):
    problem = small(UNEQUAL, rounds=3)
    for name in ("fedavg", "fedopt", "fednova", "fedrep", "moon", "fedavg+topk:fraction=0.5"):
        colon = "," if ":" in name else ":"
        text = f"{name}{colon}scheduler=latency,n_selected=3,weights=unbiased"
        rows = [row for row, _ in simulate(problem, methods.parse(text).build())]
        assert all(np.isfinite(row.metrics["loss"]) and row.n_selected == 3 for row in rows)
    even = [
        after.params
        for weights in ("samples", "unbiased")
        for _, after in simulate(
            small(rounds=2), methods.parse(f"fedavg:weights={weights},scheduler=random,n_selected=6").build()
        )
    ]
    np.testing.assert_allclose(even[1].numpy(), even[3].numpy(), atol=1e-6)


def test_slow_and_thirsty_devices_are_picked_less_often(small):
    problem = small(UNEQUAL)
    seen = observed(problem)
    seconds, joules = foreseen(problem, seen, 3)
    for name, price in (("latency", seconds), ("energy", joules)):
        counts = sum(schedule(name, 3, problem, seen._replace(round=round)).astype(int) for round in range(500))
        there = seen.available
        assert np.corrcoef(np.log(price[there]), counts[there])[0, 1] < -0.7


def test_weights_by_lot_need_a_lot():
    with pytest.raises(BadInput, match="weights = 'unbiased' does not go with scheduler = 'fastest'"):
        methods.parse("fedavg:weights=unbiased,scheduler=fastest")
    with pytest.raises(BadInput, match="weights = 'unbiased' does not go with this method"):
        fedavg.shares("unbiased", None, None)


def test_unbiased_weights_are_over_the_chances_of_what_was_charged(small):
    """Ditto computes twice as much, which changes who is cheap."""
    problem = small(UNEQUAL | {"world.bandwidth_hz": "1e5"})
    seen, method = observed(problem), methods.parse("ditto:scheduler=latency,n_selected=3,weights=unbiased")
    decision = method.build().decide(problem, None, seen)
    uplink = radio.transmit(problem.world, seen, decision, 1)
    device, size = np.flatnonzero(uplink.delivered), seen.store.size
    twice, once = (
        chances("latency", problem, seen, Wanted(3, problem.train.steps, cost * problem.train.batch_size))[device]
        for cost in (2, 1)
    )
    updates = Updates(device, problem.learner.initial()[None].repeat(len(device), 1))
    found = fedavg.weights_of(method.config, problem, Round(seen, decision, updates, uplink))
    total = size[seen.available].sum()
    np.testing.assert_allclose(found, size[device] / (total * twice))
    assert not np.allclose(twice, once, rtol=1e-3)
