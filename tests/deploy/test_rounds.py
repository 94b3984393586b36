"""Methods on devices behind a Flower grid: the numbers of the simulation, and nothing that devices do ends a run."""

import time

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message
from inside import federation, notices, play, run_config, share
from safetensors.numpy import load_file
from test_client import context
from test_wire import task

from fedcell import methods, record, report
from fedcell.cli import main
from fedcell.deploy import flower, settings, wire
from fedcell.deploy.client import CacheSettings, client_app
from fedcell.deploy.exchange import Exchange
from fedcell.deploy.remote import federated_problem
from fedcell.deploy.roster import Roster
from fedcell.deploy.settings import FederationConfig
from fedcell.deploy.wire import Facts
from fedcell.errors import BadInput, FedcellError
from fedcell.learn.samples import Samples
from fedcell.record import checkpoint, prepare
from fedcell.resolve import choose
from fedcell.scenarios import build_problem
from fedcell.simulate import begin, simulate
from fedcell.types import Outcome
from fedcell.world import StreamingCache

REFUSED = {  # what a federation cannot have, and why
    "apfl": "networks other than",
    "central": "no device train",
    "ditto": "more than once",
    "moon": "networks other than",
    "oort": "samples that only devices have",
    "power_of_choice": "samples that only devices have",
    "qfedavg": "samples that only devices have",
    "fedrep": "more than once",
    "fedkd": "samples that only devices have",
    "fedasync": "rounds of a federation are synchronous",
    "fedbuff": "rounds of a federation are synchronous",
    "semi_async": "rounds of a federation are synchronous",
    "knowledge:initial=upload": "samples that only devices have",
    "representativity": "outside of local",
    "top_popular": "no device train",
    "osafl:diagnose=true": "outside of local",
    "recycling:scheduler=gradient": "outside of local",
}
SETTINGS = (
    "representativity:start=round",
    "pruning:keep=0.5",
    "cafe:scheme=agu,quorum=3",
    "fedavg:scheduler=random,n_selected=2",
    "osafl:score=kkt",
    "fedavg+topk:fraction=0.1",
    "fedprox+stc:fraction=0.1,feedback=false",
    "fedavg+qsgd:levels=16",
    "scaffold+topk:fraction=0.3",
    "m_fedavg+topk:fraction=1",
    "fedavg+randk:fraction=0.1",
    "fedavg+powersgd:rank=1",
    "fedavg:scheduler=latency,n_selected=2",
)
DEPLOYED = (*(name for name in methods.names() if name not in (*REFUSED, "knowledge")), *SETTINGS)
TOLERANCE = 2e-5  # one row and several are multiplied in different orders


def simulated(config):
    asked = settings.read(config)
    problem = build_problem(asked.config)
    return problem, list(simulate(problem, choose(asked.method, asked.preset, asked.settings).build()))


def last_state(config):
    """The snapshot that a deployed run ended with."""
    asked = settings.read(config)
    problem = federated_problem(asked.config)
    first = begin(problem, choose(asked.method, asked.preset, asked.settings).build())
    return checkpoint.newest(record.read(config["out"]).folder, checkpoint.Template.of(first), 10**6, print)


def own_nodes(tmp_path):
    """Four devices, each with a folder of its own."""
    return {100 + k: {"partition-id": k, "state-dir": str(tmp_path / f"device{k}")} for k in range(4)}


def kept_by(tmp_path, device):
    """The folder of the run in that of such a device, if there has been one run."""
    (folder,) = (path for path in (tmp_path / f"device{device}").iterdir() if path.is_dir())
    return folder


def is_train(message):
    return message.metadata.message_type == "train"


def round_of(message):
    return int(message.metadata.group_id)


# ---------------------------------------------------------------- the same method


@pytest.mark.parametrize("method", DEPLOYED)
def test_a_deployed_method_is_the_simulated_one(method, tmp_path):
    """Bit-identical mini-batches; the pages, ages and queues of its state are those of the simulation, too."""
    config = run_config(method, tmp_path / "run")
    found = play(config, federation(config, nodes=own_nodes(tmp_path)))
    _, history = simulated(config)
    assert found.status.state == "finished"
    assert found.columns["outcome"] == [row.outcome for row, _ in history]
    expected = [row.metrics["accuracy"] for row, _ in history]
    assert np.allclose(found.columns["accuracy"], expected, atol=0.006)  # two of 355 test samples
    assert np.allclose(last_state(config).params.numpy(), history[-1][1].params.numpy(), atol=TOLERANCE)


