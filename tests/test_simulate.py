"""The loop: order, fairness between methods, divergence."""

import numpy as np
import pytest
import torch

from fedcell import methods
from fedcell.errors import ContractError, Diverged
from fedcell.simulate import SIMULATED, begin, play_round, simulate
from fedcell.types import Start, Store, Stream

FEDAVG = methods.parse("fedavg").build()


def test_methods_meet_the_same_world(small):
    problem = small({"world.fading": "exponential", "world.availability": "0.7"}, rounds=3)
    seen = {}
    for text in ("fedavg", "fedprox:steps=1", "fedavg:scheduler=random,n_selected=2"):
        method = methods.parse(text).build()
        observations = []

        def spying(problem, state, observation, _decide=method.decide, _seen=observations):
            _seen.append(observation)
            return _decide(problem, state, observation)

        list(simulate(problem, method._replace(decide=spying)))
        seen[text] = observations
    first, *others = seen.values()
    for other in others:
        for left, right in zip(first, other, strict=True):
            assert (left.gain == right.gain).all()
            assert (left.available == right.available).all()


def test_mini_batches_do_not_depend_on_who_else_trains(small):
    problem = small()
    deltas = {}
    for text in ("fedavg", "fedavg:scheduler=random,n_selected=2"):
        method = methods.parse(text).build()

        def keep(*arguments, _local=method.local, _text=text):
            updates = _local(*arguments)
            deltas[_text] = dict(zip(updates.device.tolist(), updates.delta, strict=True))
            return updates

        play_round(SIMULATED, problem, method._replace(local=keep), begin(problem, method))
    everyone, few = deltas.values()
    assert 0 < len(few) < len(everyone)
    for device, delta in few.items():
        torch.testing.assert_close(delta, everyone[device])


def test_all_updates_bad_is_divergence(small):
    def hopeless(*arguments):
        updates = FEDAVG.local(*arguments)
        return updates._replace(rows=updates.delta * float("inf"))

    with pytest.raises(Diverged, match=r"round 0: all 6 local updates"):
        list(simulate(small(), FEDAVG._replace(local=hopeless)))


def test_exploding_loss_is_divergence(small):
    with pytest.raises(Diverged, match="test loss is"):
        list(simulate(small(), methods.parse("fedavg:lr=1e9").build()))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_bad_model_is_divergence(small, bad):
    def aggregate(problem, params, state, *rest):
        return torch.cat([params[:-1], torch.tensor([bad])]), state

    broken = FEDAVG._replace(aggregate=aggregate)
    with pytest.raises(Diverged, match="global model"):
        list(simulate(small(), broken))


def test_contract_names_the_budget(small):
    def greedy(problem, state, observation):
        decision = FEDAVG.decide(problem, state, observation)
        return decision._replace(bandwidth_hz=decision.bandwidth_hz * 3)

    with pytest.raises(ContractError, match=r"bandwidth_hz sums to 3000000 in cell 0 > budget 1000000"):
        list(simulate(small({"world.bandwidth_hz": "1e6"}), FEDAVG._replace(decide=greedy)))


def test_evaluates_when_due_and_last(small):
    rows = [row for row, _ in simulate(small(rounds=5, eval_every=2), FEDAVG)]
    assert ["accuracy" in row.metrics for row in rows] == [False, True, False, True, True]


def test_streaming_store_reaches_training(small):
    """A store that grows and drops its oldest sample, as a data stream would do, needs nothing from the loop."""
    problem = small()
    n, capacity = problem.world.n_devices, 5

    def start(seed):
        return Store(np.zeros((n, capacity), dtype=np.int64), np.zeros(n, dtype=np.int64)), {"next": 0}

    def arrive(seed, round, store, memory):
        index = np.roll(store.items, 1, axis=1)
        index[:, 0] = memory["next"] + np.arange(n)
        return Store(index, np.minimum(store.size + 1, capacity)), {"next": memory["next"] + n}

    streaming = problem._replace(world=problem.world._replace(stream=Stream(start, arrive)), n_rounds=7)
    states = [after for _, after in simulate(streaming, FEDAVG)]
    assert [int(state.world.store.size[0]) for state in states] == [1, 2, 3, 4, 5, 5, 5]
    assert states[-1].world.store.items[1].tolist() == [37, 31, 25, 19, 13]
    assert states[-1].world.memory == {"next": 42}


def test_edge_models_need_nothing_from_the_loop(small):
    """Devices of a cell train from their edge server's model; the edge models meet every second round."""
    problem = small({"world.topology": "cells", "world.n_cells": "3", "world.n_devices": "7"}, rounds=4)

    def broadcast(problem, params, edge, observation, decision):
        return Start(edge, observation.topology.cell[decision.selected])

    def aggregate(problem, params, edge, played):
        observation, updates = played.observation, played.updates
        cell = torch.from_numpy(observation.topology.cell[updates.device])
        edge = torch.stack([edge[c] + updates.delta[cell == c].mean(0) for c in range(3)])
        mean = edge.mean(0)
        return mean, mean.repeat(3, 1) if observation.round % 2 else edge

    hierarchical = FEDAVG._replace(
        init=lambda problem, params: params.repeat(3, 1), broadcast=broadcast, aggregate=aggregate
    )
    edges = [after.method for _, after in simulate(problem, hierarchical)]
    apart = [float((edge - edge.mean(0)).abs().max()) for edge in edges]
    assert apart[0] > 1e-3
    assert apart[1] == pytest.approx(0, abs=1e-7)
    assert apart[2] > 1e-3
