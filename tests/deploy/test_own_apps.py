"""An engineer's own training loop, his own method file, a server without training samples, and stock Flower apps."""

import json

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, Context, MetricRecord, RecordDict
from inside import InsideGrid, federation, play, run_config, share
from stock import client, main, network
from test_rounds import last_state

import fedcell.deploy
from fedcell.cli import main as cli
from fedcell.deploy import Strategy, client_app, flower, server_data, settings
from fedcell.deploy.flat import arrays_of
from fedcell.errors import BadInput, Diverged
from fedcell.record import read

MINE = '''"""Mine: the mean, by half."""
from fedcell.methods.fedavg import Config
from fedcell.methods import fedavg


def build(config):
    plain = fedavg.build(config)

    def aggregate(problem, params, state, played):
        after, state = plain.aggregate(problem, params, state, played)
        return (params + after) / 2, state

    return plain._replace(aggregate=aggregate)
'''


def plain_sgd(network, samples, labels, task):
    """Full batches, whatever the server asks for."""
    assert samples.dtype == torch.float32
    optimiser = torch.optim.SGD(network.parameters(), lr=0.3)
    for _ in range(task.steps):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(network(samples), labels).backward()
        optimiser.step()


# ---------------------------------------------------------------- a loop of one's own


def test_a_training_loop_of_ones_own(tmp_path):
    config = run_config("fedavg", tmp_path / "run", rounds="4")
    found = play(config, federation(config, app=client_app(share, train=plain_sgd)))
    assert found.columns["outcome"] == ["DDDD"] * 4
    other = play(run_config("fedavg", tmp_path / "other", rounds="4"))
    assert found.columns["accuracy"][-1] > 0.4, "it learns"
    assert not np.array_equal(found.columns["loss"], other.columns["loss"]), "by other steps"


def test_masks_are_kept_and_what_a_loop_does_not_have_is_refused(tmp_path):
    config = run_config("pruning:keep=0.5", tmp_path / "pruning")
    assert play(config, federation(config, app=client_app(share, train=plain_sgd))).columns["outcome"] == ["DDDD"] * 3
    config = run_config("scaffold", tmp_path / "scaffold", rounds="1")
    found = play(config, federation(config, app=client_app(share, train=plain_sgd)))
    assert set(found.columns["outcome"][0]) <= {"X", "D"}
    assert "X" in found.columns["outcome"][0]
    log = (tmp_path / "scaffold" / flower.NOTICES).read_text()
    assert "wants a constant gradient, which your own loop does not have" in log


# ---------------------------------------------------------------- a method file, and a server without training samples


