"""The cache rules: the specification's vectors, invariants over random arrivals, and the cache of one device."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.errors import BadInput
from fedcell.labels import histogram
from fedcell.types import Store
from fedcell.world.caches import RULES, Keeper, aim, begin, drsr_gain, largest_remainder
from fedcell.world.streaming_cache import StreamingCache

N_CLASSES = 3


def pool():
    """Labels of a sample set in which sample `i` has class `i % N_CLASSES`, so that ids tell instances apart."""
    return np.arange(6000) % N_CLASSES


def arrivals(rng, n_devices, batch, round):
    """Batches whose label shares differ widely; no id ever comes twice."""
    rows, block = [], np.arange(N_CLASSES * batch)
    for _ in range(n_devices):
        weight = rng.dirichlet(np.ones(N_CLASSES))[block % N_CLASSES]
        rows.append(len(block) * round + rng.choice(block, batch, replace=False, p=weight / weight.sum()))
    return Store(np.array(rows), np.full(n_devices, batch))


def filled(n_devices, capacity):
    """Full caches of random labels, ids apart from those that arrive."""
    rng = np.random.default_rng(5)
    return Store(
        np.stack([rng.choice(np.arange(4000, 6000), capacity, replace=False) for _ in range(n_devices)]),
        np.full(n_devices, capacity),
    )


def empty(n_devices, capacity):
    return Store(np.zeros((n_devices, capacity), dtype=np.int64), np.zeros(n_devices, dtype=np.int64))


def held(store, row):
    return store.items[row, : store.size[row]].tolist()


def play(rule, capacity, batch, n_rounds, n_devices=2, seed=0, theta=2 / 3, start=None):
    """(cache, counts in it, counts that arrived) after every round."""
    labels, rng = pool(), np.random.default_rng(seed)
    keeper = Keeper(np.full(n_devices, capacity), labels, N_CLASSES, theta)
    cache = begin(keeper, start or empty(n_devices, capacity))
    for round in range(n_rounds):
        new = arrivals(rng, n_devices, batch, round)
        before, cache = cache, RULES[rule](keeper, cache, new, seed, round)
        yield before, new, cache, histogram(cache.store, labels, N_CLASSES), histogram(new, labels, N_CLASSES)


# ---------------------------------------------------------------- the specification's vectors

STEPS = [  # B, b, weight, n(L), n(S), ideal times six, integers, evicted, inserted
    (12, 4, 0.75, [6, 4, 2], [0, 1, 3], [27, 22.5, 22.5], [4, 4, 4], [2, 1, 1], [0, 1, 3]),
    (300, 150, 2 / 3, [200, 100, 0], [0, 10, 140], [800, 440, 560], [134, 73, 93], [66, 37, 0], [0, 10, 93]),
    (300, 150, 0.5, [150, 90, 60], [30, 60, 60], [765, 585, 450], [128, 97, 75], [52, 53, 45], [30, 60, 60]),
]


def store_of(counts, width, offset=0):
    """A one-row store with these class counts, ids apart from those of another offset."""
    ids = [N_CLASSES * (offset + place) + r for r, n in enumerate(counts) for place in range(n)]
    return Store(np.array([ids + [0] * (width - len(ids))]), np.array([len(ids)]))


@pytest.mark.parametrize(("capacity", "batch", "weight", "old", "new", "ideal", "whole", "evicted", "inserted"), STEPS)
def test_one_selective_replacement(capacity, batch, weight, old, new, ideal, whole, evicted, inserted):
    labels = pool()
    keeper = Keeper(np.array([capacity]), labels, N_CLASSES, weight)
    first, arrived = store_of(old, capacity), store_of(new, batch, offset=200)
    after = RULES["srsr"](keeper, begin(keeper, first), arrived, 1, 0)
    np.testing.assert_allclose(6 * after.shadow[0], ideal, atol=1e-9)
    assert histogram(after.store, labels, N_CLASSES)[0].tolist() == whole
    kept = set(held(after.store, 0))
    gone = [sum(i not in kept for i in held(first, 0) if labels[i] == r) for r in range(N_CLASSES)]
    come = [sum(i in kept for i in held(arrived, 0) if labels[i] == r) for r in range(N_CLASSES)]
    assert gone == evicted
    assert come == inserted


def test_dynamic_weight_of_the_fourth_round():
    keeper = Keeper(np.array([300]), pool(), N_CLASSES)
    assert drsr_gain(keeper, np.array([150]), np.array([450])) == pytest.approx(1 / 4)
    got = [float(drsr_gain(keeper, np.array([150]), np.array([150 * (t - 1)]))[0] * 2) for t in (1, 2, 3, 4, 5, 6)]
    assert got == pytest.approx([1, 1, 2 / 3, 0.5, 0.4, 1 / 3])


def test_scalar_recursion():
    """u = .9 .5 .1 .3 .7 .2 of one class, M = 2, theta = 2/3, from an empty cache."""
    u, batch, capacity = [0.9, 0.5, 0.1, 0.3, 0.7, 0.2], 10, 20
    want = {
        "fifo": [0.7, 0.3, 0.2, 0.5, 0.45],
        "srsr": [0.7, 0.5, 0.433333, 0.522222, 0.414815],
        "drsr": [0.7, 0.5, 0.45, 0.5, 0.45],
    }
    labels = np.repeat([0, 1], 100)
    for rule, values in want.items():
        keeper = Keeper(np.array([capacity]), labels, 2)
        cache, shares = begin(keeper, empty(1, capacity)), []
        for round, share in enumerate(u):
            n = int(np.rint(share * batch))
            ids = np.array([[*range(n), *range(100, 100 + batch - n)]])
            cache = RULES[rule](keeper, cache, Store(ids, np.array([batch])), 0, round)
            counts = histogram(cache.store, labels, 2)[0]
            shares.append(counts[0] / counts.sum() if rule == "fifo" else cache.shadow[0, 0] / counts.sum())
        assert shares[1:] == pytest.approx(values, abs=1e-6), rule


# ---------------------------------------------------------------- rounding


def spelled_out(x, total, upper):
    """The specification's own rounding, one row."""
    out = np.minimum(np.floor(np.asarray(x) + 1e-9).astype(int), upper)
    remainder = x - out
    order = sorted(range(len(x)), key=lambda i: (-round(remainder[i], 9), i))
    need = total - out.sum()
    while need > 0:
        for i in order:
            if need and out[i] < upper[i]:
                out[i] += 1
                need -= 1
    return out