@pytest.mark.parametrize("method", ["fedavg", "osafl", "rawhfl", "h_fedavg:mode=ub", "fedavg+topk:fraction=0.1"])
def test_the_server_keeps_the_edge_models_of_cells(method, tmp_path):
    cells = {"world.topology": "cells", "world.n_cells": "2", "world.edge_rounds": "2"}
    config = run_config(method, tmp_path / "run", **cells)
    found = play(config, federation(config, nodes=own_nodes(tmp_path)))
    _, history = simulated(config)
    assert found.columns["outcome"] == [row.outcome for row, _ in history]
    ended, expected = last_state(config), history[-1][1]
    assert np.allclose(ended.params.numpy(), expected.params.numpy(), atol=TOLERANCE)
    one, other = (model.numpy() for model in ended.method.models)
    assert not np.allclose(one, other, atol=1e-3)  # averaged after the second of three rounds
    assert np.allclose(one, expected.method.models[0].numpy(), atol=TOLERANCE)
    assert np.allclose(other, expected.method.models[1].numpy(), atol=TOLERANCE)


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_options_of_local_training_reach_devices(optimiser, tmp_path):
    options = {"train.weight_decay": "0.1", "train.clip": "0.5", "train.schedule": "cosine", "train.epochs": "2"}
    more = {"train.augment": "crop_flip", "train.crop_padding": "1", "train.lr": "0.05", "train.optimiser": optimiser}
    config = run_config("fedavg", tmp_path / "run", **options, **more)
    found = play(config, federation(config, nodes=own_nodes(tmp_path)))
    _, history = simulated(config)
    assert found.status.state == "finished"
    assert np.allclose(last_state(config).params.numpy(), history[-1][1].params.numpy(), atol=TOLERANCE)
    plain = simulated(run_config("fedavg", tmp_path / "plain", **{"train.lr": "0.05"}))[1]
    assert not np.allclose(plain[-1][1].params.numpy(), history[-1][1].params.numpy(), atol=1e-2)


@pytest.mark.parametrize("method", REFUSED)
def test_what_needs_the_data_of_devices_is_refused_before_anything_is_written(method, tmp_path):
    config = run_config(method, tmp_path / "run")
    with pytest.raises(BadInput, match=f"^{method} cannot be deployed: .*{REFUSED[method]}"):
        play(config)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"world.attack": "sign_flip"}, "attackers are simulated"), ({"world.outage_threshold_db": "5"}, "real channels")],
)
def test_what_only_a_simulation_can_have_is_refused(changes, reason, tmp_path):
    with pytest.raises(BadInput, match=reason):
        play(run_config(out=tmp_path / "run", **changes))


def test_a_folder_and_a_method_that_devices_know_are_needed(tmp_path):
    with pytest.raises(BadInput, match="out names no folder"):
        play(run_config())
    with pytest.raises(BadInput, match="does not exist"):
        play(run_config("./mine.py", tmp_path / "run"))


def test_a_folder_that_exists_may_be_empty_and_what_is_in_it_stays(tmp_path):
    (tmp_path / "run").mkdir()
    config = run_config(out=tmp_path / "run", rounds="1")
    assert play(config).status.state == "finished"
    assert notices(config).startswith("settings: ")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter").touch()
    with pytest.raises(BadInput, match="is not empty"):
        play(run_config(out=tmp_path / "other"))
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["letter"]
    before = notices(config)
    with pytest.raises(BadInput, match="began with another method"):
        play(run_config("fedprox", tmp_path / "run", rounds="1"))
    assert notices(config) == before


def test_rows_hold_what_was_measured(tmp_path):
    config = run_config(out=tmp_path / "run")
    found = play(config)
    n_params = last_state(config).params.numel()
    header = 128  # of a NumPy array
    assert found.columns["uplink_bit"].tolist() == [4 * 8 * (4 * n_params + header)] * 3
    assert (found.columns["downlink_bit"] == found.columns["uplink_bit"]).all()
    assert (found.columns["n_connected"] == 4).all()
    assert (found.columns["compute_s"] > 0).all()
    assert (found.columns["transfer_s"] >= 0).all()
    assert (found.columns["compute_s"] + found.columns["transfer_s"] <= found.columns["round_s"] + 1e-9).all()
    assert np.allclose(np.cumsum(found.columns["round_s"]), found.columns["clock_s"])
    assert found.columns["compute_joule"].sum() == found.columns["radio_joule"].sum() == 0


