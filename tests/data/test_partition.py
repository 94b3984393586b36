"""Splits are disjoint, complete where they promise it, and depend on the seed alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcell.data import histogram, partition
from fedcell.data.partition import _shards_of_class
from fedcell.data.settings import DataConfig
from fedcell.errors import BadInput

CONFIG = DataConfig(alpha=0.3, shards_per_device=2, classes_per_device=2)
quick = settings(deadline=None, max_examples=60)


@st.composite
def problems(draw, per_device=4):
    """(labels, n_devices, n_classes, seed) with at least `per_device` samples for each device, all classes present."""
    n_devices, n_classes = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    n_samples = draw(st.integers(max(per_device * n_devices, n_classes), 150))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_samples - n_classes)])
    return rng.permutation(labels), n_devices, n_classes, draw(st.integers(0, 2**31))


def balanced(n_classes, each):
    return np.random.default_rng(0).permutation(np.repeat(np.arange(n_classes), each))


def held(store):
    return [row[:size].tolist() for row, size in zip(store.items, store.size, strict=True)]


def everything(store):
    return sorted(sample for row in held(store) for sample in row)


@quick
@given(problems(), st.sampled_from(["iid", "dirichlet", "shards"]), st.sampled_from([1e-3, 0.3, 100.0]))
def test_disjoint_and_nobody_goes_empty(problem, rule, alpha):
    labels, n_devices, n_classes, seed = problem
    store = partition(replace(CONFIG, partition=rule, alpha=alpha), labels, n_devices, n_classes, seed)
    samples = everything(store)
    assert len(set(samples)) == len(samples)
    assert store.items.shape == (n_devices, store.size.max())
    assert store.items.dtype == store.size.dtype == np.int64
    assert store.size.min() >= 1
    if rule != "shards" or 2 * n_devices >= n_classes:
        assert samples == list(range(len(labels)))


@quick
@given(problems(), st.sampled_from(["iid", "dirichlet", "shards"]))
def test_same_seed_same_split(problem, rule):
    labels, n_devices, n_classes, seed = problem
    config = replace(CONFIG, partition=rule)
    one, two = (partition(config, labels, n_devices, n_classes, seed) for _ in range(2))
    np.testing.assert_array_equal(one.items, two.items)
    np.testing.assert_array_equal(one.size, two.size)


def test_other_seed_other_split():
    labels = balanced(5, 40)
    for rule in ("iid", "dirichlet", "shards", "classes"):
        one, two = (partition(replace(CONFIG, partition=rule), labels, 10, 5, seed) for seed in (1, 2))
        assert held(one) != held(two)


@quick
@given(problems(), st.sampled_from(["iid", "dirichlet", "shards"]))
def test_histogram_equals_a_plain_count(problem, rule):
    labels, n_devices, n_classes, seed = problem
    store = partition(replace(CONFIG, partition=rule), labels, n_devices, n_classes, seed)
    counted = [[sum(labels[s] == c for s in row) for c in range(n_classes)] for row in held(store)]
    found = histogram(store, labels, n_classes)
    assert found.tolist() == counted
    assert found.dtype == np.int64
    assert found.sum(axis=1).tolist() == store.size.tolist()


def test_padding_is_zero_and_rows_are_shuffled():
    labels = np.repeat(np.arange(4), 50)  # sorted by label
    store = partition(replace(CONFIG, partition="counts", counts=(150, 3, 0)), labels, 3, 4, 0)
    assert not store.items[1, 3:].any()
    assert not store.items[2].any()
    assert len(set(labels[store.items[0, :40]])) == 4


def test_iid_sizes_differ_by_one_at_most():
    store = partition(replace(CONFIG, partition="iid"), balanced(3, 11), 10, 3, 0)
    assert sorted(store.size.tolist()) == [3] * 7 + [4] * 3


def test_dirichlet_is_more_skewed_with_small_alpha():
    labels = balanced(10, 200)
    kinds = [
        (histogram(partition(replace(CONFIG, alpha=alpha), labels, 20, 10, 0), labels, 10) > 0).sum()
        for alpha in (0.01, 0.3, 100.0)
    ]
    assert kinds[0] < kinds[1] < kinds[2] == 200


def test_dirichlet_proportions_have_the_law_of_a_symmetric_dirichlet():
    """A share of Dirichlet(alpha x n) is Beta(alpha, (n-1) alpha): mean 1/n, variance (n-1) / (n^2 (n alpha + 1))."""
    labels, n, alpha = balanced(300, 100), 4, 2.0
    store = partition(replace(CONFIG, alpha=alpha), labels, n, 300, 5)
    share = histogram(store, labels, 300) / 100
    assert share.mean() == pytest.approx(1 / n)
    assert share.var() == pytest.approx((n - 1) / (n**2 * (n * alpha + 1)), rel=0.1)


def test_dirichlet_serves_as_many_devices_as_samples():
    store = partition(replace(CONFIG, alpha=1e-3), balanced(2, 10), 20, 2, 0)
    assert store.size.tolist() == [1] * 20


def test_shards_as_in_the_chapter():
    """100 devices, 2 shards each: 20 near-equal shards per class, at most two classes on a device."""
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(10), np.arange(590, 610, 2)))
    store = partition(replace(CONFIG, partition="shards"), labels, 100, 10, 0)
    found = histogram(store, labels, 10)
    assert (found > 0).sum(axis=1).max() <= 2
    assert found.sum() == len(labels)
    assert _shards_of_class(np.bincount(labels), 200, np.random.default_rng(0)).tolist() == [20] * 10
    smallest, largest = 590 // 20, -(-608 // 20)
    assert 2 * smallest <= store.size.min()
    assert store.size.max() <= 2 * largest


@quick
@given(problems(), st.integers(1, 4))
def test_shards_hold_few_classes(problem, each):
    labels, n_devices, n_classes, seed = problem
    config = replace(CONFIG, partition="shards", shards_per_device=each)
    found = histogram(partition(config, labels, n_devices, n_classes, seed), labels, n_classes)
    assert (found > 0).sum(axis=1).max() <= each
    assert found.sum(axis=1).min() >= each  # no shard is empty


@quick
@given(st.lists(st.integers(0, 60), min_size=1, max_size=8).filter(any), st.data())
def test_number_of_shards_per_class(sizes, data):
    size = np.array(sizes)
    n_shards = data.draw(st.integers(1, int(size.sum())))
    found = _shards_of_class(size, n_shards, np.random.default_rng(0))
    assert found.sum() == n_shards
    assert (found >= 0).all()
    assert (found <= size).all()
    if n_shards >= (size > 0).sum():
        assert (found[size > 0] >= 1).all()


def test_shards_in_proportion_where_they_do_not_divide():
    assert _shards_of_class(np.array([10, 20, 70]), 10, np.random.default_rng(0)).tolist() == [1, 2, 7]


@quick
@given(st.integers(1, 20), st.integers(1, 8), st.integers(0, 10**6), st.data())
def test_classes_are_exact_and_shared_evenly(n_devices, n_classes, seed, data):
    each = data.draw(st.integers(1, n_classes))
    labels = balanced(n_classes, 30)
    config = replace(CONFIG, partition="classes", classes_per_device=each)
    store = partition(config, labels, n_devices, n_classes, seed)
    found = histogram(store, labels, n_classes)
    assert ((found > 0).sum(axis=1) == each).all()
    assert len(set(everything(store))) == store.size.sum()
    for column in found.T:
        parts = column[column > 0]
        assert parts.size == 0 or (parts.max() - parts.min() <= 1 and parts.sum() == 30)
    if n_devices * each >= n_classes:
        assert everything(store) == list(range(len(labels)))
    again = partition(config, labels, n_devices, n_classes, seed)
    assert held(again) == held(store)


def test_classes_passes_over_labels_that_do_not_occur():
    labels = np.array([0, 2] * 10)
    found = histogram(partition(replace(CONFIG, partition="classes"), labels, 3, 3, 0), labels, 3)
    assert (found[:, [0, 2]] > 0).all()
    assert not found[:, 1].any()


@quick
@given(st.lists(st.integers(0, 12), min_size=1, max_size=10), st.integers(0, 10**6))
def test_counts_are_as_given(counts, seed):
    labels = balanced(4, 30)
    store = partition(replace(CONFIG, partition="counts", counts=tuple(counts)), labels, len(counts), 4, seed)
    assert store.size.tolist() == counts
    assert len(set(everything(store))) == sum(counts)
    assert histogram(store, labels, 4).sum() == sum(counts)


@pytest.mark.parametrize(
    ("change", "n_devices", "words"),
    [
        ({"partition": "iid"}, 41, ["world.n_devices = 41", "40 training samples", "at most 40"]),
        ({"partition": "dirichlet"}, 41, ["world.n_devices = 41"]),
        ({"partition": "shards", "shards_per_device": 3}, 20, ["data.shards_per_device = 3", "60 shards", "at most 2"]),
        (
            {"partition": "classes", "classes_per_device": 5},
            4,
            ["data.classes_per_device = 5", "4 classes", "at most 4"],
        ),
        (
            {"partition": "classes", "classes_per_device": 4},
            11,
            ["data.classes_per_device = 4", "11 holders", "10 samples"],
        ),
        ({"partition": "counts", "counts": (1, 2)}, 3, ["data.counts has 2 numbers", "3 devices"]),
        ({"partition": "counts", "counts": (39, 2)}, 2, ["data.counts adds up to 41", "40 training samples"]),
        ({"partition": "counts", "counts": (-1, 2)}, 2, ["data.counts = -1,2", "each must be at least 0"]),
        ({"partition": "dirichlet", "alpha": 1e308}, 4, ["data.alpha = 1e+308", "out of range"]),
        ({"partition": "dirichlet", "alpha": float("inf")}, 4, ["data.alpha = inf", "finite"]),
        ({"partition": "dirichlet", "alpha": 0.0}, 4, ["data.alpha = 0", "above 0"]),
        ({"partition": "dirichlett"}, 4, ["data.partition", "did you mean 'dirichlet'"]),
    ],
)
def test_impossible_requests_are_refused_with_the_fix(change, n_devices, words):
    with pytest.raises(BadInput) as caught:
        partition(replace(CONFIG, **change), balanced(4, 10), n_devices, 4, 0)
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)
