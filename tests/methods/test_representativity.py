"""Scheduling by representativity and latency: memory, bands, policies and steps, against plain loops and each other."""

import numpy as np
import pytest
import torch
from kept_rows import matrix

from fedcell import methods, radio, world
from fedcell.errors import BadInput
from fedcell.learn import models
from fedcell.learn.architecture import Architecture
from fedcell.methods import representativity
from fedcell.methods.parts.contributions import nothing, remember
from fedcell.methods.parts.resources import plan
from fedcell.methods.representativity.band import alone, divided, share_of_density
from fedcell.methods.representativity.memory import blank, distances, heard, shares
from fedcell.methods.representativity.schedule import within
from fedcell.record import checkpoint
from fedcell.scenarios import get
from fedcell.simulate import SIMULATED, begin, play_round, simulate
from fedcell.solve import facility
from fedcell.solve.equal_finish import equal_finish, together
from fedcell.solve.in_series import in_series
from fedcell.types import Problem, Store

CELL = {  # the chapter's radio: noise does not grow with the band
    "world.n_devices": "8",
    "world.topology": "square",
    "world.min_distance_m": "1",
    "world.pathloss": "power_law",
    "world.fading": "exponential",
    "world.noise_watt": "1e-12",
    "world.power_dbm": "10",
    "world.cycles_per_sample": "1e6",
    "world.cpu_hz": "0.8e9|1.0e9|1.2e9|1.4e9|1.6e9",
}
POLICIES = ("representativity", "latency", "both", "random", "power_of_choice", "gradient_norm")


def build(text=""):
    return methods.parse(f"representativity:{text}" if text else "representativity").build()


def observe(problem, round=0):
    return world.observe(problem.world, world.start(problem.world, problem.seed), problem.seed, round)[0]


def history(problem, text):
    return list(simulate(problem, build(text)))


# ---------------------------------------------------------------- memory


def test_distances_are_those_of_a_plain_loop_and_change_for_who_was_heard():
    rng, n, size = np.random.default_rng(1), 9, 40
    rows = np.zeros((n, size))
    memory = blank(n, size)
    for _ in range(12):
        device = np.sort(rng.permutation(n)[: rng.integers(0, 5)])
        delta = torch.tensor(rng.normal(size=(len(device), size)), dtype=torch.float32)
        before, memory = memory, heard(memory, device, delta, np.ones(len(device), dtype=np.int64), lr=0.1)
        rows[device] = delta.double().numpy() / -0.1
        others = np.setdiff1d(np.arange(n), device)
        kept, earlier = (matrix(one.kept, torch.zeros(size)) for one in (memory, before))
        assert torch.equal(kept[others], earlier[others]), "who was not heard keeps its row"
        np.testing.assert_allclose(kept, rows, rtol=1e-5)
        np.testing.assert_allclose(memory.distance, np.linalg.norm(rows[:, None] - rows, axis=2), rtol=1e-4, atol=1e-9)
        assert (memory.distance == memory.distance.T).all()
        assert (np.diag(memory.distance) == 0).all()


def test_distances_of_nearly_equal_rows_do_not_cancel():
    """A common part a million times the differences: products in float32 alone would leave nothing but rounding."""
    rng, n, size = np.random.default_rng(2), 6, 3000
    rows = torch.tensor(1000 + 1e-3 * np.round(rng.normal(size=(n, size)) * 64) / 64, dtype=torch.float32)
    rows[4] = rows[2]
    kept = remember(nothing(n, size), np.arange(n), rows, np.ones(n, dtype=np.int64), np.ones(n))
    found = distances(kept, np.arange(n), rows)
    exact = rows.double().numpy()
    np.testing.assert_allclose(found, np.linalg.norm(exact[:, None] - exact, axis=2), rtol=1e-4)
    assert found[2, 4] == 0


