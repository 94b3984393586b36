"""KFL's learning: the pull against plain autograd, class means, own models of several architectures, payloads."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kept_rows import matrix
from knowledge_worlds import EQUAL, MIXED, SHARDS, TRAIN
from torch import nn

from fedcell import methods
from fedcell.errors import BadInput
from fedcell.learn.features import features
from fedcell.methods import knowledge
from fedcell.methods.knowledge import targets
from fedcell.methods.knowledge.means import class_means, means_of, merged, payload_bit, pull_strength, pulled_loss
from fedcell.methods.parts.classes import held_classes
from fedcell.methods.parts.personal import models_of
from fedcell.options import from_dict, to_dict
from fedcell.simulate import SIMULATED, begin, play_round, simulate
from fedcell.types import Start
from fedcell.world import observe

EVERYONE = "knowledge:scheduler=all"


@pytest.fixture
def mixed(small):
    return small({"rounds": 4}, data=SHARDS, model=MIXED, train=TRAIN)


def net_of(problem, kind, vector):
    layout = problem.learner.architectures[kind]
    net = layout.replica(torch.device("cpu"))
    nn.utils.vector_to_parameters(vector[: layout.n_params], net.parameters())
    return net


def run(problem, text):
    return list(simulate(problem, methods.parse(text).build()))


def printed_pull(h, omega, known):
    """Eq. (4.6): half the squared distance, summed over features, mean over samples."""
    return (0.5 * ((h - omega) ** 2).sum(1) * known).mean()


def averaged_pull(h, omega, known):
    """What `nn.MSELoss` makes of it; a sample without a target is its own."""
    return nn.MSELoss()(h, torch.where(known[:, None], omega, h))


PULLS = {"sum": printed_pull, "mean": averaged_pull}


@pytest.mark.parametrize(
    ("engine", "scale"), [("auto", "sum"), ("auto", "mean"), ("vmap", "sum"), ("debug", "sum"), ("debug", "mean")]
)
def test_two_rounds_as_in_a_plain_loop(small, engine, scale):
    """Own networks of three widths, full batches, momentum, with torch autograd alone."""
    pull, problem = 0.7, small(data=SHARDS, model=MIXED, train=replace(TRAIN, engine=engine))
    method = methods.parse(f"{EVERYONE},pull={pull},pull_scale={scale}").build()
    snapshot = begin(problem, method)
    store = problem.world.stream.start(problem.seed)[0]
    kinds = problem.learner.kinds(np.arange(6))
    assert len(set(kinds)) > 1
    own = [problem.learner.initial(int(kind)) for kind in kinds]
    omega, known = torch.zeros(10, 8), torch.zeros(10, dtype=torch.bool)
    for _ in range(2):
        _, snapshot = play_round(SIMULATED, problem, method, snapshot)
        sums, counts = torch.zeros(10, 8), torch.zeros(10)
        for device in range(6):
            net = net_of(problem, kinds[device], own[device])
            x, y = problem.learner.train_samples.take(store.items[device, : store.size[device]])
            optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
            for _ in range(2):
                optimiser.zero_grad()
                h = net[:-1](x)
                (nn.functional.cross_entropy(net[-1](h), y) + pull * PULLS[scale](h, omega[y], known[y])).backward()
                optimiser.step()
            vector = nn.utils.parameters_to_vector(net.parameters()).detach()
            own[device] = nn.functional.pad(vector, (0, problem.learner.n_params - len(vector)))
            with torch.no_grad():
                sums.index_add_(0, y, net[:-1](x))
            counts += torch.bincount(y, minlength=10)
        omega, known = sums / counts[:, None].clamp(min=1), counts > 0
        state = snapshot.method
        torch.testing.assert_close(matrix(state.own, own[0]), torch.stack(own), rtol=2e-4, atol=2e-6)
        torch.testing.assert_close(state.knowledge, omega, rtol=2e-4, atol=2e-6)
        assert state.known.tolist() == known.tolist()


def test_pull_moves_features_alone(mixed):
    """Its gradient is (h - Omega_y) / D at the features, and none at the predictor."""
    net = net_of(mixed, 0, mixed.learner.initial(0))
    x, y = mixed.learner.train_samples.take(np.arange(30))
    omega, known = torch.randn(10, 8), torch.ones(10)
    with_pull = pulled_loss(2.0, omega, known, net, x, y, None)
    without = pulled_loss(0.0, omega, known, net, x, y, None)
    torch.testing.assert_close(without, nn.functional.cross_entropy(net(x), y))
    gradient = torch.autograd.grad(with_pull - without, list(net[-1].parameters()), allow_unused=True)
    assert all(part is None or float(part.abs().max()) < 1e-7 for part in gradient)
    heard = (torch.arange(10) < 4).float()
    away = 0.5 * ((features(net, x) - omega[y]) ** 2).sum(1)
    torch.testing.assert_close(pulled_loss(2.0, omega, heard, net, x, y, None) - without, 2 * away[y < 4].sum() / 30)
    h = features(net, x).detach().requires_grad_()
    identity = nn.Sequential(nn.Identity(), nn.Linear(8, 10))
    loss = pulled_loss(1.0, omega, known, identity, h, y, None) - pulled_loss(0.0, omega, known, identity, h, y, None)
    torch.testing.assert_close(torch.autograd.grad(loss, h)[0], (h - omega[y]).detach() / 30, rtol=1e-4, atol=1e-6)


def test_a_mean_over_features_is_the_sum_with_a_smaller_lambda(mixed):
    """lambda under nn.MSELoss is 2 lambda / p of half a sum over p features, and the default."""
    net = net_of(mixed, 0, mixed.learner.initial(0))
    x, y = mixed.learner.train_samples.take(np.arange(30))
    omega, known = torch.randn(10, 8), torch.ones(10)
    config = methods.parse("knowledge:pull=3").config
    assert config.pull_scale == "mean"
    assert pull_strength(3, "sum", 64) == 3
    assert pull_strength(3, "mean", 64) == 3 * 2 / 64
    found = pulled_loss(pull_strength(config.pull, config.pull_scale, 8), omega, known, net, x, y, None)
    h = features(net, x)
    expected = nn.functional.cross_entropy(net[-1](h), y) + 3 * nn.MSELoss()(h, omega[y])
    torch.testing.assert_close(found, expected)
    parts = [torch.autograd.grad(loss, list(net.parameters()), retain_graph=True) for loss in (found, expected)]
    for left, right in zip(*parts, strict=True):
        torch.testing.assert_close(left, right)


def test_settings_from_before_the_scale_mean_the_sum():
    """A record that lacks it was made with the sum; one that has it says which."""
    config = methods.parse("knowledge:pull=3").config
    assert from_dict(knowledge.Config(), to_dict(config)) == config
    old = {name: value for name, value in to_dict(config).items() if name != "pull_scale"}
    assert from_dict(knowledge.Config(), old) == replace(config, pull_scale="sum")


def test_padding_has_no_weight(mixed):
    net = net_of(mixed, 0, mixed.learner.initial(0))
    x, y = mixed.learner.train_samples.take(np.arange(6))
    omega, known, weight = torch.randn(10, 8), (torch.arange(10) % 2).float(), torch.tensor([0.25] * 4 + [0.0] * 2)
    left = pulled_loss(1.3, omega, known, net, x, y, weight)
    torch.testing.assert_close(left, pulled_loss(1.3, omega, known, net, x[:4], y[:4], None))


def test_without_pull_every_device_trains_alone(mixed):
    """Whom else the server chose makes no difference."""
    alone = run(mixed, "knowledge:scheduler=all,pull=0")[-1][1].method
    method = methods.parse("knowledge:scheduler=random,n_selected=2,pull=0").build()
    snapshot, chosen = begin(mixed, method), np.zeros(6, dtype=int)
    problem = mixed._replace(n_rounds=40)
    models = {}
    while min(chosen) < 4:
        _, snapshot = play_round(SIMULATED, problem, method, snapshot)
        newly = np.flatnonzero((snapshot.method.times == 4) & (chosen == 3))
        chosen = snapshot.method.times.copy()
        for device in newly:
            models[device] = models_of(problem, snapshot.method.own, snapshot.method.origin, np.array([device]))[0]
    found = torch.stack([models[device] for device in range(6)])
    torch.testing.assert_close(found, matrix(alone.own, found[0]), rtol=1e-4, atol=1e-6)


def test_who_was_not_chosen_keeps_every_bit(mixed):
    method = methods.parse("knowledge:scheduler=random,n_selected=2").build()
    _, first = play_round(SIMULATED, mixed, method, begin(mixed, method))
    _, second = play_round(SIMULATED, mixed, method, first)
    device = np.arange(6)
    before, after = (models_of(mixed, s.method.own, s.method.origin, device) for s in (first, second))
    moved = (before != after).any(dim=1).numpy()
    assert moved.tolist() == (second.method.times > first.method.times).tolist()
    assert moved.sum() == 2
    assert second.method.knowledge.shape == (10, 8)


# ---------------------------------------------------------------- class means


def test_class_means_and_a_class_without_samples():
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 5))
    x, y = torch.randn(20, 4), torch.tensor([0, 1, 3, 4] * 5)
    means, count = class_means(net, x, y, 5)
    for label in range(5):
        mine = net[:-1](x[y == label])
        torch.testing.assert_close(means[label], mine.mean(0) if len(mine) else torch.zeros(3))
        assert count[label] == len(mine)
    assert torch.isfinite(means).all()


@given(st.integers(0, 2**32 - 1))
def test_merging_uploads(seed):
    rng = np.random.default_rng(seed)
    n, n_classes, width = int(rng.integers(1, 8)), 6, 4
    means = torch.from_numpy(rng.normal(size=(n, n_classes, width)).astype(np.float32))
    counts = rng.integers(0, 5, (n, n_classes)) * (rng.random((n, n_classes)) < 0.5)
    before, known = torch.full((n_classes, width), 7.0), rng.random(n_classes) < 0.5
    after, heard = merged(means, counts, before, known)
    order = rng.permutation(n)
    torch.testing.assert_close(merged(means[order], counts[order], before, known)[0], after)
    for label in range(n_classes):
        total = counts[:, label].sum()
        assert heard[label] == (known[label] or total > 0)
        if total == 0:
            assert torch.equal(after[label], before[label])
            continue
        plain = sum(int(counts[k, label]) * means[k, label] for k in range(n)) / total
        torch.testing.assert_close(after[label], plain, rtol=1e-4, atol=1e-5)
        assert after[label].norm() <= means[counts[:, label] > 0, label].norm(dim=1).max() * (1 + 1e-5)


def test_a_device_split_in_two_changes_nothing():
    means = torch.randn(2, 3, 4)
    counts = np.array([[6, 0, 2], [1, 5, 0]])
    one = merged(means, counts, torch.zeros(3, 4), np.zeros(3, bool))[0]
    parts = np.array([[4, 0, 1], [2, 0, 1], [1, 5, 0]])
    two = merged(means[[0, 0, 1]], parts, torch.zeros(3, 4), np.zeros(3, bool))[0]
    torch.testing.assert_close(one, two)


def test_everyone_heard_gives_the_mean_over_all_samples(small):
    """Eq. (4.9) with all devices is Eq. (4.5): with one network, the class means of the pooled data."""
    problem = small(data=SHARDS, model=EQUAL, train=TRAIN)
    observation, _ = observe(problem.world, begin(problem, methods.parse(EVERYONE).build()).world, problem.seed, 0)
    device, params = np.arange(6), problem.learner.initial()
    means = means_of(problem, params.expand(6, -1), device, observation)
    zero = torch.zeros(10, 8)
    found, _ = merged(means, held_classes(problem, observation.store), zero, np.zeros(10, bool))
    items = np.concatenate([observation.store.items[k, : observation.store.size[k]] for k in device])
    pooled, _ = class_means(net_of(problem, 0, params), *problem.learner.train_samples.take(items), 10)
    torch.testing.assert_close(found, pooled, rtol=1e-4, atol=1e-6)


def test_initial_knowledge(mixed):
    for name, known, size in (("none", 0, 0), ("zero", 10, 0), ("upload", 10, 1)):
        method = methods.parse(f"{EVERYONE},initial={name}").build()
        snapshot = begin(mixed, method)
        observation, _ = observe(mixed.world, snapshot.world, mixed.seed, 0)
        omega, heard = targets(methods.parse(f"{EVERYONE},initial={name}").config, mixed, snapshot.method, observation)
        assert heard.sum() == known
        assert (float(omega.abs().sum()) > 0) == bool(size)
        assert play_round(SIMULATED, mixed, method, snapshot)[1].method.known.all()
    models = [run(mixed, f"{EVERYONE},initial={name}")[0][1].method.own for name in ("none", "zero", "upload")]
    first = [matrix(one, mixed.learner.initial()) for one in models]
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], first[2])


# ---------------------------------------------------------------- payload, epochs, refusals


def test_payload_is_the_same_for_every_network(mixed, small):
    assert payload_bit(mixed) == 10 * 8 * 32
    assert payload_bit(small(data=SHARDS, model=replace(MIXED, hidden=(12, 64)), train=TRAIN)) == 640 * 32
    row, _ = run(mixed, EVERYONE)[0]
    assert row.uplink_bit == 6 * 10 * 8 * 32


def test_epochs_cost_as_much_as_full_batches(small):
    problem = small(data=SHARDS, model=MIXED, train=TRAIN)
    full = run(problem, f"{EVERYONE},steps=3")
    epochs = run(problem, f"{EVERYONE},epochs=3,batch_size=16")
    assert epochs[0][0].compute_joule == pytest.approx(full[0][0].compute_joule)
    assert epochs[-1][0].metrics["loss"] < full[-1][0].metrics["loss"], "many more steps"


def test_refusals(small):
    with pytest.raises(BadInput, match=r"knowledge\.epochs = 2"):
        begin(small(), methods.parse("knowledge:epochs=2").build())
    with pytest.raises(BadInput, match=r"train\.epochs = 3 and knowledge\.epochs = 2 both say how long devices train"):
        begin(small({"train.epochs": "3"}), methods.parse("knowledge:epochs=2,batch_size=8").build())
    video = {"data.name": "video", "data.partition": "dirichlet"}
    recurrent = small({**video, "model.name": "lstm", "model.layers": "1", "model.width": "8"})
    with pytest.raises(BadInput, match="LSTM has no features"):
        begin(recurrent, methods.parse("knowledge").build())
    for name in ("fedavg", "fedrep", "apfl", "pruning"):
        with pytest.raises(BadInput, match=r"model\.widths gives 3 architectures and the method shares one model"):
            begin(small(data=SHARDS, model=MIXED, train=TRAIN), methods.parse(name).build())


def test_first_model_of_a_device_is_that_of_its_architecture(mixed):
    kinds = mixed.learner.kinds(np.arange(6))
    state = begin(mixed, methods.parse("knowledge").build()).method
    found = models_of(mixed, state.own, state.origin, np.arange(6))
    for device, kind in enumerate(kinds):
        assert torch.equal(found[device], mixed.learner.initial(int(kind)))
    start = Start(found, np.arange(6))
    assert start.points.shape == (6, mixed.learner.n_params)
