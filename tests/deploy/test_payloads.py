"""Updates in a coding over a grid: payloads on the wire, what devices keep, and what is turned away."""

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord
from hypothesis import given
from hypothesis import strategies as st
from inside import federation, notices, play, run_config
from safetensors.numpy import load_file
from test_rounds import is_train, last_state, own_nodes, round_of
from test_wire import facts, task

from fedcell import coding
from fedcell.coding import topk
from fedcell.deploy import wire
from fedcell.deploy.coded import FILE, coding_of, decoded, payload_of
from fedcell.deploy.wire import MessageError
from fedcell.errors import BadInput
from fedcell.options import to_dict
from fedcell.rng import stream

CODING = {"name": "topk", "settings": {"fraction": 0.25, "feedback": True, "lost": "dropped"}}
HEADER = 128  # bytes of a NumPy array's
ZERO_AND_ONE = np.array([0b00000111], np.uint8)  # places of a row of 8


def asked(n=8, **changes):
    return task(n)._replace(coding=CODING, **changes)


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40), st.floats(0.01, 1))
def test_payloads_come_back_as_they_went(values, fraction):
    update = np.array(values, dtype=np.float32)
    sent = task(len(update))._replace(
        coding={"name": "topk", "settings": {**CODING["settings"], "fraction": fraction, "feedback": False}}
    )
    got = wire.unpack_task(wire.pack_task(sent))
    assert got.coding == sent.coding
    content = wire.pack_facts(facts(), update, None, payload_of(got, update, None))
    expected = topk.decode(topk.encode(fraction, torch.from_numpy(update), None), len(update))
    assert np.array_equal(wire.unpack_update(content, sent), expected.numpy())


@pytest.mark.parametrize("name", coding.names())
@pytest.mark.parametrize("n", [1, 8, 700])
def test_payloads_of_every_coding_come_back_as_they_went(name, n, tmp_path):
    update = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    layers = [[10, n // 20], [n - n // 20 * 10]]
    settings = {"name": name, "settings": to_dict(coding.load(name).Config()), "shapes": layers}
    asking = task(n)._replace(coding=settings)
    sent = wire.unpack_task(wire.pack_task(asking))
    content = wire.pack_facts(facts(), update, None, payload_of(sent, update, tmp_path))
    code = coding_of(sent)
    row = torch.from_numpy(update)
    expected = code.decode(code.encode(row, stream(sent.seed, sent.round, f"coding {sent.device}")), n)
    assert np.array_equal(wire.unpack_update(content, sent), expected.numpy())
    if code.feedback:
        after = load_file(tmp_path / FILE)["after"]
        assert np.array_equal(after[:n], (row - expected).numpy())
        assert len(after) == n + code.n_memory
        assert (code.n_memory > 0) == (name == "powersgd" and n == 700)


def test_a_device_keeps_what_it_did_not_send(tmp_path):
    """Over rounds, and when a restarted server asks for a round again."""
    rng, sent, total = np.random.default_rng(3), np.zeros(8), np.zeros(8)
    for round in range(5):
        update = rng.standard_normal(8).astype(np.float32)
        first, again = (payload_of(asked(round=round), update, tmp_path) for _ in range(2))
        assert all(np.array_equal(first[name], again[name]) for name in first)
        assert len(first["values"]) == 2
        sent, total = sent + decoded(asked(), first), total + update
        np.testing.assert_allclose(sent + load_file(tmp_path / FILE)["after"], total, atol=1e-5)


def test_a_device_remembers_its_last_factor(tmp_path):
    settings = {"rank": 1, "feedback": True, "lost": "dropped"}
    code = {"name": "powersgd", "settings": settings, "shapes": [[5, 12], [4]]}
    rng, kept = np.random.default_rng(3), None
    for round in range(4):
        update, told = rng.standard_normal(64).astype(np.float32), task(64)._replace(coding=code, round=round)
        first, again = (payload_of(told, update, tmp_path) for _ in range(2))
        draws = stream(told.seed, round, f"coding {told.device}")
        u, expected = coding_of(told).send(torch.from_numpy(update), kept, draws)
        assert all(np.array_equal(first[part], expected[part].numpy()) for part in expected)
        assert all(np.array_equal(first[part], again[part]) for part in first)
        kept = torch.cat([u - coding_of(told).decode(expected, 64), expected["right"]])
    with pytest.raises(BadInput, match="layers of 64 numbers are not those of 65 parameters"):
        coding_of(task(65)._replace(coding=code))


def test_a_bad_update_leaves_what_was_kept(tmp_path):
    payload_of(asked(round=0), np.arange(8, dtype=np.float32), tmp_path)
    kept = load_file(tmp_path / FILE)["after"]
    payload_of(asked(round=1), np.full(8, np.nan, dtype=np.float32), tmp_path)
    assert np.array_equal(load_file(tmp_path / FILE)["after"], kept)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({}, "KeyError"),
        ({"values": np.ones(2)}, "values is float64"),
        ({"values": np.ones((2, 1), np.float32)}, r"float32 \[2, 1\]"),
        ({"values": np.ones(3, np.float32)}, "3 values of a row of 8"),
        ({"values": np.ones(2, np.float32), "places": np.array([0, 1], np.int32)}, "2 entries of torch.int32, not in"),
        ({"values": np.ones(3, np.float32), "places": ZERO_AND_ONE}, "a string of 8 bits with 3 numbers of 3"),
        ({"values": np.array([1, np.inf], np.float32), "places": ZERO_AND_ONE}, "not finite"),
        ({"values": np.ones(2, np.int32), "places": ZERO_AND_ONE}, "int32"),
    ],
)
def test_payloads_that_make_no_sense_are_turned_away(arrays, reason):
    content = wire.pack_facts(facts())
    content["arrays"] = ArrayRecord({name: Array(part) for name, part in arrays.items()})
    with pytest.raises(MessageError, match=reason):
        wire.unpack_update(content, asked())