def test_a_method_file_deploys_and_goes_on_only_as_it_was(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    config = run_config(str(file), tmp_path / "run")
    found = play(config)
    plain = play(run_config("fedavg", tmp_path / "plain"))
    assert found.status.state == "finished"
    assert found.columns["loss"][0] > plain.columns["loss"][0], "half the step"
    play(config)  # nothing to do
    file.write_text(MINE + "\n")
    with pytest.raises(BadInput, match="began with another method"):
        play(config)


def test_a_server_needs_no_training_samples(tmp_path):
    config = run_config("fedavg", tmp_path / "run")
    whole = flower.deployable(settings.read(config))[0].learner.test_samples
    x, y = whole.take(np.arange(len(whole)))
    flower.run(federation(config), settings.read(config), dataset=server_data(x, y, n_classes=10))
    found = read(config["out"])
    assert np.allclose(found.columns["accuracy"], play(run_config("fedavg", tmp_path / "other")).columns["accuracy"])
    assert last_state(config).round == 3


def test_names_are_found_where_the_guide_says():
    assert fedcell.deploy.server_app is flower.server_app
    with pytest.raises(AttributeError):
        fedcell.deploy.nothing  # noqa: B018 - asking is the test


# ---------------------------------------------------------------- a stock app


def stock(tmp_path, strategy, rounds=4, wrong=(), n_devices=5):
    config = {"strategy": strategy, "rounds": rounds, "n-devices": n_devices, "result": str(tmp_path / "result.json")}
    nodes = {100 + k: {"partition-id": k, "wrong": k in wrong} for k in range(5)}
    grid = InsideGrid(client, nodes, config)
    main(grid, Context(0, 0, {}, RecordDict(), config, 0))
    return grid, json.loads((tmp_path / "result.json").read_text())


@pytest.mark.parametrize(
    "strategy", ["fedavg", "fedprox:mu=0.1", "osafl", "recycling", "cafe:quorum=3", "robust:rule=krum"]
)
def test_a_stock_client_trains_for_a_method(strategy, tmp_path):
    grid, found = stock(tmp_path, strategy)
    assert found["accuracy"][-1] > max(0.3, found["accuracy"][0] + 0.1), "it learns"
    told = grid.sent[0][1].content.config_records["config"]
    assert {"lr", "steps", "batch-size", "proximal-mu", "server-round"} <= set(told)


def test_fedavg_of_equal_stores_is_the_mean_of_what_stock_clients_send(tmp_path):
    """Held against Flower's own FedAvg."""
    from flwr.serverapp.strategy import FedAvg

    nodes = {100 + k: {"partition-id": k} for k in range(5)}
    ends = []
    for strategy in (FedAvg(fraction_evaluate=0.0), Strategy("fedavg", 5, fraction_evaluate=0.0)):
        app_config = {}
        grid = InsideGrid(client, nodes, app_config)
        arrays = ArrayRecord(network().state_dict())
        from flwr.app import ConfigRecord

        found = strategy.start(grid, arrays, num_rounds=2, train_config=ConfigRecord({"steps": 5}))
        ends.append(np.concatenate([array.numpy().reshape(-1) for array in found.arrays.values()]))
    assert np.allclose(*ends, atol=1e-5)


def test_a_stock_client_that_sends_nonsense_is_left_out(tmp_path):
    _, found = stock(tmp_path, "fedavg", wrong=(2,))
    assert [one["refused"] for one in found["told"].values()] == [1] * 4
    assert [one["heard"] for one in found["told"].values()] == [4] * 4
    assert found["accuracy"][-1] > 0.3


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04" + bytes(40)])
def test_bytes_of_a_stock_client_that_are_no_array_end_no_run(data, tmp_path):
    def spoil(node, message, reply):
        if node == 101:
            old = reply.content["arrays"]
            reply.content["arrays"] = ArrayRecord(
                {name: Array(one.dtype, one.shape, one.stype, data) for name, one in old.items()}
            )
        return reply

    found, _ = started(tmp_path, spoil=spoil)
    assert [(one["heard"], one["refused"]) for one in found] == [(4, 1)] * 2


def test_an_update_that_breaks_the_memory_of_a_method_is_refused(tmp_path):
    """Its square is not finite."""

    def spoil(node, message, reply):
        if node == 101:
            state = reply.content["arrays"].to_torch_state_dict()
            reply.content["arrays"] = ArrayRecord({name: value * 0 + 1e30 for name, value in state.items()})
        return reply

    unbound = {f"deploy.{name}": "inf" for name in ("max_norm", "max_rise", "max_stretch")}
    found, strategy = started(tmp_path, "fedopt", spoil, **unbound, **{"deploy.max_against": 1})
    assert [(one["heard"], one["refused"]) for one in found] == [(4, 1)] * 2
    assert torch.isfinite(strategy.before.params).all()


def test_a_round_that_most_stock_clients_break_is_refused_whole(tmp_path, capsys):
    def spoil(node, message, reply):
        state = reply.content["arrays"].to_torch_state_dict()
        reply.content["arrays"] = ArrayRecord({name: value * 0 + 1e30 for name, value in state.items()})
        return reply

    found, strategy = started(tmp_path, "fedopt", spoil, rounds=2)
    assert found == [{"heard": 0, "refused": 0}] * 2
    assert torch.isfinite(strategy.before.params).all()
    assert "round 0 is not accepted" in capsys.readouterr().out
    with pytest.raises(Diverged, match="round 2: every update breaks the model: lower the learning rate"):
        started(tmp_path, "fedopt", spoil, rounds=4, out=tmp_path / "run")
    message = "round 2: every update breaks the model: lower the learning rate"
    assert read(tmp_path / "run").status == ("diverged", 2, 4, message)


def test_new_nodes_take_the_places_of_nodes_that_are_gone(tmp_path, capsys):
    """The last two of five; one of them was left out, and a new id gets it no place, nor anybody else."""

    def round_of(message):
        return message.content.config_records["config"]["server-round"]

    def spoil(node, message, reply):
        if node == 104 and round_of(message) == 2:
            grid.nodes = {100 + k + 100 * (k > 2): {"partition-id": k} for k in range(5)}
        return reply

    grid = InsideGrid(client, {100 + k: {"partition-id": k, "wrong": k == 3} for k in range(5)}, {}, spoil)
    found, strategy = started(tmp_path, grid=grid, rounds=4, **{"deploy.strikes": 1})
    assert {node for node, message in grid.sent if round_of(message) > 2} == {100, 101, 102, 203}
    assert [one["heard"] for one in found] == [4, 4, 4, 4]
    assert strategy.device_of == {100: 0, 101: 1, 102: 2, 103: 3, 203: 4}
    assert "device 4 is node 203 from now on (node 104 is gone)" in capsys.readouterr().out


def started(tmp_path, method="fedavg", spoil=lambda node, message, reply: reply, grid=None, rounds=2, out=None, **own):
    """The metrics of rounds with five nodes, and the strategy."""
    grid = grid or InsideGrid(client, {100 + k: {"partition-id": k} for k in range(5)}, {}, spoil)
    strategy = Strategy(method, 5, settings={"train.steps": 2, **own}, out=out, fraction_evaluate=0.0)
    found = strategy.start(grid, ArrayRecord(network().state_dict()), rounds)
    return [dict(metrics) for metrics in found.train_metrics_clientapp.values()], strategy


def test_whole_numbers_of_a_model_are_rounded():
    template = {"n": np.zeros(3, np.int64), "x": np.zeros(1, np.float32)}
    found = arrays_of(np.array([9.999, -9.999, 2.4, 0.7], np.float32), template)
    assert found["n"].numpy().tolist() == [10, -10, 2]
    assert found["x"].numpy().tolist() == [pytest.approx(0.7)]


def test_a_stock_client_may_not_grow_at_will_and_is_named_in_the_record(tmp_path, capsys):
    def boast(node, message, reply):
        if node == 101 and message.content.config_records["config"]["server-round"] > 1:
            reply.content["metrics"] = MetricRecord({**reply.content.metric_records["metrics"], "num-examples": 10**8})
        return reply

    own = {"train.steps": 5, "deploy.strikes": 2}
    strategy = Strategy("fedavg", 5, out=tmp_path / "run", settings=own, fraction_evaluate=0.0)
    grid = InsideGrid(client, {100 + k: {"partition-id": k} for k in range(5)}, {}, boast)
    strategy.start(grid, ArrayRecord(network().state_dict()), 4)
    assert read(tmp_path / "run").columns["outcome"] == ["DDDDD", "DXDDD", "DXDDD", "D.DDD"]
    lines = [json.loads(line) for line in (tmp_path / "run" / flower.REFUSED).read_text().splitlines()]
    assert [(one["round"], one["device"], one["kind"], one["value"]) for one in lines] == [
        (1, 1, "samples", 1e8),
        (2, 1, "samples", 1e8),
    ]
    assert "device 1 is left out from now on" in (tmp_path / "run" / flower.NOTICES).read_text()


def test_what_a_stock_client_cannot_do_is_refused(tmp_path):
    with pytest.raises(BadInput, match="sends devices a shift, which a stock ClientApp has no idea of"):
        stock(tmp_path, "scaffold")
    with pytest.raises(BadInput, match="codes updates"):
        Strategy("fedavg+topk")
    with pytest.raises(BadInput, match=r"the server of fedbuff steps while devices still train, .* synchronous"):
        Strategy("fedbuff")
    with pytest.raises(BadInput, match=r"unknown key 'deploy.nonsense'"):
        Strategy("fedavg", settings={"deploy.nonsense": 1})


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("fedkd", "fedkd cannot be deployed: "),
        ("oort", "samples that only devices have"),
        ("power_of_choice", "samples that only devices have"),
        ("qfedavg", "samples that only devices have"),
        ("top_popular", "no device train"),
        ("m_feddisco", "a stock ClientApp does not report"),
        ("streaming", "a stock ClientApp does not report"),
    ],
)
def test_what_needs_more_than_models_is_refused_at_once(method, reason):
    with pytest.raises(BadInput, match=reason):
        Strategy(method, 5)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"world.n_devices": 9}, "world.n_devices = 9 in settings and n_devices = 5: give n_devices alone"),
        ({"world.attack": "sign_flip"}, "attackers are simulated"),
        ({"world.outage_threshold_db": 5}, "real channels"),
        ({"world.topology": "cells", "world.n_cells": 2, "world.edge_rounds": 2}, "a strategy keeps one model"),
        ({"deploy.max_loss": 2}, "deploy.max_loss has no effect on a strategy"),
        ({"deploy.known_nodes": "nodes"}, "deploy.known_nodes has no effect on a strategy"),
        ({"fedprox.mu": 0.5}, "method 'fedprox' is not part of this run"),
    ],
)
def test_settings_that_a_strategy_does_not_follow_are_refused(settings, reason):
    with pytest.raises(BadInput, match=reason):
        Strategy("fedavg", 5, settings=settings)


