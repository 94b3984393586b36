"""The parties of a request. Each holds its own keys and a log of what it saw, and nothing else.

Numbers in brackets are the steps of the paper's Figure 2. Everybody refuses what was changed (a mark or a lock does not
fit), repeated (a counter or nonce was seen before), or old (another period, or sent too long ago).
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ....sealing import (
    KEY_BYTES,
    LOCK_BYTES,
    MAC_BYTES,
    Draw,
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
from . import messages
from .messages import (
    COUNTER_BYTES,
    HANDLE_BYTES,
    MICRO,
    NONCE_BYTES,
    PERIOD_BYTES,
    new_period,
    padded,
    unpadded,
    unproved,
)
from .tags import tag_of, tag_table

FRESH_S = 30.0  # a request that took longer to arrive is refused
NOBODYS = bytes(MAC_BYTES)  # in place of a mark while it is made
NOTICE_BYTES = KEY_BYTES + LOCK_BYTES  # of one account in a notice


class Seen(NamedTuple):
    """One entry of a log: what the party could read, and the bytes that it could not."""

    at_s: float
    fields: Mapping[str, Any]
    dark: bytes


class Party:
    """A party with a name, a source of random bytes, and a log of what it saw."""

    def __init__(self, name: str, draw: Draw) -> None:
        self.name, self.draw = name, draw
        self.log: list[Seen] = []

    def see(self, at_s: float, dark: bytes = b"", **fields: Any) -> None:
        self.log.append(Seen(at_s, fields, dark))


class Once:
    """Refuses a number that was seen before."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def check(self, number: bytes, what: str) -> None:
        if number in self._seen:
            raise Refused(f"{what} was seen before: somebody sends an old one again")
        self._seen.add(number)


class User(Party):
    """A user equipment: an account with the CSP, a subscription with the ISP."""

    def __init__(
        self, account: int, account_key: bytes, subscriber: int, subscriber_key: bytes, csp_public: bytes, draw: Draw
    ) -> None:
        super().__init__(f"user {account}", draw)
        self.account, self.subscriber = account, subscriber
        self._account_key, self._subscriber_key, self._csp_public = account_key, subscriber_key, csp_public
        self._period, self._tag_key = -1, b""
        self._counter = 0
        self._waiting: dict[int, tuple[int, bytes]] = {}  # counter -> file, session key

    def learn_tags(self, notice: bytes, at_s: float) -> None:
        """Take the key of a new period from the notice for all users, which has one part per account."""
        about, parts = new_period(notice, self._period)
        own = parts[self.account * NOTICE_BYTES : (self.account + 1) * NOTICE_BYTES]
        self._tag_key, self._period = unlock(self._account_key, own, about), int.from_bytes(about, "big")
        self.see(at_s, period=self._period)

    def ask(self, file: int, at_s: float) -> bytes:
        """[1], [2] A request for a file: its tag, sealed for the CSP."""
        if self._period < 0:
            raise Refused(f"{self.name} has no tags yet: it needs the notice of a period first")
        session, nonce = self.draw(KEY_BYTES), self.draw(NONCE_BYTES)
        parts = (self.account, self._period, tag_of(self._tag_key, file), int(at_s * MICRO), nonce, session)
        proof = mark(self._account_key, messages.ASKED.pack(*parts, NOBODYS))
        box = seal(self._csp_public, messages.ASKED.pack(*parts, proof), draw=self.draw)
        self._counter += 1
        self._waiting[self._counter] = (file, session)
        self.see(at_s, asked=file)
        unmarked = messages.AIR.pack(self.subscriber, self._counter, box, NOBODYS)
        return messages.AIR.pack(self.subscriber, self._counter, box, mark(self._subscriber_key, unmarked))

    def take(self, body: bytes, at_s: float) -> bytes:
        """[12] Unlock the video of a request that waits for its answer."""
        counter, payload = int.from_bytes(body[:COUNTER_BYTES], "big"), body[COUNTER_BYTES:]
        if counter not in self._waiting:
            raise Refused(f"{self.name} waits for no answer {counter}: it was sent again, or is not for this user")
        file, session = self._waiting[counter]
        video = unpadded(unlock(session, payload, b"video"))
        del self._waiting[counter]
        self.see(at_s, got=file)
        return video


