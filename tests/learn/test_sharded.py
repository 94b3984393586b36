"""Rows split over Ray workers against the same rows in one process."""

import os
import signal
import time
from collections import Counter
from functools import partial
from importlib.util import find_spec
from itertools import count
from types import SimpleNamespace
from weakref import WeakKeyDictionary

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from fedcell import machine
from fedcell.errors import BadInput, FedcellError
from fedcell.learn.architecture import Architecture
from fedcell.learn.engines import batched, shard, sharded
from fedcell.learn.engines.common import Job
from fedcell.learn.learner import Learner
from fedcell.learn.norms import BatchNorm
from fedcell.learn.optimiser import Adam, Optimiser
from fedcell.learn.samples import Samples
from fedcell.learn.settings import TrainConfig
from fedcell.learn.statistics import Carried
from fedcell.learn.work import Work
from fedcell.methods import fedavg
from fedcell.options import override
from fedcell.scenarios import build_problem, get
from fedcell.simulate import simulate
from fedcell.types import Start, Store

CPU = torch.device("cpu")
N_SAMPLES, N_ROWS = 80, 150  # more rows than `batched` computes together


def networks():
    torch.manual_seed(3)
    return {
        "dense": nn.Sequential(nn.Flatten(), nn.Linear(36, 12), nn.ReLU(), nn.Linear(12, 5)),
        "convolution": nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5)),
        "norm": nn.Sequential(nn.Conv2d(1, 3, 3), BatchNorm(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5)),
        "running": nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5)),
        "dropout": nn.Sequential(nn.Flatten(), nn.Linear(36, 12), nn.Dropout(0.5), nn.Linear(12, 5)),
    }


def learner(name, shards, **settings):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((N_SAMPLES, 1, 6, 6)).astype(np.float32)
    data = Samples(x, rng.integers(0, 5, N_SAMPLES), CPU)
    config = TrainConfig(device="cpu", shards=shards, **settings)
    return Learner([Architecture.of(networks()[name])], data, data, config, seed=4)


def work(n_rows=N_ROWS, **changes):
    rng = np.random.default_rng(8)
    store = Store(rng.integers(0, N_SAMPLES, (n_rows, 20)), rng.integers(3, 20, n_rows))
    steps = rng.integers(1, 4, n_rows)
    return Work(np.arange(n_rows) * 2, store, steps, lr=0.05, batch_size=4, round=3)._replace(**changes)


def start(of, n_points=1, n_rows=N_ROWS):
    noise = torch.randn(n_points, of.n_params, generator=torch.Generator().manual_seed(0))
    return Start(of.initial() + 0.02 * noise, np.arange(n_rows) % n_points)


def both(name, shards, n_points=1, n_rows=N_ROWS, settings=None, **changes):
    """Updates in one process and from shards."""
    found = []
    for number in (0, shards):
        made = learner(name, number, **(settings or {}))
        found.append(made.train(start(made, n_points, n_rows), work(n_rows, **changes)).delta.clone())
    return found


def test_shards_train_other_tasks(workers):
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal((N_SAMPLES, *shape)).astype(np.float32) for shape in ((1, 6, 6), (5,)))
    data, found = Samples(x, y, CPU), []
    for shards in (0, 2):
        config = TrainConfig(device="cpu", shards=shards)
        made = Learner([Architecture.of(networks()["convolution"])], data, data, config, seed=4, task="regression")
        found.append(made.train(start(made, 1, 6), work(6)).delta.clone())
    assert torch.equal(*found)
    assert found[0].abs().max() > 1e-4


@pytest.fixture(scope="module")
def workers(ray_cluster):
    """A cluster; its CPUs are free again after these tests."""
    yield ray_cluster
    sharded.dismiss()