@pytest.mark.parametrize("scenario", ["mnist", "streaming", "tags", "diabetes", "pruning"])
def test_a_strategy_starts_from_presets_that_scale_samples(scenario, tmp_path):
    """It has no samples that it could scale."""
    strategy = Strategy("fedavg", 5, scenario=scenario, out=tmp_path / "run", fraction_evaluate=0.0)
    grid = InsideGrid(client, {100 + k: {"partition-id": k} for k in range(5)}, {})
    strategy.start(grid, ArrayRecord(network().state_dict()), 1)
    assert read(tmp_path / "run").columns["outcome"] == ["DDDDD"]


def test_settings_of_a_strategy_may_be_those_of_its_method():
    assert Strategy("fedprox", 5, settings={"fedprox.mu": 0.5}).choice.config.mu == 0.5


def test_nodes_beyond_those_asked_for_are_left_aside(tmp_path):
    grid, found = stock(tmp_path, "fedavg", n_devices=3)
    assert {node for node, _ in grid.sent} == {100, 101, 102}
    assert [one["heard"] for one in found["told"].values()] == [3] * 4


# ---------------------------------------------------------------- the record of a strategy


def recorded(out, rounds=3, evaluate=lambda round, arrays: MetricRecord({"accuracy": round / 10, "loss": 1.0}), **more):
    strategy = Strategy("cafe:quorum=3", 5, out=out, settings={"train.steps": 5}, **{"fraction_evaluate": 0.0, **more})
    grid = InsideGrid(client, {100 + k: {"partition-id": k, "wrong": k == 2} for k in range(5)}, {})
    return strategy.start(grid, ArrayRecord(network().state_dict()), rounds, evaluate_fn=evaluate)