def test_time_is_measured_and_energy_is_not(tmp_path, capsys):
    play(run_config(out=tmp_path / "real" / "run"))
    capsys.readouterr()
    for folder, n_dashes in ((tmp_path / "real" / "run", 2), (tmp_path / "real", 1)):  # in full, and as a list
        assert main(["show", str(folder)]) == 0
        table, _, words = capsys.readouterr().out.partition("\n\n")
        assert "time: measured." in words
        assert table.splitlines()[2].split().count("-") == n_dashes, "compute and radio, or energy"
    assert main(["compare", str(tmp_path / "real"), "--figure", str(tmp_path / "f.svg")]) == 0
    assert "real devices, so time is measured and energy is not known: fedavg" in capsys.readouterr().out
    drawn = (tmp_path / "f.svg").read_text()
    assert "measured time" in drawn
    assert "simulated time" not in drawn
    assert "at no cost" not in drawn
    found = report.compare(tmp_path / "real").groups[0].measures
    assert np.isnan(found["energy_joule"].values).all()
    assert (found["simulated_s"].values > 0).all()


def test_a_pruned_model_sends_less(tmp_path):
    part, whole = (play(run_config(f"pruning:keep={keep}", tmp_path / str(keep))) for keep in (0.5, 1))
    assert part.columns["uplink_bit"].sum() < 0.6 * whole.columns["uplink_bit"].sum()
    assert part.columns["downlink_bit"].sum() < 0.65 * whole.columns["downlink_bit"].sum()


# ---------------------------------------------------------------- devices that misbehave


def spoiled(reply, kind):
    """The answer of a device that has gone wrong."""
    values = reply.content.array_records["arrays"]["update"].numpy().copy()
    facts = reply.content.config_records["facts"]
    if kind == "nan":
        values[3] = np.nan
    elif kind == "shape":
        values = values[:-1]
    elif kind == "type":
        values = values.astype(np.float64)
    elif kind == "device":
        reply.content["facts"] = ConfigRecord({**facts, "device": 0})
    elif kind == "round":
        reply.content["facts"] = ConfigRecord({**facts, "round": 77})
    elif kind == "counts":
        reply.content["facts"] = ConfigRecord({**facts, "counts": [2**33] * len(facts["counts"])})
    elif kind == "facts":
        del reply.content["facts"]
    reply.content["arrays"] = ArrayRecord({"update": Array(values)})
    return reply


@pytest.mark.parametrize("kind", ["nan", "shape", "type", "device", "round", "facts", "counts"])
def test_a_bad_update_is_turned_away_and_told(kind, tmp_path):
    def spoil(node, message, reply):
        return spoiled(reply, kind) if is_train(message) and node == 101 and round_of(message) == 1 else reply

    config = run_config("m_fedavg", tmp_path / "run")
    found = play(config, federation(config, spoil))
    assert found.columns["outcome"] == ["DDDD", "DXDD", "DDDD"]
    assert "round 1: device 1 was turned away" in notices(config)
    assert np.isfinite(last_state(config).params.numpy()).all()


def test_everybody_bad_is_a_round_without_anybody(tmp_path):
    def spoil(node, message, reply):
        return spoiled(reply, "nan") if is_train(message) and round_of(message) == 1 else reply

    config = run_config(out=tmp_path / "run")
    found = play(config, federation(config, spoil))
    assert found.columns["outcome"] == ["DDDD", "XXXX", "DDDD"]
    assert found.columns["accuracy"][1] == found.columns["accuracy"][0]


def test_a_device_that_raises_and_one_that_is_gone(tmp_path):
    def spoil(node, message, reply):
        if is_train(message) and round_of(message) == 0 and node == 102:
            return Message(Error(2, "out of memory"), reply_to=message)
        if is_train(message) and round_of(message) == 0 and node == 103:
            return Message(Error(5, "node is gone"), reply_to=message)
        return reply

    config = run_config(out=tmp_path / "run")
    found = play(config, federation(config, spoil))
    assert found.columns["outcome"] == ["DDXO", "DDDD", "DDDD"]
    assert "out of memory" in notices(config)