@given(st.integers(0, 10**6))
def test_largest_remainder_is_the_plain_loop(seed):
    rng = np.random.default_rng(seed)
    n_rows, n, total = 3, int(rng.integers(1, 7)), int(rng.integers(1, 50))
    ideal = rng.dirichlet(np.ones(n), n_rows) * total
    if rng.random() < 0.5:
        ideal = np.round(ideal)
        ideal[:, 0] += total - ideal.sum(axis=1)
        ideal = np.abs(ideal)
    upper = rng.integers(0, total + 1, (n_rows, n))
    upper[:, -1] += np.maximum(total - upper.sum(axis=1), 0)
    totals = np.full(n_rows, total)
    keep = ideal.sum(axis=1) <= total + 1e-6
    got = largest_remainder(ideal, totals, upper)
    for row in np.flatnonzero(keep):
        assert got[row].tolist() == spelled_out(ideal[row], total, upper[row]).tolist()
        assert got[row].sum() == total


def test_ties_go_to_the_lower_class():
    assert largest_remainder(np.array([[0.5, 0.5, 1.0]]), np.array([2])).tolist() == [[1, 0, 1]]


def test_impossible_limits_are_refused():
    with pytest.raises(BadInput, match="sum to less"):
        largest_remainder(np.array([[2.0, 2.0]]), np.array([4]), np.array([[1, 1]]))


# ---------------------------------------------------------------- invariants


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("capacity", "batch"), [(12, 4), (10, 4), (7, 7), (9, 1)])
def test_capacity_is_kept_and_samples_come_from_somewhere(rule, capacity, batch):
    for t, (before, new, after, _, _) in enumerate(play(rule, capacity, batch, 12), start=1):
        assert (after.store.size == min(t * batch, capacity)).all()
        assert (after.seen == t * batch).all()
        for row in range(2):
            assert set(held(after.store, row)) <= set(held(before.store, row)) | set(held(new, row))


