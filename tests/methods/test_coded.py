"""Methods in a coding: the plain method where everything is sent, error feedback over rounds, and what it costs."""

import numpy as np
import pytest
import torch
from kept_rows import matrix

from fedcell import methods
from fedcell.coding import Coding, topk
from fedcell.errors import BadInput, ContractError
from fedcell.learn import deferred
from fedcell.learn.settings import ModelConfig
from fedcell.methods import fedavg
from fedcell.methods.parts.coded import coded
from fedcell.record import checkpoint, tree
from fedcell.simulate import SIMULATED, begin, play_round, simulate

WORLDS = {
    "everyone is heard": {},
    "uploads are lost": {
        "world.access": "block",
        "world.n_blocks": "3",
        "world.interference_over_noise": "1e2..1e5",
        "world.outage_threshold_db": "10",
        "world.pathloss": "power_law",
    },
    "late": {"world.access": "own_band", "world.response": "exponential", "world.deadline_s": "0.8"},
    "edges": {
        "world.topology": "cells",
        "world.n_cells": "3",
        "world.n_devices": "7",
        "world.devices_per_cell": "4,0,3",
        "world.edge_rounds": "2",
        "world.availability": "0.8",
    },
}
CODED = [
    *("fedavg", "fedprox", "fednova", "scaffold", "apfl", "cafe", "oort", "power_of_choice", "qfedavg"),
    *("h_fedavg", "m_fedavg", "osafl", "rawhfl", "recycling"),
]


def run(problem, text):
    return list(simulate(problem, methods.parse(text).build()))


def digest(problem, method, snapshot):
    return tree.digest(*tree.pack(snapshot, *checkpoint.Template.of(begin(problem, method))))


def own_state(snapshot):
    """The state of the method inside, over edges as without."""
    state = snapshot.method
    return [one and one.own for one in state.states] if hasattr(state, "states") else state.own


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", CODED)
def test_sending_everything_is_the_plain_method_bit_for_bit(small, name, world):
    problem = small(WORLDS[world])
    try:
        begin(problem, methods.parse(name).build())
    except BadInput as error:
        pytest.skip(str(error))
    plain, all_sent = run(problem, name), run(problem, f"{name}+topk:fraction=1")
    for (row, after), (other, again) in zip(plain, all_sent, strict=True):
        assert row == other
        assert torch.equal(after.params, again.params)
        inside = list(after.method.states) if hasattr(after.method, "states") else after.method
        for left, right in zip(leaves(inside), leaves(own_state(again)), strict=True):
            assert left == right


def leaves(state):
    node, tensors = tree.pack(state, tree.classes(state), torch.device("cpu"))
    yield tree.digest(node, tensors)


@pytest.mark.parametrize("lost", ["dropped", "kept"])
@pytest.mark.parametrize("world", ["everyone is heard", "uploads are lost"])
def test_error_feedback_over_rounds(small, lost, world):
    """Of every device, what was sent (or with `kept` delivered) and what is left are all its updates."""
    problem = small(WORLDS[world], rounds=6)
    method = methods.parse(f"fedavg+topk:fraction=0.1,lost={lost}").build()
    n = problem.learner.n_params
    updates, sent = torch.zeros(6, n, dtype=torch.float64), torch.zeros(6, n, dtype=torch.float64)
    played = []

    def local(*given):
        found = method.local(*given)
        updates[found.device] += found.delta.double()
        return found

    def encode(*given):
        found = method.encode(*given)
        played.append((found.device, found.delta.clone()))
        return found

    n_lost = 0
    for row, after in simulate(problem, method._replace(local=local, encode=encode)):
        device, rows = played.pop()
        arrived = np.array([row.outcome[k] == "D" for k in device])
        n_lost += int((~arrived).sum())
        counts = arrived if lost == "kept" else np.ones_like(arrived)
        sent[device[counts]] += rows[torch.from_numpy(counts)].double()
        assert ((rows != 0).sum(dim=1) == round(0.1 * n)).all()
        rest = matrix(after.method.rest, torch.zeros(n)).double()
        torch.testing.assert_close(sent + rest, updates, rtol=0, atol=1e-6)
    assert (n_lost > 0) == (world == "uploads are lost")


def test_feedback_makes_up_for_what_is_left_out(small):
    problem = small(rounds=20)
    texts = ("fedavg+topk:fraction=0.05", "fedavg+topk:fraction=0.05,feedback=false")
    fed, forgetful = (run(problem, text)[-1] for text in texts)
    assert forgetful[1].method.rest is None
    assert fed[0].metrics["accuracy"] > forgetful[0].metrics["accuracy"] + 0.1