def test_a_late_device_is_told_and_comes_back(tmp_path):
    """Late in round 0; still busy when round 1 begins, so nobody sends it work; heard again afterwards."""

    def next_round():
        return any(round_of(message) == 1 for _, message in grid.sent if is_train(message))

    def spoil(node, message, reply):
        return (reply, next_round) if is_train(message) and round_of(message) == 0 and node == 103 else reply

    config = run_config(out=tmp_path / "run", **{"world.deadline_s": "0.4", "rounds": "4"})
    grid = federation(config, spoil)
    found = play(config, grid)
    assert found.columns["outcome"][:2] == ["DDDT", "DDD."]
    assert found.columns["outcome"][2:] == ["DDDD", "DDDD"]
    assert "round 0: device 3 was not heard" in notices(config)
    assert "round 0: device 3 answered late" in notices(config)
    asked = [(round_of(message), node) for node, message in grid.sent if is_train(message)]
    assert (1, 103) not in asked


def test_a_device_that_never_answers_holds_nobody_up(tmp_path):
    def spoil(node, message, reply):
        return None if is_train(message) and node == 101 else reply

    config = run_config("recycling", tmp_path / "run", **{"world.deadline_s": "0.5"})
    found = play(config, federation(config, spoil))
    assert found.columns["outcome"][0] == "DTDD"
    assert set(found.columns["outcome"][1:]) == {"D.DD"}, "busy: it has the work of round 0"
    assert last_state(config).method.staleness.tolist() == [0, 3, 0, 0]


def test_a_device_that_says_it_holds_far_too_much_is_refused_alone(tmp_path):
    def boast(node, message, reply):
        facts = reply.content.config_records["facts"]
        if node == 102 and not is_train(message):
            reply.content["facts"] = ConfigRecord({**facts, "counts": [2**33] * len(facts["counts"])})
        return reply

    config = run_config(out=tmp_path / "run") | {"min-devices": 3}
    assert play(config, federation(config, boast)).columns["outcome"] == ["DD.D"] * 3
    assert "node 102 is refused: the answer counts 8.59e+10 samples" in notices(config)


class Refusing:
    """A grid that takes no tasks: None for each, or an empty list for a payload that is too large."""

    def __init__(self, grid, take):
        self.grid, self.take = grid, take

    def __getattr__(self, name):
        return getattr(self.grid, name)

    def push_messages(self, messages):
        return self.take(self.grid, list(messages))


def plain_exchange(take, told, clock=time.monotonic, **settings):
    """An exchange with one node, device 2, whose app answers everything at once."""

    def app(message, context):
        facts = Facts(2, 7, np.array([1, 0, 4]), 0.0, "")
        update = wire.unpack_task(message.content).start if is_train(message) else None
        return Message(wire.pack_facts(facts, update), reply_to=message)

    grid = Refusing(federation({}, app=app, nodes={102: {}}), take)
    bounds = FederationConfig(**{"poll_s": 0.001, **settings})
    return Exchange(grid, Roster(4, 3, told.append), bounds, told.append, clock)


def test_a_task_that_flower_does_not_take_is_an_outage_at_once():
    def take(grid, messages):
        return [None] if any(map(is_train, messages)) else grid.push_messages(messages)

    told = []
    exchange = plain_exchange(take, told)
    exchange.gather(7, 1, 5.0)
    begun_s = time.monotonic()
    (found,) = exchange.ask([task()], 30.0, None)
    assert time.monotonic() - begun_s < 10
    assert (found.outcome, found.update, found.down_bit) == (Outcome.OUTAGE, None, 0.0)
    assert told[-1] == "round 7: Flower took no message for node 102: it is asked again"
    assert exchange.roster.refresh([102]) == [102], "asked again who it is"


def test_a_model_over_the_payload_limit_of_flower_ends_the_run(tmp_path):
    def take(grid, messages):
        return [] if any(map(is_train, messages)) else grid.push_messages(messages)

    config = run_config(out=tmp_path / "run")
    with pytest.raises(
        FedcellError, match=r"round 0: Flower took none of 4 messages, the largest of 6\.8\d?e\+03 bytes: raise"
    ):
        play(config, Refusing(federation(config), take))
    assert record.read(tmp_path / "run").status.state == "failed"


