"""Whole runs of networks with batch norm: against a loop in plain PyTorch, in every mode, resumed, over edges."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from networks_with_statistics import MobileNetV2, resnet18
from safetensors.torch import load_file
from small_config import SMALL
from torch import nn

import fedcell
from fedcell import methods, record
from fedcell.cli import main
from fedcell.errors import BadInput
from fedcell.learn.batches import draw_batches
from fedcell.learn.learner import Learner
from fedcell.machine import one_thread
from fedcell.methods import fedavg
from fedcell.methods.parts.personal import owners
from fedcell.scenarios import build_problem
from fedcell.simulate import begin, simulate
from fedcell.types import Store, at_once

OSAFL = ["osafl", "m_fedavg", "m_fedprox", "m_fednova", "m_afa_cd", "m_feddisco"]
ROBUST = ["robust"]  # rules of its own, below
PERSONAL = ["fedrep", "fedkd", "knowledge"]
BUILT = {name: methods.parse(name).build() for name in methods.names()}
REFUSED = [name for name, method in BUILT.items() if method.statistics == "refused"]
OTHERS = ["rawhfl", "top_popular"]  # cells, below; answers without a network
ASYNCHRONOUS = [name for name, method in BUILT.items() if method.collect is not at_once]
SHARING = sorted({*BUILT} - {*OSAFL, *ROBUST, *PERSONAL, *REFUSED, *OTHERS, *ASYNCHRONOUS, "central"})  # new ones, too


def dense():
    """A small network for the digits, 8 by 8 pixels."""
    torch.manual_seed(5)
    first = nn.Conv2d(1, 3, 3, bias=False), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten()
    return nn.Sequential(*first, nn.Linear(108, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 10))


def settings(rounds=3, buffers="average", partition="dirichlet", **changes):
    world = {name[6:]: changes.pop(name) for name in list(changes) if name.startswith("world_")}
    return replace(
        SMALL,
        rounds=rounds,
        world=replace(SMALL.world, **world),
        data=replace(SMALL.data, partition=partition),
        model=replace(SMALL.model, buffers=buffers),
        train=replace(SMALL.train, **{"steps": 3, "lr": 0.05} | changes),
    )


def played(method="fedavg", model=dense, **changes):
    """(problem, rows, snapshots) of a run."""
    problem = build_problem(settings(**changes), model=model())
    rows, snapshots = zip(*simulate(problem, methods.parse(method).build()), strict=True)
    return problem, rows, snapshots


# ---------------------------------------------------------------- an independent loop


def plain_loop(problem, module, rounds, steps, lr, batch_size, keep=()):
    """Local SGD and the average of state_dicts by samples; entries whose names hold one of `keep` stay where they are.

    Returns the global state after the last round, and the state of every device.
    """
    store = problem.world.stream.start(problem.seed)[0]
    share = store.size / store.size.sum()
    shared = deepcopy(module.state_dict())
    mine = [deepcopy(shared) for _ in store.size]
    for round in range(rounds):
        for device, size in enumerate(store.size):
            net = deepcopy(module).train()
            own = {name: value for name, value in mine[device].items() if any(part in name for part in keep)}
            net.load_state_dict({**shared, **own})
            one = Store(store.items[device : device + 1], store.size[device : device + 1])
            index = np.tile(store.items[device, :size], steps)
            if batch_size:
                draws = np.array([steps * batch_size])
                index, _ = draw_batches(one, np.array([device]), draws, "shuffle", problem.seed, round)
            optimiser = torch.optim.SGD(net.parameters(), lr)
            for batch in index[: steps * (batch_size or size)].reshape(steps, -1):
                x, y = problem.learner.train_samples.take(batch)
                optimiser.zero_grad()
                nn.functional.cross_entropy(net(x), y).backward()
                optimiser.step()
            mine[device] = deepcopy(net.state_dict())
        for name in shared:
            if not any(part in name for part in keep) and shared[name].is_floating_point():
                shared[name] = sum(float(p) * state[name] for p, state in zip(share, mine, strict=True))
    return shared, mine


def loaded(problem, whole):
    """The state_dict of a whole vector."""
    module = problem.learner.architectures[0].replica(torch.device("cpu"))
    problem.learner.architectures[0].load(module, whole)
    return module.state_dict()


def close(found, wanted, names=None):
    for name in names or [name for name in wanted if "tracked" not in name]:
        torch.testing.assert_close(
            found[name], wanted[name], rtol=2e-4, atol=2e-5, msg=lambda text, n=name: f"{n} {text}"
        )


@pytest.mark.parametrize("engine", ["auto", "debug", "vmap"])
@pytest.mark.parametrize(("rounds", "batch_size"), [(1, 8), (3, 8), (3, 0)])
def test_average_is_that_of_state_dicts(rounds, batch_size, engine):
    problem, rows, snapshots = played(rounds=rounds, batch_size=batch_size, engine=engine)
    assert {row.outcome for row in rows} == {"DDDDDD"}
    module = dense()
    wanted, _ = plain_loop(problem, module, rounds, 3, 0.05, batch_size)
    close(loaded(problem, snapshots[-1].params), wanted)
    module.load_state_dict(wanted)
    x, y = problem.learner.test_samples.take(np.arange(len(problem.learner.test_samples)))
    scores = module.eval()(x).detach()
    assert rows[-1].metrics["accuracy"] == pytest.approx(float((scores.argmax(1) == y).double().mean()), abs=2 / len(y))
    assert rows[-1].metrics["loss"] == pytest.approx(float(nn.functional.cross_entropy(scores, y)), rel=1e-3)


@pytest.mark.parametrize("engine", ["auto", "debug"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_local_is_fedbn(rounds, engine):
    """Norm layers, statistics and all, never leave; each device is judged with its own on its own test samples."""
    problem, rows, snapshots = played(rounds=rounds, buffers="local", batch_size=8, engine=engine)
    module, norms = dense(), ("1.", "5.")
    wanted, mine = plain_loop(problem, module, rounds, 3, 0.05, 8, keep=norms)
    after = snapshots[-1]
    close(loaded(problem, after.params), wanted)
    layout, kept = problem.learner.architectures[0], after.method.kept
    right, tested = 0, 0
    owner = owners(problem.learner.test_samples.labels, after.method.labels, problem.seed)
    for device, state in enumerate(mine):
        row = kept.pages[0][device]
        close(
            loaded(problem, layout.with_own(after.params[: layout.n_params], row)),
            state,
            [n for n in state if n[:2] in norms and "tracked" not in n],
        )
        module.load_state_dict({**wanted, **{name: value for name, value in state.items() if name[:2] in norms}})
        x, y = problem.learner.test_samples.take(np.flatnonzero(owner == device))
        right, tested = right + int((module.eval()(x).argmax(1) == y).sum()), tested + len(y)
    assert rows[-1].metrics["accuracy"] == pytest.approx(right / tested, abs=2 / tested)


def test_equal_weights_and_server_steps():
    """The tail is a plain mean whatever the server does with the parameters, with the weights of the method."""
    tails = {}
    for method in ("fedavg", "fedavg:server_lr=0.5", "fednova", "fedavg:weights=equal", "scaffold"):
        problem, _, snapshots = played(method, rounds=1, batch_size=0)
        tails[method] = snapshots[-1].params[problem.learner.n_params :]
    assert torch.equal(tails["fedavg"], tails["fedavg:server_lr=0.5"])
    assert torch.equal(tails["fedavg"], tails["fednova"])
    assert torch.equal(tails["fedavg:weights=equal"], tails["scaffold"])
    assert not torch.equal(tails["fedavg"], tails["scaffold"])


@pytest.mark.parametrize("weights", ["samples", "equal"])
def test_fedrep_weighs_the_statistics_as_the_bodies(weights):
    given = []
    method = methods.parse(f"fedrep:weights={weights}").build()
    aggregate = method.aggregate

    def seen(problem, params, state, played):
        given.append((played.updates.tail, fedavg.shares(weights, played.observation, played.heard())))
        return aggregate(problem, params, state, played)

    problem = build_problem(settings(rounds=1), model=dense())
    ((_, after),) = simulate(problem, method._replace(aggregate=seen))
    ((tail, share),) = [one for one in given if one[0] is not None]
    wanted = torch.from_numpy(share.astype(np.float32)) @ tail
    torch.testing.assert_close(after.params[problem.learner.n_params :], wanted)


# ---------------------------------------------------------------- payloads, losses, rounds that do not count


def test_what_is_sent_is_counted():
    sent = {}
    for buffers in ("average", "local", "frozen"):
        problem, rows, _ = played(rounds=1, buffers=buffers)
        sent[buffers] = rows[0].uplink_bit / problem.world.settings.bits_per_parameter / problem.world.n_devices
    n_params, n_norm = sum(part.numel() for part in dense().parameters()), 2 * (3 + 8)
    assert sent == {"average": n_params + n_norm, "local": n_params - n_norm, "frozen": n_params}


def test_codings_leave_the_tail_as_it_is():
    problem, rows, snapshots = played("fedavg+topk:fraction=0.1", rounds=1, batch_size=0)
    _, _, plain = played(rounds=1, batch_size=0)
    n = problem.learner.n_params
    assert torch.equal(snapshots[-1].params[n:], plain[-1].params[n:])
    k, places = round(0.1 * n), (n - 1).bit_length()
    bits = k * (problem.world.settings.bits_per_parameter + places) + 22 * problem.world.settings.bits_per_parameter
    assert rows[0].uplink_bit == 6 * bits


def test_a_round_that_moves_nothing_leaves_the_statistics():
    problem, rows, snapshots = played(
        "cafe:scheme=agu,quorum=6", world_response="exponential", world_deadline_s=0.5, rounds=4
    )
    n, before = problem.learner.n_params, begin(problem, methods.parse("fedavg").build()).params
    for row, snapshot in zip(rows, snapshots, strict=True):
        if row.metrics["success"] == 0.0:
            assert torch.equal(snapshot.params[n:], before[n:])
        before = snapshot.params
    assert any(row.metrics["success"] == 0.0 for row in rows)


def test_an_upload_whose_statistics_are_not_finite_is_turned_away(monkeypatch):
    problem = build_problem(settings(rounds=1), model=dense())
    plain = methods.parse("fedavg").build()

    def broken(problem, state, start, observation, decision):
        updates = plain.local(problem, state, start, observation, decision)
        problem.learner.carried.rows[2] = torch.nan
        return updates

    (row, after), *_ = simulate(problem, plain._replace(local=broken))
    assert row.outcome == "DDXDDD"
    assert after.params.isfinite().all()


@pytest.mark.parametrize("rule", ["median", "trimmed", "krum", "clip", "geometric"])
def test_robust_rules_hold_for_statistics(rule):
    """A device whose statistics are finite and absurd moves them little."""
    problem = build_problem(settings(rounds=1), model=dense())
    plain = methods.parse(f"robust:rule={rule}").build()

    def absurd(problem, state, start, observation, decision):
        updates = plain.local(problem, state, start, observation, decision)
        problem.learner.carried.rows[2] = 1e6
        return updates

    (_, after), *_ = simulate(problem, plain._replace(local=absurd))
    first, n = problem.learner.whole(), problem.learner.n_params
    assert 0 < float((after.params[n:] - first[n:]).norm()) < 100


# ---------------------------------------------------------------- every method, edges, saving


@pytest.mark.parametrize("buffers", ["average", "local"])
@pytest.mark.parametrize(
    "method",
    [*OSAFL, *SHARING, *PERSONAL, "central"],
)
def test_every_method_moves_and_uses_them(method, buffers):
    changes = {"world_access": "own_band"} if method in OSAFL else {}
    if method == "recycling":
        changes = {"world_access": "block", "world_n_blocks": 6}
    problem, rows, snapshots = played(method, rounds=2, buffers=buffers, batch_size=8, **changes)
    assert np.isfinite(rows[-1].metrics["accuracy"])
    n, first = problem.learner.n_params, problem.learner.whole()
    shared = (buffers == "average" and method not in ("fedkd", "knowledge")) or method == "central"
    moved = not torch.equal(snapshots[-1].params[n:], first[n:])
    assert moved == shared
    if not shared:
        assert snapshots[-1].method.kept.seen.any()


@pytest.mark.parametrize("method", ASYNCHRONOUS)
def test_asynchronous_methods_average_them_and_refuse_to_leave_them_on_devices(method):
    problem, rows, snapshots = played(method, rounds=4, batch_size=8)
    assert sum(row.metrics["arrivals"] for row in rows) >= 4
    n, first = problem.learner.n_params, problem.learner.whole()
    assert not torch.equal(snapshots[-1].params[n:], first[n:])
    with pytest.raises(BadInput, match=rf"{method} does not go with model.buffers = 'local': use average or frozen"):
        played(method, buffers="local")


def test_a_buffer_of_all_devices_averages_them_as_fedavg_does():
    left, right = (played(method)[2] for method in ("fedavg", "fedbuff:buffer=100,weights=samples"))
    assert torch.equal(left[-1].params, right[-1].params)


def test_those_that_refuse_or_wait_are_found():
    assert {"pruning", "apfl", "ditto", "moon"} <= {*REFUSED}
    assert {"fedbuff", "fedasync", "semi_async"} <= {*ASYNCHRONOUS}


@pytest.mark.parametrize("method", REFUSED)
def test_methods_that_cut_or_pair_networks_refuse(method):
    problem = build_problem(settings(), model=dense())
    with pytest.raises(BadInput, match=r"the model keeps running statistics .* set model.buffers=frozen"):
        begin(problem, methods.parse(method).build())


@pytest.mark.parametrize("buffers", ["average", "local"])
@pytest.mark.parametrize("method", ["fedavg", "scaffold"])  # all cells in one call, and each with its state
def test_edges(method, buffers):
    """One cell with edge_rounds = 1 is the method without edges, bit for bit; several cells average whole models."""
    alone, one = (played(method, buffers=buffers, world_edge_rounds=n) for n in (0, 1))
    assert torch.equal(alone[2][-1].params, one[2][-1].params)
    assert alone[1][-1].metrics["accuracy"] == one[1][-1].metrics["accuracy"]
    problem, rows, snapshots = played(
        method, buffers=buffers, world_topology="cells", world_n_cells=2, world_edge_rounds=2, rounds=4
    )
    n = problem.learner.n_params
    assert np.isfinite(rows[-1].metrics["accuracy"])
    assert torch.equal(snapshots[-1].params[n:], problem.learner.whole()[n:]) == (buffers == "local")
    assert not torch.equal(snapshots[1].params[:n], snapshots[3].params[:n])


@pytest.mark.parametrize("buffers", ["average", "local"])
def test_a_method_that_decides_for_all_cells(buffers):
    changes = {"world_topology": "cells", "world_n_cells": 2, "world_edge_rounds": 2, "world_access": "block"}
    problem, rows, snapshots = played("rawhfl:z=2", buffers=buffers, rounds=2, world_n_blocks=4, **changes)
    assert sum(row.n_delivered for row in rows) > 0
    n = problem.learner.n_params
    assert torch.equal(snapshots[-1].params[n:], problem.learner.whole()[n:]) == (buffers == "local")


def test_a_model_is_evaluated_once_for_all_cells(monkeypatch):
    asked = []
    scores = Learner.scores
    monkeypatch.setattr(Learner, "scores", lambda self, *given: asked.append(1) or scores(self, *given))
    played(world_topology="cells", world_n_cells=2, world_edge_rounds=1, rounds=2)
    assert len(asked) == 2


class Killed(BaseException):
    pass


def kill(progress):
    if progress.row is not None and progress.done == 2:
        raise Killed


@pytest.mark.parametrize("buffers", ["average", "local"])
def test_a_run_that_was_killed_ends_with_the_same_bytes(buffers, tmp_path):
    config, asked, often = settings(rounds=4, buffers=buffers), [methods.parse("fedavg")], record.Period(0.0)
    record.execute(config, asked, tmp_path / "whole", model=dense(), period=often)
    with pytest.raises(Killed):
        record.execute(config, asked, tmp_path / "cut", model=dense(), watch=kill, period=often)
    record.resume(tmp_path / "cut", model=dense(), period=often)
    for name in ("rounds.jsonl", "checkpoint-000004.safetensors"):
        (one,), (other,) = ([*(tmp_path / folder).rglob(name)] for folder in ("whole", "cut"))
        assert one.read_bytes() == other.read_bytes()


def test_other_tasks_have_statistics_too():
    def model():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(10, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))

    config = settings(rounds=2, partition="iid")
    config = replace(config, data=replace(config.data, name="diabetes", scaling="standard"))
    problem = build_problem(config, model=model())
    rows, snapshots = zip(*simulate(problem, methods.parse("fedavg").build()), strict=True)
    assert np.isfinite(rows[-1].metrics["mae"])
    assert not torch.equal(snapshots[-1].params[-16:], problem.learner.whole()[-16:])
    local = replace(config, model=replace(config.model, buffers="local"))
    with pytest.raises(BadInput, match=r"model.buffers = 'local'.*use average or frozen"):
        begin(build_problem(local, model=model()), methods.parse("fedavg").build())


# ---------------------------------------------------------------- models that are taken home


def accuracy(module, problem, index):
    x, y = problem.learner.test_samples.take(index)
    with torch.no_grad():
        return float((module(x).argmax(1) == y).double().mean())


@pytest.mark.parametrize(("method", "buffers"), [("fedavg", "average"), ("fedavg", "local"), ("fedrep", "average")])
def test_models_are_taken_home_with_their_statistics(method, buffers, tmp_path):
    config = settings(rounds=2, buffers=buffers)
    (found,) = record.execute(config, [methods.parse(method)], tmp_path / "run", model=dense())
    problem, rows, snapshots = played(method, rounds=2, buffers=buffers)
    everything = np.arange(len(problem.learner.test_samples))
    if buffers == "average" and method == "fedavg":
        module = fedcell.load_model(found, model=dense())
        assert accuracy(module, problem, everything) == pytest.approx(rows[-1].metrics["accuracy"])
        path = fedcell.export(found, tmp_path / "model.safetensors", model=dense())
        saved = load_file(path)
        wanted = loaded(problem, snapshots[-1].params)
        assert saved.keys() == wanted.keys()
        assert all(torch.equal(saved[name], wanted[name]) for name in wanted if "tracked" not in name)
        return
    labels = snapshots[-1].method.labels
    owner = owners(problem.learner.test_samples.labels, labels, problem.seed)
    right = 0.0
    for device in range(6):
        module = fedcell.load_model(found, device=device, model=dense())
        mine = np.flatnonzero(owner == device)
        right += accuracy(module, problem, mine) * len(mine)
    assert right / len(everything) == pytest.approx(rows[-1].metrics["accuracy"])


def test_one_sweep_of_a_model_file(tmp_path, monkeypatch):
    """FedAvg and FedBN of the ResNet-18 of the examples, over seeds, from one command."""
    monkeypatch.chdir(tmp_path)
    small = ["rounds=1", "world.n_devices=3", "train.steps=1", "train.batch_size=4", "model.args=width=2"]
    flags = [part for one in [*small, "data.partition=dirichlet", "world.deadline_s=inf"] for part in ("--set", one)]
    file = Path(__file__).parent.parent / "examples" / "resnet18.py"
    command = ["sweep", "fedavg", "--model", f"{file}:resnet18", "--grid", "model.buffers=average", "local", "--seeds"]
    assert main([*command, "1..2", "--quiet", "--workers", "1", "--out", "o", *flags]) == 0
    found = record.read_all("o")
    assert sorted((one.config["model"]["buffers"], one.config["seed"]) for one in found) == [
        ("average", 1),
        ("average", 2),
        ("local", 1),
        ("local", 2),
    ]
    assert all(one.status.state == "finished" and one.columns["n_delivered"].tolist() == [3] for one in found)


# ---------------------------------------------------------------- networks as people write them


@pytest.mark.parametrize("buffers", ["average", "local"])
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_networks_as_they_are(name, buffers, no_compiler):
    """Narrow ones, on the digits: one round as the plain loop has it, and all of it runs.

    With PyTorch's kernels alone: compiled ones round otherwise, and one row in eight of MobileNet has a
    ReLU6 that this turns over.
    """

    def model():
        torch.manual_seed(2)
        if name == "resnet18":
            return resnet18(in_shape=(1, 8, 8), width=2)
        return MobileNetV2(width=0.25, channels=1)

    problem, rows, snapshots = played(model=model, rounds=1, steps=1, batch_size=8, buffers=buffers, lr=0.01)
    module, whole = model(), problem.learner.architectures[0]
    norms = [f"{part}." for part, layer in module.named_modules() if isinstance(layer, nn.BatchNorm2d)]
    with one_thread():  # as engines do: depthwise convolutions round by the number of threads, and norms amplify it
        state, _ = plain_loop(problem, module, 1, 1, 0.01, 8, keep=norms if buffers == "local" else ())
    first = whole.whole(module)
    module.load_state_dict(state)
    wanted, found = whole.whole(module) - first, snapshots[-1].params - first
    for part in (slice(whole.n_params), slice(whole.n_params, None)):
        assert float((found[part] - wanted[part]).norm()) <= 1e-3 * float(wanted[part].norm())
    assert np.isfinite(rows[-1].metrics["loss"])


def test_dropout_goes_with_statistics():
    def model():
        torch.manual_seed(2)
        return MobileNetV2(width=0.25, channels=1, stages=MobileNetV2.STAGES[:2], dropout=0.2)

    _, one, _ = played(model=model, rounds=2, steps=1)
    _, other, _ = played(model=model, rounds=2, steps=1, workers=1)
    assert one == other
