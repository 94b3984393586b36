"""Running statistics in every engine, against PyTorch's own batch norm and against the plain loop."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from networks_with_statistics import Centred, small
from torch import nn

from fedcell.errors import BadInput, ContractError
from fedcell.learn.architecture import Architecture
from fedcell.learn.engines.gpu import vmap
from fedcell.learn.learner import Learner
from fedcell.learn.norms import RunningNorm, counting, padded_norms
from fedcell.learn.optimiser import Adam, Optimiser
from fedcell.learn.samples import Samples
from fedcell.learn.settings import TrainConfig
from fedcell.learn.statistics import Carried
from fedcell.learn.steadiness import check_steady
from fedcell.learn.work import Work
from fedcell.types import Start, Store

CPU = torch.device("cpu")
SHAPE = (3, 12, 12)
VARIANTS = {
    "plain": {},
    "momentum and prox": {"momentum": 0.9, "prox": 0.7},
    "equal steps": {"steps": np.full(5, 3)},
    "decay and clip": {"optimiser": Optimiser(weight_decay=0.1, clip=0.5), "momentum": 0.5},
    "adamw": {"optimiser": Optimiser(weight_decay=0.1, adam=Adam(0.9, 0.99, 1e-3)), "lr": 0.01},
    "full batch": {"batch_size": 0},
    "full batch, equal steps": {"batch_size": 0, "steps": np.full(5, 2), "momentum": 0.5},
}


def built(make=small):
    torch.manual_seed(3)
    return make()


def samples():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((60, *SHAPE)).astype(np.float32) * 2 + 0.5
    return Samples(x, rng.integers(0, 7, 60), CPU)


def learner(engine, buffers="average", make=small, **settings):
    data, settings = samples(), TrainConfig(engine=engine, device="cpu", **settings)
    return Learner([Architecture.of(built(make), buffers)], data, data, settings, seed=4)


def work(**changes):
    rng = np.random.default_rng(8)
    least = 1 if changes.get("batch_size") == 0 else 6
    store = Store(np.stack([rng.permutation(60)[:20] for _ in range(5)]), np.array([18, least, 7, 9, 11]))
    return Work(np.arange(5), store, np.array([2, 4, 1, 3, 2]), lr=0.05, batch_size=6, round=3)._replace(**changes)


def trained(one, job, n_points=2):
    """(updates, own rows after) from points and own rows that differ."""
    rng = torch.Generator().manual_seed(0)
    points = one.initial() + 0.02 * torch.randn(n_points, one.n_params, generator=rng)
    rows = one.own_of() + 0.3 * torch.rand(5, one.n_own, generator=rng)
    carried = Carried(one.own_of(), rows)
    start = Start(points, np.array([0, 1, 1, 0, 1]) % n_points)
    delta = one.carrying(carried).train(start, job).delta.clone()
    return delta, carried.rows, rows


def agree(job, engine, buffers="average", make=small):
    found, wanted = (trained(learner(one, buffers, make), job) for one in (engine, "debug"))
    near = (
        5e-4 if job.optimiser.adam else 5e-5
    )  # AdamW divides by the size of a gradient: where it is 0, rounding shows
    for mine, theirs in zip(found, wanted, strict=True):
        scale = float(theirs.abs().max())
        torch.testing.assert_close(mine, theirs, rtol=5e-4, atol=near * scale)
    assert not torch.equal(found[1], found[2]), "no statistics were moved"
    return found


# ---------------------------------------------------------------- one layer


@pytest.mark.parametrize("momentum", [0.1, 0.7])
@pytest.mark.parametrize("shape", [(4, 5), (6, 5, 3), (3, 5, 4, 2), (2, 5, 2, 2, 2)])
def test_the_layer_is_that_of_pytorch(shape, momentum):
    """Outputs, gradients and both statistics, in training and in evaluation, with padding and without."""
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(shape)]
    torch.manual_seed(0)
    theirs = kind(5, momentum=momentum)
    nn.init.normal_(theirs.weight)
    mine = deepcopy(theirs)
    mine.__class__ = RunningNorm
    padded = deepcopy(mine)
    for _ in range(3):
        x = torch.randn(shape) * 3 + 1
        wide = torch.cat([x, torch.full_like(x, 77.0)])
        share = torch.cat([torch.full((len(x),), 1 / len(x)), torch.zeros(len(x))])
        wanted, found = theirs(x), mine(x)
        with counting(padded_norms(padded), share):
            also = padded(wide)[: len(x)]
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
        torch.testing.assert_close(also, wanted)
    for name in ("running_mean", "running_var"):
        assert torch.equal(getattr(mine, name), getattr(theirs, name))
        torch.testing.assert_close(getattr(padded, name), getattr(theirs, name))
    assert torch.equal(mine.eval()(x), theirs.eval()(x))


def test_a_single_value_is_normalised_as_in_evaluation():
    norm = nn.BatchNorm1d(4)
    norm.__class__ = RunningNorm
    norm.running_mean += 1
    x, before = torch.randn(1, 4), norm.running_mean.clone()
    with counting([norm], torch.tensor([1.0, 0.0])):
        padded = norm(torch.cat([x, x + 5]))[:1]
    torch.testing.assert_close(padded, norm(x))
    torch.testing.assert_close(norm(x), norm.eval()(x))
    assert torch.equal(norm.running_mean, before)


# ---------------------------------------------------------------- engines


@pytest.mark.parametrize("buffers", ["average", "local"])
@pytest.mark.parametrize("engine", ["sequential", "vmap"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_agrees_with_debug(variant, engine, buffers):
    """Ragged steps, ragged full batches (one of a single sample), two start points, own rows that differ."""
    agree(work(**VARIANTS[variant]), engine, buffers)


@pytest.mark.parametrize("engine", ["sequential", "vmap"])
def test_layers_of_ones_own(engine):
    def make():
        return nn.Sequential(nn.Flatten(), nn.Linear(432, 6), Centred(6), nn.Tanh(), nn.Linear(6, 7))

    agree(work(), engine, make=make)


def test_clients_beside_each_other_agree_with_debug(monkeypatch):
    monkeypatch.setattr(vmap, "BUSY", 0.0)
    agree(work(steps=np.full(5, 3)), "vmap")
    agree(work(steps=np.full(5, 2), batch_size=0), "vmap")


def test_a_plain_loop():
    """The debug engine itself, against PyTorch's optimiser on a module that nobody has touched."""
    one, job = learner("debug"), work(batch_size=0, steps=np.full(5, 3))
    delta, rows, before = trained(one, job, n_points=1)
    data, n = samples(), one.n_params
    for row in range(5):
        module = built()
        first = one.initial() + 0.02 * torch.randn(1, n, generator=torch.Generator().manual_seed(0))[0]
        nn.utils.vector_to_parameters(first.clone(), module.parameters())
        layers = [part for part in module if hasattr(part, "running_mean")]
        parts = iter(before[row].split([5, 5, 6, 6]))
        for layer in layers:
            layer.running_mean, layer.running_var = next(parts).clone(), next(parts).clone()
        optimiser = torch.optim.SGD(module.parameters(), lr=0.05)
        x, y = data.take(job.store.items[row, : job.store.size[row]])
        if len(x) == 1:
            continue  # PyTorch refuses it
        for _ in range(3):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(x), y).backward()
            optimiser.step()
        moved = nn.utils.parameters_to_vector(module.parameters()).detach() - first
        after = torch.cat([part for layer in layers for part in (layer.running_mean, layer.running_var)])
        torch.testing.assert_close(delta[row], moved, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(rows[row], after, rtol=1e-5, atol=1e-6)


def test_what_devices_keep_is_not_in_their_updates():
    """FedBN: scale and shift train with the rest, move no update, and are the device's own from then on."""
    delta, rows, before = agree(work(), "sequential", "local")
    one = learner("sequential", "local")
    kept = list(one.architectures[0].tail.kept)
    assert len(kept) == 2 * (5 + 6)
    assert one.n_own == 2 * len(kept)
    assert one.n_sent == one.n_params - len(kept)
    assert (delta[:, kept] == 0).all()
    assert (rows[:, : len(kept)] != before[:, : len(kept)]).any(dim=0).all()


def test_frozen_statistics_never_move_and_are_used_in_training():
    one = learner("sequential", "frozen")
    assert one.n_own == 0
    assert one.n_sent == one.n_params
    found, wanted = (
        learner(engine, "frozen").train(Start(one.initial()[None], np.zeros(5, dtype=np.int64)), work()).delta
        for engine in ("vmap", "debug")
    )
    torch.testing.assert_close(found, wanted, rtol=5e-4, atol=1e-6)
    module = one.architectures[0].replica(CPU)
    x = samples().take(np.arange(9))[0]
    torch.testing.assert_close(module(x), module.eval()(x))


def test_training_twice_goes_on_from_what_the_first_left():
    one = learner("sequential")
    start, job = Start(one.initial()[None], np.zeros(5, dtype=np.int64)), work()
    carried = Carried(one.own_of(), one.own_of().expand(5, -1))
    bound = one.carrying(carried)
    bound.train(start, job)
    first = carried.rows.clone()
    bound.train(start, job)
    assert not torch.equal(first, carried.rows)
    with pytest.raises(ContractError, match="5 devices train and 4 were selected"):
        one.carrying(Carried(one.own_of(), one.own_of().expand(4, -1))).train(start, job)


@pytest.mark.parametrize("buffers", ["average", "local"])
def test_a_large_cohort_is_trained_in_blocks(buffers, monkeypatch):
    """Updates that are trained when they are asked for leave the same statistics, asked for once or twice."""
    delta, rows, _ = trained(learner("sequential", buffers), work())
    monkeypatch.setattr("fedcell.learn.deferred.BLOCK_BYTES", 1)
    monkeypatch.setattr("fedcell.learn.deferred.GROUP", 2)
    again, after, _ = trained(learner("sequential", buffers), work())
    assert torch.equal(delta, again)
    assert torch.equal(rows, after)


def test_a_rule_of_ones_own_moves_them():
    def rule(device, module, batches):
        for x, _ in batches:
            module(x)

    one = learner("sequential")
    delta, rows, before = trained(one, work(rule=rule))
    assert (delta == 0).all()
    assert (rows != before).all()
    module = one.architectures[0].replica(CPU)
    assert module.training


# ---------------------------------------------------------------- vectors


def test_a_whole_vector_has_the_statistics_behind_the_parameters():
    one = Architecture.of(built())
    module = one.replica(CPU)
    module(samples().take(np.arange(8))[0])
    vector = one.whole(module)
    assert len(vector) == one.n_params + 2 * (5 + 6)
    other = one.replica(CPU)
    one.load(other, vector)
    wanted, found = module.state_dict(), other.state_dict()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted if "tracked" not in name)
    assert torch.equal(one.with_own(vector[: one.n_params], one.own_of(vector)), vector)


