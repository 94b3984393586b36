"""FL-GR's learning rules: against plain loops, each other, and closed forms."""

import numpy as np
import pytest
import torch
from kept_rows import matrix

from fedcell import methods, radio, world
from fedcell.learn.work import Work
from fedcell.methods.parts.contributions import nothing, remember, rows_of
from fedcell.record import checkpoint
from fedcell.simulate import SIMULATED, begin, play_round, simulate
from fedcell.types import Outcome, Round, Start, Store, Updates

LR = 0.1
PARTIAL = {  # 3 blocks for 6 devices, uploads often lost
    "world.access": "block",
    "world.n_blocks": "3",
    "world.interference_over_noise": "1e2..1e5",
    "world.outage_threshold_db": "45",
    "world.pathloss": "power_law",
    "world.fading": "exponential",
    "world.reference_gain_db": "0",
}


def build(text):
    return methods.parse(f"recycling:{text}" if text else "recycling").build()


def played(problem, method, state, params, deltas, scheduled, heard, round=0):
    """One round with made-up updates: of the scheduled devices some are heard, the others meet an outage."""
    place, seed = problem.world, problem.seed
    seen = world.observe(place, world.start(place, seed), seed, round)[0]
    decision = method.decide(problem, state, seen)._replace(selected=np.asarray(scheduled))
    uplink = radio.transmit(place, seen, decision, seed)
    fate = np.where(np.asarray(heard), Outcome.DELIVERED, Outcome.OUTAGE)
    uplink = uplink._replace(outcome=np.where(np.asarray(scheduled), fate, Outcome.IDLE).astype(np.int64))
    device = np.flatnonzero(scheduled)
    updates = Updates(device, torch.tensor(deltas[device], dtype=torch.float32))
    return method.aggregate(problem, params, state, Round(seen, decision, updates, uplink))


def made_up(seed, n_rounds=6, n=6, size=7):
    """(start, deltas, scheduled, heard); nobody is heard in the third round."""
    rng = np.random.default_rng(seed)
    scheduled = rng.random((n_rounds, n)) < 0.6
    heard = scheduled & (rng.random((n_rounds, n)) < 0.7)
    heard[2] = False
    return rng.normal(size=size), 0.1 * rng.normal(size=(n_rounds, n, size)), scheduled, heard


def trajectory(problem, text, start, deltas, scheduled, heard):
    method = build(f"lr={LR},{text}")
    params = torch.as_tensor(start, dtype=torch.float32)
    state = method.init(problem, params)
    for t in range(len(deltas)):
        params, state = played(problem, method, state, params, deltas[t], scheduled[t], heard[t])
        yield params.double().numpy(), state


# ---------------------------------------------------------------- the rules


@pytest.mark.parametrize("rule", ["recycle", "memory_friendly", "zero", "received", "models"])
@pytest.mark.parametrize("freeze", ["true", "false"])
def test_rounds_are_those_of_a_plain_loop(small, rule, freeze):
    problem = small()
    start, deltas, scheduled, heard = made_up(3)
    w, gradient, stored, tau = start, np.zeros((6, 7)), np.tile(start, (6, 1)), np.zeros(6)
    path = trajectory(problem, f"rule={rule},freeze_if_none={freeze}", start, deltas, scheduled, heard)
    for t, (params, state) in enumerate(path):
        on = heard[t]
        gradient[on], stored[on] = -deltas[t, on] / LR, w + deltas[t, on]
        tau = np.where(on, 0, tau + 1)
        if on.any() or freeze == "false":
            w = {
                "recycle": w - LR * gradient.mean(axis=0),
                "memory_friendly": w - LR * gradient.mean(axis=0),
                "zero": w + deltas[t, on].sum(axis=0) / 6,
                "received": w + deltas[t, on].sum(axis=0) / max(on.sum(), 1),
                "models": stored.mean(axis=0),
            }[rule]
        np.testing.assert_allclose(params, w, atol=2e-6)
        np.testing.assert_array_equal(state.staleness, tau)
        if state.kept is not None:
            cache = stored if rule == "models" else gradient
            seen = state.kept.seen
            np.testing.assert_allclose(matrix(state.kept, torch.zeros(7)).numpy()[seen], cache[seen], atol=2e-6)
        if rule == "memory_friendly":
            np.testing.assert_allclose(state.mean, gradient.mean(axis=0), atol=2e-6)