class BaseStation(Party):
    """Passes messages between users, the ISP's cloud and the edge server in its cell."""

    def __init__(self, cell: int, isp_key: bytes, draw: Draw) -> None:
        super().__init__(f"base station {cell}", draw)
        self.cell, self._isp_key = cell, isp_key
        self._orders = Once()
        self._tickets: dict[bytes, tuple[int, int]] = {}  # subscriber, counter

    def up(self, body: bytes, at_s: float) -> bytes:
        """[3] Pass on a user's request, with the cell and the mark of the station."""
        subscriber, counter, box, _ = messages.AIR.unpack(body)
        self.see(at_s, box, subscriber=subscriber, counter=counter, n_bytes=len(body))
        unmarked = messages.FROM_CELL.pack(self.cell, body, NOBODYS)
        return messages.FROM_CELL.pack(self.cell, body, mark(self._isp_key, unmarked))

    def to_server(self, body: bytes, at_s: float) -> bytes:
        """[8] An order for the edge server, under a ticket that nobody else knows."""
        subscriber, counter, order, given = messages.TO_CELL.unpack(body)
        check_mark(self._isp_key, given, unproved(body))
        self._orders.check(order, "an order")
        ticket = self.draw(HANDLE_BYTES)
        self._tickets[ticket] = (subscriber, counter)
        self.see(at_s, order, subscriber=subscriber, counter=counter, n_bytes=len(body))
        return messages.ORDER.pack(ticket, order)

    def to_user(self, body: bytes, at_s: float) -> tuple[int, bytes]:
        """[11] (subscriber, what goes on the air) of an answer of the edge server."""
        ticket, payload = body[:HANDLE_BYTES], body[HANDLE_BYTES:]
        if ticket not in self._tickets:
            raise Refused(f"{self.name} has no ticket for this video: it was changed, or sent again")
        subscriber, counter = self._tickets.pop(ticket)
        self.see(at_s, payload, subscriber=subscriber, counter=counter, n_bytes=len(body))
        return subscriber, counter.to_bytes(COUNTER_BYTES, "big") + payload

    def pass_on(self, body: bytes, at_s: float, what: str) -> bytes:
        """Pass on a fetch of the edge server, or the answer to it."""
        self.see(at_s, body, passed=what, n_bytes=len(body))
        return body


