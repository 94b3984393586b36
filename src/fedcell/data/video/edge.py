"""Edge servers for the requests of a run, as the settings have them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...types import Ints, Stream, Topology
from ...world.edge import Edge, Log, Network, check_known, edge_stream
from ...world.streams import StreamMemory
from .settings import VideoConfig
from .sizes import file_bits
from .users import Profiles

if TYPE_CHECKING:
    from .problem import VideoParts

NONE = "none"


def edges_of(settings: VideoConfig) -> list[Edge]:
    """The edge servers of the settings: one in every cell, or none at all."""
    if not settings.edge_files or settings.edge_placement == NONE:
        return []
    return [
        Edge(
            rule=settings.edge_placement,
            room=settings.edge_files,
            margin=settings.edge_margin,
            n_named=settings.edge_reports,
            knows=settings.edge_knows,
        )
    ]


def with_edges(stream: Stream, settings: VideoConfig, parts: "VideoParts", edges: Sequence[Edge], seed: int) -> Stream:
    """The stream of requests with edge servers behind it, of which a problem may have several kinds at once.

    Args:
        stream: of the requests, without servers.
        settings: sizes of files, rates, and how many requests there are at first.
        parts: the requests.
        edges: kinds of servers; each has one in every cell. None of them: the stream as it is.
        seed: of the run.
    """
    if not edges:
        return stream
    for edge in edges:
        check_known(edge.rule, edge.knows)
    filled, file_bit = first_samples(settings, parts.profiles), file_bits(settings, seed)
    log = Log(parts.train.log, parts.train.lead + filled, lambda made: parts.train.ahead(filled + made))

    def made(memory: StreamMemory) -> Ints:
        return np.asarray(memory.source - filled)

    def at(topology: Topology) -> Stream:
        network = Network(len(topology.station_m), file_bit, settings.backhaul_bps, settings.downlink_bps)
        return edge_stream(stream, edges, network, log, made, topology.cell)

    return stream._replace(at=at)


def first_samples(settings: VideoConfig, profiles: Profiles) -> Ints:
    """Samples of every user before the first round, `[n_users]`."""
    return np.minimum(settings.initial, profiles.capacity).astype(np.int64)
