"""Running statistics in a federation: sent and averaged as in a simulation, or kept in the folders of devices."""

import numpy as np
import pytest
import torch
from inside import federation, run_config, share
from safetensors.numpy import load_file
from test_rounds import kept_by
from test_wire import facts, task
from torch import nn

from fedcell import record
from fedcell.data import load
from fedcell.deploy import flower, settings, wire
from fedcell.deploy.client import client_app
from fedcell.deploy.remote import federated_problem
from fedcell.deploy.wire import MessageError
from fedcell.record import checkpoint
from fedcell.resolve import choose
from fedcell.scenarios import build_problem
from fedcell.simulate import begin, simulate


def network(*_):
    torch.manual_seed(4)
    first = nn.Flatten(), nn.Linear(64, 12), nn.BatchNorm1d(12), nn.Tanh()
    return nn.Sequential(*first, nn.Linear(12, 10))


def whole_test(context, round):
    found = load("digits")
    return found.x_test, found.y_test


def play(config, nodes=None, spoil=lambda node, message, reply: reply, **given):
    grid = federation(config, spoil, client_app(share, model=network, **given), nodes)
    flower.run(grid, settings.read(config), model=network())
    return record.read(config["out"])


def last(config):
    asked = settings.read(config)
    first = begin(
        federated_problem(asked.config, model=network()), choose(asked.method, asked.preset, asked.settings).build()
    )
    return checkpoint.newest(record.read(config["out"]).folder, checkpoint.Template.of(first), 10**6, print)


def simulated(config):
    asked = settings.read(config)
    problem = build_problem(asked.config, model=network())
    return problem, list(simulate(problem, choose(asked.method, asked.preset, asked.settings).build()))


def own_nodes(tmp_path):
    return {100 + k: {"partition-id": k, "state-dir": str(tmp_path / f"device{k}")} for k in range(4)}


@pytest.mark.parametrize("method", ["fedavg", "fedavg+topk:fraction=0.5,feedback=false", "scaffold"])
def test_average_is_the_simulated_one(method, tmp_path):
    config = run_config(method, tmp_path / "run", **{"train.steps": "4"})
    found = play(config)
    problem, history = simulated(config)
    after = history[-1][1].params
    assert len(after) == problem.learner.n_params + 24
    torch.testing.assert_close(last(config).params, after, rtol=1e-4, atol=1e-5)
    assert np.allclose(found.columns["accuracy"], [row.metrics["accuracy"] for row, _ in history], atol=0.006)


def test_local_stays_in_the_folders_of_devices(tmp_path):
    """The server gets no statistics, and devices say how good the model is with theirs, a round later."""
    config = run_config("fedavg", tmp_path / "run", **{"train.steps": "4", "model.buffers": "local", "rounds": "4"})
    sent = []

    def look(node, message, reply):
        if message.metadata.message_type == "train":
            sent.extend(name for part in (message, reply) for name in part.content.array_records["arrays"])
        return reply

    found = play(config, own_nodes(tmp_path), look, test=whole_test)
    assert set(sent) == {"start", "update"}
    problem, history = simulated(config)
    after = history[-1][1]
    torch.testing.assert_close(last(config).params, after.params, rtol=1e-4, atol=1e-5)
    for device in range(4):
        kept = load_file(kept_by(tmp_path, device) / "statistics.safetensors")
        wanted = after.method.kept.pages[0][device]
        np.testing.assert_allclose(kept["after"], wanted.numpy(), rtol=1e-4, atol=1e-5)
    layout, before = problem.learner.architectures[0], history[-2][1]
    right = []
    for device in range(4):
        model = layout.with_own(before.params[: layout.n_params], before.method.kept.pages[0][device])
        right.append(problem.learner.evaluate(model)["accuracy"])
    assert found.columns["accuracy"][-1] == pytest.approx(np.mean(right), abs=0.006)


def test_a_loop_of_ones_own_moves_them(tmp_path):
    def loop(network, samples, labels, task):
        network(samples)
        network[1].bias.data += 0.1

    config = run_config("fedavg", tmp_path / "run", rounds="1")
    play(config, train=loop)
    before, after = network().state_dict(), last(config).params
    torch.testing.assert_close(after[64 * 12 : 65 * 12], before["1.bias"] + 0.1)
    assert not torch.equal(after[-24:-12], before["2.running_mean"])


def test_local_needs_a_folder(tmp_path):
    config = run_config("fedavg", tmp_path / "run", **{"model.buffers": "local", "rounds": "1"})
    play(config)
    assert "a norm layer of one's own needs state-dir" in (tmp_path / "run" / flower.NOTICES).read_text()


def test_answers_without_good_statistics_are_turned_away():
    asked = task()._replace(tail=np.ones(4, dtype=np.float32))
    assert np.array_equal(wire.unpack_task(wire.pack_task(asked)).tail, asked.tail)
    update, tail = np.ones(6, dtype=np.float32), np.arange(4, dtype=np.float32)
    content = wire.pack_facts(facts(), update, tail=tail)
    assert np.array_equal(wire.unpack_update(content, asked), update)
    assert np.array_equal(wire.unpack_tail(content, asked), tail)
    assert wire.unpack_tail(wire.pack_facts(facts(), update), task()) is None
    with pytest.raises(MessageError, match="holds no running statistics"):
        wire.unpack_tail(wire.pack_facts(facts(), update), asked)
    with pytest.raises(MessageError, match=r"the tail is float32 \[3\], not float32 \[4\]"):
        wire.unpack_tail(wire.pack_facts(facts(), update, tail=tail[:3]), asked)
    with pytest.raises(MessageError, match="the tail holds 4 numbers that are not finite"):
        wire.unpack_tail(wire.pack_facts(facts(), update, tail=tail * np.nan), asked)


def test_a_network_with_other_statistics_is_refused(tmp_path):
    def other(*_):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.GroupNorm(1, 12), nn.Tanh(), nn.Linear(12, 10))

    config = run_config("fedavg", tmp_path / "run", rounds="1")
    flower.run(federation(config, app=client_app(share, model=other)), settings.read(config), model=network())
    told = (tmp_path / "run" / flower.NOTICES).read_text()
    assert "has 0 running statistics and the server's has 24: give both the same one" in told
