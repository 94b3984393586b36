"""Sealed answers: the server reads them, a relay does not, and what a relay changes or keeps back is noticed."""

import json
import stat

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from inside import federation, notices, play, run_config
from test_wire import task

from fedcell.cli import main
from fedcell.deploy import sealed, wire
from fedcell.deploy.wire import Facts, MessageError
from fedcell.errors import BadInput
from fedcell.sealing import key_pair, seal

KEY, OTHER = key_pair(), key_pair()
FACTS = Facts(2, 7, np.array([1, 0, 4]), 0.25, "somebody", 3, 5)
UPDATE = np.arange(6, dtype=np.float32)


def is_train(message):
    return message.metadata.message_type == "train"


def round_of(message):
    return int(message.metadata.group_id)


def answer(update=UPDATE):
    return wire.pack_facts(FACTS, update)


def same(found, content):
    assert dict(found.config_records["facts"]) == dict(content.config_records["facts"])
    assert {name: part.numpy().tolist() for name, part in found.array_records.get("arrays", {}).items()} == {
        name: part.numpy().tolist() for name, part in content.array_records.get("arrays", {}).items()
    }


@pytest.mark.parametrize("update", [UPDATE, None])
def test_the_server_reads_what_was_sealed_for_it(update):
    box = sealed.closed(answer(update), KEY.public, b"x")
    assert list(box) == ["sealed"]
    found = sealed.opened(box, KEY, b"x")
    same(found, answer(update))
    facts = wire.unpack_facts(found, 3)
    assert (facts.device, facts.round, facts.counts.tolist()) == (2, 7, [1, 0, 4])
    if update is not None:
        assert wire.unpack_update(found, task(start=UPDATE)).tolist() == UPDATE.tolist()


def test_payloads_of_several_arrays_come_back():
    payload = {"values": np.arange(3, dtype=np.float32), "places": np.array([4, 5, 6], dtype=np.int32)}
    content = wire.pack_facts(FACTS, None, None, payload)
    same(sealed.opened(sealed.closed(content, KEY.public, b""), KEY, b""), content)


def test_without_keys_nothing_changes():
    content = answer()
    assert sealed.closed(content, None, b"x") is content
    assert sealed.opened(content, None, b"x") is content


def test_a_relay_sees_neither_counts_nor_update():
    box = sealed.closed(answer(np.full(500, 0.125, np.float32)), KEY.public, b"x")
    raw = box.array_records["sealed"]["sealed"].data
    assert np.full(4, 0.125, np.float32).tobytes() not in raw
    assert b"somebody" not in raw
    assert b"counts" not in raw
    assert not box.config_records


@pytest.mark.parametrize(
    ("content", "own", "about", "sentence"),
    [
        (answer(), KEY, b"x", "is not sealed: give the node server-key"),
        (sealed.closed(answer(), KEY.public, b"x"), None, b"x", "is sealed and this server has no seal-key"),
        (sealed.closed(answer(), OTHER.public, b"x"), KEY, b"x", "meant for somebody else"),
        (sealed.closed(answer(), KEY.public, b"task 6 of 2"), KEY, b"task 7 of 2", "does not open"),
        (RecordDict({"sealed": ArrayRecord({"sealed": Array(np.zeros(3, np.uint8))})}), KEY, b"x", "cut short"),
        (RecordDict({"sealed": ArrayRecord({"other": Array(np.zeros(3, np.uint8))})}), KEY, b"x", "sealed"),
    ],
)
def test_what_cannot_be_opened_is_turned_away(content, own, about, sentence):
    with pytest.raises(MessageError, match=sentence):
        sealed.opened(content, own, about)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\0\0\0\x02{}",
        b"\0\0\0\x05nojson",
        (20).to_bytes(4, "big") + json.dumps({"facts": {}}).encode(),
        (41).to_bytes(4, "big") + json.dumps({"facts": {}, "arrays": [["update", 1, 2]]}).encode(),
        (28).to_bytes(4, "big") + b'{"facts": [1], "arrays": []}',
        (200_000).to_bytes(4, "big") + b"[" * 200_000,
    ],
)
def test_what_a_device_sealed_wrongly_is_turned_away(text):
    box = np.frombuffer(seal(KEY.public, text, b"x"), dtype=np.uint8)
    with pytest.raises(MessageError, match="cannot be read"):
        sealed.opened(RecordDict({"sealed": ArrayRecord({"sealed": Array(box)})}), KEY, b"x")


def test_a_box_that_is_no_array_is_turned_away():
    for data in (b"", b"PK\x03\x04"):
        box = ArrayRecord({"sealed": Array("uint8", (3,), "numpy.ndarray", data)})
        with pytest.raises(MessageError, match="cannot be read"):
            sealed.opened(RecordDict({"sealed": box}), KEY, b"x")


