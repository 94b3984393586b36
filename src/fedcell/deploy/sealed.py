"""Answers of devices, sealed for the server, so that whoever relays them reads nothing and changes nothing unnoticed.

TLS ends at Flower's SuperLink, which holds every message until it is fetched. If somebody else runs it (in RawHFL base
stations of the access provider relay to the content provider), updates and label counts are open to them. A sealed
answer is one array of bytes: what the device says of itself, and its update. It is bound to the round and to the device
that was asked, so that an old answer does not open in place of a new one. What is sent to devices stays open.

The private key stays on the server (`seal-key` of the run configuration names its file). Devices have the public one in
their node configuration (`server-key`), not in the run configuration, which passes the relay.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from ..errors import BadInput
from ..sealing import KEY_BYTES, KeyPair, Refused, key_pair, pair_of, seal, unseal
from .tasks import MessageError
from .wire import read_array

SEALED, HEAD_BYTES = "sealed", 4


def about_hello(round: int) -> bytes:
    """The text that an answer to a hello message is bound to."""
    return f"hello {round}".encode()


def about_task(round: int, device: int) -> bytes:
    """The text that the answer to a task is bound to."""
    return f"task {round} of {device}".encode()


def closed(content: RecordDict, public: bytes | None, about: bytes) -> RecordDict:
    """Seal the content of an answer in one array; unchanged without a key."""
    if public is None:
        return content
    arrays = dict(content.array_records.get("arrays", {}))
    parts = [[name, one.dtype, list(one.shape), one.stype, len(one.data)] for name, one in arrays.items()]
    head = json.dumps({"facts": dict(content.config_records["facts"]), "arrays": parts}).encode()
    text = len(head).to_bytes(HEAD_BYTES, "big") + head + b"".join(one.data for one in arrays.values())
    box = np.frombuffer(seal(public, text, about), dtype=np.uint8)
    return RecordDict({SEALED: ArrayRecord({SEALED: Array(box)})})


def opened(content: RecordDict, own: KeyPair | None, about: bytes) -> RecordDict:
    """Open the content of an answer; raises MessageError if it was changed, is for another key, or is not sealed."""
    record = content.array_records.get(SEALED)
    if record is None and own is None:
        return content
    if record is None:
        raise MessageError("the answer is not sealed: give the node server-key, or the server no seal-key")
    if own is None:
        raise MessageError("the answer is sealed and this server has no seal-key: name the file of its key")
    if SEALED not in record:
        raise MessageError("the sealed answer holds no box")
    try:
        text = unseal(own, read_array(record[SEALED], "sealed answer").tobytes(), about)
    except Refused as error:
        raise MessageError(str(error)) from None
    return _content(text)


def _content(text: bytes) -> RecordDict:
    """Read what was sealed; raises MessageError if the sender did not write it as `closed` does."""
    try:
        end = HEAD_BYTES + int.from_bytes(text[:HEAD_BYTES], "big")
        head, place, arrays = json.loads(text[HEAD_BYTES:end]), end, {}
        for name, dtype, shape, stype, size in head["arrays"]:
            arrays[str(name)] = Array(dtype=dtype, shape=tuple(shape), stype=stype, data=text[place : place + size])
            place += size
        content = RecordDict({"facts": ConfigRecord(head["facts"])})
        if arrays:
            content["arrays"] = ArrayRecord(arrays)
    except Exception as error:  # the sender may have sealed anything
        raise MessageError(f"the sealed answer cannot be read ({type(error).__name__}: {error})") from None
    return content


# ---------------------------------------------------------------- keys


def write_key(path: Path) -> str:
    """Write a new private key to a file that only its owner can read; return the public key as text."""
    pair = key_pair()
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadInput(f"{path} exists: choose another file, a key is never overwritten") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({(error.strerror or '').lower()}): choose another file") from None
    with os.fdopen(file, "w") as out:
        out.write(pair.private.hex() + "\n")
    return pair.public.hex()


def read_key(path: str) -> KeyPair | None:
    """The key pair of a file; None if no file is named."""
    if not path:
        return None
    try:
        private = bytes.fromhex(Path(path).expanduser().read_text().strip())
    except (OSError, ValueError):
        private = b""
    if len(private) != KEY_BYTES:
        raise BadInput(f"seal-key = {path!r} is no file of a key: make one with `fedcell deploy key FILE`")
    return pair_of(private)


def public_key(node_config: Any) -> bytes | None:
    """The server's public key in a node configuration; None if it has none."""
    given = node_config.get("server-key")
    if not given:
        return None
    try:
        public = bytes.fromhex(str(given))
    except ValueError:
        public = b""
    if len(public) != KEY_BYTES:
        shown = str(given)[:20]
        raise BadInput(f"server-key = {shown!r} is no key: give the 64 digits that `fedcell deploy key` printed")
    return public
