"""Hierarchical FedAvg: who trains how long in each mode, what it costs, and one server against several."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcell import methods, radio
from fedcell.methods.h_fedavg import common_steps
from fedcell.options import override
from fedcell.scenarios import build_problem, get
from fedcell.simulate import begin, simulate
from fedcell.world import observe, start

CELLS = {
    "world.topology": "cells",
    "world.n_cells": "3",
    "world.n_devices": "7",
    "world.access": "own_band",
    "world.cycles_per_sample": "1e6",
    "train.steps": "6",
}
EDGES = {**CELLS, "world.edge_rounds": "2"}


def build(text):
    return methods.parse(text).build()


def seen(problem, round=0):
    return observe(problem.world, start(problem.world, problem.seed), problem.seed, round)[0]


def with_room_for(problem, observation, steps):
    """The observation with energy budgets for so many local steps of every device and no more."""
    full = build("h_fedavg:mode=ub").decide(problem, None, observation)
    compute_s, upload_s = radio.times(problem.world, observation, full)
    devices = observation.devices
    one = devices.capacitance * compute_s / full.steps * devices.cpu_hz**3
    budget = devices.power_watt * upload_s + one * (np.asarray(steps) + 0.5)
    return observation._replace(devices=devices._replace(energy_per_round_joule=budget))


def steps_of(decision):
    return np.where(decision.selected, decision.steps, 0).tolist()


# ---------------------------------------------------------------- the rules


@pytest.mark.parametrize(
    ("can", "m1", "m2", "m1_cell", "m2_cell"),
    [
        ([5, 9, 4, 3, 8, 6, 7], [3] * 7, [3] * 7, [4, 4, 4, 3, 3, 6, 6], [4, 4, 4, 3, 3, 6, 6]),
        ([5, 9, 4, 0, 8, 6, 7], [0] * 7, [4, 4, 4, 0, 4, 4, 4], [4, 4, 4, 0, 0, 6, 6], [4, 4, 4, 0, 6, 6, 6]),
        ([0] * 7, [0] * 7, [0] * 7, [0] * 7, [0] * 7),
        ([9, 9, 9, 9, 9, 9, 9], [6] * 7, [6] * 7, [6] * 7, [6] * 7),
    ],
)
def test_steps_are_the_least_that_all_or_the_kept_can_do(small, can, m1, m2, m1_cell, m2_cell):
    problem = small(EDGES)
    observation = with_room_for(problem, seen(problem), can)
    for mode, expected in {"m1": m1, "m2": m2}.items():
        assert steps_of(build(f"h_fedavg:mode={mode}").decide(problem, None, observation)) == expected
    for mode, expected in {"m1": m1_cell, "m2": m2_cell}.items():
        assert steps_of(build(f"h_fedavg:mode={mode},all_of=cell").decide(problem, None, observation)) == expected
    for mode in ("ub", "relay"):
        decision = build(f"h_fedavg:mode={mode}").decide(problem, None, observation._replace(round=1))
        assert steps_of(decision) == [6] * 7
        assert radio.transmit(problem.world, observation, decision, 0).delivered.all()
        assert decision.info["eligible"] == pytest.approx(np.count_nonzero(can) / 3)


@given(
    can=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    group=st.lists(st.integers(0, 3), min_size=12, max_size=12),
)
def test_common_steps_by_brute_force(can, group):
    can, group = np.array(can), np.array(group[: len(can)])
    for kept in (can > 0, np.ones(len(can), dtype=bool)):
        found = common_steps(can, kept, group)
        for k in range(len(can)):
            alike = [can[j] for j in range(len(can)) if group[j] == group[k] and kept[j]]
            assert found[k] == min(alike, default=0)
    if (can > 0).all():
        assert (common_steps(can, can > 0, group) == common_steps(can, kept, group)).all(), "m2 is m1"


def test_a_round_that_somebody_cannot_play_costs_nothing(small):
    problem = small({**EDGES, "world.energy_per_round_joule": "1e-9|1e3"}, rounds=3)
    budget = problem.world.devices.energy_per_round_joule
    assert 0 < (budget < 1).sum() < 7
    for row, after in simulate(problem, build("h_fedavg:mode=m1")):
        assert row.n_selected == row.compute_joule == row.radio_joule == 0
        assert torch.equal(after.params, problem.learner.initial())
    for row, _ in simulate(problem, build("h_fedavg:mode=m2")):
        assert row.n_delivered == row.n_selected == (budget > 1).sum()
    for row, _ in simulate(problem, build("h_fedavg:mode=ub")):
        assert row.n_delivered == 7


def test_an_upper_bound_has_all_the_time_it_needs_and_the_clock_ticks_as_ever(small):
    tight = {**EDGES, "world.deadline_s": "1e-3"}
    for clock, lasts in (("deadline", lambda row: row.round_s == 1e-3), ("slowest", lambda row: row.round_s > 1e-2)):
        row, _ = next(simulate(small({**tight, "world.clock": clock}), build("h_fedavg:mode=ub")))
        assert row.outcome == "D" * 7
        assert lasts(row)


def test_relay_trains_in_the_last_round_of_a_global_round_on_one_server(small):
    problem = small({**CELLS, "world.edge_rounds": "3"}, rounds=6)
    relay = list(simulate(problem, build("h_fedavg:mode=relay")))
    assert [row.n_selected for row, _ in relay] == [0, 0, 7, 0, 0, 7]
    payload = problem.world.payload_bit
    assert [row.metrics["backhaul_bit"] for row, _ in relay] == [0, 0, 7 * payload, 0, 0, 7 * payload]
    assert begin(problem, build("h_fedavg:mode=relay")).method is None, "there are no edge models"
    every = [row for row, _ in simulate(small({**CELLS, "world.edge_rounds": "0"}), build("h_fedavg:mode=relay"))]
    assert [row.n_selected for row in every] == [7] * 4


def test_one_cell_with_room_for_all_is_fedavg(small):
    world = {"world.access": "own_band", "world.edge_rounds": "1"}
    ends = [
        list(simulate(small(world), build(text)))[-1][1].params
        for text in ("h_fedavg:mode=m1,n_batches=1", "h_fedavg:n_batches=1", "fedavg:weights=equal")
    ]
    for end in ends[:2]:
        torch.testing.assert_close(end, ends[2])


def test_a_lost_update_leaves_its_share_out(small):
    problem = small(rounds=1)
    method, kept = build("h_fedavg"), {}

    def local(*arguments):
        updates = method.local(*arguments)
        kept["delta"] = updates.delta.clone()
        updates.delta[2, 0] = float("nan")
        return updates

    ((row, after),) = simulate(problem, method._replace(local=local))
    assert row.outcome == "DDXDDD"
    expected = kept["delta"][[0, 1, 3, 4, 5]].sum(0) / 6
    torch.testing.assert_close(after.params - problem.learner.initial(), expected, rtol=1e-4, atol=1e-7)


# ---------------------------------------------------------------- the scenario


@pytest.fixture(scope="module")
def rawhfl():
    return build_problem(override(get("rawhfl").config, {"rounds": 20, "train.device": "cpu"}))


def test_scenario_has_the_papers_model_and_payload(rawhfl):
    assert rawhfl.learner.n_params == 219_648
    assert rawhfl.world.payload_bit == 7_248_384
    assert np.bincount(rawhfl.world.topology.cell).tolist() == [12] * 4


def test_energy_of_the_upper_bounds_is_that_of_the_closed_form(rawhfl):
    """`e = L zeta/2 c f^2 + P s / (omega log2(1 + h P / (omega N0)))` at full clock and power, `c = 320 c_u D_u`."""
    world, expected, found = rawhfl.world, [], {"ub": [], "relay": []}
    for round in range(20):
        observation = seen(rawhfl, 0)._replace(round=round)
        devices = observation.devices
        rate = 540e3 * np.log2(1 + observation.gain * devices.power_watt / (540e3 * 10 ** (-174 / 10) * 1e-3))
        compute = 50 * 0.5 * 2e-28 * 320 * devices.cycles_per_sample * devices.cpu_hz**2
        expected.append((compute + devices.power_watt * 7_248_384 / rate).sum())
        for mode, spent in found.items():
            decision = build(f"h_fedavg:mode={mode}").decide(rawhfl, None, observation)
            uplink = radio.transmit(world, observation, decision, rawhfl.seed)
            spent.append(uplink.compute_joule.sum() + uplink.radio_joule.sum())
            assert uplink.delivered.all() or not decision.selected.any()
    np.testing.assert_allclose(found["ub"], expected, rtol=1e-9)
    np.testing.assert_allclose(found["relay"][3::4], expected[3::4], rtol=1e-9)
    assert not np.any(np.reshape(found["relay"], (5, 4))[:, :3])


def test_upper_bound_spends_what_the_paper_says(rawhfl):
    """15.4 +- 1.1 kJ in 400 edge rounds of 48 clients, so 0.80 J each; 20 rounds of one seed are near that."""
    spent, ub = [], build("h_fedavg:mode=ub")
    state = start(rawhfl.world, rawhfl.seed)
    for round in range(20):
        observation, state = observe(rawhfl.world, state, rawhfl.seed, round)
        uplink = radio.transmit(rawhfl.world, observation, ub.decide(rawhfl, None, observation), rawhfl.seed)
        spent.append((uplink.compute_joule + uplink.radio_joule).sum())
        assert uplink.round_s == 150
    assert 400 * np.mean(spent) == pytest.approx(15_400, abs=2 * 1_100)