# ---------------------------------------------------------------- a federation


def nodes(key):
    return {100 + device: {"partition-id": device, "server-key": key} for device in range(4)}


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "server.key"
    return path, sealed.write_key(path)


@pytest.mark.parametrize("cells", [{}, {"world.topology": "cells", "world.n_cells": 2, "world.edge_rounds": 2}])
def test_a_sealed_federation_ends_where_an_open_one_ends(tmp_path, key_file, cells):
    """Also where base stations relay: edge models are made by the server, which alone opens the boxes."""
    path, public = key_file
    seen = []

    def relay(node, message, reply):
        seen.append(reply.content)
        return reply

    plain = run_config(out=tmp_path / "open", **cells)
    hidden = {**run_config(out=tmp_path / "sealed", **cells), "seal-key": str(path)}
    expected = play(plain, federation(plain))
    found = play(hidden, federation(hidden, relay, nodes=nodes(public)))
    assert found.columns["outcome"] == expected.columns["outcome"] == ["DDDD"] * 3
    assert found.columns["accuracy"].tolist() == expected.columns["accuracy"].tolist()
    assert (found.columns["uplink_bit"] > expected.columns["uplink_bit"]).all()
    assert seen
    assert all(list(content) == ["sealed"] for content in seen)


def test_a_relay_that_changes_or_repeats_answers_is_noticed(tmp_path, key_file):
    """Device 0: a changed bit; device 1: its answer of the round before; device 2: that of device 3, in its place."""
    path, public = key_file
    kept = {}

    def relay(node, message, reply):
        if not is_train(message):
            return reply
        kept[node, round_of(message)] = reply.content
        if round_of(message) == 1 and node == 100:
            box = reply.content.array_records["sealed"]["sealed"].numpy().copy()
            box[200] ^= 1
            reply.content["sealed"] = ArrayRecord({"sealed": Array(box)})
        if round_of(message) == 1 and node == 101:
            reply.content["sealed"] = kept[101, 0]["sealed"]
        if round_of(message) == 1 and node == 102:
            reply.content["sealed"] = kept[103, 0]["sealed"]
        return reply

    config = {**run_config(out=tmp_path / "run"), "seal-key": str(path)}
    found = play(config, federation(config, relay, nodes=nodes(public)))
    assert found.columns["outcome"] == ["DDDD", "XXXD", "DDDD"]
    assert "round 1: device 1 was turned away: a sealed message does not open" in notices(config)


def test_a_node_without_the_key_is_refused(tmp_path, key_file):
    path, public = key_file
    config = {**run_config(out=tmp_path / "run"), "seal-key": str(path), "min-devices": 3}
    some = nodes(public) | {102: {"partition-id": 2}}
    found = play(config, federation(config, nodes=some))
    assert found.columns["outcome"] == ["DD.D"] * 3
    assert "node 102 is refused: the answer is not sealed" in notices(config)


# ---------------------------------------------------------------- keys


def test_the_key_is_made_by_the_command_line(tmp_path, capsys):
    path = tmp_path / "server.key"
    assert main(["deploy", "key", str(path)]) == 0
    printed = capsys.readouterr().out
    pair = sealed.read_key(str(path))
    assert f'server-key="{pair.public.hex()}"' in printed
    assert pair.private.hex() not in printed
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert main(["deploy", "key", str(path)]) == 2
    assert "is never overwritten" in capsys.readouterr().err
    assert main(["deploy", "key", str(tmp_path / "no" / "folder")]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "abc", "zz" * 32, "00" * 31])
def test_a_file_that_holds_no_key_is_refused(tmp_path, text):
    (tmp_path / "key").write_text(text)
    with pytest.raises(BadInput, match="is no file of a key"):
        sealed.read_key(str(tmp_path / "key"))
    with pytest.raises(BadInput, match="is no file of a key"):
        sealed.read_key(str(tmp_path / "none"))
    if text:
        with pytest.raises(BadInput, match="server-key"):
            sealed.public_key({"server-key": text})
    assert sealed.read_key("") is None
    assert sealed.public_key({}) is None


def test_the_server_says_before_the_first_round_that_it_has_no_key(tmp_path):
    config = {**run_config(out=tmp_path / "run"), "seal-key": str(tmp_path / "none")}
    with pytest.raises(BadInput, match="seal-key"):
        play(config, federation(config))
    assert not (tmp_path / "run").exists()


def test_facts_are_numbers_that_json_has():
    values = dict(answer().config_records["facts"])
    assert ConfigRecord(json.loads(json.dumps(values))) == ConfigRecord(values)