def test_a_question_that_flower_does_not_take_is_asked_again_and_reported_once_per_round():
    tries, told = [], []

    def take(grid, messages):
        tries.append(messages)
        return [None] if len(tries) in (1, 2, 3, 4, 6) else grid.push_messages(messages)

    exchange = plain_exchange(take, told)
    for round, n_tries in ((7, 5), (8, 7)):
        exchange.gather(round, 1, 5.0)
        assert len(tries) == n_tries
        exchange.roster.forget(102)
        exchange.roster.members.clear()
    said = [text for text in told if "took no message" in text]
    assert said == [f"round {round}: Flower took no message for node 102: it is asked again" for round in (7, 8)]


def test_nobody_sleeps_after_the_last_answer(monkeypatch):
    exchange = plain_exchange(lambda grid, messages: grid.push_messages(messages), [])
    exchange.gather(7, 1, 5.0)
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    assert exchange.ask([task()], 30.0, None)[0].outcome == Outcome.DELIVERED
    assert not slept


def test_a_late_answer_to_another_task_of_the_round_is_no_update():
    """The answer to the first task comes when the second one has been sent, and before the answer to that."""
    told, looks = [], iter([False, True])

    def app(message, context):
        facts = Facts(2, 7, np.array([1, 0, 4]), 0.0, "")
        update = wire.unpack_task(message.content).start if is_train(message) else None
        return Message(wire.pack_facts(facts, update), reply_to=message)

    def spoil(node, message, reply):
        n_tasks = sum(is_train(one) for _, one in grid.sent)
        if n_tasks == 1:
            return reply, lambda: sum(is_train(one) for _, one in grid.sent) > 1
        return (reply, lambda: next(looks)) if n_tasks == 2 else reply

    grid = federation({}, spoil, app, {102: {}})
    exchange = Exchange(grid, Roster(4, 3, told.append), FederationConfig(poll_s=0.001), told.append)
    exchange.gather(7, 1, 5.0)
    first, second = task(start=np.full(6, 1, np.float32)), task(start=np.full(6, 2, np.float32))
    assert exchange.ask([first], 0.01, None)[0].outcome == Outcome.LATE
    (answer,) = exchange.ask([second], 5.0, None)
    assert answer.outcome == Outcome.DELIVERED
    assert answer.update.tolist() == [2] * 6
    assert "device 2 answered late" in told[-1]


# ---------------------------------------------------------------- waiting


def never(node, message, reply):
    """Devices 2 and 3 do not answer."""
    return None if is_train(message) and node in (102, 103) else reply


def cafe(out, **changes):
    own = {"world.response": "exponential", "world.deadline_s": "30", "rounds": "2"} | changes
    return run_config("cafe:quorum=2", out, **own)


def test_the_quorum_of_cafe_is_enough(tmp_path):
    config = cafe(tmp_path / "run")
    found = play(config, federation(config, never))
    assert found.columns["outcome"] == ["DDTT", "DD.."]
    assert (found.columns["round_s"] < 30).all(), "nobody waits for the deadline"
    assert found.columns["success"].tolist() == [1, 1]
    assert found.columns["responders"].tolist() == [2, 2]
    age = last_state(config).method.age_rounds
    assert (age[:2] == 0).all()
    assert (age[2:] == 2).all()


def test_waiting_for_everyone_until_the_deadline(tmp_path):
    looks = iter(range(10**6))

    def slow(node, message, reply):
        return (reply, lambda: next(looks) > 20) if is_train(message) and node in (102, 103) else reply

    config = {**cafe(tmp_path / "run"), "wait": "deadline"}
    found = play(config, federation(config, slow))
    assert found.columns["outcome"] == ["DDDD", "DDDD"]
    assert found.columns["responders"].tolist() == [4, 4]


def test_a_round_of_cafe_without_a_quorum_fails_and_age_grows(tmp_path):
    def silent(node, message, reply):
        return None if is_train(message) and node != 100 and round_of(message) == 0 else reply

    config = cafe(tmp_path / "run", **{"world.deadline_s": "0.5", "rounds": "1"})
    found = play(config, federation(config, silent))
    assert found.columns["outcome"] == ["DTTT"]
    assert found.columns["success"].tolist() == [0]
    assert found.columns["waste_s"][0] == pytest.approx(4 * found.columns["round_s"][0])
    first = federated_problem(settings.read(config).config).learner.initial()
    assert np.array_equal(last_state(config).params.numpy(), first.numpy()), "the model stays"
    assert (last_state(config).method.age_rounds == 1).all()