def test_a_strategy_leaves_a_record_that_all_readers_know(tmp_path, capsys):
    recorded(tmp_path / "run")
    found = read(tmp_path / "run")
    assert found.status == ("finished", 3, 3, "")
    assert found.columns["outcome"] == ["DDXDD"] * 3
    assert found.columns["accuracy"].tolist() == [0.1, 0.2, 0.3], "of the round that was evaluated, not the one before"
    assert found.columns["n_refused"].tolist() == [1] * 3
    n_params = sum(value.numel() for value in network().state_dict().values())
    assert (found.columns["uplink_bit"] > 5 * 32 * n_params).all()
    assert (found.columns["uplink_message_bit"] > found.columns["uplink_bit"]).all()
    assert np.allclose(np.cumsum(found.columns["round_s"]), found.columns["clock_s"])
    capsys.readouterr()
    for words in (["show"], ["compare"], ["check"], ["report", "--out", str(tmp_path / "page.html")]):
        assert cli([words[0], str(tmp_path / "run"), *words[1:]]) == 0
    assert "cafe" in capsys.readouterr().out
    with pytest.raises(BadInput, match="is not empty: a strategy begins anew every time, so name another folder"):
        recorded(tmp_path / "run")


def test_a_strategy_that_fails_leaves_the_rounds_that_were(tmp_path):
    def evaluate(round, arrays):
        if round == 2:
            raise ValueError("no disk")
        return MetricRecord({"accuracy": 0.5})

    with pytest.raises(ValueError, match="no disk"):
        recorded(tmp_path / "run", evaluate=evaluate)
    found = read(tmp_path / "run")
    assert found.status == ("failed", 2, 3, "ValueError: no disk")
    assert np.isnan(found.columns["accuracy"][1])
