"""What every edge server does, whichever rule places its files: hold, serve, count.

A request is a hit if the server of the user's cell holds the file. A miss passes over the backhaul. Files that a
placement fetches between two rounds pass over the backhaul as well, so that a placement is judged by all its bits.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...types import Bools, Floats, Ints


class Network(NamedTuple):
    """What is fixed for a run."""

    n_cells: int
    file_bit: Floats  # [n_files]
    backhaul_bps: float  # of one transfer from the central server to a base station
    downlink_bps: float  # of one transfer from a base station to a user

    @property
    def n_files(self) -> int:
        return len(self.file_bit)


class Servers(NamedTuple):
    """What the servers carry from round to round."""

    held: Bools  # [n_cells, n_files]
    served: Ints  # [n_cells, n_files], requests so far, also those before the first round
    last: Ints  # [n_cells, n_files], number of the last request for the file; 0: none since the first round
    clock: int  # requests since the first round


class Requests(NamedTuple):
    """The requests of one round in the order in which they are made."""

    cell: Ints  # [n_requests]
    file: Ints  # [n_requests]

    def counts(self, n_cells: int, n_files: int) -> Ints:
        """Requests for each file in each cell, `[n_cells, n_files]`."""
        flat = np.bincount(self.cell * n_files + self.file, minlength=n_cells * n_files)
        return flat.reshape(n_cells, n_files)


class Reports(NamedTuple):
    """What users tell the server of their cell about the coming round, or the rounds that it looks ahead."""

    share: Floats  # [n_users, n_files], probability of the next request; zero beyond the files they name
    rate: Floats  # [n_users], requests they expect to make
    cell: Ints  # [n_users]


class View(NamedTuple):
    """What a placement sees. Parts that it does not ask for by name (`NEEDS`) are None."""

    n_cells: int
    n_files: int
    room: int  # files that a server can hold
    seed: int
    n_expected: Floats  # [n_cells], requests until the horizon, estimated from earlier rounds
    served: Ints | None = None  # [n_cells, n_files], requests that passed so far
    reports: Reports | None = None
    next: Ints | None = None  # [n_cells, n_files], requests of the coming round, which nobody can know


def begin(network: Network, served: Ints) -> Servers:
    """Empty servers that know what was asked for before the first round."""
    shape = (network.n_cells, network.n_files)
    return Servers(np.zeros(shape, dtype=np.bool_), served, np.zeros(shape, dtype=np.int64), 0)


def refill(held: Bools, wanted: Floats, room: int, margin: float = 0.0) -> Bools:
    """What servers hold after a placement: the `room` files with the highest scores.

    A held file keeps its place unless another one is wanted by more than `margin` above it, so that equal scores fetch
    nothing. Files without any score are never fetched. Of equal scores the lower file number is first.

    Args:
        held: `[n_cells, n_files]`, before.
        wanted: `[n_cells, n_files]`, expected requests of the coming round.
        room: files that a server can hold.
        margin: requests by which a new file must exceed a held one.

    >>> refill(np.array([[True, False, False]]), np.array([[1.0, 1.0, 2.0]]), 1).tolist()
    [[False, False, True]]
    >>> refill(np.array([[True, False, False]]), np.array([[1.0, 1.0, 2.0]]), 1, margin=1.0).tolist()
    [[True, False, False]]
    """
    value = np.where(held, wanted + margin, wanted)
    order = np.lexsort((~held, -value), axis=1)[:, :room]  # stable: of equal ones the lower number is first
    after = np.zeros_like(held)
    np.put_along_axis(after, order, True, axis=1)
    return after & (held | (wanted > 0))


def admit(held: Bools, wanted: Floats, room: int, margin: float, requests: Requests) -> tuple[Bools, Bools]:
    """(hits, what is held afterwards) of servers that fetch nothing: a missed file is kept as it passes by, or not.

    It takes a free place, or that of the least wanted held file if it is wanted by more than `margin` above that one.
    Of equal files the lower number goes first.

    Args:
        held: `[n_cells, n_files]`, before.
        wanted: `[n_cells, n_files]`, expected requests of the round.
        room: files that a server can hold.
        margin: requests by which a new file must exceed a held one.
        requests: of the round, one after another.
    """
    kept = [set(np.flatnonzero(row).tolist()) for row in held]
    hit = np.zeros(len(requests.file), dtype=np.bool_)
    for place, (cell, file) in enumerate(zip(requests.cell.tolist(), requests.file.tolist(), strict=True)):
        own, score = kept[cell], wanted[cell]
        hit[place] = file in own
        if not hit[place] and len(own) >= room:
            least = min(own, key=lambda one: (score[one], one))
            if score[file] <= score[least] + margin:
                continue
            own.remove(least)
        own.add(file)
    after = np.zeros_like(held)
    for cell, own in enumerate(kept):
        after[cell, list(own)] = True
    return hit, after


def columns(network: Network, requests: Requests, hit: Bools, fetched: Bools) -> Mapping[str, float]:
    """The columns of a round; a round without requests has neither hit ratio nor delivery time.

    - `requests`, `request_bit`: made by all users, and the bits of what they asked for.
    - `hit_ratio`: share that an edge server held.
    - `fetch_bit`: fetched by the placement before the round.
    - `video_backhaul_bit`: what the backhaul carried for users: the misses and `fetch_bit`.
    - `delivery_s`: mean time from the request to the whole file, without waiting for others.
    """
    bit = network.file_bit[requests.file]
    fetch_bit = float((fetched * network.file_bit).sum())
    out = {
        "requests": float(len(hit)),
        "request_bit": float(bit.sum()),
        "fetch_bit": fetch_bit,
        "video_backhaul_bit": float(bit[~hit].sum()) + fetch_bit,
    }
    if len(hit):
        seconds = bit / network.downlink_bps + np.where(hit, 0.0, bit / network.backhaul_bps)
        out |= {"hit_ratio": float(hit.mean()), "delivery_s": float(seconds.mean())}
    return out


def counted(servers: Servers, requests: Requests) -> Servers:
    """The servers after a round's requests: counts, and when each file was asked for last."""
    served, last = servers.served.copy(), servers.last.copy()
    np.add.at(served, (requests.cell, requests.file), 1)
    number = servers.clock + 1 + np.arange(len(requests.file))
    np.maximum.at(last, (requests.cell, requests.file), number)
    return servers._replace(served=served, last=last, clock=servers.clock + len(requests.file))
