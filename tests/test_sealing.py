"""Boxes and locks open for their reader alone, and not at all if a single bit was changed."""

import builtins

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.errors import BadInput
from fedcell.sealing import (
    BOX_BYTES,
    LOCK_BYTES,
    KeyPair,
    Refused,
    check_mark,
    key_pair,
    lock,
    mark,
    seal,
    unlock,
    unseal,
)

READER, OTHER, KEY = key_pair(), key_pair(), bytes(range(32))


@given(st.binary(max_size=200), st.binary(max_size=20))
def test_what_was_sealed_is_read_by_its_reader(text, about):
    box, locked = seal(READER.public, text, about), lock(KEY, text, about)
    assert unseal(READER, box, about) == text
    assert unlock(KEY, locked, about) == text
    assert len(box) == len(text) + BOX_BYTES
    assert len(locked) == len(text) + LOCK_BYTES


@given(st.binary(min_size=1, max_size=60), st.booleans(), st.data())
def test_a_single_changed_bit_is_refused(text, sealed, data):
    changed = bytearray(seal(READER.public, text) if sealed else lock(KEY, text))
    bit = data.draw(st.integers(0, 8 * len(changed) - 1))
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Refused):
        unseal(READER, bytes(changed)) if sealed else unlock(KEY, bytes(changed))


def test_the_bit_of_a_key_that_x25519_ignores_is_refused_too():
    box = bytearray(seal(READER.public, b"text"))
    box[31] ^= 0x80
    with pytest.raises(Refused):
        unseal(READER, bytes(box))


def test_nobody_else_reads_it():
    with pytest.raises(Refused, match="meant for somebody else"):
        unseal(OTHER, seal(READER.public, b"text"))
    with pytest.raises(Refused):
        unlock(bytes(32), lock(KEY, b"text"))
    with pytest.raises(Refused):
        unseal(READER, seal(READER.public, b"text", b"period 1"), b"period 2")
    with pytest.raises(Refused):  # a public key of the reader's, but another private one
        unseal(KeyPair(OTHER.private, READER.public), seal(READER.public, b"text"))


@pytest.mark.parametrize("size", [0, 5, 27, 47])
def test_what_is_cut_short_is_refused(size):
    with pytest.raises(Refused, match="cut short"):
        unseal(READER, seal(READER.public, b"")[:size])
    with pytest.raises(Refused, match="cut short"):
        unlock(KEY, lock(KEY, b"")[: min(size, 27)])


def test_a_key_that_is_none_is_refused():
    with pytest.raises(Refused, match="no proper key"):
        unseal(READER, bytes(80))


def test_equal_texts_look_different_every_time():
    boxes = {seal(READER.public, b"text") for _ in range(50)} | {lock(KEY, b"text") for _ in range(50)}
    assert len(boxes) == 100


def test_marks_bind_parts_and_their_borders():
    check_mark(KEY, mark(KEY, b"ab", b"c"), b"ab", b"c")
    for parts in ((b"a", b"bc"), (b"abc",), (b"ab", b"c", b""), (b"c", b"ab")):
        with pytest.raises(Refused, match="does not belong"):
            check_mark(KEY, mark(KEY, b"ab", b"c"), *parts)


def test_without_the_library_one_sentence_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name == "cryptography":
            raise ImportError
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(BadInput, match="install the extra `privacy`"):
        key_pair()