def test_shards_change_no_bit(workers):
    masks = torch.rand(N_ROWS, learner("dense", 0).n_params, generator=torch.Generator().manual_seed(1)) < 0.7
    cases = [
        ("dense", {}),
        ("dense", {"n_points": N_ROWS}),
        ("dense", {"n_points": 3, "batch_size": 0, "momentum": 0.5}),
        ("dense", {"mask": masks, "prox": 0.3}),
        ("dense", {"shift": masks.float() - 0.5}),
        ("dense", {"optimiser": Optimiser(weight_decay=0.1, clip=0.5, adam=Adam())}),
        ("convolution", {"augment": True, "settings": {"augment": "crop_flip", "crop_padding": 1}}),
        ("dense", {"settings": {"engine": "sequential"}}),
        ("convolution", {}),
        ("norm", {"n_points": 3}),
        ("norm", {"batch_size": 0}),
        ("dropout", {"n_rows": 5}),
        ("convolution", {"n_rows": 1}),
    ]
    for name, changes in cases:
        one, many = both(name, 2, **changes)
        assert one.abs().max() > 1e-4, "nothing was trained"
        assert torch.equal(one, many), (name, list(changes))


def test_workers_tell_what_trained_their_rows(workers):
    found = []
    for shards in (0, 2):
        made = learner("convolution", shards)
        for _ in range(2):
            made.trained_by.clear()
            made.train(start(made, 1, 6), work(6))
            found.append([*made.trained_by])
    assert found[0] == found[1] == found[2] == found[3] != []


def test_workers_train_with_the_precision_of_the_run(workers):
    def if_allowed(module, x, y, weight):
        return functional.cross_entropy(module(x), y) * (1 + (torch.get_float32_matmul_precision() == "high"))

    updates = [both("convolution", 2, n_rows=3, settings={"tf32": on}, objective=if_allowed) for on in (False, True)]
    assert all(torch.equal(*pair) for pair in updates)
    assert not torch.equal(updates[0][0], updates[1][0])


@pytest.mark.parametrize(("gpus", "expected"), [(0.0, 3.0), (1.0, 3.0), (0.5, 1.5)])
def test_workers_get_their_share_of_gpu_memory(gpus, expected, workers, monkeypatch):
    made, kept = learner("convolution", 2, gpu_gib=3), []
    monkeypatch.setattr(sharded, "train", lambda job, *given: kept.append(job))
    made.train(start(made, 1, 3), work(3))
    both("convolution", 0, n_rows=2)  # a cluster must be there
    crew = sharded._Crew.__new__(sharded._Crew)
    crew.gpus, crew.sent, crew.numbers = gpus, WeakKeyDictionary(), count()
    actor = SimpleNamespace(train=SimpleNamespace(remote=lambda *given: given))
    *_, limits = crew._sender(kept[0], "sequential", True)(actor, np.arange(3))
    assert limits == (True, expected * 2**30)


def test_running_statistics_come_back(workers):
    found = []
    for shards in (0, 2):
        made = learner("running", shards)
        carried = Carried(made.own_of(), made.own_of() + torch.arange(9.0)[:, None])
        delta = made.carrying(carried).train(start(made, n_rows=9), work(9)).delta.clone()
        found.append((delta, carried.rows))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
    assert not torch.equal(found[0][1][0], found[0][1][1])


def test_runs_repeat_whatever_the_number_of_shards_and_send_their_data_once(workers, small):
    rows, before = {}, {one for crew in sharded._crews.values() for one in crew.sent}
    for shards in (0, 2):
        problem = small({"train.shards": shards, "world.n_devices": 9})
        rows[shards] = [row for row, _ in simulate(problem, fedavg.build(fedavg.Config()))]
    assert rows[0] == rows[2]
    (crew,) = sharded._crews.values()
    assert set(crew.sent) - before == {problem.learner.train_samples, problem.learner.architectures[0]}


def test_an_error_of_an_engine_arrives(workers):
    def wrong(module, x, y, weight):
        raise BadInput("no such loss")

    made = learner("convolution", 2)
    with pytest.raises(BadInput, match="no such loss"):
        made.train(start(made, 1, 4), work(4, objective=wrong))


