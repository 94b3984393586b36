"""Owners of samples, sizes by a law, labels by device, and devices that see the world differently."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from test_partition import problems

import fedcell
from fedcell import options, scenarios
from fedcell.data import devices_of_test, from_arrays, histogram, load, partition, skewed
from fedcell.data.settings import DataConfig
from fedcell.data.skews import sizes, take
from fedcell.errors import BadInput
from fedcell.scenarios import build_problem

GIVEN = DataConfig(partition="given")
quick = settings(deadline=None, max_examples=40)


def tiny(owners=None, test_owners=None, n=12):
    x = np.arange(n * 3, dtype=np.float32).reshape(n, 3)
    return from_arrays(x, np.arange(n) % 3, x[:4], np.arange(4) % 3, "tiny", owners=owners, test_owners=test_owners)


def stores(config, data, n_devices, seed=1):
    found = partition(config, data.y_train, n_devices, data.n_classes, seed, data.owners)
    return [sorted(found.items[k, : found.size[k]].tolist()) for k in range(n_devices)]


# ---------------------------------------------------------------- owners


@quick
@given(st.lists(st.sampled_from("abcde"), min_size=4, max_size=30), st.integers(0, 99))
def test_each_owner_is_a_device_with_all_its_samples(names, seed):
    data = tiny(owners=names, n=len(names))
    kinds = sorted(set(names))
    expected = [[place for place, one in enumerate(names) if one == kind] for kind in kinds]
    assert stores(GIVEN, data, len(kinds), seed) == expected
    for fewer in range(1, len(kinds)):  # owners are drawn, and keep their order
        found = stores(GIVEN, data, fewer, seed)
        places = [expected.index(one) for one in found]
        assert places == sorted(set(places))


def test_numbers_are_owners_too_and_a_run_uses_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = tiny(owners=[2, 2, 2, 0, 0, 0, 0, 1, 1, 1, 1, 1], test_owners=[2, 1, 0, 0])
    assert stores(GIVEN, data, 3) == [[3, 4, 5, 6], [7, 8, 9, 10, 11], [0, 1, 2]]
    assert devices_of_test(GIVEN, data, 3, 1).tolist() == [2, 1, 0, 0]
    changes = {"rounds": 1, "world.n_devices": 3, "data.partition": "given", "model.name": "logistic"}
    config = options.override(scenarios.get("cell").config, {**changes, "train.spread": True})
    problem = build_problem(config, data)
    assert problem.learner.test_samples.user(np.arange(4)).tolist() == [2, 1, 0, 0]
    (record,) = fedcell.run("fedavg", settings={**changes, "train.spread": True}, dataset=data)
    assert "accuracy_std" in record.columns


def test_a_file_has_owners_too(tmp_path):
    data = tiny(owners=list("aabbccaabbcc"))
    arrays = {name: getattr(data, name) for name in ("x_train", "y_train", "x_test", "y_test")}
    np.savez(tmp_path / "tiny.npz", **arrays, owners=np.array(list("aabbccaabbcc")))
    assert tiny(owners=np.array(list("aabbccaabbcc"), dtype=object)).owners.tolist() == data.owners.tolist()  # pandas
    assert load(str(tmp_path / "tiny.npz")).owners.tolist() == data.owners.tolist() == [0, 0, 1, 1, 2, 2] * 2
    assert "3 owners" in repr(data)


@pytest.mark.parametrize(
    ("owners", "test_owners", "words"),
    [
        ([0, 0, 2, 2], None, "owner 1 has no samples: number owners 0, 1, 2, ... without gaps, or give their names"),
        ([0, 1], None, r"has shape \(2,\) for 4 samples: give one owner for each sample"),
        ([0, 1, -1, 0], None, "owners of 'tiny' holds -1 at 2: give texts, or whole numbers 0, 1, 2"),
        ([0.5, 1, 1, 0], None, "holds 0.5 at 0"),
        ([0, "a", 1, None], None, "holds object values: give texts, or whole numbers"),
        (None, [0, 0, 0, 0], "has test_owners and no owners"),
        (["a", "b", "a", "a"], ["a", "a", "z", "a"], "test_owners of 'tiny' has 'z', who owns no training samples"),
        ([10**13, 0, 0, 0], None, "goes up to 10000000000000 and owner 1 has no samples"),
        ([1e300, 0, 0, 0], None, "owner 1 has no samples"),
        ([0, 1, 0, 1], np.array([0, "z", 1, "a"], dtype=object), "test_owners of 'tiny' holds object values"),
        (["a", "b", "a", "a"], ["a"], r"test_owners of 'tiny' has shape \(1,\) for 4 samples"),
    ],
)
def test_owners_that_do_not_fit_are_refused(owners, test_owners, words):
    with pytest.raises(BadInput, match=words):
        tiny(owners, test_owners, n=4)


def test_samples_without_a_test_split_are_refused():
    x = np.zeros((4, 3))
    with pytest.raises(BadInput, match="'arrays' has no test split: give x_test and y_test"):
        from_arrays(x, [0, 1, 0, 1], None, None)


def test_more_devices_than_owners_and_no_owners_at_all_are_refused():
    with pytest.raises(BadInput, match=r"world\.n_devices = 3 but the data has 2 owners: lower it to at most 2"):
        stores(GIVEN, tiny(owners=[0, 1] * 6), 3)
    with pytest.raises(BadInput, match=r"data\.partition = 'given' needs an owner of each sample"):
        stores(GIVEN, tiny(), 2)


# ---------------------------------------------------------------- sizes and labels


@quick
@given(problems(), st.sampled_from(["lognormal", "power", "dirichlet"]), st.sampled_from([0.0, 0.5, 3.0, 20.0]))
def test_quantity_gives_all_samples_away_and_nobody_goes_empty(problem, law, skew):
    labels, n_devices, n_classes, seed = problem
    config = DataConfig(partition="quantity", sizes=law, skew=skew)
    store = partition(config, labels, n_devices, n_classes, seed)
    held = np.concatenate([store.items[k, : store.size[k]] for k in range(n_devices)])
    assert sorted(held.tolist()) == list(range(len(labels)))
    assert store.size.min() >= 1
    if law == "power":  # ranks, dealt at random
        expected = sizes(np.arange(1, n_devices + 1, dtype=float) ** -skew, len(labels))
        assert abs(np.sort(store.size) - np.sort(expected)).max() <= 1
    if law != "dirichlet" and skew == 0:
        assert store.size.max() - store.size.min() <= 1


def test_the_logarithm_of_sizes_has_the_deviation_asked_for():
    labels = np.zeros(400_000, np.int64)
    store = partition(DataConfig(partition="quantity", skew=0.8), labels, 2000, 1, 3)
    assert np.log(store.size).std() == pytest.approx(0.8, abs=0.05)


@given(st.lists(st.floats(0, 5), min_size=1, max_size=8), st.integers(0, 40))
def test_sizes_are_within_one_of_their_shares(weight, more):
    found = sizes(np.array(weight), len(weight) + more)
    assert found.sum() == len(weight) + more
    total = sum(weight)
    if total > 1e-9:
        assert abs(found - 1 - more * np.array(weight) / total).max() < 1 + 1e-6


@quick
@given(problems(), st.sampled_from([0.01, 0.3, 100.0]))
def test_labels_by_device_give_all_samples_away_in_near_equal_parts(problem, alpha):
    labels, n_devices, n_classes, seed = problem
    store = partition(DataConfig(partition="dirichlet-device", alpha=alpha), labels, n_devices, n_classes, seed)
    held = np.concatenate([store.items[k, : store.size[k]] for k in range(n_devices)])
    assert sorted(held.tolist()) == list(range(len(labels)))
    assert store.size.max() - store.size.min() <= 1


def test_shares_of_labels_have_the_law_of_the_dirichlet_around_the_data():
    """Of many devices that take few samples each, the variance of a share is p(1-p)/(A+1), A = alpha n_classes."""
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1], [300_000, 100_000]))
    config = DataConfig(partition="dirichlet-device", alpha=1.0)
    store = partition(config, labels, 400, 2, 5)
    share = histogram(store, labels, 2)[:, 1] / store.size
    assert share.mean() == pytest.approx(0.25, abs=0.001)  # all samples are dealt
    few = histogram(partition(config, labels, 400, 2, 6), labels, 2)[:, 1] / 1000
    assert np.concatenate([share, few]).var() == pytest.approx(0.25 * 0.75 / 3, rel=0.2)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any), st.data())
def test_nothing_is_taken_that_is_not_there(left, data):
    wanted = data.draw(st.integers(0, sum(left)))
    share = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.2, 1.0]), min_size=len(left), max_size=len(left))))
    found = take(share, np.array(left), wanted, np.random.default_rng(0))
    assert found.sum() == wanted
    assert (found <= left).all()


# ---------------------------------------------------------------- features


def drawn(config, seed, device, channels):
    """What a device draws, again."""
    from fedcell.rng import SETUP, stream

    rng = stream(seed, SETUP, f"feature skew {device}")
    return rng.uniform(-1, 1) * config.rotation_deg, rng.uniform() * config.noise, rng.uniform(-1, 1, channels)


def test_images_of_a_device_are_turned_coloured_and_noisy_as_it_draws():
    rng = np.random.default_rng(0)
    x = rng.random((40, 3, 6, 6), dtype=np.float32)
    data = from_arrays(x[:30], np.arange(30) % 2, x[30:], np.arange(10) % 2)
    for key, value in (("rotation_deg", 40.0), ("colour", 0.5), ("noise", 0.3)):
        config = replace(DataConfig(partition="iid"), **{key: value})
        found = skewed(config, data, 3, 7)
        store = partition(config, data.y_train, 3, 2, 7)
        tested = devices_of_test(config, data, 3, 7)
        for device in range(3):
            angle, deviation, gains = drawn(config, 7, device, 3)
            parts = [(data.x_train, found.x_train, store.items[device, : store.size[device]])]
            parts.append((data.x_test, found.x_test, np.flatnonzero(tested == device)))
            for before, after, index in parts:
                for place in index:
                    expected = before[place]
                    if key == "rotation_deg":
                        expected = ndimage.rotate(expected, angle, axes=(2, 1), reshape=False, order=1, mode="nearest")
                    if key == "colour":
                        expected = expected * (1 + 0.5 * gains)[:, None, None]
                    if key != "noise":
                        assert np.allclose(after[place], np.clip(expected, x[:30].min(), x[:30].max()), atol=1e-5)
            if key == "noise":
                inside = (found.x_train > 0.01) & (found.x_train < 0.99)
                mine = np.zeros(30, bool)
                mine[store.items[device, : store.size[device]]] = True
                moved = (found.x_train - data.x_train)[mine][inside[mine]]
                assert moved.std() == pytest.approx(deviation, rel=0.35, abs=0.01)
        assert Counter(tested.tolist()) == {0: 4, 1: 3, 2: 3}
    assert np.array_equal(data.x_train, x[:30])  # the user's own are left as they are


def test_nothing_asked_changes_nothing_and_the_seed_decides():
    data = load("digits")
    config = DataConfig()
    assert skewed(config, data, 5, 1) is data
    assert devices_of_test(config, data, 5, 1) is None
    noisy = DataConfig(noise=0.2)
    one, same, other = (skewed(noisy, data, 5, seed).x_train for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert one.min() >= data.x_train.min()
    assert one.max() <= data.x_train.max()


def test_vectors_can_be_noisy_and_not_turned():
    data = tiny()
    assert not np.array_equal(skewed(DataConfig(noise=1.0), data, 2, 1).x_train, data.x_train)
    for key in ("rotation_deg", "colour"):
        with pytest.raises(BadInput, match=rf"data\.{key} = 1 changes images and samples of 'tiny' have shape \(3,\)"):
            skewed(DataConfig(**{key: 1.0}), data, 2, 1)


def test_runs_and_personal_methods_use_the_test_samples_of_devices(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changes = {"rounds": 1, "world.n_devices": 3, "data.rotation_deg": 90, "train.spread": True, "model.hidden": "8"}
    for record in fedcell.run(["fedavg", "fedrep"], settings=changes):
        assert "accuracy_std" in record.columns
    config = options.override(scenarios.get("cell").config, changes)
    problem = build_problem(config)
    assert problem.learner.test_samples.owner is not None
    with pytest.raises(BadInput, match=r"data\.noise = 0\.5 changes nothing with stream\.kind = markov"):
        build_problem(options.override(scenarios.get("streaming").config, {"data.noise": 0.5}))