def test_distances_do_not_depend_on_how_rows_are_held(monkeypatch):
    """Pages of one row, pieces of a few columns, and everything at once."""
    from fedcell.methods.parts import contributions
    from fedcell.methods.representativity import memory as representativity_memory

    rng = np.random.default_rng(3)
    rows, n = torch.tensor(rng.normal(size=(11, 500)), dtype=torch.float32), 11
    found = []
    for page_bytes, numbers in ((2**22, 2**21), (2000, 64), (6000, 2**21)):
        monkeypatch.setattr(contributions, "PAGE_BYTES", page_bytes)
        monkeypatch.setattr(representativity_memory, "NUMBERS", {"cpu": numbers})
        device = np.array([0, 3, 9])
        found.append(heard(blank(n, 500), device, rows[device], np.ones(3, dtype=np.int64), 1.0).distance)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(found[0], found[2], rtol=1e-5, atol=1e-9)


def test_first_gradients_are_taken_before_the_first_round(small):
    problem = small(CELL)
    params = problem.learner.initial()
    state = build().init(problem, params)
    assert state.memory.kept.seen.all()
    assert (state.memory.distance[~np.eye(8, dtype=bool)] > 0).all()
    assert build("policy=latency").init(problem, params).memory is None, "who has no use for it keeps none"


@pytest.mark.parametrize("start", ["charged", "round"])
def test_first_gradients_in_a_round_of_everyone(small, start):
    problem = small(CELL, rounds=2)
    method = build(f"n_selected=2,start={start}")
    first = begin(problem, method)
    assert not first.method.memory.kept.seen.any()
    row, after = play_round(SIMULATED, problem, method, first)
    assert row.n_selected == 8
    assert row.round_s > 0
    assert after.method.memory.kept.seen.all()
    assert torch.equal(after.params, first.params) == (start == "charged")
    assert play_round(SIMULATED, problem, method, after)[0].n_selected == 2


def test_a_first_round_of_everyone_needs_a_block_for_everyone(small):
    for n_blocks, start in (("7", "charged"), ("7", "round")):
        problem = small({**CELL, "world.access": "block", "world.n_blocks": n_blocks})
        with pytest.raises(BadInput, match=f"start = '{start}' begins with everyone and world.n_blocks = 7"):
            begin(problem, build(f"start={start}"))
    enough = small({**CELL, "world.access": "block", "world.n_blocks": "8"}, rounds=1)
    assert history(enough, "n_selected=2,start=charged")[0][0].n_selected == 8