@pytest.mark.parametrize("rule", ["srsr", "drsr"])
@pytest.mark.parametrize(("capacity", "batch"), [(60, 20), (50, 20), (20, 20)])
def test_targets_stay_near_the_shadow(rule, capacity, batch):
    for t, (before, _, after, counts, arrived) in enumerate(play(rule, capacity, batch, 40), start=1):
        there = histogram(before.store, pool(), N_CLASSES) + arrived
        assert (counts <= there).all()
        if t * batch < capacity:
            continue
        np.testing.assert_allclose(after.shadow.sum(axis=1), capacity, rtol=1e-12)
        near = np.abs(counts - after.shadow) < 1
        bound = (there < after.shadow).any(axis=1)  # a limit binds somewhere in the row
        assert (near.all(axis=1) | bound).all()
        old_kept = [len(set(held(after.store, row)) & set(held(before.store, row))) for row in range(2)]
        fresh = np.minimum(counts, arrived).sum(axis=1)
        assert (fresh <= batch).all()
        assert (np.array(old_kept) == capacity - fresh).all()  # as many leave as enter


def test_fifo_is_the_mean_of_the_last_batches():
    history = []
    for t, (_, _, _, counts, arrived) in enumerate(play("fifo", 60, 20, 12), start=1):
        history.append(arrived)
        assert (counts == np.sum(history[-3:], axis=0)).all(), t


def test_fifo_evicts_samples_not_batches():
    """B = 10, b = 4: exactly the 10 newest ids, in order."""
    everything = []
    for _, new, after, _, _ in play("fifo", 10, 4, 9, n_devices=1):
        everything += held(new, 0)
        assert held(after.store, 0) == everything[-10:]


def test_lazy_never_changes_again():
    stores = [after.store for _, _, after, _, _ in play("lazy", 10, 4, 9)]
    assert all((store.items == stores[2].items).all() for store in stores[2:])
    first = [new for _, new, _, _, _ in play("lazy", 10, 4, 3)]
    assert held(stores[-1], 0) == [i for new in first for i in held(new, 0)][:10]


def test_srsr_shadow_is_its_closed_form():
    """v_t = a sum_tau (1-a)^tau u_{t-tau} + (1-a)^t v_0 from a full cache."""
    capacity, batch, theta = 40, 10, 0.6
    a, history = theta * batch / capacity, []
    first = filled(2, capacity)
    v0 = histogram(first, pool(), N_CLASSES) / capacity
    for t, (_, _, after, _, arrived) in enumerate(play("srsr", capacity, batch, 30, theta=theta, start=first), start=1):
        history.append(arrived / batch)
        closed = a * sum((1 - a) ** tau * history[t - 1 - tau] for tau in range(t)) + (1 - a) ** t * v0
        np.testing.assert_allclose(after.shadow / capacity, closed, atol=1e-12)


@pytest.mark.parametrize(("capacity", "batch"), [(60, 20), (50, 20), (20, 20)])
def test_drsr_is_the_running_mean(capacity, batch):
    """From an empty cache, also where the cache is not a whole number of batches."""
    history = []
    for _, _, after, counts, arrived in play("drsr", capacity, batch, 50):
        history.append(arrived / batch)
        mean, size = np.mean(history, axis=0), after.store.size[:, None]
        np.testing.assert_allclose(after.shadow / size, mean, atol=1e-12)
        assert (np.abs(counts / size - mean) < 1 / size).all()


def test_drsr_forgets_a_filled_cache_as_the_weight_says():
    """The weight of the first cache is (1 - 1/M)^min(t, M) * min(1, M / t)."""
    capacity, batch, ratio = 60, 10, 6
    keeper = Keeper(np.array([capacity]), pool(), N_CLASSES)
    shadow, seen = np.array([[60.0, 0, 0]]), np.array([0])
    for t in range(1, 40):
        counts = np.rint(shadow).astype(int)
        counts[0, 0] += capacity - counts.sum()
        gain = drsr_gain(keeper, np.array([batch]), seen)
        _, shadow = aim(keeper, counts, np.array([[0, 5, 5]]), shadow, gain)
        seen = seen + batch
        assert shadow[0, 0] / capacity == pytest.approx((1 - 1 / ratio) ** min(t, ratio) * min(1, ratio / t))


def test_theta_zero_freezes_labels_but_not_instances():
    first = filled(2, 30)
    v0 = histogram(first, pool(), N_CLASSES)
    *earlier, (_, _, last, _, _) = play("srsr", 30, 10, 20, theta=0.0, start=first)
    assert all((counts == v0).all() for _, _, _, counts, _ in earlier)
    assert len(set(held(last.store, 0)) & set(held(first, 0))) < 10


def test_theta_one_and_one_batch_is_the_newest_batch():
    for _, new, after, _, _ in play("srsr", 20, 20, 6, theta=1.0):
        assert sorted(held(after.store, 0)) == sorted(held(new, 0))


