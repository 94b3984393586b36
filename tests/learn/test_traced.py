"""Networks that train as a list of kernels against the plain autograd loop, and what falls back to autograd."""

import gc
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from weakref import ref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from users_networks import IMAGE, N_CLASSES, NETWORKS, ROW, SERIES, TOKENS, random_networks, resnet

from fedcell.errors import BadInput
from fedcell.learn import streams
from fedcell.learn.architecture import Architecture
from fedcell.learn.engines import reference
from fedcell.learn.engines.common import Batches, Job, draws
from fedcell.learn.engines.cpu import autograd, native, per_client, slices, traced
from fedcell.learn.engines.cpu.fusion import needed
from fedcell.learn.engines.cpu.steps import RowLayout
from fedcell.learn.engines.dispatch import choose_engine
from fedcell.learn.engines.gpu.cuda_graphs import Replays
from fedcell.learn.optimiser import Adam, Optimiser
from fedcell.learn.samples import Samples
from fedcell.learn.setup import initialise
from fedcell.learn.tasks import LEARNED
from fedcell.learn.work import Work, cross_entropy
from fedcell.types import Store

CPU = torch.device("cpu")
N_SAMPLES, N_ROWS = 60, 4
RULES = {
    "plain": {},
    "prox, mask and momentum": {"prox": 0.4, "mask": True, "momentum": 0.5},
    "shift and decay": {"shift": True, "optimiser": Optimiser(weight_decay=0.1)},
    "clipped": {"optimiser": Optimiser(clip=0.05)},
    "AdamW": {"optimiser": Optimiser(0.1, 0.0, Adam(0.8, 0.9, 0.01)), "lr": 0.001},
}


def samples(shape):
    rng = np.random.default_rng(2)
    x = rng.integers(0, 20, (N_SAMPLES, *shape)) if shape == TOKENS else rng.standard_normal((N_SAMPLES, *shape))
    return Samples(x.astype(np.float32), rng.integers(0, N_CLASSES, N_SAMPLES), CPU)


def work(n_params, **changes):
    rng, noise = np.random.default_rng(3), torch.Generator().manual_seed(1)
    store = Store(np.stack([rng.permutation(N_SAMPLES)[:20] for _ in range(N_ROWS)]), np.full(N_ROWS, 20))
    if changes.get("mask") is True:
        changes["mask"] = torch.rand(N_ROWS, n_params, generator=noise) < 0.5
    if changes.get("shift") is True:
        changes["shift"] = 0.01 * torch.randn(N_ROWS, n_params, generator=noise)
    steps = np.array([1, 3, 2, 3])
    return Work(np.arange(N_ROWS), store, steps, lr=0.05, batch_size=6, round=1)._replace(**changes)


class Bench:
    """A network with everything that its jobs share."""

    def __init__(self, build, shape, buffers="average"):
        self.layout = Architecture.of(initialise(build, 5), buffers)
        self.data, self.replays = samples(shape), Replays()

    def job(self, **changes):
        layout, tail = self.layout, None
        if layout.tail.n:
            tail = layout.tail.of(layout.module).repeat(N_ROWS, 1)
        task = work(layout.n_params, **changes)
        out, of_row = torch.zeros(N_ROWS, layout.n_params), np.zeros(N_ROWS, dtype=np.int64)
        points = layout.flat(layout.module)[None]
        return Job(layout, self.data, points, of_row, task, "shuffle", 4, out, self.replays, tail)

    def found(self, **changes):
        job = self.job(**changes)
        return traced.find(job, RowLayout(job.architecture), Batches(job))

    def trained(self, engine, **changes):
        """Updates, with the running statistics after them."""
        job = self.job(**changes)
        engine(job)
        return job.out if job.tail is None else torch.cat([job.out, job.tail], 1)

    def check(self, **changes):
        fast, slow = self.trained(per_client.train, **changes), self.trained(reference.train, **changes)
        scale = float(slow.abs().max())
        assert scale > 1e-4, "nothing was trained"
        torch.testing.assert_close(fast, slow, rtol=1e-3, atol=scale * 2e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_agrees_with_debug(name):
    bench = Bench(NETWORKS[name][1], NETWORKS[name][0])
    found = bench.found()
    assert isinstance(found, traced.Traced), found
    bench.check()
    bench.check(lr=0.02, round=2)  # another rate, the same kernels
    assert bench.found() is found


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["resnet, group norm", "attention", "tied"])
def test_every_rule_of_a_step(name, rule, monkeypatch):
    monkeypatch.setattr(traced, "WIDE", 50)  # weights that move in the backward pass if the step is plain
    bench = Bench(NETWORKS[name][1], NETWORKS[name][0])
    assert isinstance(bench.found(**RULES[rule]), traced.Traced)
    bench.check(**RULES[rule])


