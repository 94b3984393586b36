"""RawHFL in worlds: what is planned arrives, lost uploads, blocks, cells, edges, diagnostics, the paper's energies."""

from itertools import product

import numpy as np
import pytest
import torch

from fedcell import methods, radio, world
from fedcell.errors import BadInput
from fedcell.learn.settings import TrainConfig
from fedcell.methods import rawhfl
from fedcell.methods.parts.gradients import gradients
from fedcell.methods.rawhfl import diagnostics as rawhfl_diagnostics
from fedcell.methods.rawhfl import theory
from fedcell.options import Law
from fedcell.radio.forecast import success_probability
from fedcell.record import checkpoint
from fedcell.simulate import SIMULATED, begin, play_round, simulate
from fedcell.types import Outcome, Round, Store, Updates
from fedcell.world.settings import WorldConfig

TIGHT = {
    "world.access": "own_band",
    "world.bandwidth_hz": "1e5",
    "world.cycles_per_sample": "1e6..1e8",
    "world.energy_per_round_joule": "0.02..1",
    "world.deadline_s": "5",
    "world.n_devices": "20",
}
CELLS = {"world.topology": "cells", "world.n_cells": "3"}
BLOCKS = {"world.access": "block", "world.n_blocks": "3"}
NOISY = {**BLOCKS, "world.interference_over_noise": "1e0~1e3"}
LOSSY = {"world.access": "own_band", "world.outage_threshold_db": "20", "world.pathloss": "power_law"}


def build(text):
    return methods.parse(text).build()


def rows(problem, text):
    return [row for row, _ in simulate(problem, build(text))]


# ---------------------------------------------------------------- decide


@pytest.mark.parametrize("allocation", ["max", "sca", "exact"])
@pytest.mark.parametrize("access", [{}, BLOCKS, NOISY, {"world.access": "fdma", "world.bandwidth_hz": "4e5"}])
def test_what_is_planned_arrives(small, allocation, access):
    problem = small({**TIGHT, **CELLS, **access})
    played = rows(problem, f"rawhfl:allocation={allocation},z=3,n_batches=2,sca_iterations=8")
    assert sum(row.n_selected for row in played) > 0
    for row in played:
        assert row.n_delivered == row.n_selected <= 9
        assert row.round_s <= 5 * (1 + 1e-9)
        out = sum(value for name, value in row.metrics.items() if name.startswith("ineligible_"))
        assert row.metrics["eligible"] + out == pytest.approx(20 / 3)
        objective = -0.4 * row.metrics["objective_steps"] + 0.6 * row.metrics["objective_joule"]
        assert row.metrics["objective"] == pytest.approx(objective)
        if access is not NOISY or allocation != "sca":  # who plans on the worst block is done earlier on another
            spent = row.compute_joule + row.radio_joule
            assert row.metrics["objective_joule"] * 9 == pytest.approx(spent, rel=1e-6)


def test_exact_saves_and_max_is_at_full_speed(small):
    problem = small({**TIGHT, **CELLS})
    seen = world.observe(problem.world, world.start(problem.world, 1), 1, 0)[0]
    found = {}
    for allocation in ("max", "exact"):
        method = build(f"rawhfl:allocation={allocation},z=2")
        found[allocation] = method.decide(problem, method.init(problem, problem.learner.initial()), seen)
    np.testing.assert_array_equal(found["max"].power_watt, seen.devices.power_watt)
    assert found["exact"].info["objective"] < found["max"].info["objective"]
    assert found["exact"].info["eligible"] >= found["max"].info["eligible"]


def test_overlap_with_the_round_before(small):
    still = {"world.n_devices": "12", "world.deadline_s": "20", "world.los": "static"}
    problem = small({"world.access": "own_band", **still})
    outcomes = [row.outcome for row in rows(problem, "rawhfl:z=6,psi=0")]
    assert outcomes[0] == outcomes[2] != outcomes[1] == outcomes[3]
    assert [row.metrics["repeated"] for row in rows(problem, "rawhfl:z=6,psi=6")][1:] == [6.0] * 3
    assert max(row.metrics["repeated"] for row in rows(problem, "rawhfl:z=6")) == 3


def test_blocks_limit_z(small):
    problem = small(BLOCKS)
    method = build("rawhfl:z=4")
    with pytest.raises(BadInput, match=r"rawhfl\.z = 4.*world\.access = 'block' and world\.n_blocks = 3"):
        method.init(problem, problem.learner.initial())
    assert [row.n_selected for row in rows(problem, "rawhfl")] == [3] * 4
    assert [row.n_selected for row in rows(small(), "rawhfl")] == [4] * 4


def test_literal_programs_are_reported(small):
    problem = small({**TIGHT, "world.deadline_s": "50", "world.energy_per_round_joule": "1e3"})
    for row in rows(problem, "rawhfl:allocation=sca,sca_step=none,z=2"):
        assert row.metrics["programs"] == 1
        assert row.metrics["collapsed"] == 2
        assert row.n_delivered == 2
    assert {row.metrics["collapsed"] for row in rows(problem, "rawhfl:allocation=sca,sca_iterations=3")} == {0.0}