def test_an_unseen_class_enters_and_an_absent_one_has_no_target():
    labels = np.repeat([0, 1, 2], 50)
    keeper = Keeper(np.array([10]), labels, 3)
    cache = begin(keeper, Store(np.arange(10)[None], np.array([10])))
    after = RULES["srsr"](keeper, cache, Store(np.arange(50, 55)[None], np.array([5])), 0, 0)
    counts = histogram(after.store, labels, 3)[0]
    assert counts.sum() == 10
    assert counts[1] >= 3
    assert counts[2] == 0


def test_every_sample_of_a_class_has_the_same_chance():
    """2000 equal caches take one step: half of the old of class 0 stay, a third of the new of class 1 enter."""
    n, labels = 2000, np.array([0] * 8 + [1] * 6)
    keeper = Keeper(np.full(n, 8), labels, 2, theta=1 / 3)
    first, new = np.tile(np.arange(8), (n, 1)), np.tile(np.arange(8, 14), (n, 1))
    cache = begin(keeper, Store(first, np.full(n, 8)))
    after = RULES["srsr"](keeper, cache, Store(new, np.full(n, 6)), 1, 0)
    often = np.bincount(after.store.items.ravel(), minlength=14) / n
    np.testing.assert_allclose(often[:8], 6 / 8, atol=5 * 0.01)
    np.testing.assert_allclose(often[8:], 2 / 6, atol=5 * 0.011)


def test_device_gives_every_sample_of_a_class_the_same_chance():
    n, kept = 1000, np.zeros(14)
    for seed in range(n):
        cache = StreamingCache(8, "srsr", theta=1 / 3, seed=seed)
        cache.offer(np.arange(8)[:, None], [0] * 8)
        cache.offer(np.arange(8, 14)[:, None], [1] * 6)
        kept[cache.contents()[0][:, 0]] += 1 / n
    np.testing.assert_allclose(kept[:8], 6 / 8, atol=5 * 0.014)
    np.testing.assert_allclose(kept[8:], 2 / 6, atol=5 * 0.015)


def test_no_arrivals_leave_everything_as_it_was():
    *_, (_, _, cache, _, _) = play("drsr", 10, 4, 9)
    keeper = Keeper(np.full(2, 10), pool(), N_CLASSES)
    for rule in RULES.values():
        after = rule(keeper, cache, Store(np.zeros((2, 3), dtype=np.int64), np.zeros(2, dtype=np.int64)), 0, 9)
        assert (after.store.items == cache.store.items).all()
        assert (after.shadow == cache.shadow).all()


def test_rounding_and_feeding_back_freezes_the_ratio():
    """Why there is a shadow: 400 rounds of a new ratio move it, while integers alone stop half a sample away."""
    keeper = Keeper(np.array([20]), pool(), 2)
    arrived = np.array([[1, 1]])
    counts, shadow, stuck = np.array([[20, 0]]), np.array([[20.0, 0.0]]), np.array([[20, 0]])
    for t in range(1, 401):
        gain = drsr_gain(keeper, np.array([2]), np.array([2 * (t - 1)]))
        counts, shadow = aim(keeper, counts, arrived, shadow, gain)
        stuck, _ = aim(keeper, stuck, arrived, stuck.astype(float), gain)
    assert counts[0].tolist() == [10, 10]
    assert stuck[0, 0] > 11


def test_every_device_is_kept_alike_alone_or_in_company():
    for rule in RULES:
        *_, (_, _, both, _, _) = play(rule, 12, 4, 8, n_devices=3)
        rng, keeper = np.random.default_rng(0), Keeper(np.array([12]), pool(), N_CLASSES)
        batches = [arrivals(rng, 3, 4, round) for round in range(8)]
        alone = begin(keeper, empty(1, 12))
        for round, new in enumerate(batches):
            alone = RULES[rule](keeper, alone, Store(new.items[:1], new.size[:1]), 0, round)
        assert held(alone.store, 0) == held(both.store, 0)


# ---------------------------------------------------------------- the cache of one device


