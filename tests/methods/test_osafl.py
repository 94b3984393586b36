"""OSAFL's aggregation: against a plain loop, its invariants, its special cases, and what breaks it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from osafl_rounds import NAMES, SAME, build, made_up, moved, rounds, rows_of

from fedcell import methods
from fedcell.errors import Diverged
from fedcell.labels import histogram
from fedcell.learn.samples import Samples
from fedcell.learn.work import Work
from fedcell.methods.osafl import diagnostics as osafl_diagnostics
from fedcell.methods.osafl import similarities, theory
from fedcell.methods.parts import contributions
from fedcell.methods.parts.contributions import cosines, nothing, remember, weighted_sum
from fedcell.record import checkpoint
from fedcell.simulate import SIMULATED, begin, play_round, simulate
from fedcell.types import Start, Store

LR, SERVER = 0.1, 3.0
HALF_EMPTY = {"data.partition": "counts", "data.counts": "40,0,40,40,0,40"}  # two devices are never heard


def similarity(rows, chi=1.0):
    """Literal Eqs. (19) to (21)."""
    mean = rows.mean(axis=0)
    size = np.linalg.norm(mean) * np.linalg.norm(rows, axis=1)
    return (chi + np.divide(rows @ mean, size, out=np.zeros(len(rows)), where=size > 0)) / (chi + 1)


@pytest.mark.parametrize("never_seen", ["zero", "paper"])
@pytest.mark.parametrize("score", ["lambda", "kkt", "one", "mean"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rounds_are_those_of_algorithm_2(small, never_seen, score, seed):
    """Stale gradients, first participation and empty rounds included."""
    problem = small({"data.partition": "dirichlet"})
    start, deltas, heard, steps = made_up(seed)
    text = f"osafl:lr={LR},server_lr={SERVER},never_seen={never_seen},score={score},chi=2,smoothness=3,noise=0.7"
    w, d, seen, kappa = start, np.zeros((6, 7)), np.zeros(6, dtype=bool), np.zeros(6)
    labels = problem.learner.train_samples.labels
    delta = theory.label_distance(histogram(begin(problem, build("osafl")).world.store, labels, 10))
    for t, (params, state) in enumerate(rounds(problem, text, start, deltas, heard, steps)):
        for u in range(6):
            if heard[t, u]:
                seen[u], kappa[u] = True, steps[t, u]
                d[u] = -deltas[t, u] / (LR * steps[t, u])
            elif not seen[u]:
                d[u] = w / LR if never_seen == "paper" else 0
        lam = similarity(d, chi=2)
        constants = theory.Constants(LR, SERVER, 3.0, 0.7)
        scores = {
            "lambda": lam,
            "one": np.ones(6),
            "mean": np.full(6, lam[seen].mean() if seen.any() else 1.0),
            "kkt": theory.best_scores(constants, np.full(6, 1 / 6), kappa, lam, 0.0, delta),
        }[score]
        w = w - SERVER * LR * (scores[:, None] * d).mean(axis=0)
        np.testing.assert_allclose(params, w, rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(state.similarity, lam, atol=1e-5)
        np.testing.assert_allclose(state.score, scores, atol=1e-5)
        np.testing.assert_allclose(rows_of(state.kept)[seen], d[seen], rtol=1e-5)
        np.testing.assert_array_equal(state.kept.seen, seen)
        np.testing.assert_array_equal(state.kept.steps, kappa)


def test_equal_gradients_have_full_scores(small):
    delta = np.tile(np.arange(1.0, 8.0), (1, 6, 1))
    everyone, steps = np.ones((1, 6), dtype=bool), np.full((1, 6), 4)
    ((params, state),) = rounds(small(), "osafl:lr=0.5,server_lr=3", np.zeros(7), delta, everyone, steps)
    np.testing.assert_allclose(state.similarity, 1, atol=1e-6)
    np.testing.assert_allclose(params, 3 * np.arange(1.0, 8.0) / 4, rtol=1e-6)  # w - eta~ eta d


@given(st.integers(0, 10**6), st.floats(1, 50))
def test_similarities_lie_between_zero_and_one(seed, chi):
    rng = np.random.default_rng(seed)
    rows = torch.tensor(rng.normal(size=(5, 4)) * 10.0 ** rng.integers(-3, 4, (5, 1)), dtype=torch.float32)
    kept = remember(nothing(5, rows.shape[1]), np.arange(5), rows, np.ones(5, dtype=np.int64), np.ones(5))
    lam = similarities(kept, chi, weighted_sum(kept, np.full(5, 0.2), rows[0]))
    assert (lam >= (chi - 1) / (chi + 1) - 1e-12).all()
    assert (lam <= 1).all()
    np.testing.assert_allclose(lam, similarity(rows.double().numpy(), chi), atol=1e-4)


@pytest.mark.parametrize(("chi", "lowest"), [(1, 0), (3, 0.5)])
def test_an_opposite_gradient_has_the_least_score(chi, lowest):
    rows = torch.tensor([[2.0, 0], [2, 0], [-1, 0], [0, 0]])
    kept = remember(nothing(4, rows.shape[1]), np.arange(4), rows, np.ones(4, dtype=np.int64), np.ones(4))
    lam = similarities(kept, chi, weighted_sum(kept, np.full(4, 0.25), rows[0]))
    np.testing.assert_allclose(lam, [1, 1, lowest, chi / (chi + 1)])  # a zero row has cosine 0
    np.testing.assert_allclose(similarities(kept, chi, torch.zeros(2)), chi / (chi + 1))


def test_rescaling_one_gradient_changes_the_mean_only():
    rng = np.random.default_rng(2)
    rows = torch.tensor(rng.normal(size=(4, 6)), dtype=torch.float32)
    one, many = np.ones(4, dtype=np.int64), np.array([1.0, 1, 50, 1])
    plain = remember(nothing(4, rows.shape[1]), np.arange(4), rows, one, np.ones(4))
    scaled = remember(nothing(4, rows.shape[1]), np.arange(4), rows, one, many)
    same_mean = weighted_sum(plain, np.full(4, 0.25), rows[0])
    np.testing.assert_allclose(cosines(plain, same_mean), cosines(scaled, same_mean), atol=1e-6)
    own_mean = weighted_sum(scaled, np.full(4, 0.25), rows[0])
    assert np.abs(cosines(scaled, own_mean) - cosines(plain, same_mean)).max() > 0.01


def test_with_scores_of_one_and_a_step_of_kappa_it_is_fedavg(small):
    problem = small({"train.steps": "3"})
    torch.testing.assert_close(
        moved(problem, f"osafl:score=one,server_lr=3,{SAME}"),
        moved(problem, "fedavg:weights=equal"),
        rtol=1e-4,
        atol=1e-6,
    )
    assert not torch.allclose(
        moved(problem, f"osafl:server_lr=3,{SAME}"), moved(problem, "fedavg:weights=equal"), atol=1e-5
    )


def test_normalised_gradient_is_the_mean_of_the_gradients_on_the_way(small):
    """The two forms of Eq. (16)."""
    problem = small({"train.batch_size": "0", "train.steps": "3"})
    first = begin(problem, build("osafl"))
    _, after = play_round(SIMULATED, problem, build("osafl:lr=0.2"), first)
    store, here = first.world.store, np.zeros(1, dtype=np.int64)
    point, gradients = first.params, []
    for _ in range(3):
        one = Store(store.items[:1], store.size[:1])
        step = problem.learner.train(Start(point[None], here), Work(here, one, np.ones(1, dtype=np.int64), 0.2, 0, 0))
        gradients.append(step.delta[0].clone() / -0.2)
        point = point + step.delta[0]
    torch.testing.assert_close(after.method.kept.pages[0][0], sum(gradients) / 3, rtol=1e-3, atol=1e-5)


def test_a_straggling_round_keeps_the_slot(small):
    start, deltas, heard, steps = made_up(5, n_rounds=3)
    heard[1], heard[2] = [1, 1, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0]
    states = [state.kept for _, state in rounds(small(), f"osafl:lr={LR}", start, deltas, heard, steps)]
    before, after = rows_of(states[1]), rows_of(states[2])
    np.testing.assert_array_equal(before[[0, 2, 3, 5]], after[[0, 2, 3, 5]])
    np.testing.assert_array_equal(after[2], 0)
    np.testing.assert_allclose(after[1], -deltas[2, 1] / (LR * steps[2, 1]), rtol=1e-6)
    assert states[2].seen.tolist() == [True, True, False, True, True, False]


@pytest.mark.parametrize("name", NAMES)
def test_nobody_feasible_changes_nothing(small, name):
    problem = small({"world.energy_per_round_joule": "1e-12", "world.deadline_s": "10"})
    first = begin(problem, build(name))
    row, after = play_round(SIMULATED, problem, build(name), first)
    assert row.metrics["stragglers"] == row.metrics["stragglers_energy"] == 6
    assert row.compute_joule == row.radio_joule == 0
    assert torch.equal(first.params, after.params)


# ---------------------------------------------------------------- the buffer


@given(st.integers(0, 10**6), st.sampled_from([4, 40, 60, 10**6]))
def test_pages_are_a_matrix(seed, page_bytes):
    """Whatever the height of a page; and what was kept before stays as it was."""
    rng = np.random.default_rng(seed)
    usual, contributions.PAGE_BYTES = contributions.PAGE_BYTES, page_bytes
    try:
        kept = nothing(7, 5)
    finally:
        contributions.PAGE_BYTES = usual
    matrix = np.zeros((7, 5))
    for _ in range(4):
        device = np.flatnonzero(rng.random(7) < 0.5)
        rows, scale, offset = rng.normal(size=(len(device), 5)), rng.normal(size=len(device)), rng.normal(size=5)
        former, copy = kept, rows_of(kept, 5)
        kept = remember(
            kept,
            device,
            torch.tensor(rows, dtype=torch.float32),
            np.full(len(device), 2),
            scale,
            torch.tensor(offset, dtype=torch.float32),
        )
        matrix[device] = offset + scale[:, None] * rows
        np.testing.assert_array_equal(rows_of(former, 5), copy)
    weights, vector = rng.normal(size=7), rng.normal(size=5)
    np.testing.assert_allclose(rows_of(kept, 5), matrix, atol=1e-5)
    np.testing.assert_allclose(weighted_sum(kept, weights, torch.zeros(5)), weights @ matrix, atol=1e-5)
    np.testing.assert_allclose(kept.norm, np.linalg.norm(matrix, axis=1), atol=1e-5)
    size = np.linalg.norm(matrix, axis=1) * np.linalg.norm(vector)
    wanted = np.divide(matrix @ vector, size, out=np.zeros(7), where=size > 0)
    np.testing.assert_allclose(cosines(kept, torch.tensor(vector, dtype=torch.float32)), wanted, atol=1e-5)


def test_rows_that_did_not_change_are_shared():
    kept, one = nothing(6, 2**20), np.ones(2, dtype=np.int64)  # one row to a page
    rows = torch.ones(2, 2**20)
    first = remember(kept, np.array([1, 2]), rows, one, np.ones(2))
    after = remember(first, np.array([1, 4]), rows, one, np.ones(2))
    assert [page is not None for page in after.pages] == [False, True, True, False, True, False]
    assert after.pages[2] is first.pages[2]
    assert after.pages[1] is not first.pages[1]
    rows.zero_()
    assert after.pages[1].min() == 1, "updates are copied: the engine uses their memory again"
    assert remember(after, np.zeros(0, dtype=np.int64), rows[:0], np.zeros(0, dtype=np.int64), np.zeros(0)) is after


# ---------------------------------------------------------------- what breaks it, kept on purpose


def test_the_papers_buffer_start_makes_osafl_explode(small):
    problem = small(HALF_EMPTY, rounds=15)
    with pytest.raises(Diverged):
        list(simulate(problem, build("osafl:never_seen=paper,lr=0.2,server_lr=35")))
    start, deltas, heard, steps = made_up(1, n_rounds=4)
    heard[:] = [True, False, False, False, False, False]
    text = "osafl:never_seen=paper,lr=0.2,server_lr=35"
    sizes = [float(params.norm()) for params, _ in rounds(problem, text, start, 0.01 * deltas, heard, steps)]
    assert sizes[-1] > 6**3 * sizes[0], "multiplied by -6 to -25 in every round"


def test_with_zero_slots_the_published_rates_do_not_explode(small):
    rows = [row for row, _ in simulate(small(HALF_EMPTY, rounds=15), build("osafl:lr=0.2,server_lr=35"))]
    assert rows[-1].metrics["accuracy"] > 0.7
    assert rows[-1].metrics["never_seen"] == 2


# ---------------------------------------------------------------- columns


def test_score_columns_are_of_the_clients_heard(small):
    row, after = play_round(SIMULATED, small(HALF_EMPTY), build("osafl"), begin(small(HALF_EMPTY), build("osafl")))
    seen = after.method.kept.seen
    assert row.metrics["never_seen"] == 2
    assert row.metrics["score_mean"] == pytest.approx(after.method.score[seen].mean())
    assert row.metrics["score_min"] <= row.metrics["score_mean"] <= row.metrics["score_max"] <= 1


def test_diagnostics_measure_what_they_say(small):
    problem = small({"data.partition": "iid", "train.batch_size": "0"})
    method = build("osafl:diagnose=true,score=one,lr=0.001,server_lr=1")
    first = begin(problem, method)
    row, after = play_round(SIMULATED, problem, method, first)
    held = after.world.store
    whole = Work(
        np.zeros(1, np.int64), Store(held.items.reshape(1, -1), held.size.sum()[None]), np.ones(1, np.int64), 1.0, 0, 0
    )
    gradient = problem.learner.train(Start(first.params[None], np.zeros(1, np.int64)), whole).delta[0]
    if (held.size == held.items.shape[1]).all():  # equal stores: the mean of clients is that of samples
        assert row.metrics["gradient_squared"] == pytest.approx(float(gradient @ gradient), rel=1e-3)
    assert row.metrics["gradient_noise"] == pytest.approx(0, abs=1e-9), "whole stores have no sampling noise"
    losses = osafl_diagnostics.client_losses(problem, first.params, held)
    x, y = problem.learner.train_samples.take(held.items[2, : held.size[2]])
    alone = problem.learner.evaluate(first.params, Samples(x.numpy(), y.numpy(), y.device))["loss"]
    assert losses[2] == pytest.approx(alone, rel=1e-5)
    row2, after2 = play_round(SIMULATED, problem, method, after)
    assert row2.metrics["bound_shift"] == 0, "the stores stay"
    assert row2.metrics["smoothness"] > 0
    assert row2.metrics["bound_loss_change"] == pytest.approx(
        2 * (losses.mean() - after2.method.memory.loss) / 0.001, rel=1e-3
    )
    assert row2.metrics["bound_rates_hold"] == (not row2.metrics["bound_void"]) == 1
    assert row2.metrics["bound"] > 0


def test_diagnostics_of_a_stream_survive_a_restart_and_change_no_model(small, tmp_path):
    problem = small({"stream.kind": "binomial", "stream.cache": "fifo", "stream.capacity": "20", "stream.batch": "5"})
    method = build("osafl:diagnose=true")
    history = list(simulate(problem, method))
    assert history[-1][0].metrics["bound_shift"] > 0
    smooth = [row.metrics["smoothness"] for row, _ in history]
    assert smooth == sorted(smooth)
    plain = list(simulate(problem, build("osafl")))
    assert all(torch.equal(a.params, b.params) for (_, a), (_, b) in zip(history, plain, strict=True))
    template = checkpoint.Template.of(begin(problem, method))
    checkpoint.save(tmp_path, history[1][1], template)
    resumed = list(simulate(problem, method, checkpoint.load(next(tmp_path.iterdir()), template)))
    assert [row for row, _ in resumed] == [row for row, _ in history[2:]]


def test_all_are_listed():
    assert set(NAMES) <= set(methods.names())
