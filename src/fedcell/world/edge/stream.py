"""Edge servers behind a stream of requests: what arrives at the devices was served by the server of their cell.

The requests of a round are those that arrive just before it. A placement is made before they are, with the models and
counts of the round before.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...types import Arrived, Bools, Floats, Ints, Store, Stream
from .rules import load
from .servers import Network, Reports, Requests, Servers, View, admit, begin, columns, counted, refill

if TYPE_CHECKING:
    from torch import Tensor


class Edge(NamedTuple):
    """One server per cell and the rule that fills them. Several of them can be watched in one run."""

    rule: str
    room: int  # files that a server can hold
    margin: float = 0.0  # requests by which a new file must exceed a held one
    prefetch: bool = True  # fetch between rounds; else keep what passes by
    horizon: float = 1.0  # rounds that a placement looks ahead
    n_named: int = 8  # files that a user names (predicted)
    knows: tuple[str, ...] = ("served", "reports")
    prefix: str = ""  # of its columns


class Log(NamedTuple):
    """The requests of a run: what users ask for one after another."""

    files: Ints  # [n_users, n_requests]
    before: Ints  # [n_users], requests made before the first round
    ahead: "Callable[[Ints], Tensor]"  # what the models see of each user after so many requests, `[n_users, ...]`


class EdgeMemory(NamedTuple):
    """What a stream with edge servers carries between rounds."""

    stream: Any  # memory of the stream itself
    servers: tuple[Servers, ...]  # of every edge


def edge_stream(
    stream: Stream, edges: Sequence[Edge], network: Network, log: Log, done: Callable[[Any], Ints], cell: Ints
) -> Stream:
    """The stream with edge servers that watch it; what the devices get stays as it is.

    Args:
        stream: of the requests.
        edges: servers with their rules, each for itself.
        network: sizes of files, and rates.
        log: every request there will be.
        done: requests that users have made since the first round, `[n_users]`, by the stream's memory.
        cell: where users are before the first round, `[n_users]`.
    """

    def start(seed: int) -> tuple[Store, EdgeMemory]:
        store, memory = stream.start(seed)
        width = np.arange(log.files.shape[1])
        made = width < log.before[:, None]
        earlier = Requests(cell.repeat(log.before), log.files[made])
        first = begin(network, earlier.counts(network.n_cells, network.n_files))
        return store, EdgeMemory(memory, (first,) * len(edges))

    def arrive(seed: int, round: int, store: Store, memory: EdgeMemory) -> tuple[Store, EdgeMemory]:
        store, inner = stream.arrive(seed, round, store, memory.stream)
        return store, EdgeMemory(inner, memory.servers)

    def serve(arrived: Arrived) -> tuple[EdgeMemory, Mapping[str, float]]:
        before, after = (done(memory.stream) for memory in (arrived.before, arrived.after))
        requests = _requests(log, before, after, arrived.cell)
        reports = _reports(edges, log, before, arrived)
        found: dict[str, float] = {}
        servers = []
        for edge, old in zip(edges, arrived.after.servers, strict=True):
            view = _view(edge, network, old, requests, reports, before, arrived)
            new, row = _play(edge, network, old, requests, view)
            servers.append(new)
            found |= {edge.prefix + name: value for name, value in row.items()}
        return EdgeMemory(arrived.after.stream, tuple(servers)), found

    return stream._replace(start=start, arrive=arrive, serve=serve)


def _requests(log: Log, before: Ints, after: Ints, cell: Ints) -> Requests:
    """The requests of a round: the first one of every user, then the second ones, and so on."""
    place = np.arange(int((after - before).max(initial=0)))[:, None]
    at = (log.before + before + place).clip(max=log.files.shape[1] - 1)
    file = np.take_along_axis(log.files.T, at, axis=0)
    made = place < after - before
    return Requests(np.broadcast_to(cell, made.shape)[made], file[made])


def _reports(edges: Sequence[Edge], log: Log, before: Ints, arrived: Arrived) -> Floats | None:
    """Probabilities of every user's next request by its model, `[n_users, n_files]`; None if no rule needs them."""
    if not any("reports" in load(edge.rule).NEEDS for edge in edges):
        return None
    return arrived.ask(log.ahead(before))


def _view(
    edge: Edge,
    network: Network,
    servers: Servers,
    requests: Requests,
    foretold: Floats | None,
    before: Ints,
    arrived: Arrived,
) -> View:
    """The view of a placement rule: only the parts that it names in `NEEDS`."""
    needs = load(edge.rule).NEEDS
    rate = np.asarray(edge.horizon * (before + 1.0) / (arrived.round + 1.0), dtype=np.float64)
    reports = None
    if "reports" in needs:
        assert foretold is not None
        reports = Reports(named(foretold, edge.n_named, network.n_files), rate, arrived.cell)
    return View(
        n_cells=network.n_cells,
        n_files=network.n_files,
        room=edge.room,
        seed=arrived.seed,
        n_expected=np.asarray(np.bincount(arrived.cell, rate, network.n_cells), dtype=np.float64),
        served=servers.served if "served" in needs else None,
        reports=reports,
        next=requests.counts(network.n_cells, network.n_files) if "next" in needs else None,
    )


def named(foretold: Floats, n_named: int, n_files: int) -> Floats:
    """The `n_named` largest probabilities of every row, the others zero, `[n_users, n_files]`.

    >>> named(np.array([[0.5, 0.1, 0.4], [0.2, 0.3, 0.5]]), 1, 3).tolist()
    [[0.5, 0.0, 0.0], [0.0, 0.0, 0.5]]
    """
    top = np.argsort(-foretold, axis=1, kind="stable")[:, :n_named]
    out = np.zeros((len(foretold), max(foretold.shape[1], n_files)))  # a model may name fewer classes, or more
    np.put_along_axis(out, top, np.take_along_axis(foretold, top, axis=1), axis=1)
    return out[:, :n_files]


def _play(
    edge: Edge, network: Network, old: Servers, requests: Requests, view: View
) -> tuple[Servers, Mapping[str, float]]:
    """Place, serve and count one round."""
    rule = load(edge.rule)
    fetched = np.zeros_like(old.held)
    if not hasattr(rule, "wanted"):
        hit, held = _react(rule.serve, edge.room, old, requests)
    elif edge.prefetch:
        held = refill(old.held, rule.wanted(view), edge.room, edge.margin)
        hit, fetched = held[requests.cell, requests.file], held & ~old.held
    else:
        hit, held = admit(old.held, rule.wanted(view), edge.room, edge.margin, requests)
    return counted(old, requests)._replace(held=held), columns(network, requests, hit, fetched)


def _react(
    serve: Callable[..., tuple[Bools, Bools]], room: int, old: Servers, requests: Requests
) -> tuple[Bools, Bools]:
    """(hits, held) of servers whose cache changes with every request, computed cell by cell."""
    hit, held = np.zeros(len(requests.file), dtype=np.bool_), old.held.copy()
    for cell in np.unique(requests.cell):
        own = requests.cell == cell
        parts = (part[cell] for part in (old.held, old.served, old.last))
        hit[own], held[cell] = serve(room, *parts, old.clock, requests.file[own])
    return hit, held