def test_a_lost_worker_is_replaced_and_its_rows_are_trained_again(workers, tmp_path, monkeypatch):
    mark = tmp_path / "killed"

    def deadly(module, x, y, weight):
        if not mark.exists() and os.getpid() != here:
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return functional.cross_entropy(module(x), y)

    here = os.getpid()
    one, many = both("convolution", 2, n_rows=20, objective=deadly)
    assert mark.exists()
    assert torch.equal(one, many)

    def always(module, x, y, weight):
        os.kill(os.getpid(), signal.SIGKILL)

    made = learner("convolution", 2)
    monkeypatch.setattr(sharded, "TRIES", 2)
    with pytest.raises(FedcellError, match=r"a worker of train\.shards was lost 2 times in one place"):
        made.train(start(made, 1, 2), work(2, objective=always))


# ---------------------------------------------------------------- several nodes, and GPUs that are made up


def nodes_of(crew):
    import ray

    return ray.get([actor.place.remote() for actor in crew.actors])


def test_workers_are_spread_over_the_nodes(workers):
    both("dense", 2)
    (crew,) = sharded._crews.values()
    assert len({node for node, _ in nodes_of(crew)}) == 2


def test_gpus_of_a_cluster_without_any_are_refused(monkeypatch):
    monkeypatch.setattr(machine, "shares", lambda workers: (1.0, 0.0))
    with pytest.raises(BadInput, match=r"train.shards = 2 on GPUs, but the Ray cluster has none: set train.device=cpu"):
        sharded._Crew(2, "cuda")


def test_a_gpu_gets_one_piece():
    made = learner("dense", 0)
    job = Job(made.architectures[0], None, None, np.zeros(95, int), work(95), "", 0, None, None)
    assert len(sharded.cut(job, "vmap", 3, "cuda")) == 3
    assert sorted(np.concatenate(sharded.cut(job, "batched", 3, "cuda"))) == list(range(95))


def test_tensors_of_work_move_with_it():
    asked = work(3, mask=torch.ones(3, 5).bool(), objective=partial(functional.cross_entropy, torch.ones(2), weight=3))
    found = shard.moved(asked, "meta")
    assert found.mask.device.type == found.objective.args[0].device.type == "meta"
    assert found.objective.keywords == {"weight": 3}
    assert shard.moved(work(3), "meta").objective is None


def test_a_node_that_is_lost_leaves_its_rows_to_the_others(workers):
    """Its worker has no place to start again until the node is back; rounds continue meanwhile, then with it."""
    import ray

    one, _ = both("convolution", 2, n_rows=20)
    (crew,) = sharded._crews.values()
    made = learner("convolution", 2)

    def trained():
        return made.train(start(made, 1, 20), work(20)).delta

    workers.remove_node(workers.list_all_nodes()[1], allow_graceful=False)
    assert torch.equal(trained(), one)
    assert len(crew.starting) == 1, "one worker waits for a place"
    workers.add_node(num_cpus=1, num_gpus=1, object_store_memory=100 << 20, include_dashboard=False)
    deadline = time.monotonic() + 120  # a busy machine is not a bug
    while crew.starting and time.monotonic() < deadline:
        assert torch.equal(trained(), one)
    assert not crew.starting
    assert len({node for node, _ in nodes_of(crew)}) == 2
    while sum(node["Alive"] for node in ray.nodes()) > 2 and time.monotonic() < deadline:
        time.sleep(0.2)  # a cluster takes its time to miss a node, and what comes next counts them