def halved(factor, module, x, y, weight):
    """An objective of somebody's own."""
    return factor * cross_entropy(module, x, y, weight)


def test_weights_move_in_the_backward_pass(monkeypatch):
    monkeypatch.setattr(traced, "WIDE", 50)
    bench = Bench(lambda: nn.Sequential(nn.Linear(12, 9), nn.GELU(), nn.Linear(9, 9), nn.Linear(9, N_CLASSES)), ROW)
    found = bench.found()
    assert found.waiting[0].moved == {0, 2}
    assert not bench.found(momentum=0.5).waiting[0].moved
    bench.check()
    other = {"objective": partial(halved, 0.5)}
    assert bench.found(**other).waiting[0].moved == {0, 2}
    assert not bench.found(**other, momentum=0.5).waiting[0].moved
    bench.check(**other)


def test_gradients_of_parts_are_added_where_they_belong():
    trace = Bench(NETWORKS["parts"][1], ROW).found().trace
    spread = {slices.SELECT, slices.SLICE}
    before, after = ([op.func for op in ops] for ops in (needed(trace), slices.in_parts(needed(trace), trace)))
    assert sum(func in spread for func in after) < sum(func in spread for func in before) / 2
    assert len(after) < len(before)


@pytest.mark.parametrize("changes", [{"batch_size": 0}, {"batch_size": 1}, {"batch_size": 25}])
def test_every_size_of_a_batch(changes):
    bench = Bench(NETWORKS["resnet, group norm"][1], IMAGE)
    assert isinstance(bench.found(**changes), traced.Traced)
    bench.check(**changes)


def test_statistics_that_are_frozen():
    bench = Bench(NETWORKS["resnet, batch norm"][1], IMAGE, "frozen")
    assert isinstance(bench.found(), traced.Traced)
    bench.check()


@pytest.mark.parametrize("task", ["regression", "multi-label"])
def test_other_tasks(task):
    bench = Bench(NETWORKS["pools"][1], IMAGE)
    rng = np.random.default_rng(1)
    targets = rng.standard_normal((N_SAMPLES, 3)) if task == "regression" else rng.integers(0, 2, (N_SAMPLES, 3))
    bench.data.y = torch.from_numpy(targets.astype(np.float32))
    objective = LEARNED[task].objective
    assert isinstance(bench.found(objective=objective), traced.Traced)
    bench.check(objective=objective)


# ---------------------------------------------------------------- random networks


@settings(max_examples=25)
@given(net=random_networks(), seed=st.integers(0, 100))
def test_gradients_of_random_networks(net, seed):
    """One step. Rounding may take a value over the kink of a ReLU or change which is the largest in a window."""
    bench = Bench(lambda: net, IMAGE)
    found = bench.found(steps=np.ones(N_ROWS, dtype=np.int64))
    assert isinstance(found, traced.Traced), found
    one = {"steps": np.ones(N_ROWS, dtype=np.int64), "round": seed}
    fast, slow = bench.trained(per_client.train, **one), bench.trained(reference.train, **one)
    assert ((fast - slow).norm(dim=1) < 0.02 * slow.norm(dim=1)).all()
    assert ((fast - slow).norm(dim=1).median() < 1e-3 * slow.norm(dim=1)).all()


# ---------------------------------------------------------------- random numbers


def dropouts():
    return nn.Sequential(nn.Flatten(), nn.Linear(240, 30), nn.ReLU(), nn.Dropout(0.4), nn.Linear(30, N_CLASSES))