def test_everyone_heard_makes_all_rules_fedavg(small):
    problem = small(rounds=3)
    wanted = [after.params for _, after in simulate(problem, methods.parse("fedavg:weights=equal").build())]
    for rule in ("recycle", "memory_friendly", "zero", "received", "models"):
        found = [after.params for _, after in simulate(problem, build(f"rule={rule}"))]
        for left, right in zip(found, wanted, strict=True):
            torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6)


def test_memory_friendly_has_the_same_trajectory_in_a_real_run(small):
    problem = small(PARTIAL, rounds=12)
    both = [simulate(problem, build(f"rule={rule}")) for rule in ("recycle", "memory_friendly")]
    lost = 0
    for (row, left), (other, right) in zip(*both, strict=True):
        torch.testing.assert_close(left.params, right.params, rtol=1e-4, atol=1e-5)
        assert row.outcome == other.outcome
        rows = matrix(right.method.kept, right.params)
        torch.testing.assert_close(right.method.mean, rows.mean(dim=0), rtol=1e-4, atol=1e-5)
        lost += row.outcome.count("O")
    assert lost


def test_first_step_is_the_mean_of_those_heard_times_their_share(small):
    start, deltas, scheduled, heard = (part[:1] if np.ndim(part) > 1 else part for part in made_up(5))
    steps = {
        rule: next(trajectory(small(), f"rule={rule}", start, deltas, scheduled, heard))[0] - start
        for rule in ("recycle", "zero", "received")
    }
    share = heard[0].mean()
    assert 0 < share < 1
    np.testing.assert_allclose(steps["recycle"], share * steps["received"], atol=1e-6)
    np.testing.assert_allclose(steps["recycle"], steps["zero"], atol=1e-6)


def test_the_worked_example_with_four_devices(small):
    """Round 2: devices 1, 3, 4 are scheduled, 1 fails; it was last heard in round 1, device 2 in round 0."""
    problem = small({"world.n_devices": "4"})
    g = np.arange(1.0, 13.0).reshape(3, 4, 1)
    scheduled = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 1, 1]], dtype=bool)
    heard = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1]], dtype=bool)
    *_, (before, _), (after, state) = trajectory(problem, "rule=recycle", [0.0], -LR * g, scheduled, heard)
    assert after - before == pytest.approx(-LR / 4 * (g[1, 0] + g[0, 1] + g[2, 2] + g[2, 3]), abs=1e-6)
    assert state.staleness.tolist() == [1, 2, 0, 0]
    assert matrix(state.kept, torch.zeros(1))[0] == g[1, 0]  # a lost upload leaves the cache alone
    *_, (before, _), (after, _) = trajectory(problem, "rule=received", [0.0], -LR * g, scheduled, heard)
    assert after - before == pytest.approx(-LR / 2 * (g[2, 2] + g[2, 3]), abs=1e-6)


def test_one_device_at_a_time_is_delayed_gradient_descent(small):
    """Quadratics `a_k (w - c_k)^2 / 2` heard in turns: the iterates of the incremental average gradient."""
    problem, a, c = small(), np.array([1.0, 2.0, 0.5, 1.5, 1.0, 3.0]), np.arange(6.0)
    method, params = build(f"lr={LR}"), torch.tensor([4.0])
    state, w, table = method.init(problem, params), 4.0, np.zeros(6)
    for t in range(120):
        on = np.arange(6) == t % 6
        params, state = played(problem, method, state, params, (-LR * a * (float(params) - c))[:, None], on, on)
        table[t % 6] = a[t % 6] * (w - c[t % 6])
        w -= LR * table.mean()
        assert float(params) == pytest.approx(w, abs=1e-4)
    assert w == pytest.approx((a * c).sum() / a.sum(), abs=1e-2)  # the minimiser of the mean