class InternetProvider(Party):
    """The cloud of the ISP: knows who pays and in which cell, and no content."""

    def __init__(self, subscriber_keys: Mapping[int, bytes], station_keys: Mapping[int, bytes], draw: Draw) -> None:
        super().__init__("ISP", draw)
        self._keys, self._counters = dict(subscriber_keys), dict.fromkeys(subscriber_keys, 0)
        self._station_keys = dict(station_keys)
        self._handles: dict[bytes, tuple[int, int, int]] = {}  # cell, subscriber, counter
        self._fetches: dict[bytes, int] = {}  # cell
        self.bill: dict[int, int] = dict.fromkeys(subscriber_keys, 0)  # requests by subscriber

    def charge(self, body: bytes, at_s: float) -> bytes:
        """[3], [4] Check who asks, charge, and pass the box on under a handle."""
        cell, air, station_mark = messages.FROM_CELL.unpack(body)
        if cell not in self._station_keys:
            raise Refused(f"the ISP has no cell {cell}: it was changed on the way")
        check_mark(self._station_keys[cell], station_mark, unproved(body))
        subscriber, counter, box, given = messages.AIR.unpack(air)
        if subscriber not in self._keys:
            raise Refused(f"nobody has subscription {subscriber}: it was changed on the way")
        check_mark(self._keys[subscriber], given, unproved(air))
        if counter <= self._counters[subscriber]:
            raise Refused(f"request {counter} of subscriber {subscriber} was seen before: somebody sends it again")
        self._counters[subscriber] = counter
        self.bill[subscriber] += 1
        handle = self.draw(HANDLE_BYTES)
        self._handles[handle] = (cell, subscriber, counter)
        self.see(at_s, box, subscriber=subscriber, cell=cell, n_bytes=len(body))
        return messages.TO_CSP.pack(handle, box)

    def route(self, body: bytes, at_s: float) -> tuple[int, bytes]:
        """[7] (cell, order for its base station) of an answer of the CSP."""
        handle, order = messages.ORDER.unpack(body)
        if handle not in self._handles:
            raise Refused("the ISP gave nobody this handle: it was changed, or the answer was sent again")
        cell, subscriber, counter = self._handles.pop(handle)
        self.see(at_s, order, subscriber=subscriber, cell=cell, n_bytes=len(body))
        unmarked = messages.TO_CELL.pack(subscriber, counter, order, NOBODYS)
        return cell, messages.TO_CELL.pack(subscriber, counter, order, mark(self._station_keys[cell], unmarked))

    def fetch(self, cell: int, box: bytes, at_s: float) -> bytes:
        """What an edge server lacks, on its way to the CSP without the cell."""
        handle = self.draw(HANDLE_BYTES)
        self._fetches[handle] = cell
        self.see(at_s, box, cell=cell, fetch=True, n_bytes=len(box))
        return messages.FETCH.pack(handle, box)

    def fetched(self, body: bytes, at_s: float) -> tuple[int, bytes]:
        """(cell, locked file) of an answer to a fetch."""
        handle, payload = body[:HANDLE_BYTES], body[HANDLE_BYTES:]
        if handle not in self._fetches:
            raise Refused("the ISP passed on no fetch of this handle: it was changed, or sent again")
        cell = self._fetches.pop(handle)
        self.see(at_s, payload, cell=cell, fetch=True, n_bytes=len(body))
        return cell, payload


class EdgeServer(Party):
    """A server of the CSP in a cell: knows what to serve, and not to whom."""

    def __init__(self, cell: int, own_key: bytes, csp_public: bytes, payload_bytes: int, draw: Draw) -> None:
        super().__init__(f"edge server {cell}", draw)
        self.cell, self._own_key, self._csp_public, self._payload_bytes = cell, own_key, csp_public, payload_bytes
        self._period, self._group_key = -1, b""
        self._orders = Once()
        self.held: dict[int, bytes] = {}

    def learn_group(self, body: bytes) -> None:
        """Take the key that all edge servers share in a new period."""
        about, locked = new_period(body, self._period)
        self._group_key, self._period = unlock(self._own_key, locked, about), int.from_bytes(about, "big")
        self._orders = Once()

    def serve(self, body: bytes, at_s: float, fetch: Callable[[int], bytes], cover: bool = False) -> bytes:
        """[9], [10] The video that an order names, locked for whoever has its session key.

        Args:
            body: the order.
            at_s: the time.
            fetch: gets a file from the CSP.
            cover: fetch also what is held, so that nobody sees a difference.
        """
        ticket, order = messages.ORDER.unpack(body)
        period, file, nonce, session = messages.ORDERED.unpack(unlock(self._group_key, order, b"order"))
        if period != self._period:
            raise Refused(f"an order of period {period} is stale in period {self._period}")
        self._orders.check(nonce, "an order")
        hit = file in self.held
        self.see(at_s, file=file, hit=hit)
        fetched = fetch(file) if cover or not hit else b""
        video = self.held[file] if hit else fetched
        return ticket + lock(session, padded(video, self._payload_bytes), b"video", self.draw)

    def lack(self, file: int, reply_key: bytes) -> bytes:
        """A fetch, sealed for the CSP; nothing in it says which server it comes from."""
        parts = (self._period, file, self.draw(NONCE_BYTES), reply_key)
        proof = mark(self._group_key, messages.LACKED.pack(*parts, NOBODYS))
        return seal(self._csp_public, messages.LACKED.pack(*parts, proof), draw=self.draw)


