"""Parties put together: a request from the user to the video, step by step, over a wire that counts.

Reference: rawhfl, Figure 2
"""

import os
from collections.abc import Sequence

from ....sealing import KEY_BYTES, Draw, unlock
from .messages import Links, Wire, unpadded
from .parties import BaseStation, ContentProvider, EdgeServer, InternetProvider, User


class RequestNetwork:
    """All parties, and who is in which cell; only the model itself sees them together.

    Args:
        users: with accounts `0, 1, ...`.
        stations: one per cell.
        isp: their access provider.
        servers: one per cell.
        csp: the content provider.
        cell: of every user.
        wire: carries messages.
        cover: whether edge servers fetch also what they hold, so that a hit looks like a miss.
    """

    def __init__(
        self,
        users: Sequence[User],
        stations: Sequence[BaseStation],
        isp: InternetProvider,
        servers: Sequence[EdgeServer],
        csp: ContentProvider,
        cell: Sequence[int],
        wire: Wire,
        cover: bool = False,
    ) -> None:
        self.users, self.stations, self.isp, self.servers, self.csp = users, stations, isp, servers, csp
        self.cell, self.wire, self.cover = list(cell), wire, cover

    @property
    def parties(self) -> list[User | BaseStation | InternetProvider | EdgeServer | ContentProvider]:
        """Everybody, users last."""
        return [*self.stations, self.isp, *self.servers, self.csp, *self.users]

    def rotate(self) -> None:
        """A new period: the CSP tells its edge servers and, in one notice that all base stations send, its users."""
        notice, keys = self.csp.rotate()
        wire = self.wire
        body = wire.carry(0, "csp>isp", "core", notice)
        for server, station in zip(self.servers, self.stations, strict=True):
            own = wire.carry(0, "csp>isp", "core", keys[server.cell])
            server.learn_group(wire.carry(0, "isp>bs", "backhaul", own))
            heard = wire.carry(0, "bs>user", "air", wire.carry(0, "isp>bs", "backhaul", body))
            for user in self.users:
                if self.cell[user.account] == station.cell:
                    user.learn_tags(heard, wire.now_s)

    def place(self, cell: int, files: Sequence[int]) -> None:
        """Let an edge server hold these files and no others; those that it lacks are fetched."""
        server = self.servers[cell]
        server.held = {file: server.held[file] if file in server.held else self._fetch(server, file) for file in files}

    def request(self, account: int, file: int) -> bytes:
        """The video that a user asks for; raises Refused if a message was changed, repeated or late on the way."""
        user, cell = self.users[account], self.cell[account]
        station, wire = self.stations[cell], self.wire
        asked = wire.carry(2, "user>bs", "air", user.ask(file, wire.now_s))
        asked = wire.carry(3, "bs>isp", "backhaul", station.up(asked, wire.now_s))
        asked = wire.carry(4, "isp>csp", "core", self.isp.charge(asked, wire.now_s))
        order = wire.carry(6, "csp>isp", "core", self.csp.answer(asked, wire.now_s))
        return self.deliver(order)

    def deliver(self, order: bytes) -> bytes:
        """Steps 7 to 12: an order of the CSP, as it reached the ISP, until the user has the video."""
        wire = self.wire
        cell, order = self.isp.route(order, wire.now_s)
        station, server = self.stations[cell], self.servers[cell]
        order = wire.carry(7, "isp>bs", "backhaul", order)
        order = wire.carry(8, "bs>es", "inside", station.to_server(order, wire.now_s))
        video = server.serve(order, wire.now_s, lambda file: self._fetch(server, file), self.cover)
        video = wire.carry(10, "es>bs", "inside", video)
        subscriber, video = station.to_user(video, wire.now_s)
        video = wire.carry(11, "bs>user", "air", video)
        user = next(one for one in self.users if one.subscriber == subscriber)
        return user.take(video, wire.now_s)

    def _fetch(self, server: EdgeServer, file: int) -> bytes:
        """A file that an edge server lacks, over base station and ISP, which see neither name nor content."""
        wire, station, reply_key = self.wire, self.stations[server.cell], server.draw(KEY_BYTES)
        box = wire.carry(0, "es>bs", "inside", server.lack(file, reply_key))
        box = wire.carry(0, "bs>isp", "backhaul", station.pass_on(box, wire.now_s, "fetch"))
        body = wire.carry(0, "isp>csp", "core", self.isp.fetch(server.cell, box, wire.now_s))
        body = wire.carry(0, "csp>isp", "core", self.csp.supply(body, wire.now_s))
        cell, payload = self.isp.fetched(body, wire.now_s)
        payload = wire.carry(0, "isp>bs", "backhaul", payload)
        payload = wire.carry(0, "bs>es", "inside", self.stations[cell].pass_on(payload, wire.now_s, "file"))
        return unpadded(unlock(reply_key, payload, b"file"))


def build_network(
    files: Sequence[bytes],
    cell: Sequence[int],
    links: Links | None = None,
    cover: bool = False,
    draw: Draw = os.urandom,
) -> RequestNetwork:
    """A network in its first period.

    Args:
        files: what the CSP has.
        cell: of every user, counted from 0.
        links: rates and delays.
        cover: whether a hit looks like a miss.
        draw: where keys and nonces come from; seeded bytes make a run repeatable, and worthless as a secret.
    """
    csp = ContentProvider(list(files), draw)
    subscriber_keys = {10_000 + number: draw(KEY_BYTES) for number in range(len(cell))}
    users = [
        User(number, csp.open_account(number), subscriber, key, csp.public, draw)
        for number, (subscriber, key) in enumerate(subscriber_keys.items())
    ]
    cells = range(max(cell) + 1)
    station_keys = {b: draw(KEY_BYTES) for b in cells}
    network = RequestNetwork(
        users,
        [BaseStation(b, station_keys[b], draw) for b in cells],
        InternetProvider(subscriber_keys, station_keys, draw),
        [EdgeServer(b, csp.install(b), csp.public, csp.payload_bytes, draw) for b in cells],
        csp,
        cell,
        Wire(links or Links()),
        cover,
    )
    network.rotate()
    return network