def test_evaluation_uses_running_statistics():
    """In the order of the samples and in any other, in batches of any size."""
    one, module = learner("auto"), built()
    module(samples().take(np.arange(30))[0])
    found = one.evaluate(one.architectures[0].whole(module))
    x, y = samples().take(np.arange(60))
    scores = module.eval()(x).detach()
    assert found["accuracy"] == pytest.approx(float((scores.argmax(1) == y).double().mean()))
    assert found["loss"] == pytest.approx(float(nn.functional.cross_entropy(scores, y)), rel=1e-5)


# ---------------------------------------------------------------- bad input


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(432, 7)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        return self.linear(x.flatten(1))


class Growing(nn.Module):
    """Remembers what it has seen."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(432, 7)
        self.register_buffer("seen", torch.zeros(0))

    def forward(self, x):
        if self.training:
            self.seen = torch.cat([self.seen, x.mean()[None]])
        return self.linear(x.flatten(1))


def test_buffers_that_are_not_float():
    with pytest.raises(BadInput, match=r"model buffer 'calls' is torch.int64, which cannot be averaged: make it"):
        Architecture.of(Counting())


def test_momentum_none():
    with pytest.raises(BadInput, match=r"model layer '1' \(BatchNorm2d\) has momentum=None, .* such as 0.1"):
        Architecture.of(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, momentum=None)))


def test_models_that_change_shape():
    with pytest.raises(BadInput, match=r"the model changes shape when it is called \(seen: \(0,\), then \(2,\)\)"):
        check_steady(Architecture.of(Growing()), samples(), "average")
    check_steady(Architecture.of(built()), samples(), "average")


def test_frozen_buffers_that_move():
    module = nn.Sequential(nn.Flatten(), Centred(432), nn.Linear(432, 7))
    with pytest.raises(BadInput, match=r"model.buffers = 'frozen' but the model moves its buffer '1.mean'"):
        check_steady(Architecture.of(module, "frozen"), samples(), "frozen")
    check_steady(Architecture.of(built(), "frozen"), samples(), "frozen")


def test_norms_of_ones_own_are_trained_one_by_one():
    class Mine(nn.BatchNorm2d):
        pass

    def make():
        return nn.Sequential(nn.Conv2d(3, 4, 3), Mine(4), nn.Flatten(), nn.Linear(400, 7))

    assert not learner("auto", make=make).architectures[0].batchable
    agree(work(), "sequential", make=make)
    with pytest.raises(BadInput, match=r"train.engine = 'vmap' cannot train your own norms"):
        trained(learner("vmap", make=make), work())
