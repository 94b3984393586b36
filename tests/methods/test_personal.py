"""Test sets of the devices' own: whose they are, and how models are judged on them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from knowledge_worlds import EQUAL, MIXED, SHARDS, TRAIN

from fedcell import methods
from fedcell.labels import histogram
from fedcell.methods.parts.personal import chance, judge, owners
from fedcell.simulate import SIMULATED, begin, play_round, simulate


@given(st.integers(0, 2**32 - 1))
def test_split_follows_what_devices_hold(seed):
    rng = np.random.default_rng(seed)
    held = rng.integers(0, 50, (5, 4)) * (rng.random((5, 4)) < 0.6)
    labels = rng.integers(0, 4, 400)
    owner = owners(labels, held, 3)
    assert (owner == owners(labels, held, 3)).all()
    for label in range(4):
        mine = owner[labels == label]
        if held[:, label].sum() == 0:
            assert (mine == -1).all()
            continue
        share = held[:, label] / held[:, label].sum() * len(mine)
        got = np.bincount(mine, minlength=5)
        assert np.abs(got - share).max() <= 1 + 1e-9
        assert (got[held[:, label] == 0] == 0).all()
        assert got.sum() == len(mine), "every sample has one owner"


def test_judged_as_in_a_plain_loop(small):
    problem = small(data=SHARDS, model=MIXED, train=TRAIN)
    store = problem.world.stream.start(problem.seed)[0]
    held = histogram(store, problem.learner.train_samples.labels, 10)
    trained = np.array([True, False, True, True, False, False])
    kinds = problem.learner.kinds(np.arange(6))
    models = [problem.learner.initial(int(kind)) * (1 + 0.1 * k) for k, kind in enumerate(kinds)]
    found = judge(problem, held, trained, lambda device: models[device])
    owner, right, size = owners(problem.learner.test_samples.labels, held, problem.seed), np.zeros(6), np.zeros(6)
    for index, device in enumerate(owner):
        layout = problem.learner.architectures[kinds[device]]
        net = layout.replica(torch.device("cpu"))
        torch.nn.utils.vector_to_parameters(models[device][: layout.n_params], net.parameters())
        x, y = problem.learner.test_samples.take(np.array([index]))
        right[device] += float(net(x).argmax(1) == y)
        size[device] += 1
    assert found["accuracy"] == pytest.approx(right.sum() / len(owner))
    assert found["covered"] == pytest.approx(size[trained].sum() / len(owner))
    assert found["covered_accuracy"] == pytest.approx(right[trained].sum() / size[trained].sum())


@given(st.integers(0, 2**32 - 1))
def test_chance_is_the_best_constant_answer_of_every_device(seed):
    rng = np.random.default_rng(seed)
    labels, owner = rng.integers(0, 4, 60), rng.integers(-1, 5, 60)
    right = [max(int(((labels == c) & (owner == k)).sum()) for c in range(4)) for k in range(5)]
    assert chance(labels, owner) == pytest.approx(sum(right) / max((owner >= 0).sum(), 1))
    assert chance(labels, np.full(60, -1)) == 0


def test_a_network_that_always_says_the_same_is_at_chance(small):
    """The best constant answer of every device, by a network that has nothing but a bias."""
    problem = small(data=SHARDS, model=EQUAL, train=TRAIN)
    store = problem.world.stream.start(problem.seed)[0]
    held = histogram(store, problem.learner.train_samples.labels, 10)
    truth, n = problem.learner.test_samples.labels, problem.learner.n_params
    owner = owners(truth, held, problem.seed)

    def constant(device):
        model = torch.zeros(n)
        model[n - 10 + np.bincount(truth[owner == device], minlength=10).argmax()] = 1.0
        return model

    found = judge(problem, held, np.ones(6, bool), constant)
    assert found["accuracy"] == pytest.approx(found["chance"])
    assert 0.3 < found["chance"] < 0.9, "two classes each"


@pytest.mark.parametrize("text", ["knowledge:scheduler=all", "fedkd:public_per_class=3", "fedrep", "apfl:tests=split"])
def test_personal_methods_know_their_chance(small, text):
    problem = small(data=SHARDS, model=EQUAL, train=TRAIN)
    *_, (row, after) = simulate(problem, methods.parse(text).build())
    truth = problem.learner.test_samples.labels
    assert row.metrics["chance"] == chance(truth, owners(truth, after.method.labels, problem.seed))


@pytest.mark.parametrize("text", ["knowledge:scheduler=all", "fedkd:public_per_class=3", "fedrep", "apfl:tests=split"])
def test_columns_that_training_asks_for(small, text):
    """The first place alone is accuracy, the last is everything; devices differ."""
    rows = []
    for train in (TRAIN, replace(TRAIN, top=(1, 2, 10), spread=True)):
        *_, (row, _) = simulate(small(data=SHARDS, model=EQUAL, train=train), methods.parse(text).build())
        rows.append(row.metrics)
    plain, found = rows
    assert {name: value for name, value in found.items() if name in plain} == plain
    assert found["top1"] == pytest.approx(found["accuracy"])
    assert found["top1"] < found["top2"] < found["top10"] == 1
    assert found["accuracy_std"] > 0


def test_spread_is_that_of_the_devices(small):
    train = replace(TRAIN, top=(3,), spread=True)
    problem = small(data=SHARDS, model=EQUAL, train=train)
    held = histogram(problem.world.stream.start(problem.seed)[0], problem.learner.train_samples.labels, 10)
    params = list(simulate(problem, methods.parse("fedavg").build()))[-1][1].params
    found = judge(problem, held, np.ones(6, bool), lambda device: params)
    net = problem.learner.architectures[0].replica(torch.device("cpu"))
    torch.nn.utils.vector_to_parameters(params, net.parameters())
    truth, owner = problem.learner.test_samples.labels, owners(problem.learner.test_samples.labels, held, problem.seed)
    ranked = net(problem.learner.test_samples.take(np.arange(len(truth)))[0]).argsort(1, descending=True).numpy()
    right = ranked[:, 0] == truth
    assert found["accuracy_std"] == pytest.approx(np.std([right[owner == device].mean() for device in range(6)]))
    assert found["top3"] == pytest.approx((ranked[:, :3] == truth[:, None]).any(axis=1).mean())


def test_nothing_held_is_nothing_judged(small):
    problem = small(data=SHARDS, model=MIXED, train=TRAIN)
    found = judge(problem, np.zeros((6, 10), dtype=np.int64), np.zeros(6, bool), lambda device: torch.zeros(1))
    assert set(found.values()) == {0.0}


def test_apfl_judges_its_mixtures_on_the_split(small):
    """A mixture of 0 is the global model: on the whole test set, split or not, it is as good."""
    problem = small({"rounds": 3}, data=SHARDS, train=TRAIN)
    found = list(simulate(problem, methods.parse("apfl:tests=split,mixture=0").build()))[-1][0].metrics
    assert found["accuracy"] == pytest.approx(found["global_accuracy"])
    own = list(simulate(problem, methods.parse("apfl:tests=split,mixture=1").build()))[-1][0].metrics
    assert own["accuracy"] > own["global_accuracy"], "devices hold two classes each"


OWN = {"knowledge:scheduler=all": "own", "fedkd": "own", "apfl": "own", "fedrep": "heads"}


def owned(snapshot, text):
    """(what devices own, `[n_devices, ...]`, which of them have trained)."""
    kept = getattr(snapshot.method, OWN[text])
    return torch.cat([page for page in kept.pages if page is not None]), kept.seen


@pytest.mark.parametrize("text", OWN)
def test_what_a_device_owns_is_remembered_also_where_its_upload_is_lost(small, text):
    net = {"data": SHARDS, "model": EQUAL, "train": TRAIN, "rounds": 2}
    heard = list(simulate(small(**net), methods.parse(text).build()))
    lost = list(simulate(small({"world.deadline_s": 1e-9}, **net), methods.parse(text).build()))
    assert [row.n_delivered for row, _ in heard + lost] == [6, 6, 0, 0]
    (first, seen), (unheard, trained) = owned(heard[0][1], text), owned(lost[0][1], text)
    assert seen.all()
    assert trained.all()
    assert torch.equal(first, unheard), "the first round trains alike"
    assert not torch.equal(unheard, owned(lost[1][1], text)[0]), "and the second begins where it ended"


@pytest.mark.parametrize("text", OWN)
def test_what_a_device_owns_is_kept_as_far_as_it_is_finite(small, text):
    problem, method = small(data=SHARDS, model=EQUAL, train=TRAIN), methods.parse(text).build()

    def poisoned(*arguments):
        updates = method.local(*arguments)
        updates.kept[2, 3] = float("nan")
        return updates

    first = begin(problem, method)
    row, after = play_round(SIMULATED, problem, method._replace(local=poisoned), first)
    assert row.outcome == "DDDDDD", "nothing of it is sent"
    rows, seen = owned(after, text)
    assert seen.tolist() == [True, True, False, True, True, True]
    assert torch.isfinite(rows).all()
    assert torch.equal(after.params, play_round(SIMULATED, problem, method, first)[1].params)