def test_rows_hold_the_bits_of_payloads(tmp_path):
    config = run_config("fedavg+topk:fraction=0.1", tmp_path / "run")
    found = play(config, federation(config, nodes=own_nodes(tmp_path)))
    n = last_state(config).params.numel()
    k = round(0.1 * n)
    each = 4 * k + -(-k * topk.place_bit(n) // 8) + 2 * HEADER  # values, and places in as many bits as they take
    assert found.columns["uplink_bit"].tolist() == [4 * 8 * each] * 3
    assert found.label == "fedavg+topk:fraction=0.1"
    assert found.settings["fraction"] == 0.1


def test_low_ranks_and_votes_go_over_a_grid(tmp_path):
    """The bits of a row are those of what is simulated, and the header of every array."""
    for method, numbers, n_arrays in (
        ("fedavg+powersgd:rank=1", lambda n: 32 * (16 + 64 + 10 + 16 + 26), 3),
        ("signsgd", lambda n: 8 * -(-n // 8), 1),
    ):
        config = run_config(method, tmp_path / method[:6])
        found = play(config, federation(config, nodes=own_nodes(tmp_path / f"of {method[:6]}")))
        n = last_state(config).params.numel()
        assert found.columns["outcome"] == ["DDDD"] * 3
        assert found.columns["uplink_bit"].tolist() == [4 * (numbers(n) + 8 * n_arrays * HEADER)] * 3


def test_a_run_goes_on_with_what_devices_kept(tmp_path):
    """Killed in round 1, when devices have already kept what they would have sent, it ends as one that was not."""
    ends = []
    for name, crash in (("straight", None), ("again", 1)):
        config, nodes = run_config("fedavg+topk:fraction=0.1", tmp_path / name), own_nodes(tmp_path / f"of {name}")

        def killed(node, message, reply, crash=crash):
            if crash is not None and is_train(message) and round_of(message) == crash and node == 102:
                raise KeyboardInterrupt
            return reply

        if crash is not None:
            with pytest.raises(KeyboardInterrupt):
                play(config, federation(config, killed, nodes=nodes))
        play(config, federation(config, nodes=nodes))
        ends.append(last_state(config).params)
    assert torch.equal(*ends)


def test_a_device_without_a_folder_is_told(tmp_path):
    config = run_config("fedavg+topk:fraction=0.1", tmp_path / "run", rounds="1")
    assert play(config).columns["outcome"] == ["XXXX"]
    assert "topk with feedback needs state-dir" in notices(config)


def test_what_a_federation_cannot_have(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from fedcell.coding.topk import Config, build\n")
    for method, reason in {
        "fedavg+topk:lost=kept": "a device does not learn what arrived, so set lost=dropped",
        f"fedavg+{file}": "is a file, which devices may not have: name one of cast, powersgd, qsgd, randk, sign, ",
        "./nowhere.py+topk": "does not exist",
        "knowledge+topk": "topk does not go with knowledge",
    }.items():
        with pytest.raises(BadInput, match=reason):
            play(run_config(method, tmp_path / "run"))