def offers(n_offers, batch, seed=3):
    rng = np.random.default_rng(seed)
    for number in range(n_offers):
        labels = rng.choice(4, batch, p=rng.dirichlet(np.ones(4)))
        yield np.stack([np.full(batch, number), np.arange(batch), labels], axis=1), labels


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("capacity", "batch"), [(30, 10), (25, 10), (10, 10)])
def test_device_counts_are_those_of_the_simulated_rule(rule, capacity, batch):
    device = StreamingCache(capacity, rule, theta=0.4)
    labels = np.arange(4)
    keeper = Keeper(np.array([capacity]), labels, 4, 0.4)
    cache = begin(keeper, empty(1, capacity))
    for round, (samples, y) in enumerate(offers(40, batch)):
        device.offer(samples, y)
        cache = RULES[rule](keeper, cache, Store(y[None], np.array([batch])), 0, round)
        want = histogram(cache.store, labels, 4)[0]
        assert np.array_equal(np.pad(device.counts, (0, 4 - len(device.counts))), want), round
        x, kept = device.contents()
        assert np.array_equal(x[:, 2], kept)  # samples and labels stay together
        assert len(np.unique(x[:, :2], axis=0)) == len(device)  # nothing is held twice


def test_device_fifo_keeps_the_newest():
    device = StreamingCache(25, "fifo")
    for samples, y in offers(9, 10):
        device.offer(samples, y)
    newest = device.contents()[0]
    assert sorted(newest[:, 0].tolist()) == [6] * 5 + [7] * 10 + [8] * 10
    assert sorted(newest[newest[:, 0] == 6, 1].tolist()) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("rule", RULES)
def test_device_goes_on_from_a_saved_state(rule, tmp_path):
    straight, first = StreamingCache(25, rule, seed=4), StreamingCache(25, rule, seed=4)
    stream = list(offers(20, 10))
    for samples, y in stream[:9]:
        straight.offer(samples, y)
        first.offer(samples, y)
    straight.sample(3)
    first.sample(3)
    np.savez(tmp_path / "state.npz", **first.state_dict())
    second = StreamingCache(25, rule)
    with np.load(tmp_path / "state.npz", allow_pickle=False) as state:
        second.load_state_dict(state)
    for samples, y in stream[9:]:
        straight.offer(samples, y)
        second.offer(samples, y)
    assert all(np.array_equal(*pair) for pair in zip(straight.contents(), second.contents(), strict=True))
    assert np.array_equal(straight.sample(5)[0], second.sample(5)[0])


def test_device_samples_without_repeats():
    device = StreamingCache(25, "drsr")
    for samples, y in offers(5, 10):
        device.offer(samples, y)
    x, _ = device.sample(12)
    assert len(np.unique(x[:, :2], axis=0)) == 12
    assert len(device.sample(99)[1]) == 25


def test_device_takes_a_large_offer_in_pieces():
    whole, pieces = StreamingCache(10, "drsr"), StreamingCache(10, "drsr")
    ((samples, y),) = offers(1, 25)
    whole.offer(samples, y)
    for first in (0, 10, 20):
        pieces.offer(samples[first : first + 10], y[first : first + 10])
    assert np.array_equal(whole.contents()[0], pieces.contents()[0])
    whole.offer(np.empty((0, 3)), [])
    assert len(whole) == 10


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: StreamingCache(0), "at least 1 sample"),
        (lambda: StreamingCache(5, theta=1.5), r"theta in \[0, 1\]"),
        (lambda: StreamingCache(5, "newest"), "choose one of fifo"),
        (lambda: StreamingCache(5).offer(np.zeros((2, 3)), [1]), "one label per sample"),
        (lambda: StreamingCache(5).offer(np.zeros((1, 3)), [-1]), "whole numbers from 0"),
        (lambda: StreamingCache(5).offer(np.zeros((1, 3)), [0.5]), "whole numbers from 0"),
        (lambda: StreamingCache(5).load_state_dict(StreamingCache(6).state_dict()), "the state is of"),
        (lambda: StreamingCache(4.0), r"capacity = 4\.0, .*a whole number"),
        (lambda: StreamingCache(5).load_state_dict({}), "the state has no array 'numbers': give what state_dict"),
        (lambda: StreamingCache(5).offer(np.zeros((1, 3)), [10**11]), "labels go up to 100000000000 >= 10000000"),
    ],
)
def test_device_explains_bad_input(make, words):
    with pytest.raises(BadInput, match=words):
        make()


def test_device_refuses_other_samples():
    cache = StreamingCache(5)
    cache.offer(np.zeros((1, 3), dtype=np.uint8), [0])
    for other in (np.zeros((1, 4), dtype=np.uint8), np.full((1, 3), 0.5)):
        with pytest.raises(BadInput, match="do not fit"):
            cache.offer(other, [0])