# ---------------------------------------------------------------- aggregate


def a_round(problem, method, state, deltas, lost=()):
    """The outcome of a round with made-up updates, some of them lost."""
    place, seed = problem.world, problem.seed
    seen = world.observe(place, world.start(place, seed), seed, 0)[0]
    decision = method.decide(problem, state, seen)
    uplink = radio.transmit(place, seen, decision, seed)
    outcome = np.where(np.isin(np.arange(len(uplink.outcome)), lost), int(Outcome.OUTAGE), uplink.outcome)
    device = np.flatnonzero(decision.selected)
    updates = Updates(device, torch.tensor(deltas[device], dtype=torch.float32))
    return Round(seen, decision, updates, uplink._replace(outcome=outcome))


def test_a_lost_upload_shortens_the_step(small):
    problem, method = small(), build("rawhfl:z=6")
    deltas = np.random.default_rng(1).normal(size=(6, 5))
    state = method.init(problem, torch.zeros(5))
    for lost in ((), (2,), (0, 3, 4), range(6)):
        played = a_round(problem, method, state, deltas, lost)
        params, after = method.aggregate(problem, torch.zeros(5), state, played)
        kept = np.setdiff1d(np.arange(6), list(lost))
        np.testing.assert_allclose(params, deltas[kept].sum(axis=0) / 6, rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(after.previous, played.decision.selected)


def test_known_probabilities_make_the_step_unbiased(small):
    """Over all ways to lose uploads, the mean step is that without losses if and only if updates are reweighed."""
    problem = small({**LOSSY, "world.power_dbm": "-12..-8"})
    plain, reweighed = build("rawhfl:z=6"), build("rawhfl:z=6,reweigh=true")
    state, deltas = plain.init(problem, torch.zeros(3)), np.random.default_rng(1).normal(size=(6, 3))
    whole = a_round(problem, plain, state, deltas)
    chance = success_probability(problem.world, whole.observation, whole.decision)
    assert ((chance > 0.05) & (chance < 0.95)).any()
    mean = {plain: 0.0, reweighed: 0.0}
    for arrived in product((False, True), repeat=6):
        probability = np.where(arrived, chance, 1 - chance).prod()
        outcome = np.where(arrived, int(Outcome.DELIVERED), int(Outcome.OUTAGE))
        played = whole._replace(uplink=whole.uplink._replace(outcome=outcome))
        for method in mean:
            step, _ = method.aggregate(problem, torch.zeros(3), state, played)
            mean[method] += probability * step.double().numpy()
    np.testing.assert_allclose(mean[reweighed], deltas.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(mean[plain], (chance[:, None] * deltas).mean(axis=0), atol=1e-5)


def test_nobody_saves_power_where_uploads_can_be_lost(small):
    problem = small(LOSSY | {"world.deadline_s": "30"})
    played = a_round(problem, build("rawhfl"), build("rawhfl").init(problem, torch.zeros(2)), np.zeros((6, 2)))
    on = played.decision.selected
    np.testing.assert_allclose(played.decision.power_watt[on], problem.world.devices.power_watt[on])
    assert (played.decision.cpu_hz[on] < problem.world.devices.cpu_hz[on]).all()


def test_nobody_eligible_changes_nothing(small):
    problem = small({"world.energy_per_round_joule": "1e-12", "world.deadline_s": "10"})
    first = begin(problem, build("rawhfl"))
    row, after = play_round(SIMULATED, problem, build("rawhfl"), first)
    assert row.n_selected == 0
    assert row.metrics["ineligible_energy"] == 6
    assert torch.equal(first.params, after.params)


def test_everyone_with_equal_steps_is_fedavg(small):
    """One cell that chooses all."""
    problem = small({"world.access": "own_band"})
    moved = {}
    for text in ("rawhfl:z=6,n_batches=1", "fedavg:weights=equal"):
        first = begin(problem, build(text))
        moved[text] = play_round(SIMULATED, problem, build(text), first)[1].params - first.params
    torch.testing.assert_close(*moved.values(), rtol=1e-4, atol=1e-6)


def test_edges_are_cells_of_their_own(small):
    """With edge models each cell keeps its own choice; the first choice is that of the flat network."""
    flat = small({**TIGHT, **CELLS})
    tiers = small({**TIGHT, **CELLS, "world.edge_rounds": "2"})
    one, two = rows(flat, "rawhfl:z=2"), rows(tiers, "rawhfl:z=2")
    assert [row.outcome for row in one] == [row.outcome for row in two]
    assert one[0].metrics["objective"] == pytest.approx(two[0].metrics["objective"])
    assert one[0].metrics["eligible"] == pytest.approx(two[0].metrics["eligible"])


# ---------------------------------------------------------------- diagnostics


def test_diagnostics_measure_what_they_say(small):
    problem = small({**CELLS, "world.access": "own_band", "train.batch_size": "0"})
    method = build("rawhfl:diagnose=true,z=2,psi=2,lr=0.001")
    first = begin(problem, method)
    row, after = play_round(SIMULATED, problem, method, first)
    device = np.flatnonzero(after.method.previous)
    full = gradients(problem, first.params, after.world.store, device, 0, 0).double()
    assert row.metrics["gradient_squared"] == pytest.approx(float(full.mean(dim=0).square().sum()), rel=1e-4)
    assert row.metrics["gradient_noise"] == pytest.approx(0, abs=1e-9), "whole stores have no sampling noise"
    assert row.metrics["bound_wireless"] == 0
    row2, _ = play_round(SIMULATED, problem, method, after)
    assert row2.metrics["smoothness"] > 0
    assert row2.metrics["bound_rates_hold"] == 1
    terms = ("progress", "noise", "edge_divergence", "global_divergence", "wireless")
    assert row2.metrics["bound"] == pytest.approx(sum(row2.metrics[f"bound_{name}"] for name in terms))
    plain = play_round(
        SIMULATED, problem, build("rawhfl:z=2,psi=2,lr=0.001"), begin(problem, build("rawhfl:z=2,psi=2,lr=0.001"))
    )
    assert torch.equal(plain[1].params, after.params), "looking changes nothing"


def test_divergences():
    rng = np.random.default_rng(1)
    g, cell, steps = rng.normal(size=(5, 4)), np.array([0, 0, 2, 2, 2]), np.array([1, 3, 2, 5, 1])
    edge, overall = rawhfl_diagnostics.divergences(torch.tensor(g), cell, steps)
    groups = [[0, 1], [2, 3, 4]]
    spread = [np.mean([np.sum((g[u] - g[here].mean(axis=0)) ** 2) for u in here]) for here in groups]
    loaded = steps[:, None] * g
    apart = sum(len(h) / 5 * np.sum((loaded[h].mean(axis=0) - loaded.mean(axis=0)) ** 2) for h in groups)
    assert edge == pytest.approx(max(spread))
    assert overall == pytest.approx(apart)
    weight, of_cell = rawhfl_diagnostics.shares(cell)
    np.testing.assert_allclose(weight * of_cell, 0.2)
    assert theory.Constants(0.1, 1.0, 0.0, edge, overall).hold(2, 1)


def test_diagnostics_survive_a_restart_and_empty_rounds(small, tmp_path):
    problem = small({**LOSSY, "world.availability": "0.4"}, rounds=6)
    method = build("rawhfl:diagnose=true,z=1")
    history = list(simulate(problem, method))
    template = checkpoint.Template.of(begin(problem, method))
    checkpoint.save(tmp_path, history[1][1], template)
    resumed = list(simulate(problem, method, checkpoint.load(next(tmp_path.iterdir()), template)))
    assert [row for row, _ in resumed] == [row for row, _ in history[2:]]
    assert any(row.metrics.get("bound_wireless", 0) > 0 for row, _ in history)


# ---------------------------------------------------------------- the paper's cells

PAPER = WorldConfig(
    n_devices=48,
    topology="cells",
    n_cells=4,
    radius_m=400.0,
    access="own_band",
    bandwidth_hz=540e3,
    cpu_hz=Law((1.2e9, 2e9), "uniform"),
    cycles_per_sample=Law((25 * 1376, 40 * 1376), "uniform"),
    energy_per_round_joule=Law((0.8, 1.5), "uniform"),
    bits_per_parameter=33.0,
    deadline_s=150.0,
)


def energy(config, n_rounds=30):
    """Joules of 400 rounds in the paper's cells, three drops, extrapolated."""
    total = 0.0
    for seed in range(3):
        store = Store(np.zeros((48, 1), dtype=np.int64), np.full(48, 400))
        place = world.build_world(PAPER, world.static_stream(store), 219_648, 0.0, seed)
        problem = type("Problem", (), {"world": place, "train": TrainConfig(steps=50, batch_size=32)})
        state = rawhfl.State(np.zeros(48, dtype=bool), None)
        for round in range(n_rounds):
            seen, _ = world.observe(place, world.start(place, seed), seed, round)
            decision = rawhfl.decide(config, problem, state, seen)
            state = state._replace(previous=decision.selected)
            total += decision.info["objective_joule"] * 4 * config.z
    return total * 400 / (3 * n_rounds)


@pytest.mark.parametrize(("z", "expected"), [(2, 1200), (4, 2780), (6, 4760)])
def test_energies_of_the_paper_are_those_of_full_speed(z, expected):
    assert energy(rawhfl.Config(allocation="max", z=z, psi=z)) == pytest.approx(expected, rel=0.15)


def test_exact_needs_a_percent_of_it():
    assert energy(rawhfl.Config(z=4), n_rounds=5) < 0.01 * 2780