def test_a_cumulative_gradient_is_the_sum_of_its_steps(small):
    """One step: the gradient itself; two steps: the gradients at both points; momentum: only the difference counts."""
    problem = small()
    start, held = problem.learner.initial(), world.start(problem.world, problem.seed).store

    def moved(point, steps, lr=LR, momentum=0.0):
        work = Work(np.array([0]), Store(held.items[:1], held.size[:1]), np.array([steps]), lr, 0, 0, momentum)
        return problem.learner.train(Start(point[None], np.zeros(1, dtype=np.int64)), work).delta[0].clone()

    first = -moved(start, 1, lr=1.0)
    second = -moved(start - LR * first, 1, lr=1.0)
    torch.testing.assert_close(moved(start, 1) / -LR, first, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(moved(start, 2) / -LR, first + second, rtol=1e-4, atol=1e-5)
    with_momentum = moved(start, 2, momentum=0.9) / -LR
    torch.testing.assert_close(with_momentum, 1.9 * first + second, rtol=1e-4, atol=1e-5)


def test_received_with_a_pull_is_fedprox(small):
    problem = small({"world.access": "own_band"}, rounds=3)
    mine = simulate(problem, build("rule=received,scheduler=random,n_selected=3,prox=0.5"))
    text = "fedprox:weights=equal,scheduler=random,n_selected=3,mu=0.5,effort=fixed"
    for (row, left), (other, right) in zip(mine, simulate(problem, methods.parse(text).build()), strict=True):
        assert row.outcome == other.outcome
        assert torch.equal(left.params, right.params)


def test_every_rule_hears_the_same_random_devices(small):
    problem = small({"world.access": "own_band"}, rounds=5)
    outcomes = {
        rule: [row.outcome for row, _ in simulate(problem, build(f"rule={rule},scheduler=random,n_selected=2"))]
        for rule in ("recycle", "received", "models")
    }
    assert outcomes["recycle"] == outcomes["received"] == outcomes["models"]
    assert len(set(outcomes["recycle"])) > 1
    assert all(outcome.count("D") == 2 for outcome in outcomes["recycle"])


VARIANTS = [
    "rule=memory_friendly",
    "rule=models,scheduler=success",
    "rule=received,scheduler=gradient",
    "rule=zero,scheduler=gradient,norms=cached",
    "scheduler=random,freeze_if_none=true",
    "diagnose=true",
]


@pytest.mark.parametrize("text", VARIANTS)
def test_variants_repeat_and_go_on_from_a_checkpoint(small, text, tmp_path):
    problem, method = small(PARTIAL | {"world.availability": "0.6"}, rounds=5), build(text)
    straight = list(simulate(problem, method))
    template = checkpoint.Template.of(begin(problem, method))
    checkpoint.save(tmp_path, straight[2][1], template)
    resumed = list(simulate(problem, method, checkpoint.load(next(tmp_path.iterdir()), template)))
    for (row, left), (other, right) in zip(straight[3:], resumed, strict=True):
        assert row == other
        assert torch.equal(left.params, right.params)


def staleness_columns(after):
    """`asgs_real` and `stale_mean`, means over the cells."""
    states = after.method.states if hasattr(after.method, "states") else [after.method]
    tau = [state.staleness.astype(float) for state in states if state is not None]
    return np.mean([(part**2).mean() for part in tau]), np.mean([part.mean() for part in tau])


EDGES = {"world.topology": "cells", "world.n_cells": "2", "world.n_devices": "12", "world.edge_rounds": "2"}


@pytest.mark.parametrize("tiers", [{}, EDGES], ids=["one server", "edges"])
@pytest.mark.parametrize("outage", ["45", "none"])
def test_recorded_staleness_is_what_was_met(small, tiers, outage):
    problem, lost = small({**PARTIAL, **tiers, "world.outage_threshold_db": outage}, rounds=9, eval_every=4), 0
    for row, after in simulate(problem, build("scheduler=random")):
        lost += row.outcome.count("O")
        if tiers and outage != "none" and "accuracy" not in row.metrics:
            assert not {"asgs_real", "stale_mean"} & set(row.metrics), "not known to an edge"
            continue
        found = row.metrics["asgs_real"], row.metrics["stale_mean"]
        assert found == pytest.approx(staleness_columns(after), rel=1e-12)
    assert (lost > 0) == (outage != "none")


# ---------------------------------------------------------------- diagnostics


def test_errors_of_reuse_are_those_of_their_definition(small):
    problem = small(PARTIAL | {"train.lr": LR}, rounds=6)
    method = build("diagnose=true")
    snapshot = begin(problem, method)
    gradient, stored = np.zeros((6, len(snapshot.params))), np.tile(snapshot.params.numpy(), (6, 1)).astype(np.float64)
    for _ in range(6):
        w = snapshot.params.double().numpy()
        everyone = _all_updates(problem, snapshot)
        row, snapshot = play_round(SIMULATED, problem, method, snapshot)
        here = np.array([letter == "D" for letter in row.outcome])
        missing = ~here[:, None]
        gap_gradients = ((missing * (LR * gradient + everyone)).mean(axis=0) ** 2).sum()
        gap_models = ((missing * (w + everyone - stored)).mean(axis=0) ** 2).sum()
        assert row.metrics["gap_gradients"] == pytest.approx(gap_gradients, rel=1e-3, abs=1e-9)
        assert row.metrics["gap_models"] == pytest.approx(gap_models, rel=1e-3, abs=1e-9)
        gradient[here], stored[here] = -everyone[here] / LR, (w + everyone)[here]


def _all_updates(problem, snapshot):
    """What training would move on every device, by the default seam of a method that selects all."""
    method = methods.parse("fedavg").build()
    seen, _ = world.observe(problem.world, snapshot.world, problem.seed, snapshot.round)
    decision = method.decide(problem, None, seen)._replace(selected=np.ones(6, dtype=bool))
    start = method.broadcast(problem, snapshot.params, None, seen, decision)
    return method.local(problem, None, start, seen, decision).delta.double().numpy().copy()


def test_diagnostics_change_nothing_and_vanish_when_all_are_heard(small):
    problem = small(rounds=2)
    plain, looked_at = (list(simulate(problem, build(text))) for text in ("", "diagnose=true"))
    for (_, left), (row, right) in zip(plain, looked_at, strict=True):
        assert torch.equal(left.params, right.params)
        assert row.metrics["gap_gradients"] == row.metrics["gap_models"] == 0


# ---------------------------------------------------------------- the buffer


@pytest.mark.parametrize("height", [1, 3, 100])
@pytest.mark.parametrize("by_row", [True, False])
def test_masked_entries_of_the_buffer_stay(height, by_row):
    rng, one = np.random.default_rng(height), np.ones(1)
    kept = nothing(5, 4)._replace(height=height, pages=(None,) * -(-5 // height))
    literal = np.zeros((5, 4))
    for _ in range(6):
        device = np.flatnonzero(rng.random(5) < 0.6)
        delta = rng.normal(size=(len(device), 4)).astype(np.float32)
        mask = rng.random((len(device), 4) if by_row else 4) < 0.5
        before = kept
        kept = remember(
            kept,
            device,
            torch.from_numpy(delta),
            np.ones(len(device), dtype=np.int64),
            one.repeat(len(device)) * 2,
            mask=torch.from_numpy(mask),
        )
        np.testing.assert_array_equal(matrix(before, torch.zeros(4)), literal.astype(np.float32))
        literal[device] = np.where(mask, 2 * delta, literal[device])
        np.testing.assert_array_equal(matrix(kept, torch.zeros(4)), literal.astype(np.float32))
        np.testing.assert_allclose(kept.norm, np.linalg.norm(literal, axis=1), rtol=1e-6)
        some = np.array([3, 0])
        np.testing.assert_array_equal(rows_of(kept, some, torch.zeros(4)), literal[some].astype(np.float32))
