"""What one device can do to a federation: bounds on lengths and claims, rounds that are not accepted, going back."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord
from hypothesis import given
from hypothesis import strategies as st
from inside import federation, notices, play, run_config
from test_rounds import is_train, last_state, round_of

from fedcell import record
from fedcell.cli import main
from fedcell.deploy import bounds, settings
from fedcell.deploy.bounds import capped, level, nothing_seen
from fedcell.deploy.flower import REFUSED
from fedcell.deploy.settings import FederationConfig
from fedcell.deploy.tasks import MessageError
from fedcell.errors import BadInput
from fedcell.labels import histogram
from fedcell.types import DELIVERED, Outcome, Tally

UNBOUND = {"max-norm": "inf", "max-rise": "inf", "max-stretch": "inf", "max-against": 1}  # lengths and directions


def changed(reply, update=lambda values: values, counts=lambda counts: counts):
    """An answer with another update or other claims."""
    facts = reply.content.config_records["facts"]
    if "arrays" in reply.content:
        values = reply.content.array_records["arrays"]["update"].numpy().copy()
        reply.content["arrays"] = ArrayRecord({"update": Array(np.asarray(update(values), dtype=np.float32))})
    reply.content["facts"] = ConfigRecord({**facts, "counts": [int(one) for one in counts(np.array(facts["counts"]))]})
    return reply


def attacker(update, node=101, first=1, last=10**6):
    """A device whose updates are changed from a round on."""

    def spoil(at, message, reply):
        if not is_train(message) or at != node or not first <= round_of(message) <= last:
            return reply
        return changed(reply, update)

    return spoil


def refused(config):
    path = record.read(config["out"]).folder / REFUSED
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# ---------------------------------------------------------------- lengths


@pytest.mark.parametrize("method", ["fedavg", "m_fedavg", "osafl", "recycling", "scaffold", "fedavg+topk:fraction=1"])
def test_a_huge_update_is_refused_and_named_and_the_run_ends_as_without_the_device(method, tmp_path):
    if "topk" in method:

        def huge(at, message, reply):
            if is_train(message) and at == 101 and round_of(message) == 1:
                values = np.full_like(reply.content.array_records["arrays"]["values"].numpy(), 3e38)
                reply.content["arrays"] = ArrayRecord({"values": Array(values)})
            return reply
    else:
        huge = attacker(lambda values: np.full_like(values, 3e38), first=1, last=1)
    config = run_config(method, tmp_path / "run")
    nodes = {100 + k: {"partition-id": k, "state-dir": str(tmp_path / f"device{k}")} for k in range(4)}
    found = play(config, federation(config, huge, nodes=nodes))
    assert found.status.state == "finished"
    assert found.columns["outcome"] == ["DDDD", "DXDD", "DDDD"]
    assert found.columns["n_refused"].tolist() == [0, 1, 0]
    (line,) = refused(config)
    assert (line["round"], line["device"], line["kind"]) == (1, 1, "norm")
    assert line["value"] > 1e38
    assert "round 1: device 1 was turned away: the update has length" in notices(config)
    assert torch.isfinite(last_state(config).params).all()


def test_a_federation_of_one_refuses_what_breaks_its_model(tmp_path):
    """No cohort to compare with: in the first round the model alone tells."""
    config = run_config(out=tmp_path / "run", **{"world.n_devices": "1"})
    nodes = {101: {"partition-id": 0}}
    spoil = attacker(lambda values: 1e30 * values, first=0, last=0)
    found = play(config, federation(config, spoil, nodes=nodes))
    assert found.columns["outcome"] == ["X", "D", "D"]
    (line,) = refused(config)
    assert (line["device"], line["kind"]) == (0, "breaks the model")


def test_the_running_bound_holds_where_the_cohort_is_too_small(tmp_path):
    config = run_config(out=tmp_path / "run", **{"world.n_devices": "2"})
    nodes = {100: {"partition-id": 0}, 101: {"partition-id": 1}}
    found = play(config, federation(config, attacker(lambda values: 100 * values, first=1, last=1), nodes=nodes))
    assert found.columns["outcome"] == ["DD", "DX", "DD"]
    assert "times that of the last rounds (deploy.max_rise = 30)" in notices(config)


def test_without_bounds_the_model_is_still_tested(tmp_path):
    """Two of five break the model; they are named, the others are taken."""
    five = {100 + device: {"partition-id": device} for device in range(5)}
    config = run_config(out=tmp_path / "run", **{"world.n_devices": "5"}) | UNBOUND

    def spoil(node, message, reply):
        bad = is_train(message) and node in (101, 103) and round_of(message) == 1
        return changed(reply, lambda values: -1000 * values) if bad else reply

    found = play(config, federation(config, spoil, nodes=five))
    assert found.columns["outcome"] == ["DDDDD", "DXDXD", "DDDDD"]
    assert {line["device"] for line in refused(config)} == {1, 3}
    assert {line["kind"] for line in refused(config)} == {"breaks the model"}
    assert found.columns["loss"][1] < 5 * np.log(10)


def test_what_is_not_finite_is_refused_also_where_losses_are_not_tested(tmp_path):
    """The square of such an update, which the method remembers, is not finite."""
    config = run_config("fedopt", tmp_path / "run") | UNBOUND | {"max-loss": "inf"}
    found = play(config, federation(config, attacker(lambda values: values * 0 + 1e30, last=1)))
    assert found.columns["outcome"] == ["DDDD", "DXDD", "DDDD"]
    assert refused(config)[0]["kind"] == "breaks the model"


def test_an_edge_model_is_tested_before_it_is_averaged(tmp_path):
    cells = {"world.topology": "cells", "world.n_cells": "2", "world.edge_rounds": "4"}
    config = run_config(out=tmp_path / "run", **cells) | UNBOUND
    found = play(config, federation(config, attacker(lambda values: -1000 * values, last=1)))
    assert found.columns["outcome"] == ["DDDD", "DXDD", "DDDD"]
    (line,) = refused(config)
    assert (line["device"], line["kind"]) == (1, "breaks the model")


def test_a_round_that_most_devices_break_is_refused_whole_and_is_not_the_end(tmp_path):
    config = run_config(out=tmp_path / "run", rounds="5") | UNBOUND

    def bad(node, message, reply):
        later = is_train(message) and round_of(message) >= 1
        return changed(reply, lambda values: -1000 * values) if later else reply

    found = play(config, federation(config, bad))
    assert found.status.state == "diverged"
    assert found.columns["outcome"] == ["DDDD", "XXXX", "XXXX"]
    assert found.columns["accuracy"][2] == found.columns["accuracy"][0], "the model stays as it was"
    assert found.columns["n_refused"].tolist() == [0, 0, 0], "nobody is blamed for what all did"
    assert "round 1 is not accepted" in notices(config)
    again = play(config)
    assert again.status.state == "finished"
    assert again.columns["outcome"] == ["DDDD", "XXXX", "XXXX", "DDDD", "DDDD"]
    assert "resuming from its last checkpoint" in notices(config)


def test_a_device_refused_again_and_again_is_left_out_also_after_a_restart(tmp_path):
    config = run_config(out=tmp_path / "run", rounds="5") | {"strikes": 2}
    grid = federation(config, attacker(lambda values: 1e6 * values, first=1))

    def stop(node, message, reply, before=grid.spoil):
        if is_train(message) and round_of(message) == 4:
            raise KeyboardInterrupt
        return before(node, message, reply)

    grid.spoil = stop
    with pytest.raises(KeyboardInterrupt):
        play(config, grid)
    found = play(config, federation(config, attacker(lambda values: 1e6 * values, first=1)))
    assert found.columns["outcome"] == ["DDDD", "DXDD", "DXDD", "D.DD", "D.DD"]
    assert found.columns["n_left_out"].tolist() == [0, 0, 0, 1, 1]
    assert notices(config).count("device 1 is left out from now on: it was refused 2 times in a row") == 1


def test_an_error_on_a_device_is_no_strike(tmp_path):
    def fails(node, message, reply):
        from flwr.app import Error, Message

        return Message(Error(2, "no memory"), reply_to=message) if is_train(message) and node == 101 else reply

    config = run_config(out=tmp_path / "run") | {"strikes": 1}
    assert play(config, federation(config, fails)).columns["outcome"] == ["DXDD"] * 3


# ---------------------------------------------------------------- claims


def test_a_device_that_claims_everything_counts_for_half_and_may_not_grow_at_will(tmp_path):
    def boast(node, message, reply):
        if node != 102:
            return reply
        grows = is_train(message) and round_of(message) == 1
        return changed(reply, counts=lambda counts: counts * 0 + (4_400_000 if not grows else 400_000_000))

    config = run_config(out=tmp_path / "run")
    found = play(config, federation(config, boast))
    assert found.columns["outcome"] == ["DDDD", "DDXD", "DDDD"]
    (line,) = refused(config)
    assert (line["kind"], line["value"]) == ("samples", 4e9)
    state = last_state(config).world
    assert isinstance(state.store, Tally)
    assert state.store.items.shape == (4, 10), "counts, not a number per sample"
    checkpoint = max(found.folder.glob("checkpoint-*"), key=lambda path: path.name)
    assert checkpoint.stat().st_size < 50_000


@given(
    st.lists(st.integers(1, 10**6), min_size=3, max_size=12),
    st.floats(0.01, 1.0),
)
def test_no_share_exceeds_the_cap(sizes, most):
    counts = np.array(sizes)[:, None] * np.array([1, 2])  # two labels
    store = Tally(counts, counts.sum(axis=1))
    found = capped(store, np.arange(len(sizes)), most)
    allowed = max(most, 1 / len(sizes))
    assert (found.size <= store.size).all()
    assert found.size.max() <= allowed * found.size.sum() + 2 * len(sizes), "up to rounding"
    if store.size.max() <= allowed * store.size.sum():
        assert found is store
    untouched = store.size <= level(store.size.astype(float), allowed)
    assert (found.size == store.size)[untouched].all() or found is store


def test_many_labels_do_not_round_a_large_store_away():
    counts = np.zeros((3, 62), dtype=np.int64)
    counts[0], counts[1, 0], counts[2, 1] = 1, 3, 3
    assert capped(Tally(counts, counts.sum(axis=1)), np.arange(3), 0.5).size.tolist() == [6, 3, 3]
    counts[1:] = 0  # nobody else holds anything
    found = capped(Tally(counts, counts.sum(axis=1)), np.arange(3), 0.5)
    assert found.size.tolist() == found.items.sum(axis=1).tolist() == [1, 0, 0]


def test_two_devices_are_not_capped_and_nobody_outside_is():
    store = Tally(np.array([[9], [1], [100]]), np.array([9, 1, 100]))
    assert capped(store, np.array([0, 1]), 0.5) is store


def test_labels_of_a_tally_are_counted():
    store = Tally(np.array([[3, 0], [1, 2]]), np.array([3, 3]))
    assert histogram(store, np.array([0, 1]), 2).tolist() == [[3, 0], [1, 2]]
    assert isinstance(store.of(np.array([1])), Tally)


def test_growth_is_measured_against_itself_and_the_median():
    own = FederationConfig(max_growth=2.0)
    counts = np.array([[1, 0], [40, 0], [50, 0]])
    bounds.refuse_growth(own, counts, 0, np.array([90, 0]))  # no more than twice the median device
    bounds.refuse_growth(own, counts * 0, 0, np.array([10**6, 0]))  # the first claim
    with pytest.raises(MessageError, match="says it holds 91 samples after 1"):
        bounds.refuse_growth(own, counts, 0, np.array([91, 0]))


# ---------------------------------------------------------------- honest devices


def test_lengths_are_compared_per_step_too():
    from test_wire import task

    slow, fast = task()._replace(steps=1), task()._replace(steps=100)
    update = np.full(6, 0.1, np.float32)
    usual = nothing_seen(2)._replace(norms=np.tile(bounds.length(slow, update), (10, 1)))
    bounds.refuse_rise(FederationConfig(max_rise=2.0), usual, fast, 50 * update)  # 50 times as long, half per step
    with pytest.raises(MessageError, match="50 times"):
        bounds.refuse_rise(FederationConfig(max_rise=2.0), usual, slow, 50 * update)
    bounds.refuse_rise(FederationConfig(), nothing_seen(2), slow, 1e30 * update)  # nothing is usual yet


@pytest.mark.parametrize("partition", [{"data.alpha": "0.05"}, {"data.partition": "shards"}])
def test_honest_devices_with_other_data_are_never_refused(partition, tmp_path):
    config = run_config("fedavg", tmp_path / "run", rounds="6", **{"train.lr": "0.6", **partition})
    found = play(config)
    unbound = play({**config, "out": str(tmp_path / "unbound"), "max-stretch": "inf"})
    assert found.columns["loss"].tolist() == unbound.columns["loss"].tolist(), "nor shortened"
    assert set("".join(found.columns["outcome"])) <= {"D", "."}
    assert found.columns["n_refused"].sum() == 0


# ---------------------------------------------------------------- settings, going back


def test_bounds_are_settings():
    asked = settings.read({"settings": "deploy.max_share=0.2 rounds=3", "max-norm": "inf"})
    assert asked.federation.max_share == 0.2
    assert asked.federation.max_norm == np.inf
    with pytest.raises(BadInput, match=r"deploy.max_share = 2 is out of range"):
        settings.read({"settings": "deploy.max_share=2"})
    with pytest.raises(BadInput, match=r"unknown key 'deploy.max_shar'.*max_share"):
        settings.read({"settings": "deploy.max_shar=0.2"})


def test_a_federation_goes_back_one_checkpoint_and_plays_the_round_again(tmp_path, capsys):
    config = run_config(out=tmp_path / "run")
    whole = play(config)
    assert main(["deploy", "back", config["out"]]) == 0
    assert "stands after round 2" in capsys.readouterr().out
    assert record.read(config["out"]).status[:2] == ("interrupted", 2)
    assert main(["deploy", "back", config["out"]]) == 2
    assert "no checkpoint before its last" in capsys.readouterr().err
    again = play(config)
    assert again.columns["accuracy"].tolist() == whole.columns["accuracy"].tolist()
    assert main(["run", "fedavg", "--rounds", "1", "--out", str(tmp_path / "simulated")]) == 0
    assert main(["deploy", "back", str(tmp_path / "simulated" / "fedavg")]) == 2
    assert "only a federation goes back" in capsys.readouterr().err


def test_going_back_needs_one_run_and_a_folder_to_write_to(tmp_path, capsys, monkeypatch):
    assert main(["run", "fedavg", "fedprox", "--rounds", "1", "--quiet", "--out", str(tmp_path / "two")]) == 0
    assert main(["deploy", "back", str(tmp_path / "two")]) == 2
    assert "two holds 2 runs: name the folder of one federation" in capsys.readouterr().err
    config = run_config(out=tmp_path / "run")
    play(config)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    assert main(["deploy", "back", config["out"]]) == 1
    assert "permission denied; make the folder writable, then go back again" in capsys.readouterr().err


# ---------------------------------------------------------------- robust aggregation


@pytest.mark.parametrize("rule", ["median", "trimmed:trim=0.3", "krum:n_wrong=1", "clip", "geometric"])
def test_robust_aggregation_goes_around_a_method(rule, tmp_path):
    """Without any other bound, and with a loss that may rise at will."""
    off = UNBOUND | {"max-loss": "inf", "strikes": 0}
    config = (
        run_config("osafl" if rule == "median" else "fedavg", tmp_path / "run", rounds="4") | off | {"robust": rule}
    )
    times = 1e4 if rule == "clip" else -1e4  # clipping bounds lengths, not directions
    found = play(config, federation(config, attacker(lambda values: times * values)))
    assert found.status.state == "finished"
    assert found.columns["outcome"] == ["DDDD"] * 4
    assert found.columns["loss"].max() < 2.4, "not worse than guessing"
    assert f"deploy.robust = {rule}" in notices(config)


def test_a_rule_that_does_not_exist_or_does_not_fit_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(BadInput, match=r"deploy.robust.rule = 'kram' is unknown: did you mean 'krum'"):
        play(run_config(out=tmp_path / "run") | {"robust": "kram"})
    with pytest.raises(BadInput, match="does not go with pruning"):
        play(run_config("pruning:keep=0.5", tmp_path / "run") | {"robust": "median"})
    assert not (tmp_path / "run").exists()


# ---------------------------------------------------------------- samples times lengths


def test_a_long_update_that_is_turned_around_is_shortened(tmp_path):
    """Eight times as long passes the bound on lengths; with it the model is lost, shortened it is not."""
    ends = {}
    for name, own in {
        "none": {"max-stretch": "inf"},
        "pull": {"max-stretch": "inf", "max-pull": 0.3},
        "by default": {},
    }.items():
        config = run_config("fedavg:weights=equal", tmp_path / name, rounds="6") | own
        found = play(config, federation(config, attacker(lambda values: -8 * values)))
        assert set(found.columns["outcome"]) <= {"DDDD", "DXDD"}
        ends[name] = found.columns["loss"][-1]
    assert max(ends["pull"], ends["by default"]) < ends["none"]


def uplink_of(*delivered):
    return SimpleNamespace(outcome=np.where(delivered, DELIVERED, int(Outcome.LATE)))


def test_updates_far_longer_than_the_others_are_shortened_to_a_multiple_of_their_median():
    from test_wire import task

    from fedcell.types import Round, Updates

    rows = torch.tensor([[3.0, 4.0], [0.0, 6.0], [50.0, 0.0], [0.0, -7.0], [900.0, 0.0]])
    uplink = uplink_of(True, True, True, True, False)
    sent = Round(SimpleNamespace(), None, Updates(np.arange(5), rows), uplink)
    tasks = [task()._replace(device=device, steps=1) for device in range(5)]
    found = bounds.held_back(sent, tasks, 2.0).updates.delta
    assert found[2].tolist() == pytest.approx([12.0, 0.0]), "twice the median of 5, 6 and 7"
    assert torch.equal(found[[0, 1, 3, 4]], rows[[0, 1, 3, 4]])
    assert bounds.held_back(sent, tasks, np.inf) is sent
    assert bounds.held_back(sent, tasks, 9.0) is sent, "below the bound already"
    longer = [one._replace(steps=10 if one.device == 2 else 1) for one in tasks]
    assert bounds.held_back(sent, longer, 2.0) is sent, "more steps were asked for"
    two = sent._replace(uplink=uplink_of(True, False, True, False, False))
    assert bounds.held_back(two, tasks, 2.0) is two, "two have no median"


def test_one_of_ten_that_turns_its_updates_around_costs_little(tmp_path):
    """Of usual length or eight times as long, with the bounds by default: against nobody who attacks."""
    ten = {100 + device: {"partition-id": device} for device in range(10)}
    own = {"world.n_devices": "10", "rounds": "8", "data.alpha": "1.0"}
    found = {}
    for times in (1, -1, -8):
        config = run_config("fedavg", tmp_path / str(times), **own)
        spoil = attacker(lambda values, times=times: times * values, node=109)
        found[times] = play(config, federation(config, spoil, nodes=ten)).columns
        named = [(line["round"], line["device"]) for line in refused(config)]
        assert named == ([] if times == 1 else [(round, 9) for round in range(1, 6)]), "then it is left out"
    ends = {times: columns["accuracy"][-1] for times, columns in found.items()}
    assert ends[1] > 0.85
    assert min(ends[-1], ends[-8]) > ends[1] - 0.03
    assert found[-1]["n_left_out"].tolist() == [0] * 6 + [1] * 2


def test_directions_count_only_where_the_others_have_one_in_common():
    own = FederationConfig()

    def turned(rows):
        answers = [SimpleNamespace(device=k, update=np.array(row, np.float32)) for k, row in enumerate(rows)]
        return [(one.device, error.kind) for one, error in bounds.refuse_against(own, answers)]

    agreed = [[3.0, 1.0], [2.0, -1.0], [1.0, 0.2], [5.0, 0.0]]
    assert turned([*agreed, [-1.0, 0.3]]) == [(4, "direction")]
    assert turned([*agreed[:3], [-1.0, 0.3]]) == [(3, "direction")]
    assert turned([*agreed, [-0.4, 1.0]]) == [], "across, and not against"
    assert turned([*agreed, [0.0, 0.0]]) == []
    assert turned([[1.0, 0.0], [-1.0, 0.1], [0.0, 1.0], [0.1, -1.0]]) == [], "everybody goes elsewhere"
    assert turned([*agreed[:2], [-1.0, 0.0]]) == [], "two have no median"
    assert turned([*agreed, [-3e38, 0.0]]) == [(4, "direction")]


def test_pulls_are_capped_and_honest_rounds_stay_as_they_are():
    from fedcell.types import Round, Updates

    rows = torch.tensor([[3.0, 4.0], [0.0, 5.0], [50.0, 0.0], [0.0, 0.0]])
    store = Tally(np.array([[2], [2], [2], [2]]), np.full(4, 2))
    uplink = uplink_of(True, True, True, False)
    sent = Round(SimpleNamespace(store=store), None, Updates(np.arange(4), rows), uplink)
    found = bounds.shortened(sent, 0.4).updates.delta
    lengths = torch.linalg.vector_norm(found, dim=1)
    assert lengths[2] == pytest.approx(0.4 * float(lengths[:3].sum()), rel=1e-6)
    assert torch.equal(found[[0, 1, 3]], rows[[0, 1, 3]])
    assert bounds.shortened(sent, 1.0) is sent
    assert bounds.shortened(sent, 0.9) is sent, "below the bound already"
