"""What parties send: bytes of a fixed length for each kind of message, so that the length reveals nothing.

A `Wire` carries them, counts bytes and seconds, and keeps the time of the model.
"""

from collections.abc import Callable
from struct import Struct, error
from typing import Any, NamedTuple

from ....sealing import BOX_BYTES, KEY_BYTES, LOCK_BYTES, MAC_BYTES, Refused
from .tags import TAG_BYTES

HANDLE_BYTES, NONCE_BYTES = 16, 16
MICRO = 1_000_000
COUNTER_BYTES, PERIOD_BYTES = 8, 4


class Layout:
    """Parts of a message in order; reading anything of another length is refused."""

    def __init__(self, name: str, layout: str) -> None:
        self.name, self._struct = name, Struct(">" + layout)

    @property
    def size(self) -> int:
        """Bytes of every such message."""
        return self._struct.size

    def pack(self, *parts: bytes | int) -> bytes:
        """The message of these parts."""
        return self._struct.pack(*parts)

    def unpack(self, body: bytes) -> tuple[Any, ...]:
        """Its parts, numbers and bytes."""
        try:
            return self._struct.unpack(body)
        except error:
            raise Refused(f"{self.name} has {len(body)} bytes instead of {self.size}: it was cut or mixed up") from None


# What a user asks the CSP: account, period, tag, microseconds, nonce, session key, mark of the account
ASKED = Layout("a request", f"QI{TAG_BYTES}sQ{NONCE_BYTES}s{KEY_BYTES}s{MAC_BYTES}s")
BOX = ASKED.size + BOX_BYTES
# What the CSP orders from an edge server: period, file, nonce, session key
ORDERED = Layout("an order", f"II{NONCE_BYTES}s{KEY_BYTES}s")
LOCKED_ORDER = ORDERED.size + LOCK_BYTES
# What an edge server lacks: the same, and a mark of the servers
LACKED = Layout("a fetch", f"II{NONCE_BYTES}s{KEY_BYTES}s{MAC_BYTES}s")
LACK_BOX = LACKED.size + BOX_BYTES

# On the way
AIR = Layout("a request on the air", f"QQ{BOX}s{MAC_BYTES}s")  # subscriber, counter, box, mark of the subscriber
FROM_CELL = Layout("a request from a cell", f"I{AIR.size}s{MAC_BYTES}s")  # cell, what came by air, mark of the station
TO_CSP = Layout("a request to the CSP", f"{HANDLE_BYTES}s{BOX}s")
ORDER = Layout("an order", f"{HANDLE_BYTES}s{LOCKED_ORDER}s")
TO_CELL = Layout("an order to a cell", f"QQ{LOCKED_ORDER}s{MAC_BYTES}s")  # subscriber, counter, order, mark of the ISP
FETCH = Layout("a fetch", f"{HANDLE_BYTES}s{LACK_BOX}s")


class Links(NamedTuple):
    """Rates and delays of the ways between parties."""

    air_bps: float = 1e8
    air_s: float = 0.01
    inside_bps: float = 1e10  # between a base station and its edge server
    inside_s: float = 0.0001
    backhaul_bps: float = 5e7  # between a base station and the ISP's cloud
    backhaul_s: float = 0.01
    core_bps: float = 1e9  # between the ISP and the CSP
    core_s: float = 0.02


class Sent(NamedTuple):
    """One message of the model."""

    step: int  # of the paper's figure; 0: beyond it
    way: str
    n_bytes: int
    seconds: float


class Wire:
    """Carries messages, counts them, and keeps the time."""

    def __init__(self, links: Links) -> None:
        self.links, self.now_s = links, 0.0
        self.sent: list[Sent] = []
        self.tamper: Callable[[str, bytes], bytes] = lambda way, body: body  # somebody on the way

    def carry(self, step: int, way: str, link: str, body: bytes) -> bytes:
        """Send a message over a link: count it, advance the time, and return what arrives."""
        seconds = getattr(self.links, f"{link}_s") + 8 * len(body) / getattr(self.links, f"{link}_bps")
        self.sent.append(Sent(step, way, len(body), seconds))
        self.now_s += seconds
        return self.tamper(way, body)


def new_period(body: bytes, known: int) -> tuple[bytes, bytes]:
    """(period, keys locked about it) of a message that begins a period; raises Refused unless it is a later one."""
    about, rest = body[:PERIOD_BYTES], body[PERIOD_BYTES:]
    if (period := int.from_bytes(about, "big")) <= known:
        raise Refused(f"the keys of period {period} are stale in period {known}: somebody sends old ones again")
    return about, rest


def unproved(plain: bytes) -> bytes:
    """A message with zeros in place of the mark at its end: what the mark was put under."""
    return plain[:-MAC_BYTES] + bytes(MAC_BYTES)


def padded(text: bytes, size: int) -> bytes:
    """A text of up to `size` bytes, padded to the same length as all others; its own length comes first."""
    return len(text).to_bytes(8, "big") + text.ljust(size, b"\0")


def unpadded(text: bytes) -> bytes:
    """The text that `padded` was given."""
    return text[8 : 8 + int.from_bytes(text[:8], "big")]
