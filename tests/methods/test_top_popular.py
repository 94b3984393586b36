"""Top-Popular: the ranking of what was met so far, for everybody alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import methods
from fedcell.methods.top_popular import ranking
from fedcell.options import override
from fedcell.scenarios import build_problem, get
from fedcell.simulate import simulate
from fedcell.types import Store, Stream

POPULAR = methods.parse("top_popular").build()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_ranking_orders_by_count_then_label(counts):
    place = ranking(np.array(counts))
    order = sorted(range(len(counts)), key=lambda label: (-counts[label], label))
    assert [int(place[label]) for label in order] == list(range(len(counts)))


def test_counts_everything_that_was_ever_held_once(small):
    """A store of one sample that is replaced every round still counts what it dropped."""
    problem = small()
    labels = problem.learner.train_samples.labels
    shown = np.flatnonzero(labels == 3)[:2].tolist() + np.flatnonzero(labels == 5)[:1].tolist()

    def arrive(seed, round, store, memory):
        return Store(np.full((6, 1), shown[min(round, 2)]), np.ones(6, dtype=np.int64)), memory

    stream = Stream(lambda seed: (Store(np.zeros((6, 1), dtype=np.int64), np.zeros(6, dtype=np.int64)), None), arrive)
    test = problem.learner.test_samples.labels
    problem = problem._replace(world=problem.world._replace(stream=stream))
    for row, after in simulate(problem, POPULAR):
        assert row.metrics["accuracy"] == pytest.approx((test == 3).mean())
        assert after.method.met.sum() == min(row.round + 1, 3)
        assert row.n_selected == row.uplink_bit == row.radio_joule == 0
    counts = np.bincount([3, 3, 5], minlength=10)
    assert row.metrics["loss"] == pytest.approx(-np.log((counts[test] + 1) / 13).mean())


def test_video_files_rank_as_a_plain_count_says():
    changes = {"rounds": 2, "eval_every": 1, "train.device": "cpu", "train.top": "1,2,8,256"}
    problem = build_problem(override(get("rawhfl").config, changes))
    (_, _), (row, after) = simulate(problem, POPULAR)
    train, test = problem.learner.train_samples, problem.learner.test_samples
    store, count = after.world.store, {}
    for device in range(48):
        for item in store.items[device, : store.size[device]]:
            count[int(train.labels[item])] = count.get(int(train.labels[item]), 0) + 1
    best = sorted(count, key=lambda file: (-count[file], file))
    for m in (1, 2, 8):
        assert row.metrics[f"top{m}"] == pytest.approx(np.isin(test.labels, best[:m]).mean())
    assert row.metrics["top1"] == row.metrics["accuracy"]
    assert row.metrics["top256"] == 1
    own = [(test.labels[100 * u : 100 * (u + 1)] == best[0]).mean() for u in range(48)]
    assert row.metrics["accuracy_std"] == pytest.approx(np.std(own))