class ContentProvider(Party):
    """The CSP: knows which account asks for which file, and not where."""

    def __init__(self, files: list[bytes], draw: Draw) -> None:
        super().__init__("CSP", draw)
        self._keys: KeyPair = key_pair(draw)
        self.files = files
        self.payload_bytes = max(map(len, files))
        self._accounts: dict[int, bytes] = {}
        self._servers: dict[int, bytes] = {}
        self.period = -1
        self._table: dict[bytes, int] = {}
        self._group_key = b""
        self._nonces = Once()

    @property
    def public(self) -> bytes:
        """The key that requests are sealed for."""
        return self._keys.public

    def open_account(self, number: int) -> bytes:
        """The key of a new account."""
        self._accounts[number] = self.draw(KEY_BYTES)
        return self._accounts[number]

    def install(self, cell: int) -> bytes:
        """The key of a new edge server."""
        self._servers[cell] = self.draw(KEY_BYTES)
        return self._servers[cell]

    def rotate(self) -> tuple[bytes, dict[int, bytes]]:
        """A new period: the notice for all users, and the key of the edge servers for each of them."""
        self.period += 1
        about = self.period.to_bytes(PERIOD_BYTES, "big")
        tag_key, self._group_key = self.draw(KEY_BYTES), self.draw(KEY_BYTES)
        self._table, self._nonces = tag_table(tag_key, len(self.files)), Once()  # what is older is stale
        parts = [lock(self._accounts[n], tag_key, about, self.draw) for n in sorted(self._accounts)]
        keys = {n: about + lock(key, self._group_key, about, self.draw) for n, key in self._servers.items()}
        return about + b"".join(parts), keys

    def answer(self, body: bytes, at_s: float) -> bytes:
        """[5], [6] The file behind the tag of a request, ordered from whichever edge server it reaches."""
        handle, box = messages.TO_CSP.unpack(body)
        plain = unseal(self._keys, box)
        account, period, tag, micro, nonce, session, proof = messages.ASKED.unpack(plain)
        if account not in self._accounts:
            raise Refused(f"nobody has account {account}: open one first")
        check_mark(self._accounts[account], proof, unproved(plain))
        if period != self.period:
            raise Refused(f"a request of period {period} is stale in period {self.period}: learn the new tags")
        if abs(at_s - micro / MICRO) > FRESH_S:
            raise Refused(f"a request took {at_s - micro / MICRO:.0f} s to arrive: it is too old, ask again")
        self._nonces.check(nonce, "a request")
        if tag not in self._table:
            raise Refused(f"account {account} asks for a tag of no file in period {period}: ask for another")
        file = self._table[tag]
        self.see(at_s, account=account, file=file)
        order = messages.ORDERED.pack(self.period, file, self.draw(NONCE_BYTES), session)
        return messages.ORDER.pack(handle, lock(self._group_key, order, b"order", self.draw))

    def supply(self, body: bytes, at_s: float) -> bytes:
        """A file for an edge server that lacks it."""
        handle, box = messages.FETCH.unpack(body)
        plain = unseal(self._keys, box)
        period, file, nonce, reply_key, proof = messages.LACKED.unpack(plain)
        check_mark(self._group_key, proof, unproved(plain))
        if period != self.period:
            raise Refused(f"a fetch of period {period} is stale in period {self.period}")
        self._nonces.check(nonce, "a fetch")
        self.see(at_s, fetched=file)
        return handle + lock(reply_key, padded(self.files[file], self.payload_bytes), b"file", self.draw)
