"""Updates that are added up as they are trained, against the matrix of all of them."""

import numpy as np
import pytest
import torch
from test_engines import learner, points, work

from fedcell import methods
from fedcell.errors import ContractError, Diverged
from fedcell.learn import deferred
from fedcell.methods import fedavg
from fedcell.simulate import SIMULATED, begin, play_round, simulate
from fedcell.types import Start, finite_rows, is_deferred

N_ROWS = 23
ADDING = ["fedavg", "fedprox", "fednova", "h_fedavg", "rawhfl", "cafe", "streaming"]


def mask_of(n_params):
    return torch.from_numpy(np.random.default_rng(1).random((N_ROWS, n_params)) < 0.7)


CASES = {
    "logistic": {},
    "mlp": {"momentum": 0.5},
    "cnn": {},
    "lstm": {"prox": 0.3},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("masked", [False, True])
def test_same_rows_and_sum_whatever_the_blocks(name, masked, in_blocks):
    given = work(N_ROWS, **CASES[name])
    start = Start(points(name, 3), np.arange(N_ROWS) % 3)
    if masked:
        given = given._replace(mask=mask_of(start.points.shape[1]))
    whole = learner(name, "auto", workers=1).train(start, given)
    assert not is_deferred(whole.rows)
    rows = whole.delta.clone()
    rng = np.random.default_rng(0)
    chosen, weights = rng.random(N_ROWS) < 0.8, rng.random(N_ROWS)
    sums = []
    for block, workers in ((4, 1), (5, 1), (2, 2), (10, 1), (99, 2)):
        in_blocks(block // workers)
        updates = learner(name, "auto", workers=workers).train(start, given)
        assert is_deferred(updates.rows)
        sums.append(updates.rows.add_up(chosen, weights[chosen]))
        assert updates.finite().all()
    assert all(torch.equal(sums[0], other) for other in sums)
    expected = weights[chosen] @ rows[chosen].double().numpy()
    np.testing.assert_allclose(sums[0], expected, rtol=1e-4, atol=1e-6)
    for row in (0, 7, N_ROWS - 1):
        one = np.arange(N_ROWS) == row
        assert torch.equal(updates.rows.add_up(one, np.ones(1)), rows[row]), (
            "an update has the bits that it has in the matrix"
        )
    assert torch.equal(updates.delta, rows)


@pytest.mark.parametrize(
    ("block", "together", "blocks", "groups"),
    [
        (4, 1, [4, 5], [2, 2, 2, 2, 1]),  # no block of one row: it would have all cores, and so other bits
        (3, 1, [4, 5], [2, 2, 2, 2, 1]),
        (2, 3, [3, 3, 3], [3, 3, 3]),
        (6, 3, [6, 3], [3, 3, 3]),
    ],
)
def test_blocks_are_made_of_groups_that_do_not_depend_on_them(block, together, blocks, groups, monkeypatch):
    trained, seen = [], []
    monkeypatch.setattr(deferred, "GROUP", 2)
    monkeypatch.setattr(deferred, "finite_rows", lambda part: (seen.append(len(part)), finite_rows(part))[1])

    def train(rows):
        trained.append(len(rows))
        return torch.from_numpy(rows)[:, None].float().expand(-1, 3)

    made = deferred.Deferred(train, np.arange(9), 3, together, block)
    assert torch.equal(made.add_up(np.ones(9, dtype=bool), np.arange(9.0)), torch.full((3,), 204.0))
    assert (trained, seen) == (blocks, groups)
    assert made.finite().all()
    assert trained == blocks, "known without training once more"


def problem_of(small, **changes):
    return small({"world.n_devices": "9", "world.availability": "0.8", "train.workers": "2", **changes})


@pytest.mark.parametrize("name", ADDING)
def test_methods_that_add_up_end_alike(name, small, in_blocks):
    problem, method = problem_of(small), methods.parse(name).build()
    whole = list(simulate(problem, method))
    in_blocks(1)
    parts = list(simulate(problem, method))
    for (row, after), (other, again) in zip(whole, parts, strict=True):
        torch.testing.assert_close(after.params, again.params, rtol=1e-5, atol=1e-6)
        assert row._replace(metrics={}) == other._replace(metrics={})
        assert row.metrics == pytest.approx(other.metrics, rel=1e-4)


@pytest.mark.parametrize("text", ["osafl", "recycling", "cafe:scheme=agu,quorum=1"])
def test_the_matrix_is_made_where_rows_are_asked_for(text, small, in_blocks, monkeypatch):
    problem, made = small({"world.n_devices": "9", "world.access": "own_band"}), []
    matrix, method = deferred.Deferred.matrix, methods.parse(text).build()
    monkeypatch.setattr(deferred.Deferred, "matrix", lambda self: made.append(1) or matrix(self))
    in_blocks(1)
    play_round(SIMULATED, problem, method, begin(problem, method))
    assert made


def test_the_matrix_is_never_made_where_sums_are_enough(small, in_blocks, monkeypatch):
    problem = problem_of(small)
    in_blocks(1)
    monkeypatch.setattr(deferred.Deferred, "matrix", lambda self: pytest.fail("all updates in memory"))
    inherited = METHODS["fedavg"]._replace(aggregate=METHODS["fedavg"].aggregate)
    for method in (inherited, METHODS["two sums"], *(methods.parse(name).build() for name in ADDING)):
        play_round(SIMULATED, problem, method, begin(problem, method))


def two_sums(problem, params, state, played):
    """Two questions, the second of them two sums, and the first once more."""
    n = len(played.heard())
    equal, rising = np.full(n, 1 / n), np.arange(n) / n
    first, (second, third) = played.add_up(equal), played.add_up(np.stack([rising, equal]))
    assert torch.equal(first, third)
    return params + first.mul_(0.5) + 0.1 * second + 0.5 * played.add_up(equal), state


METHODS = {text: methods.parse(text).build() for text in ("fedavg", "osafl", "recycling")}
METHODS["two sums"] = METHODS["fedavg"]._replace(aggregate=two_sums)


@pytest.mark.parametrize("text", METHODS)
def test_every_row_is_trained_once(text, small, in_blocks, monkeypatch):
    problem, method = small({"world.n_devices": "9", "world.access": "own_band"}), METHODS[text]
    train, trained = type(problem.learner)._train, []

    def counted(self, start, work, own):
        trained.extend(work.device)
        return train(self, start, work, own)

    monkeypatch.setattr(type(problem.learner), "_train", counted)
    in_blocks(1)
    row, _ = play_round(SIMULATED, problem, method, begin(problem, method))
    assert len(trained) == row.n_selected
    assert len(set(trained)) == row.n_selected


def test_several_sums_are_those_of_a_small_cohort(small, in_blocks):
    problem = problem_of(small)
    whole = [after.params for _, after in simulate(problem, METHODS["two sums"])]
    in_blocks(1)
    parts = [after.params for _, after in simulate(problem, METHODS["two sums"])]
    torch.testing.assert_close(parts, whole, rtol=1e-5, atol=1e-6)


def test_several_sums_have_the_bits_that_each_has_alone(in_blocks):
    start, given = Start(points("mlp", 3), np.arange(N_ROWS) % 3), work(N_ROWS)
    rng = np.random.default_rng(2)
    chosen = rng.random(N_ROWS) < 0.7
    weights = rng.random((3, int(chosen.sum())))
    in_blocks(4)
    rows = learner("mlp", "auto", workers=1).train(start, given).rows
    together = rows.add_up(chosen, weights)
    assert together.shape == (3, start.points.shape[1])
    for total, one in zip(together, weights, strict=True):
        assert torch.equal(total, rows.add_up(chosen, one))


def test_sums_and_rows_that_depend_on_a_sum_are_refused(small, in_blocks):
    def chained(problem, params, state, played):
        first = played.add_up(np.ones(len(played.heard())))
        return params + played.add_up(np.full(len(played.heard()), float(first.norm()))), state

    def doubting(problem, params, state, played):
        first = played.add_up(np.ones(len(played.heard())))
        return (params + played.received()[1][0] if first.any() else params), state

    problem = problem_of(small)
    for aggregate, fix in ((chained, "take the rows with received"), (doubting, "call received\\(\\) first")):
        method = METHODS["fedavg"]._replace(aggregate=aggregate)
        in_blocks(1)
        with pytest.raises(ContractError, match=f"would train a large cohort twice: {fix}"):
            play_round(SIMULATED, problem, method, begin(problem, method))


def test_weights_must_be_those_of_the_devices_heard(small):
    def wrong(problem, params, state, played):
        return params + played.add_up(np.ones(1)), state

    method, problem = METHODS["fedavg"]._replace(aggregate=wrong), small({"world.n_devices": "9"})
    with pytest.raises(ContractError, match="weights of 1 devices and 9 were heard: give one for each"):
        play_round(SIMULATED, problem, method, begin(problem, method))


def poisoned(problem, bad, monkeypatch):
    """Training of some devices gives numbers that are not finite."""
    train = type(problem.learner)._train

    def spoilt(self, start, work, own):
        delta = train(self, start, work, own)
        delta[torch.from_numpy(np.isin(work.device, bad)), 3] = float("nan")
        return delta

    monkeypatch.setattr(type(problem.learner), "_train", spoilt)


@pytest.mark.parametrize("text", ["fedavg", "fednova", "cafe:quorum=1", "osafl", "recycling"])
def test_updates_that_are_not_finite_are_turned_away_alike(text, small, in_blocks, monkeypatch):
    changes = {"world.access": "own_band"} if text == "osafl" else {}
    problem, method = small({"world.n_devices": "9", **changes}), methods.parse(text).build()
    poisoned(problem, [2, 5], monkeypatch)
    row, after = play_round(SIMULATED, problem, method, begin(problem, method))
    in_blocks(1)
    other, again = play_round(SIMULATED, problem, method, begin(problem, method))
    assert row.outcome == other.outcome
    assert "X" in row.outcome
    torch.testing.assert_close(after.params, again.params, rtol=1e-5, atol=1e-6)
    assert (after.params != begin(problem, method).params).any()


@pytest.mark.parametrize("delivered", [True, False])
def test_all_updates_bad_is_divergence(delivered, small, in_blocks, monkeypatch):
    changes = {} if delivered else {"world.deadline_s": "1e-9"}
    problem = small({"world.n_devices": "9", **changes})
    poisoned(problem, np.arange(9), monkeypatch)
    in_blocks(1)
    with pytest.raises(Diverged, match="round 0: all 9 local updates are not finite"):
        next(simulate(problem, fedavg.build(fedavg.Config())))


def test_a_method_of_ones_own_may_ask_for_all_rows(small, in_blocks):
    """It may begin from one that adds up and take more than sums."""

    def median(problem, params, state, played):
        device, rows = played.received()
        return (params + rows.median(dim=0).values if len(device) else params), state

    method, problem = fedavg.build(fedavg.Config())._replace(aggregate=median), problem_of(small)
    whole = [after.params for _, after in simulate(problem, method)]
    in_blocks(1)
    assert all(map(torch.equal, whole, (after.params for _, after in simulate(problem, method))))


def test_edges_have_all_rows(small, in_blocks):
    changes = {"world.topology": "cells", "world.n_cells": "3", "world.n_devices": "9", "world.edge_rounds": "2"}
    problem, method = small(changes), fedavg.build(fedavg.Config())
    whole = [after.params for _, after in simulate(problem, method)]
    in_blocks(1)
    assert all(map(torch.equal, whole, (after.params for _, after in simulate(problem, method))))


def test_large_are_cohorts_of_many_bytes_whatever_the_workers():
    most = deferred.BLOCK_BYTES // (4 * 21_840)
    assert not deferred.defers(most, 21_840, deferred.block_bytes(torch.device("cpu")))
    assert deferred.defers(most + 1, 21_840, deferred.block_bytes(torch.device("cpu")))
    assert not deferred.defers(most + 1, 21_840, deferred.GPU_BLOCK_BYTES)
    assert deferred.defers(deferred.GPU_BLOCK_BYTES // (4 * 21_840) + 1, 21_840, deferred.GPU_BLOCK_BYTES)
    assert deferred.block_rows(21_840, 2) == most
    assert deferred.block_rows(1_626_442, 2) == 16
