"""Which selected device sends on which resource block, against every possible assignment."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcell import methods, radio, world
from fedcell.errors import BadInput
from fedcell.methods.parts.resources import BLOCKS, plan
from fedcell.options import override
from fedcell.radio import bands
from fedcell.scenarios import build_problem, get
from fedcell.simulate import begin


@pytest.fixture(scope="module")
def cell():
    """AMP-FL's cell with six blocks; digits stand for its data."""
    changes = {"data.name": "digits", "model.name": "logistic", "train.device": "cpu", "world.n_blocks": 6}
    return build_problem(override(get("pruning").config, changes))


def seen(problem, round):
    return world.observe(problem.world, world.start(problem.world, problem.seed), problem.seed, round)[0]


@given(st.integers(0, 10**6), st.integers(1, 5), st.booleans())
@settings(max_examples=60)
def test_rules_are_the_best_of_all_assignments(seed, n_devices, deaf):
    rate = np.random.default_rng(seed).uniform(0.1, 9, (n_devices, 5))
    if deaf:
        rate[0] = 0.0  # no rate on any block: it still gets one
    of = {rule: BLOCKS[rule](rate) for rule in BLOCKS}
    device, every = np.arange(n_devices), [list(order) for order in permutations(range(5), n_devices)]
    assert all(len(set(block)) == n_devices and set(block) <= set(range(5)) for block in of.values())
    assert rate[device, of["rate"]].sum() == pytest.approx(max(rate[device, order].sum() for order in every))
    heard = device[int(deaf) :]
    if len(heard):
        seconds = [(1 / rate[heard, np.array(order)[heard]]).sum() for order in every]
        assert (1 / rate[heard, of["time"][heard]]).sum() == pytest.approx(min(seconds))
    assert of["first"].tolist() == list(range(n_devices))


def test_strongest_channels_send_in_the_least_time(cell):
    """FedAvg as AMP-FL's channel-aware benchmark: the seconds that the radio charges, over all 720 assignments."""
    method = methods.parse("fedavg:scheduler=best-channel,n_selected=6,blocks=time").build()
    for round in range(3):
        observation = seen(cell, round)
        decision = method.decide(cell, None, observation)
        chosen = np.flatnonzero(decision.selected)
        assert set(chosen) == set(np.argsort(observation.gain)[-6:])

        def seconds(order, observation=observation, decision=decision, chosen=chosen):
            block = np.full_like(decision.block, -1)
            block[chosen] = order
            return radio.times(cell.world, observation, decision._replace(block=block))[1][chosen].sum()

        least = min(seconds(list(order)) for order in permutations(range(6)))
        assert seconds(decision.block[chosen]) == pytest.approx(least)
        assert seconds(range(6)) > least * (1 + 1e-4), "the order of devices is no good guess"


def test_blocks_of_every_cell_are_dealt_out_apart(small):
    problem = small(
        {
            "world.topology": "cells",
            "world.n_cells": "2",
            "world.access": "block",
            "world.n_blocks": "3",
            "world.interference_over_noise": "1e2..1e5",
        }
    )
    observation = seen(problem, 0)
    for rule in BLOCKS:
        decision = methods.parse(f"fedavg:scheduler=all,blocks={rule}").build().decide(problem, None, observation)
        radio.check_decision(problem.world, observation, decision)


@pytest.mark.parametrize("method", ["fedavg", "fedbuff", "semi_async"])
def test_blocks_in_the_order_of_devices_need_no_rates(small, monkeypatch, method):
    problem = small({"world.access": "block", "world.n_blocks": "6", "world.interference_over_noise": "1..10"})
    built = methods.parse(f"{method}:blocks=first").build()
    state, observation = begin(problem, built).method, seen(problem, 0)
    monkeypatch.setattr(bands, "rate_bps", lambda *given: pytest.fail("rates are computed"))
    assert built.decide(problem, state, observation).block.tolist() == [0, 1, 2, 3, 4, 5]


def test_effort_that_fits_counts_with_the_block_that_is_given(cell):
    """On better blocks more steps fit."""
    tight = cell._replace(
        world=cell.world._replace(settings=override(cell.world.settings, {"deadline_s": 0.05}), payload_bit=1e5)
    )
    observation = seen(tight, 0)
    decision = (
        methods.parse("fedprox:scheduler=best-channel,n_selected=6,blocks=time")
        .build()
        .decide(tight, None, observation)
    )
    on = plan(tight, observation, decision.selected, 8, 64, "time")
    most = radio.most_steps(tight.world, observation, on)
    assert decision.selected.any()
    assert (decision.steps == np.minimum(most, 8))[decision.selected].all()


def test_methods_that_match_blocks_themselves_refuse_the_setting():
    with pytest.raises(BadInput, match=r"recycling\.blocks = 'time' is unknown: .*matched"):
        methods.parse("recycling:blocks=time")