def test_too_few_devices(tmp_path):
    config = run_config(out=tmp_path / "run") | {"join-s": 0.2}
    two = {100: {"partition-id": 0}, 101: {"partition-id": 1}, 102: {"partition-id": 1}}
    with pytest.raises(FedcellError, match=r"2 of 4 devices .* lower min-devices or raise join-s"):
        play(config, federation(config, nodes=two))
    assert record.read(tmp_path / "run").status.state == "failed"
    assert "node 102 is refused" in notices(config)
    found = play(config | {"min-devices": 2}, federation(config, nodes=two))
    assert found.status.state == "finished"
    assert found.columns["outcome"] == ["DD.."] * 3


# ---------------------------------------------------------------- restarts


class KilledError(Exception):
    """Stands for a process that is no more."""


@pytest.mark.parametrize(("method", "lost_row"), [("recycling", False), ("osafl", True), ("cafe:scheme=agu", False)])
def test_a_restarted_server_ends_as_if_nothing_had_happened(method, lost_row, tmp_path):
    config = run_config(method, tmp_path / "run")

    def die(node, message, reply):
        if is_train(message) and round_of(message) == 2 and node == 102:
            raise KilledError
        return reply

    with pytest.raises(KilledError):
        play(config, federation(config, die))
    folder = record.read(tmp_path / "run").folder
    if lost_row:  # killed between the row of a round and its state
        (folder / "checkpoint-000002.safetensors").unlink()
    found = play(config)
    _, history = simulated(config)
    assert found.status.state == "finished"
    assert found.columns["round"].tolist() == [0, 1, 2]
    assert np.allclose(last_state(config).params.numpy(), history[-1][1].params.numpy(), atol=TOLERANCE)
    assert ("1 rows" in notices(config)) == lost_row


def test_a_finished_run_is_left_alone(tmp_path):
    config = run_config(out=tmp_path / "run")
    play(config)
    before = (tmp_path / "run" / "rounds.jsonl").read_bytes()
    grid = federation(config)
    play(config, grid)
    assert not grid.sent
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == before
    assert "nothing to do" in notices(config)


def test_a_run_goes_on_with_its_own_settings_alone(tmp_path):
    play(run_config(out=tmp_path / "run"))
    with pytest.raises(BadInput, match=r"began with another train.lr: set it back"):
        play(run_config(out=tmp_path / "run", **{"train.lr": "0.2"}))
    with pytest.raises(BadInput, match="began with another method 'fedprox'"):
        play(run_config("fedprox", tmp_path / "run"))


def test_the_simulation_does_not_go_on_with_real_devices(tmp_path):
    config = run_config(out=tmp_path / "run")
    with pytest.raises(KilledError):
        play(config, federation(config, lambda node, message, reply: (_ for _ in ()).throw(KilledError)))
    with pytest.raises(BadInput, match="flwr run"):
        record.resume(tmp_path / "run")


def test_a_node_that_restarts_in_mid_run_takes_its_place(tmp_path):
    config = run_config(out=tmp_path / "run", **{"rounds": "4", "world.deadline_s": "0.5"})
    nodes = own_nodes(tmp_path)

    def restart(node, message, reply):
        if is_train(message) and round_of(message) == 1 and node == 101:
            grid.nodes[201] = nodes[101]  # Flower still takes the old one for connected
            return None
        return reply

    grid = federation(config, restart, nodes=nodes)
    found = play(config, grid)
    assert found.columns["outcome"] == ["DDDD", "DTDD", "DDDD", "DDDD"]
    assert "device 1 is back (node 201" in notices(config)


# ---------------------------------------------------------------- data that streams in


