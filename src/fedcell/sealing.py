"""Sealed boxes and locked texts: only who has the key can read them, and nobody can change them unnoticed.

A box for a public key: `X25519(ephemeral, public)` through HKDF-SHA256 gives the key of one ChaCha20-Poly1305 text. A
lock is ChaCha20-Poly1305 under a key that both sides have, with a nonce drawn for every text. `about` is bound to a
text without being part of it: the text only opens with the same `about`. Needs the extra `privacy`.

Reference: RFC 7748 (X25519), RFC 5869 (HKDF), RFC 8439 (ChaCha20-Poly1305)
"""

import hmac
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from .errors import BadInput, FedcellError

if TYPE_CHECKING:  # the library is an extra
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

Draw = Callable[[int], bytes]  # number of bytes -> random bytes
KEY_BYTES, NONCE_BYTES, TAG_BYTES, MAC_BYTES = 32, 12, 16, 32
BOX_BYTES = KEY_BYTES + TAG_BYTES  # what a box adds to its text
LOCK_BYTES = NONCE_BYTES + TAG_BYTES  # what a lock adds to its text
ONCE = bytes(NONCE_BYTES)  # the nonce of a key that is used once


class Refused(FedcellError):
    """A message that was changed, repeated, too old, or meant for somebody else."""


class KeyPair(NamedTuple):
    """A private key, and the public one that goes with it; 32 bytes each."""

    private: bytes
    public: bytes


def key_pair(draw: Draw = os.urandom) -> KeyPair:
    """Draw a fresh key pair."""
    return pair_of(draw(KEY_BYTES))


def pair_of(private: bytes) -> KeyPair:
    """The key pair of a private key."""
    return KeyPair(private, _x25519().from_private_bytes(private).public_key().public_bytes_raw())


def seal(public: bytes, text: bytes, about: bytes = b"", draw: Draw = os.urandom) -> bytes:
    """Seal a text in a box that only the owner of a public key can open.

    Args:
        public: key of the reader.
        text: what the box holds.
        about: bound to the box without being in it.
        draw: where random bytes come from.
    """
    once = key_pair(draw)
    return once.public + _cipher(_shared(once.private, public, once.public, public)).encrypt(ONCE, text, about)


def unseal(own: KeyPair, box: bytes, about: bytes = b"") -> bytes:
    """Open a box; raises Refused if it was changed, is for somebody else, or was sealed with another `about`."""
    once, rest = box[:KEY_BYTES], box[KEY_BYTES:]
    if len(box) < BOX_BYTES:
        raise Refused(f"a sealed box of {len(box)} bytes is cut short: send it again")
    return _decrypt(_shared(own.private, once, once, own.public), ONCE, rest, about)


def lock(key: bytes, text: bytes, about: bytes = b"", draw: Draw = os.urandom) -> bytes:
    """Encrypt a text so that only who has the key can read it."""
    nonce = draw(NONCE_BYTES)
    return nonce + _cipher(key).encrypt(nonce, text, about)


def unlock(key: bytes, locked: bytes, about: bytes = b"") -> bytes:
    """Decrypt a locked text; raises Refused if it was changed, or locked with another key or `about`."""
    if len(locked) < LOCK_BYTES:
        raise Refused(f"a locked text of {len(locked)} bytes is cut short: send it again")
    return _decrypt(key, locked[:NONCE_BYTES], locked[NONCE_BYTES:], about)


def mark(key: bytes, *parts: bytes) -> bytes:
    """A mark (HMAC-SHA256) that only whoever has the key can put under these parts."""
    found = hmac.new(key, digestmod="sha256")
    for part in parts:
        found.update(len(part).to_bytes(8, "big") + part)
    return found.digest()


def check_mark(key: bytes, given: bytes, *parts: bytes) -> None:
    """Raise Refused unless the mark belongs under these parts."""
    if not hmac.compare_digest(given, mark(key, *parts)):
        raise Refused("the mark under a message does not belong to it: it was changed, or its sender has another key")


# ---------------------------------------------------------------- the library behind


def _decrypt(key: bytes, nonce: bytes, text: bytes, about: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        return bytes(_cipher(key).decrypt(nonce, text, about))
    except InvalidTag:
        raise Refused("a sealed message does not open: it was changed, or is meant for somebody else") from None


def _shared(private: bytes, other: bytes, *parties: bytes) -> bytes:
    """Derive the key of a box from the secret that both key pairs share, and from their public keys."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    try:
        secret = _x25519().from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        raise Refused("a sealed message was made with no proper key: it was changed, or its sender is broken") from None
    info = b"fedcell sealed box" + b"".join(parties)
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)


def _cipher(key: bytes) -> "ChaCha20Poly1305":
    _require()
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key)


def _x25519() -> "type[X25519PrivateKey]":
    _require()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey


def _require() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise BadInput("sealing needs the package cryptography: install the extra `privacy`") from None
