"""Clients that send in turn: slots against brute force, everyone in time, and a cell of one as with its own band."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rawhfl_cells import clients, grid, objectives

import fedcell
from fedcell import methods
from fedcell.errors import BadInput
from fedcell.methods.parts.client_planning.plan import ClientConfig, make_plan
from fedcell.methods.parts.client_planning.problem import ClientPlan, compute_joule, upload
from fedcell.methods.parts.client_planning.slots import SHARES, in_turn, slotted
from fedcell.methods.rawhfl.allocation import allocate, allocate_in_turn
from fedcell.options import override
from fedcell.radio import transmit
from fedcell.scenarios import build_problem, get
from fedcell.simulate import begin
from fedcell.solve.in_series import in_series
from fedcell.types import Outcome
from fedcell.world import observe

few = settings(max_examples=25)
seeds = st.integers(0, 10**6)


def same_deadline(seed: int, n: int = 30):
    client = clients(seed, n)
    return client._replace(deadline_s=np.full(n, float(np.median(client.deadline_s))))


@few
@given(seeds, st.sampled_from(SHARES), st.sampled_from(["closed", "sca", "exact"]))
def test_a_plan_keeps_to_its_slot_and_waits_for_all_others(seed: int, share: float, solver: str) -> None:
    client, cell = same_deadline(seed), np.arange(30) % 3
    n = np.full(30, 10)
    plan = make_plan(ClientConfig(solver=solver), *slotted(client, cell, n, share))
    on = plan.feasible
    upload_s = upload(client, plan.power_watt)[0][on]
    slot_s = (share * client.deadline_s / n)[on]
    assert (upload_s <= slot_s * (1 + 1e-6)).all()
    busy_s = (client.cycles_per_step * plan.steps / plan.cpu_hz)[on] + upload_s
    assert (busy_s + (n[on] - 1) * slot_s <= client.deadline_s[on] * (1 + 1e-6)).all()


@few
@given(seeds, st.sampled_from(SHARES))
def test_exact_slots_are_the_best_of_a_grid(seed: int, share: float) -> None:
    """No clock and power of a fine grid does more steps in the slot, in time and within the budget."""
    client, n = same_deadline(seed, 12), np.full(12, 4)
    plan = make_plan(ClientConfig(solver="exact"), *slotted(client, np.arange(12) % 3, n, share))
    slot_s = share * client.deadline_s / n
    left_s = client.deadline_s - (n - 1) * slot_s
    steps = plan.steps + 1
    clock = np.geomspace(1e-2, 1.0, 200)[:, None] * client.cpu_hz
    for part in np.geomspace(1e-3, 1.0, 100):
        upload_s, upload_joule = upload(client, part * client.power_watt)
        fits = (upload_s <= slot_s) & (client.cycles_per_step * steps / clock + upload_s <= left_s)
        fits &= compute_joule(client, steps, clock) + upload_joule <= client.budget_joule
        assert not (fits & (steps <= client.most_steps)).any()


def test_a_cell_takes_the_slots_that_serve_most() -> None:
    client, cell, tried = same_deadline(4, 60), np.arange(60) % 6, np.arange(60) % 7 > 0
    config = ClientConfig()
    found = in_turn(lambda some, least: make_plan(config, some, least), client, cell, tried)
    n = np.bincount(cell[tried])[cell]
    plans = [make_plan(config, *slotted(client, cell, n, share)) for share in SHARES]
    for number in range(6):
        here = tried & (cell == number)
        ranks = [(int(plan.feasible[here].sum()), int(plan.steps[here].sum())) for plan in plans]
        best = plans[ranks.index(max(ranks))]
        assert all((mine[here] == theirs[here]).all() for mine, theirs in zip(found, best, strict=True))
    assert len({tuple(plan.feasible.tolist()) for plan in plans}) > 1


def test_one_client_alone_has_the_whole_deadline() -> None:
    client, cell = same_deadline(5), np.arange(30)
    config = ClientConfig()
    alone = in_turn(lambda some, least: make_plan(config, some, least), client, cell, np.ones(30, dtype=bool))
    plain = make_plan(config, client)
    assert isinstance(alone, ClientPlan)
    assert all((mine == theirs).all() for mine, theirs in zip(alone, plain, strict=True))
    cells = grid(30, 1, 1)
    assert all(
        np.array_equal(mine, theirs)
        for mine, theirs in zip(allocate_in_turn(client, cells, 0.4), allocate(client, cells, 0.4), strict=True)
    )


@few
@given(seeds, st.sampled_from(["exact", "max"]))
def test_cells_choose_the_slots_that_are_worth_most(seed: int, mode: str) -> None:
    client, cells = same_deadline(seed, 40), grid(4, 10, 3)
    found = allocate_in_turn(client, cells, 0.4, mode)
    chosen = np.bincount(cells.cell[found.selected], minlength=4)
    ours = objectives(found, cells, 0.4)
    for share in SHARES:
        some, least = slotted(client, cells.cell, np.full(40, 3), share)
        other = allocate(some, cells, 0.4, mode, least)
        count = np.bincount(cells.cell[other.selected], minlength=4)
        assert (count <= chosen).all()
        equal = count == chosen
        assert (ours[equal] <= objectives(other, cells, 0.4)[equal] + 1e-12).all()
    assert found.objective(0.4) == pytest.approx(ours.sum() / 12)
    on = found.selected
    for number in range(4):
        here = on & (cells.cell == number)
        assert in_series(found.compute_s[here], found.upload_s[here]) <= client.deadline_s[0] * (1 + 1e-6)


# ---------------------------------------------------------------- in worlds


WORLD = {
    "world.access": "tdma",
    "world.topology": "cells",
    "world.n_cells": 2,
    "world.deadline_s": 1.0,
    "world.bandwidth_hz": 1e6,
    "world.cycles_per_sample": 1e6,
    "world.energy_per_round_joule": "0.1..2",
    "world.fading": "exponential",
    "train.steps": 5,
    "rounds": 3,
}


@pytest.mark.parametrize("downlink", ["none", "unicast"])
@pytest.mark.parametrize(
    "method",
    ["osafl", "osafl:solver=exact", "m_fedavg", "rawhfl", "rawhfl:allocation=max", "representativity"],
)
def test_planned_uploads_are_in_time(method: str, downlink: str, tmp_path: Path) -> None:
    """Whoever is asked delivers, although all of a cell wait for each other, and some could not be asked."""
    outcomes = ""
    for seed in (1, 2):
        settings = WORLD | {"seed": seed, "world.downlink": downlink}
        (record,) = fedcell.run(method, "cell", settings, out=str(tmp_path / str(seed)))
        outcomes += "".join(record.columns["outcome"])
    assert outcomes.count("D") > 10
    assert Outcome.LATE.letter not in outcomes
    assert "E" not in outcomes or method == "representativity"  # which plans no energy
    assert "." in outcomes


@pytest.mark.parametrize("policy", ["latency", "both", "representativity"])
def test_representativity_knows_when_turns_end(policy: str) -> None:
    problem = build_problem(override(get("cell").config, WORLD | {"world.deadline_s": "inf"}))
    method = methods.parse(f"representativity:policy={policy},n_selected=4").build()
    before = begin(problem, method)
    observation, _ = observe(problem.world, before.world, 1, 0)
    decision = method.decide(problem, before.method, observation)
    uplink = transmit(problem.world, observation, decision, 1)
    per_cell = [decision.selected & (observation.topology.cell == number) for number in (0, 1)]
    ends = [in_series(uplink.compute_s[here], uplink.upload_s[here]) for here in per_cell]
    assert uplink.round_s == pytest.approx(max(ends))
    assert (decision.bandwidth_hz[decision.selected] == problem.world.settings.bandwidth_hz).all()


def test_linear_programs_have_no_slots(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="its linear programs have no slots"):
        fedcell.run("rawhfl:allocation=sca", "cell", WORLD, out=str(tmp_path / "run"))