def test_seconds_joules_and_bits_are_those_of_the_payload(small):
    problem = small({"world.access": "own_band"})
    n, selected = problem.learner.n_params, problem.world.n_devices
    (plain, _), (coded_row, _) = (run(problem, text)[0] for text in ("fedavg", "fedavg+topk:fraction=0.05"))
    k, places = round(0.05 * n), (n - 1).bit_length()
    assert coded_row.uplink_bit == selected * k * (32 + places)
    assert plain.uplink_bit == selected * n * 32
    share = coded_row.uplink_bit / plain.uplink_bit
    assert coded_row.radio_joule == pytest.approx(share * plain.radio_joule, rel=1e-9)
    assert coded_row.compute_joule == plain.compute_joule
    assert coded_row.round_s < plain.round_s


def test_steps_are_planned_with_what_a_payload_can_take(small):
    """A deadline that most plain uploads would miss leaves time for steps."""
    problem = small({"world.deadline_s": "0.01", "world.cycles_per_sample": "1e5"})
    plain, few = (run(problem, f"fedprox{text}")[0][0] for text in ("", "+topk:fraction=0.01"))
    assert plain.n_delivered < few.n_delivered == problem.world.n_devices


# ---------------------------------------------------------------- payloads that depend on the data


def above(limit):
    """Entries above a limit, as values and places: payloads of any size."""

    def encode(row, rng):
        places = (row.abs() > limit).nonzero()[:, 0]
        return {"values": row[places], "places": places}

    return Coding(
        name="above",
        encode=encode,
        decode=topk.decode,
        bits=topk.bits,
        most_bit=lambda n, value_bit: n * (value_bit + topk.place_bit(n)),
        feedback=True,
    )


def test_payloads_may_depend_on_the_data(small):
    problem = small({"world.access": "own_band"}, rounds=3)
    counts, coding = [], above(1e-3)

    def counted(row, rng):
        payload = coding.encode(row, rng)
        counts.append(len(payload["values"]))
        return payload

    method = coded(fedavg.build(fedavg.Config()), coding._replace(encode=counted))
    n = problem.learner.n_params
    for row, _ in simulate(problem, method):
        assert row.uplink_bit == sum(counts) * (32 + topk.place_bit(n))
        assert len(set(counts)) > 1
        counts.clear()


def test_more_bits_than_planned_are_a_broken_contract(small):
    problem = small()
    method = coded(fedavg.build(fedavg.Config()), above(0.0)._replace(most_bit=lambda n, value_bit: 64.0))
    with pytest.raises(
        ContractError, match=r"encode\(\) sends .* bit of device 0 and payload_bit is 64: return the most"
    ):
        play_round(SIMULATED, problem, method, begin(problem, method))


def test_bits_have_one_entry_per_update(small):
    problem, method = small(), fedavg.build(fedavg.Config())

    def short(problem, state, updates, observation, decision):
        return updates._replace(bit=np.zeros(2))

    with pytest.raises(ContractError, match="bit of encode\\(\\) has shape \\(2,\\), not \\(6,\\)"):
        play_round(SIMULATED, problem, method._replace(encode=short), begin(problem, method))


# ---------------------------------------------------------------- large cohorts, bad numbers


@pytest.mark.parametrize(
    "text", ["fedavg+topk:fraction=0.1", "fednova+topk:fraction=1", "fedavg+topk:fraction=0.1,lost=kept"]
)
def test_large_cohorts_train_once_and_never_lie_in_memory(small, in_blocks, monkeypatch, text):
    problem = small({"world.n_devices": "9", "world.availability": "0.8", "train.workers": "2"})
    whole = run(problem, text)
    in_blocks(1)
    monkeypatch.setattr(deferred.Deferred, "matrix", lambda self: pytest.fail("all updates in memory"))
    train, trained = type(problem.learner)._train, []

    def counted(self, start, work, own):
        trained.extend(work.device)
        return train(self, start, work, own)

    monkeypatch.setattr(type(problem.learner), "_train", counted)
    for (row, after), (other, again) in zip(whole, run(problem, text), strict=True):
        assert row._replace(metrics={}) == other._replace(metrics={})
        torch.testing.assert_close(after.params, again.params, rtol=1e-5, atol=1e-6)
    assert len(trained) == sum(row.n_selected for row, _ in whole)


def test_large_cohorts_that_send_everything_are_the_plain_ones(small, in_blocks):
    problem = small({"world.n_devices": "9", "train.workers": "2"})
    in_blocks(2)
    for (_, after), (_, again) in zip(run(problem, "fedavg"), run(problem, "fedavg+topk:fraction=1"), strict=True):
        assert torch.equal(after.params, again.params)