def test_devices_with_caches_say_what_they_hold(tmp_path):
    def data(context, round):
        x, y = share(context, round)
        part = np.arange(10 * round, 10 * round + 10) % len(y)
        return x[part], y[part]

    config = run_config("streaming", tmp_path / "run")
    nodes = own_nodes(tmp_path)
    app = client_app(data, cache=CacheSettings(capacity=15, rule="fifo"))
    found = play(config, federation(config, app=app, nodes=nodes))
    assert found.status.state == "finished"
    counts = last_state(config).world.memory.counts
    assert counts.sum(axis=1).tolist() == [15] * 4
    for device in range(4):
        plain = StreamingCache(15, "fifo", seed=device)
        for round in range(3):
            plain.offer(*data(context({"partition-id": device}, config), round))
        assert counts[device].tolist() == np.bincount(plain.contents()[1], minlength=10).tolist()


# ---------------------------------------------------------------- models that stay on devices


@pytest.mark.parametrize("restart", [False, True])
def test_knowledge_is_shared_and_models_stay_on_devices(restart, tmp_path):
    """Class means end where those of the simulation end; what travels is means alone, also when the server dies."""
    config = run_config("knowledge:scheduler=all", tmp_path / "run", **{"rounds": "4", "train.lr": "0.05"})

    def die(node, message, reply):
        if restart and is_train(message) and round_of(message) == 2 and node == 102:
            raise KilledError
        return reply

    grid = federation(config, die, client_app(share, test=share), own_nodes(tmp_path))
    if restart:
        with pytest.raises(KilledError):
            play(config, grid)
        grid = federation(config, app=client_app(share, test=share), nodes=own_nodes(tmp_path))
    found = play(config, grid)
    problem, history = simulated(config)
    theirs, mine = history[-1][1].method, last_state(config).method
    assert found.columns["outcome"] == ["DDDD"] * 4
    assert theirs.known.tolist() == mine.known.tolist()
    assert np.allclose(mine.knowledge.numpy(), theirs.knowledge.numpy(), atol=TOLERANCE)
    assert float(theirs.knowledge.abs().max()) > 0.1
    header, means = 128, 4 * theirs.knowledge.numel()
    assert found.columns["uplink_bit"].tolist() == [4 * 8 * (means + header)] * 4
    assert (found.columns["downlink_bit"] < 4 * 8 * (means + 600)).all()
    assert problem.learner.n_params * 4 > 2 * means, "a model would weigh more"
    right = tested = 0
    for device in range(4):
        model = load_file(kept_by(tmp_path, device) / "model.safetensors")["after"]
        x, y = share(context({"partition-id": device}, config), 0)
        score = problem.learner.evaluate(torch.from_numpy(model), Samples(x, y, torch.device("cpu")))["accuracy"]
        right, tested = right + score * len(y), tested + len(y)
    assert found.columns["accuracy"][-1] == pytest.approx(right / tested), "each on the samples it has trained on"


def test_runs_in_the_same_folders_of_devices_leave_each_other_alone(tmp_path):
    """A second run starts from fresh models, and the first one resumes after it from what devices kept for it."""

    def begun(out, spoil=lambda node, message, reply: reply):
        config = run_config("knowledge:scheduler=all", tmp_path / out, **{"rounds": "3", "train.lr": "0.05"})
        return config, federation(config, spoil, client_app(share, test=share), own_nodes(tmp_path))

    def die(node, message, reply):
        if is_train(message) and round_of(message) == 2:
            raise KilledError
        return reply

    with pytest.raises(KilledError):
        play(*begun("one", die))
    whole, resumed = play(*begun("two")), play(*begun("one"))
    assert resumed.status.state == whole.status.state == "finished"
    assert resumed.columns["accuracy"].tolist() == whole.columns["accuracy"].tolist()
    names = {(tmp_path / out / flower.NAME).read_text() for out in ("one", "two")}
    assert {path.name for path in (tmp_path / "device0").iterdir()} == {"identity", *names}


def test_a_model_of_ones_own_needs_a_folder(tmp_path):
    config = run_config("knowledge:scheduler=all", tmp_path / "run", **{"rounds": "1"})
    found = play(config)
    assert found.columns["outcome"] == ["XXXX"]
    assert "needs state-dir" in notices(config)


def test_prepare_marks_a_run_of_real_devices(tmp_path):
    asked = settings.read(run_config(out=tmp_path / "run"))
    problem = federated_problem(asked.config)
    _, (job,) = prepare.prepare(asked.config, ["fedavg"], problem=problem)
    assert job.spec.own == ("federation",)