@pytest.mark.parametrize("weights", ["gamma", "gamma_refreshed", "mean"])
def test_a_first_round_of_everyone_is_the_mean_of_all(small, weights):
    """Nothing is remembered yet, so that all rows are alike: each device stands for itself."""
    problem = small(CELL, rounds=1)
    wanted = next(simulate(problem, methods.parse("fedavg:weights=equal").build()))[1].params
    found = history(problem, f"start=round,weights={weights}")[0][1].params
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_cells_with_edge_models_know_their_own_devices(small):
    cells = {"world.topology": "cells", "world.n_cells": "2", "world.n_devices": "7", "world.edge_rounds": "2"}
    problem = small(cells)
    states = begin(problem, build("n_selected=2")).method.states
    store = world.start(problem.world, problem.seed).store
    whole = representativity.diagnostics.everyone(
        representativity.Config(), problem, problem.learner.initial(), store, -1
    )
    rows = torch.cat([matrix(state.memory.kept, whole.delta[0]) for state in states])
    torch.testing.assert_close(rows, whole.delta / -problem.train.lr, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- bands


def finish(problem, observation, decision):
    compute_s, upload_s = radio.times(problem.world, observation, decision)
    return (compute_s + upload_s)[decision.selected]


@pytest.mark.parametrize("noise", ["1e-12", None])
def test_all_who_are_picked_end_together_and_use_the_whole_band(small, noise):
    problem = small({**CELL, "world.noise_watt": noise})
    for round in range(5):
        observation = observe(problem, round)
        for text in ("n_selected=3", "policy=latency,n_selected=5", "policy=both", "policy=random,n_selected=8"):
            state = build(text).init(problem, problem.learner.initial())
            decision = build(text).decide(problem, state, observation)
            ends = finish(problem, observation, decision)
            np.testing.assert_allclose(ends, ends[0], rtol=1e-8)
            band = decision.bandwidth_hz[decision.selected].sum()
            np.testing.assert_allclose(band, problem.world.settings.bandwidth_hz, rtol=1e-9)


def test_finish_is_that_of_the_solver_and_better_with_more_of_anything(small):
    def finish_s(changes):
        problem = small({**CELL, **changes})
        observation = observe(problem)
        everyone = plan(problem, observation, observation.available, 2, 8)
        found = alone(problem, observation, everyone)
        decision = divided(problem, observation, everyone, found)
        ends = finish(problem, observation, decision)
        np.testing.assert_allclose(ends, equal_finish(found.compute_s, found.upload_s).time, rtol=1e-9)
        return ends[0]

    base = finish_s({})
    better = [
        {"world.bandwidth_hz": "2e6"},
        {"world.power_dbm": "20"},
        {"world.reference_gain_db": "-20"},
        {"world.cycles_per_sample": "5e5"},
    ]
    assert all(finish_s(changes) < base for changes in better)


def test_shares_of_a_band_whose_noise_grows_with_it_are_optimal():
    rng = np.random.default_rng(4)
    for _ in range(200):
        n = int(rng.integers(1, 20))
        compute_s, payload = rng.uniform(0, 1, n), rng.uniform(1e5, 1e7, n)
        snr, band = 10.0 ** rng.uniform(-2, 4, n), 1e6
        share = share_of_density(compute_s, payload, snr, band)
        ends = compute_s + payload / (share * band * np.log2(1 + snr / share))
        np.testing.assert_allclose(share.sum(), 1.0, rtol=1e-12)
        np.testing.assert_allclose(ends, ends[0], rtol=1e-9)


def test_devices_with_bands_of_their_own_do_not_wait_for_each_other(small):
    problem = small({**CELL, "world.access": "own_band"})
    observation = observe(problem)
    decision = build("policy=latency,n_selected=3").decide(
        problem, build("policy=latency").init(problem, None), observation
    )
    everyone = plan(problem, observation, observation.available, 2, 8)
    compute_s, upload_s = radio.times(problem.world, observation, everyone)
    assert set(np.flatnonzero(decision.selected)) == set(np.argsort(compute_s + upload_s)[:3])


def test_a_set_that_is_late_sheds_devices_until_it_is_in_time():
    rng = np.random.default_rng(5)
    compute_s, upload_s = rng.uniform(0.1, 0.5, 8), rng.uniform(0.05, 0.2, 8)
    everyone = np.arange(8)
    for deadline_s in (0.01, 0.5, 0.9, 9.0):
        kept = within(everyone, compute_s, upload_s, deadline_s, most=6)
        assert len(kept) <= 6
        assert equal_finish(compute_s[kept], upload_s[kept]).time <= deadline_s
    assert len(within(everyone, compute_s, upload_s, 0.01, 8)) == 0
    assert within(everyone, compute_s, upload_s, 9.0, 8).tolist() == everyone.tolist()


@pytest.mark.parametrize("ends", [None, in_series])
@pytest.mark.parametrize("shared", [True, False])
def test_those_who_are_shed_are_those_of_a_plain_loop(ends, shared):
    """Of all that are left each time, also if several are worth the same."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, found = int(rng.integers(1, 15)), set()
        compute_s, upload_s = rng.random(n).round(2 if ends else 9), rng.uniform(0.01, 0.1, n) * shared
        for deadline_s in (0.1, 0.5, 1.0):
            left = np.arange(n)
            while len(left) and (ends or together)(compute_s[left], upload_s[left]) > deadline_s:
                rest = np.array([np.delete(left, place) for place in range(len(left))], dtype=np.int64)
                left = rest[np.argmin((ends or together)(compute_s[rest], upload_s[rest]))]
            found = within(np.arange(n), compute_s, upload_s, deadline_s, n, ends)
            assert found.tolist() == left.tolist()


def test_late_worlds_lose_nobody(small):
    problem = small({**CELL, "world.deadline_s": "0.1"})
    assert all("T" not in row.outcome for row, _ in history(problem, "n_selected=8"))
    assert any(0 < row.n_selected < 8 for row, _ in history(problem, "n_selected=8"))


# ---------------------------------------------------------------- policies


def picked(problem, text, state=None, round=0):
    method = build(text)
    state = state or method.init(problem, problem.learner.initial())
    return np.flatnonzero(method.decide(problem, state, observe(problem, round)).selected)


def test_policies_pick_what_they_say(small):
    problem = small(CELL)
    observation, state = observe(problem), build().init(problem, problem.learner.initial())
    chosen = picked(problem, "n_selected=3")
    assert chosen.tolist() == sorted(facility.greedy(state.memory.distance, 3).tolist())
    norms = state.memory.norm
    assert set(picked(problem, "policy=gradient_norm,n_selected=3")) == set(np.argsort(-norms)[:3])
    found = alone(problem, observation, plan(problem, observation, observation.available, 2, 8))
    best = picked(problem, "policy=latency,n_selected=1")
    assert best.tolist() == [np.argmin(found.compute_s + found.upload_s)]
    losses = representativity.client_losses(problem, problem.learner.initial(), observation.store)
    assert set(picked(problem, "policy=power_of_choice,n_selected=3")) == set(np.argsort(-losses)[:3])


def test_random_is_fedavgs_random(small):
    """The same lots, so that comparisons across methods are paired."""
    problem = small(CELL)
    other = methods.parse("fedavg:scheduler=random,n_selected=3").build()
    for round in range(4):
        theirs = other.decide(problem, None, observe(problem, round)).selected
        assert picked(problem, "policy=random,n_selected=3", round=round).tolist() == np.flatnonzero(theirs).tolist()


def test_both_follows_its_weights(small):
    problem = small(CELL)
    assert len(picked(problem, "policy=both,error_weight=1,latency_weight=0")) == 8
    found = alone(problem, observe(problem), plan(problem, observe(problem), observe(problem).available, 2, 8))
    fastest = np.argmin(found.compute_s + found.upload_s)
    assert picked(problem, "policy=both,error_weight=0,latency_weight=1").tolist() == [fastest], "never nobody"
    sizes = {
        scale: np.mean(
            [len(picked(problem, f"policy=both,error_weight=0.3,error_scale={scale}", round=t)) for t in range(6)]
        )
        for scale in ("sum", "mean", "relative")
    }
    assert sizes["sum"] >= sizes["mean"], "a smaller weight on the error picks no more"
    assert picked(problem, "policy=both").tolist() == picked(problem, "policy=both").tolist()


def test_devices_that_are_not_there_are_represented_and_not_picked(small):
    problem = small({**CELL, "world.availability": "0.5"}, rounds=6)
    method = build("n_selected=8")
    snapshot = begin(problem, method)
    for round in range(6):
        observation, _ = world.observe(problem.world, snapshot.world, problem.seed, round)
        decision = method.decide(problem, snapshot.method, observation)
        assert (decision.selected == observation.available).all(), "room for all who are there"
        _, snapshot = play_round(SIMULATED, problem, method, snapshot)
    away = np.array([2, 5])
    weight = shares(snapshot.method.memory, observation, away)
    np.testing.assert_allclose(weight.sum(), 1.0)


def test_small_batches_estimate_anew_in_every_round(small):
    problem = small(CELL)
    text = "estimate=mini_batch,estimate_batch=4,n_selected=3"
    state = build(text).init(problem, problem.learner.initial())
    assert state.memory is None
    config = methods.parse(f"representativity:{text}").config
    found = [representativity._known(config, problem, state, observe(problem, round)) for round in range(2)]
    assert (found[0].distance[~np.eye(8, dtype=bool)] > 0).all()
    assert not np.allclose(found[0].distance, found[1].distance), "other samples"
    assert len(picked(problem, text, state)) == 3


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("weights", ["gamma", "mean", "gamma_refreshed"])
def test_every_policy_with_every_weight_runs_and_resumes(small, policy, weights, tmp_path):
    problem = small({**CELL, "world.availability": "0.8"}, rounds=3)
    text = f"policy={policy},weights={weights},n_selected=3" + (",estimate=mini_batch" if policy == "both" else "")
    straight = history(problem, text)
    assert all(row.n_selected <= (8 if policy == "both" else 3) for row, _ in straight)
    template = checkpoint.Template.of(begin(problem, build(text)))
    checkpoint.save(tmp_path, straight[0][1], template)
    restored = checkpoint.load(next(tmp_path.iterdir()), template)
    resumed = list(simulate(problem, build(text), restored))
    assert torch.equal(resumed[-1][1].params, straight[-1][1].params)


# ---------------------------------------------------------------- the step


def test_everyone_makes_every_weight_fedavg(small):
    problem = small(CELL, rounds=3)
    wanted = [after.params for _, after in simulate(problem, methods.parse("fedavg:weights=equal").build())]
    for weights in ("gamma", "mean", "gamma_refreshed"):
        for policy in ("representativity", "latency", "random", "power_of_choice", "gradient_norm"):
            found = [after.params for _, after in history(problem, f"policy={policy},weights={weights},n_selected=8")]
            for left, right in zip(found, wanted, strict=True):
                torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6)


def test_one_local_step_of_everyone_is_one_step_of_the_pooled_batch(small):
    problem = small({**CELL, "train.steps": "1"}, rounds=1)
    _, after = history(problem, "n_selected=8,weights=mean")[0]
    from fedcell.learn.batches import draw_batches

    store = world.start(problem.world, problem.seed).store
    flat, at = draw_batches(store, np.arange(8), np.full(8, 8), problem.train.sampling, problem.seed, 0)
    pooled = np.concatenate([flat[first : first + 8] for first in at])
    x, y = problem.learner.train_samples.take(pooled)
    module = problem.learner.architectures[0].replica(problem.learner.device)
    torch.nn.functional.cross_entropy(module(x), y).backward()
    gradient = torch.cat([parameter.grad.reshape(-1) for parameter in module.parameters()])
    expected = problem.learner.initial() - problem.train.lr * gradient
    torch.testing.assert_close(after.params, expected, rtol=1e-4, atol=1e-6)


def steps_of(problem, method, n_rounds):
    """Of every round: the state before and after it, who is chosen, and their gradients in float64."""
    snapshot, lr = begin(problem, method), problem.train.lr
    for round in range(n_rounds):
        observation, _ = world.observe(problem.world, snapshot.world, problem.seed, round)
        decision = method.decide(problem, snapshot.method, observation)
        start = method.broadcast(problem, snapshot.params, snapshot.method, observation, decision)
        rows = method.local(problem, snapshot.method, start, observation, decision).delta.double() / -lr
        before, snapshot = snapshot, play_round(SIMULATED, problem, method, snapshot)[1]
        yield before, snapshot, np.flatnonzero(decision.selected), rows


@pytest.mark.parametrize("policy", ["representativity", "both", "random"])
def test_by_default_the_step_is_the_plain_mean_of_the_scheduled(small, policy):
    """As printed in Eq. (3.5), whatever the policy looks at."""
    problem = small(CELL, rounds=3)
    for before, after, chosen, rows in steps_of(problem, build(f"policy={policy},n_selected=3"), 3):
        expected = before.params.double() - problem.train.lr * sum(rows) / len(chosen)
        torch.testing.assert_close(after.params.double(), expected, rtol=1e-4, atol=1e-6)


def test_policy_weights_are_those_of_old_records(small):
    """`weights=policy`, once the default, is still read: gamma by representativity, else the mean."""
    problem = small(CELL, rounds=2)
    for policy, meant in (("representativity", "gamma"), ("both", "gamma"), ("random", "mean")):
        old, new = (history(problem, f"policy={policy},weights={one}")[-1][1].params for one in ("policy", meant))
        assert torch.equal(old, new)


def test_the_step_weighs_by_who_is_represented(small):
    """Against a plain loop over the stale memory of the round."""
    problem = small(CELL, rounds=4)
    for before, after, chosen, rows in steps_of(problem, build("n_selected=3,weights=gamma"), 4):
        stale = matrix(before.method.memory.kept, before.params).double()
        gamma = torch.zeros(3, dtype=torch.float64)
        for k in range(8):
            apart = torch.stack([(stale[k] - stale[h]).norm() for h in chosen])
            gamma[int(apart.argmin())] += 1
        assert gamma.min() >= 1
        expected = before.params.double() - problem.train.lr * (gamma[:, None] * rows).sum(dim=0) / 8
        torch.testing.assert_close(after.params.double(), expected, rtol=1e-4, atol=1e-6)


def test_who_is_not_heard_is_represented_by_who_is(small):
    """An update that is turned away leaves its share to the nearest of the others."""
    problem = small(CELL)
    method = build("n_selected=3")
    first = begin(problem, method)

    def poisoned(*arguments):
        updates = method.local(*arguments)
        updates.delta[0, 3] = float("nan")
        return updates

    row, after = play_round(SIMULATED, problem, method._replace(local=poisoned), first)
    assert row.n_delivered == 2
    moved = [
        k for k in range(8) if not torch.equal(*(matrix(s.method.memory.kept, s.params)[k] for s in (first, after)))
    ]
    assert moved == [k for k, letter in enumerate(row.outcome) if letter == "D"]
    weight = shares(first.method.memory, observe(problem), np.array(moved))
    np.testing.assert_allclose(weight.sum(), 1.0)


def test_refreshed_weights_are_of_the_new_rows(small):
    problem = small(CELL, rounds=2)
    runs = {weights: history(problem, f"n_selected=3,weights={weights}") for weights in ("gamma", "gamma_refreshed")}
    first = begin(problem, build("n_selected=3"))
    device = np.flatnonzero([letter == "D" for letter in runs["gamma"][0][0].outcome])
    after = runs["gamma_refreshed"][0][1]
    stale, fresh = (shares(m, observe(problem), device) for m in (first.method.memory, after.method.memory))
    moved = {weights: (run[0][1].params - first.params) for weights, run in runs.items()}
    rows = matrix(after.method.memory.kept, first.params)[torch.from_numpy(device)] * -problem.train.lr
    for weights, share in (("gamma", stale), ("gamma_refreshed", fresh)):
        expected = torch.from_numpy(share).float() @ rows
        torch.testing.assert_close(moved[weights], expected, rtol=1e-3, atol=1e-6)


# ---------------------------------------------------------------- diagnostics


def test_errors_of_a_round(small):
    problem = small(CELL, rounds=3)
    rows = [row.metrics for row, _ in history(problem, "n_selected=3,diagnose=all")]
    assert rows[0]["error_mean"] > 0
    for row in rows:
        assert row["gradient_norm"] > 0
        assert row["estimate_previous"] > 0
        assert np.sqrt(row["gap_ideal_square"]) <= row["error_mean_true"] * (1 + 1e-5), "chen-ch3 Eq. (3.16)"
    plain = history(problem, "n_selected=3,weights=gamma_refreshed")
    looked = history(problem, "n_selected=3,diagnose=all,weights=gamma_refreshed")
    assert torch.equal(plain[-1][1].params, looked[-1][1].params), "looking changes nothing"
    few = history(problem, "policy=random,n_selected=3,diagnose=estimates")[-1][0].metrics
    assert "estimate_batch4" in few
    assert "gap_square" not in few


@pytest.mark.parametrize("text", ["weights=mean", "weights=gamma", "estimate=mini_batch", "weights=gamma_refreshed"])
def test_the_gap_is_that_of_the_step_taken(small, text):
    """Everyone's step by FedAvg from the same model, less the step that was taken."""
    problem = small(CELL, rounds=2)
    (_, first), (row, second) = history(problem, f"n_selected=3,diagnose=all,{text}")
    everyone = methods.parse("fedavg:weights=equal").build()
    _, full = play_round(SIMULATED, problem, everyone, first._replace(method=None))
    gap = float((full.params - second.params).double().square().sum()) / problem.train.lr**2
    np.testing.assert_allclose(row.metrics["gap_square"], gap, rtol=1e-3)


def test_a_watched_device_without_data_takes_only_its_own_columns_along(small):
    problem = small(CELL, rounds=2)
    store, memory = problem.world.stream.start(problem.seed)
    empty = store._replace(size=np.where(np.arange(8) == 0, 0, store.size))
    stream = problem.world.stream._replace(start=lambda seed: (empty, memory), arrive=lambda *given: given[2:])
    problem = problem._replace(world=problem.world._replace(stream=stream))
    for row, _ in history(problem, "n_selected=3,diagnose=all"):
        assert row.metrics["gap_square"] > 0
        assert row.metrics["error_mean_true"] > 0
        assert not {"gradient_norm", "estimate_previous", "estimate_batch4"} & {*row.metrics}
    for row, _ in history(problem, "n_selected=3,diagnose=estimates"):
        assert not {"gap_square", "gradient_norm"} & {*row.metrics}


def test_nothing_is_missed_when_everyone_is_heard(small):
    for row, _ in history(small(CELL, rounds=2), "n_selected=8,diagnose=all"):
        assert row.metrics["gap_square"] < 1e-9
        assert row.metrics["error_mean"] == row.metrics["error_mean_true"] == 0


def test_the_previous_gradient_of_a_device_that_was_just_heard(small):
    """Its error is the distance between two gradients, from the memory before the round and the one after it."""
    problem = small(CELL, rounds=2)
    (_, first), (row, second) = history(problem, "policy=random,n_selected=8,diagnose=estimates")
    before, after = (matrix(s.method.memory.kept, s.params)[0] for s in (first, second))
    np.testing.assert_allclose(row.metrics["estimate_previous"], float((before - after).norm()), rtol=1e-4)


# ---------------------------------------------------------------- the published setting


@pytest.mark.parametrize(
    ("name", "shape", "n_params", "compute_s", "ten_s", "all_s"),
    [
        ("representativity_mnist", (1, 28, 28), 550_346, (0.176, 0.352), (1.0, 6.0), (12.0, 30.0)),
        ("representativity", (3, 32, 32), 307_842, (9.03, 18.05), (14.0, 20.0), (19.0, 26.0)),
    ],
)
def test_scenarios_have_the_published_sizes_and_times(name, shape, n_params, compute_s, ten_s, all_s):
    config = get(name).config
    architecture = Architecture.of(models.build(config.model, shape, 10))
    assert architecture.n_params == n_params
    held = Store(np.zeros((100, 600), dtype=np.int64), np.full(100, 600))
    place = world.build_world(config.world, world.static_stream(held), n_params, 0.0, seed=3)
    problem = Problem(place, None, config.train, 3, 1)
    observation = observe(problem)
    found = alone(problem, observation, plan(problem, observation, observation.available, 8, 64))
    np.testing.assert_allclose([found.compute_s.min(), found.compute_s.max()], compute_s, rtol=2e-3)
    rng = np.random.default_rng(1)
    some = [rng.permutation(100)[:10] for _ in range(20)]
    mean_s = np.mean([float(equal_finish(found.compute_s[s], found.upload_s[s]).time) for s in some])
    assert ten_s[0] < mean_s < ten_s[1]
    assert all_s[0] < float(equal_finish(found.compute_s, found.upload_s).time) < all_s[1]