@pytest.mark.parametrize("lost", ["dropped", "kept"])
def test_a_bad_update_leaves_what_a_device_kept(small, lost):
    problem = small()
    method = methods.parse(f"fedavg+topk:fraction=0.1,lost={lost}").build()
    _, first = play_round(SIMULATED, problem, method, begin(problem, method))

    def poisoned(*given):
        updates = method.local(*given)
        updates.delta[2, 5] = float("nan")
        return updates

    row, second = play_round(SIMULATED, problem, method._replace(local=poisoned), first)
    assert row.outcome == "DDXDDD"
    n = problem.learner.n_params
    before, after = (matrix(one.method.rest, torch.zeros(n)) for one in (first, second))
    assert torch.equal(before[2], after[2])
    assert torch.isfinite(after).all()
    assert not torch.equal(before[1], after[1])


# ---------------------------------------------------------------- pairings


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("knowledge", "class means"),
        ("fedkd", "scores"),
        ("fedrep", "the body of a model"),
        ("pruning", "parts of a model"),
        ("central", "nothing"),
        ("top_popular", "nothing"),
    ],
)
def test_pairings_that_make_no_sense_name_both_pieces(name, what):
    with pytest.raises(BadInput, match=f"topk does not go with {name}: .* devices of {name} send {what}"):
        methods.parse(f"{name}+topk").build()


def test_every_method_goes_or_is_refused():
    refused = set()
    for name in methods.names():
        try:
            methods.parse(f"{name}+topk").build()
        except BadInput:
            refused.add(name)
    assert refused == {"knowledge", "fedkd", "fedrep", "pruning", "central", "top_popular", "signsgd"}


def test_a_loss_is_paid_beside_a_payload(small):
    problem, number = small(rounds=2), 32.0
    for name in ("oort", "power_of_choice", "qfedavg"):
        for row, _ in run(problem, f"{name}+cast:to=int8"):
            each = 8 * problem.learner.n_params + number + number  # entries, a scale, a loss
            assert row.uplink_bit == row.n_delivered * each > 0


def test_masks_and_second_codings_are_refused(small):
    problem, plain = small(), fedavg.build(fedavg.Config())
    once = coded(plain, topk.build(topk.Config()))
    with pytest.raises(BadInput, match="topk does not go with mine: it has a coding already"):
        coded(once, topk.build(topk.Config()), "mine")

    def masked(*given):
        return plain.decide(*given)._replace(mask=torch.ones(problem.learner.n_params, dtype=torch.bool))

    method = coded(plain._replace(decide=masked), topk.build(topk.Config()))
    with pytest.raises(BadInput, match="topk codes whole updates and this method trains parts of a model"):
        play_round(SIMULATED, problem, method, begin(problem, method))


def test_settings_of_both_must_have_names_of_their_own(tmp_path):
    (tmp_path / "mine.py").write_text(
        '"""Mine: nothing."""\nfrom fedcell.methods.fedavg import Config\nfrom fedcell.coding.topk import build\n'
    )
    with pytest.raises(BadInput, match=r"fedavg and .*mine.py both have a setting 'batch_size': rename"):
        methods.parse(f"fedavg+{tmp_path / 'mine.py'}")


def test_a_file_may_be_coded_and_have_a_plus_in_its_name(tmp_path, small):
    mine = tmp_path / "a+b.py"
    mine.write_text('"""Mine: FedAvg."""\nfrom fedcell.methods.fedavg import Config, build\n')
    problem = small(model=ModelConfig(name="logistic"))
    plain, same = run(problem, str(mine)), run(problem, "fedavg")
    assert torch.equal(plain[-1][1].params, same[-1][1].params)
    other = tmp_path / "mine.py"
    other.write_text(mine.read_text())
    found, expected = run(problem, f"{other}+topk:fraction=0.1"), run(problem, "fedavg+topk:fraction=0.1")
    assert torch.equal(found[-1][1].params, expected[-1][1].params)


def test_models_of_devices_foretell_as_without_a_coding(small):
    problem, found = small(), []
    x = problem.learner.test_samples.take(np.arange(problem.world.n_devices))[0]
    for text in ("apfl", "apfl+topk:fraction=1"):
        method = methods.parse(text).build()
        _, after = play_round(SIMULATED, problem, method, begin(problem, method))
        found.append(method.foretell(problem, after.params, after.method, x))
    assert (found[0] == found[1]).all()
    assert methods.parse("fedavg+topk").build().foretell is None