def test_dropout_draws_from_the_stream_of_the_device(monkeypatch):
    bench = Bench(lambda: nn.Sequential(nn.Dropout2d(0.3), *dropouts()), IMAGE)
    assert isinstance(bench.found(), traced.Traced)
    fast = [bench.trained(lambda job, n=n: per_client.train(job, n)) for n in (1, 3)]
    torch.testing.assert_close(*fast, rtol=0, atol=0)
    monkeypatch.setattr(per_client, "find", lambda *_: "no")
    slow = bench.trained(per_client.train)
    torch.testing.assert_close(fast[0], slow, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(bench.trained(per_client.train, round=2), slow)


NOISE = {
    "a list of kernels": lambda x: x,
    "PyTorch, from a stream that cannot be given": lambda x: x[torch.randperm(len(x))],
    "Python": lambda x: x * random.random(),
    "NumPy": lambda x: x * float(np.random.rand()),  # noqa: NPY002
}


class Noisy(nn.Module):
    """Noise on features, and samples that go past a layer by lot: with numbers that no layer of PyTorch's draws."""

    def __init__(self, more):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(12, 20), nn.Linear(20, 20), nn.Linear(20, N_CLASSES)
        self.more = more

    def forward(self, x):
        x = self.a(x)
        if self.training:
            x = x + 0.3 * torch.randn_like(x) + 0.1 * torch.randn(20) * torch.rand_like(x)
            kept = (torch.rand(len(x), 1) < 0.6).float()
            x = self.more(x)
            x = x + kept * torch.relu(self.b(x))
        return self.out(x)


@pytest.mark.parametrize("name", NOISE)
def test_noise_of_ones_own_repeats(name):
    bench = Bench(lambda: Noisy(NOISE[name]), ROW)
    assert isinstance(bench.found(), traced.Traced) is (name == "a list of kernels")
    found = []
    for workers in (1, 3):
        torch.rand(workers), random.random(), np.random.rand()  # somebody else draws  # noqa: NPY002
        before = streams.stand(CPU)
        found.append(bench.trained(lambda job, n=workers: per_client.train(job, n)))
        assert streams.stand(CPU) == before
    torch.testing.assert_close(*found, rtol=0, atol=0)
    bench.check()
    other = bench.trained(per_client.train, round=2)
    assert not torch.allclose(other, found[0], rtol=0.05), "another round draws other numbers"


class OnGpu(Job):
    """What an engine is chosen for."""

    device = torch.device("cuda")


def test_a_gpu_trains_networks_that_draw_one_by_one():
    drawing = [lambda more=more: Noisy(more) for more in NOISE.values()]
    drawing.append(lambda: nn.Sequential(nn.Linear(12, 9), nn.RReLU(), nn.Linear(9, N_CLASSES)))
    for build in drawing:
        job = Bench(build, ROW).job()
        assert draws(job), "found out on a CPU"
        assert choose_engine(OnGpu(*job)) == "sequential"
    job = Bench(NETWORKS["frozen"][1], ROW).job()
    assert not draws(job)
    assert choose_engine(OnGpu(*job)) == "vmap"


# ---------------------------------------------------------------- what falls back


class Own(nn.Module):
    """A dense layer around which something is done that no list of kernels can repeat."""

    def __init__(self, extra):
        super().__init__()
        self.first, self.out, self.extra, self.calls = nn.Linear(12, 12), nn.Linear(12, N_CLASSES), extra, 0
        self.noise = torch.zeros(12)
        self.seen, self.by_name, self.object, self.array = [], {"calls": 0}, SimpleNamespace(calls=0), np.zeros(1)
        self.table, self.by_number = np.zeros((8, 9)), dict.fromkeys(range(48), 0)

    def forward(self, x):
        return self.out(self.extra(self, self.first(x)))


def by_value(own, x):
    return x * 2 if x.sum().item() > 0 else x


def by_array(own, x):
    return x * float(np.sign(x.detach().numpy()[:, 0].sum()) + 2)


def counting(own, x):
    own.calls += 1
    return x * own.calls


def drawing(own, x):
    return x * 2 if random.random() < 0.5 else x


def selecting(own, x):
    return x + x[x > 0].mean()


def keeping(own, x):
    own.noise.add_(x.detach().mean(0))
    return x + own.noise


def sparse(own, x):
    return x + functional.embedding(torch.zeros(len(x), dtype=torch.int64), own.out.weight, sparse=False)


def appending(own, x):
    own.seen.append(None)
    return x * len(own.seen)


def entering(own, x):
    own.by_name["calls"] += 1
    return x * own.by_name["calls"]


def telling(own, x):
    own.object.calls += 1
    return x * own.object.calls


def adding(own, x):
    own.array += 1
    return x * float(own.array[0])


def adding_far_behind(own, x):
    own.table[4, 4] += 1
    return x * float(own.table[4, 4])


def entering_far_behind(own, x):
    own.by_number[40] += 1
    return x * own.by_number[40]


def caching(own, x):
    own.seen.clear()
    own.seen.append(x)
    return x * own.by_name.setdefault(len(x), torch.ones(12))


OTHERS = {
    "a value decides": (by_value, "aten._local_scalar_dense"),
    "an array decides": (by_array, "Tensor.numpy"),
    "it counts": (counting, "'calls'"),
    "it counts in a list": (appending, "'seen'"),
    "it counts in a dictionary": (entering, "'by_name'"),
    "it counts in an object": (telling, "'object'"),
    "it counts in an array": (adding, "'array'"),
    "it counts in the 41st entry of an array": (adding_far_behind, "'table'"),
    "it counts in the 41st entry of a dictionary": (entering_far_behind, "'by_number'"),
    "random numbers of Python": (drawing, "random numbers of Python"),
    "sizes depend on values": (selecting, "depend on the values"),
    "a tensor that is no statistic": (keeping, "no running statistic"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_falls_back_and_tells_why(name):
    extra, why = OTHERS[name]
    found = Bench(lambda: Own(extra), ROW).found()
    assert isinstance(found, str)
    assert why in found


def test_caches_do_not_fall_back():
    """They change with the first forward pass, and are as long after each of the others."""
    bench = Bench(lambda: Own(caching), ROW)
    assert isinstance(bench.found(), traced.Traced)
    bench.check()


def test_a_single_client_is_checked_on_a_batch_of_another_step(monkeypatch):
    job, taken = Bench(NETWORKS["frozen"][1], ROW).job(), []
    taking = Batches.take
    monkeypatch.setattr(Batches, "take", lambda self, index: taken.append(index) or taking(self, index))
    alone = job._replace(work=job.work._replace(device=job.work.device[1:2], steps=job.work.steps[1:2]))
    batches = Batches(alone)
    assert isinstance(traced.find(alone, RowLayout(job.architecture), batches), traced.Traced)
    first, other = taken
    np.testing.assert_array_equal(other, batches.of_row(0, 3)[:6])
    np.testing.assert_array_equal(first, batches.of_row(0, 3)[-6:])


@pytest.mark.parametrize("name", ["a value decides", "an array decides", "sizes depend on values"])
def test_what_falls_back_is_trained_by_autograd(name):
    Bench(lambda: Own(OTHERS[name][0]), ROW).check()


class Deciding(nn.Module):
    """A network on series that falls back."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv1d(5, 8, 3), nn.GroupNorm(2, 8), nn.Linear(240, N_CLASSES)

    def forward(self, x):
        return self.out(by_value(self, self.norm(self.conv(x))).flatten(1))


def test_workers_free_their_layers_at_once(monkeypatch):
    """Their parameters are views into the result, whose memory the next round could not use."""
    layers, quickest = [], autograd.quickest

    def noted(network):
        layers.extend(ref(part) for part in network.modules())
        return quickest(network)

    monkeypatch.setattr(autograd, "quickest", noted)
    bench = Bench(Deciding, SERIES)
    gc.disable()
    try:
        bench.trained(lambda job: per_client.train(job, 1))
        assert [one() for one in layers] == 8 * [None], "four of the trace and four of a worker"
    finally:
        gc.enable()


def test_points_that_need_no_order_of_their_own_are_not_copied():
    for name, shape, moves in (("frozen", ROW, False), ("resnet, group norm", IMAGE, True)):
        job = Bench(NETWORKS[name][1], shape).job()
        before = job.points.clone()
        assert (RowLayout(job.architecture).pack(job.points) is job.points) is not moves
        assert torch.equal(job.points, before)


@pytest.mark.parametrize("build", [lambda: Own(by_value), NETWORKS["frozen"][1], lambda: nn.Linear(12, N_CLASSES)])
def test_no_worker_writes_to_the_points(build):
    job = Bench(build, ROW).job(prox=0.4, momentum=0.5, shift=True)
    before, shift = job.points.clone(), job.work.shift.clone()
    per_client.train(job)
    assert torch.equal(job.points, before)
    assert torch.equal(job.work.shift, shift)


def hooked():
    net = nn.Sequential(nn.Linear(12, 9), nn.Tanh(), nn.Linear(9, N_CLASSES))
    net[1].register_forward_hook(lambda module, given, found: 2 * found)
    return net


def test_hooks_and_objectives_of_ones_own_fall_back():
    bench = Bench(hooked, ROW)
    assert "'1'" in bench.found()
    bench.check()
    plain = Bench(NETWORKS["frozen"][1], ROW)
    assert "objective" in plain.found(objective=lambda module, x, y, weight: module(x).sum())


def pulled(strength, targets, module, x, y, weight):
    scores = module(x)
    return functional.cross_entropy(scores, y) + strength * (scores - targets[y]).square().mean()


def test_objectives_with_tensors_of_every_round():
    bench = Bench(NETWORKS["resnet, group norm"][1], IMAGE)
    for value in (0.0, 1.0, -2.0):
        objective = partial(pulled, 0.3, torch.full((N_CLASSES, N_CLASSES), value))
        assert isinstance(bench.found(objective=objective), traced.Traced)
        bench.check(objective=objective)
    assert len(bench.replays.traces) == 1, "all rounds must share a list"


def picking(own, x):
    return x + own.out.weight[torch.arange(len(x)) % N_CLASSES]


def test_entries_taken_by_their_numbers():
    bench = Bench(lambda: Own(picking), ROW)
    assert isinstance(bench.found(), traced.Traced)
    bench.check()


def test_stores_of_many_sizes_fall_back():
    bench = Bench(NETWORKS["frozen"][1], ROW)
    job = bench.job(batch_size=0)
    store = job.work.store._replace(size=np.array([3, 5, 7, 20]))
    assert "differ in size" in bench.found(batch_size=0, store=store)
    bench.check(batch_size=0, store=store)


# ---------------------------------------------------------------- compiled kernels


def test_without_a_compiler_kernels_are_those_of_pytorch(no_compiler):
    assert native.library(native.IMAGES) is None
    bench = Bench(NETWORKS["resnet, group norm"][1], IMAGE)
    assert isinstance(bench.found(), traced.Traced)
    bench.check()


def test_those_that_need_kernels_at_once_compile_them_once(monkeypatch, tmp_path):
    compiler, log = tmp_path / "compiler", tmp_path / "log"
    compiler.write_text(f"#!/bin/sh\necho made >> {log}\nsleep 0.2\nwhile [ $1 != -o ]; do shift; done\n: > $2\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("FEDCELL_COMPILER", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with ThreadPoolExecutor(3) as pool:
        found = set(pool.map(native._compiled, [native.IMAGES] * 3))
    assert [path.exists() for path in found] == [True]
    assert log.read_text() == "made\n"


def test_a_compiler_that_is_not_found(monkeypatch):
    monkeypatch.setenv("FEDCELL_COMPILER", "g+++")
    with pytest.raises(BadInput, match=r"FEDCELL_COMPILER = 'g\+\+\+' is not found: .* or none, or unset it"):
        native.compiler_path()


def test_a_compiler_that_fails_is_none(monkeypatch, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("FEDCELL_COMPILER", str(broken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    native.library.cache_clear()
    try:
        assert native.library(native.IMAGES) is None
    finally:
        native.library.cache_clear()


def test_a_result_does_not_depend_on_the_workers():
    bench = Bench(lambda: resnet(lambda n: nn.GroupNorm(4, n)), IMAGE)
    alone, three = (bench.trained(lambda job, n=n: per_client.train(job, n)) for n in (1, 3))
    torch.testing.assert_close(alone, three, rtol=0, atol=0)