def test_shards_on_parts_of_gpus_train_what_one_process_trains(workers, monkeypatch):
    """Three workers on two GPUs that only Ray believes in: placed by halves, and given rows as GPUs are."""
    monkeypatch.setitem(sharded.DEVICE, "cuda", "cpu")
    monkeypatch.setattr(sharded, "kind_of", lambda job: "cuda")
    masks = torch.rand(12, learner("dense", 0).n_params, generator=torch.Generator().manual_seed(1)) < 0.7
    for changes in ({}, {"n_points": 12, "mask": masks}):
        one, many = both("dense", 3, n_rows=12, settings={"engine": "vmap"}, **changes)
        assert one.abs().max() > 1e-4, "nothing was trained"
        torch.testing.assert_close(one, many, rtol=1e-4, atol=1e-6)
    (crew,) = sharded._crews.values()
    assert (crew.kind, crew.gpus) == ("cuda", 0.5)
    places = nodes_of(crew)
    assert sorted(Counter(node for node, _ in places).values()) == [1, 2]
    assert {gpus for _, gpus in places} == {"0"}, "each node has one"
    sharded.dismiss()


@given(st.integers(2, 700), st.integers(1, 9), st.sampled_from(["batched", "sequential"]), st.integers(1, 3))
def test_pieces_hold_every_row_once_and_never_cut_a_chunk(n_rows, shards, engine, n_steps):
    made = learner("dense", 0)
    steps = np.random.default_rng(n_rows).integers(1, n_steps + 1, n_rows)
    job = Job(made.architectures[0], None, None, np.zeros(n_rows, int), work(n_rows, steps=steps), "", 0, None, None)
    pieces = sharded.cut(job, engine, shards)
    assert sorted(np.concatenate(pieces)) == list(range(n_rows))
    size = batched.rows_per_chunk(made.architectures[0]) if engine == "batched" else 1
    order = list(np.argsort(-steps, kind="stable"))
    whole = {tuple(order[first : first + size]) for first in range(0, n_rows, size)}
    for piece in pieces:
        again = piece[np.argsort(-steps[piece], kind="stable")]  # as the engine of a worker orders them
        assert {tuple(again[first : first + size]) for first in range(0, len(piece), size)} <= whole
    assert len(pieces) == min(sharded.PIECES * shards, -(-n_rows // size))


def test_pieces_stay_small(monkeypatch):
    made = learner("dense", 0)
    monkeypatch.setattr(sharded, "PIECE_BYTES", 4 * made.n_params * 10)
    job = Job(made.architectures[0], None, None, np.zeros(95, int), work(95), "", 0, None, None)
    assert max(map(len, sharded.cut(job, "sequential", 1))) <= 10


def test_samples_of_every_kind_arrive_as_they_were():
    config = override(get("video").config, {"world.n_devices": 3, "rounds": 2})
    for samples in (learner("dense", 0).train_samples, build_problem(config).learner.train_samples):
        arrived = sharded.Packed.of(samples).unpack()
        assert type(arrived) is type(samples)
        index = np.arange(len(samples))[:50]
        for sent, found in zip(samples.take(index), arrived.take(index), strict=True):
            assert torch.equal(sent, found)
        assert arrived.shape == samples.shape
        assert (arrived.inputs is None) == (samples.inputs is None)


def test_what_samples_compute_themselves_is_not_sent():
    samples = learner("dense", 0).train_samples
    assert samples.flat.shape == (N_SAMPLES, 36)
    assert samples.n_labels == 5
    packed = shard.Packed.of(samples)
    assert not {"flat", "n_labels"} & set(packed.values)
    assert sum(packed.values[name].nbytes for name in packed.tensors) == samples.rows.nbytes + samples.y.nbytes
    assert torch.equal(packed.unpack().flat, samples.flat)


def test_what_cannot_be_sharded_is_refused(monkeypatch):
    monkeypatch.setattr(machine, "find_spec", lambda name: None if name == "ray" else find_spec(name))
    with pytest.raises(BadInput, match=r"train.shards = 2 needs Ray: pip install 'fedcell\[ray\]'"):
        learner("dense", 2)
