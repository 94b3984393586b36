"""Edge servers for the requests of a run, as the settings have them."""

from collections.abc import Sequence

import numpy as np

from ...types import Ints, Problem, Stream, Topology
from ...world.edge import Edge, Log, Network, check_known, edge_stream
from ...world.streams import StreamMemory
from .samples import RequestSamples
from .settings import VideoConfig
from .sizes import file_bits
from .users import Profiles

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
            prefetch=settings.edge_prefetch,
            horizon=settings.edge_horizon,
            n_named=settings.edge_reports,
            knows=settings.edge_knows,
        )
    ]


def with_edges(
    stream: Stream, settings: VideoConfig, requests: RequestSamples, filled: Ints, edges: Sequence[Edge], seed: int
) -> Stream:
    """The stream of requests with edge servers behind it, of which there may be several kinds at once.

    Args:
        stream: of the requests, without servers.
        settings: sizes of files, and rates.
        requests: every request there will be.
        filled: samples of every user before the first round, `[n_users]`.
        edges: kinds of servers; each has one in every cell. If empty, the stream is returned as it is.
        seed: of the run.
    """
    if not edges:
        return stream
    for edge in edges:
        check_known(edge.rule, edge.knows)
    file_bit = file_bits(settings, seed)
    log = Log(requests.log, requests.lead + filled, lambda made: requests.ahead(filled + made))

    def made(memory: StreamMemory) -> Ints:
        return np.asarray(memory.source - filled)

    def at(topology: Topology) -> Stream:
        network = Network(len(topology.station_m), file_bit, settings.backhaul_bps, settings.downlink_bps)
        return edge_stream(stream, edges, network, log, made, topology.cell)

    return stream._replace(at=at)


def watched(problem: Problem, settings: VideoConfig, edges: Sequence[Edge]) -> Problem:
    """A problem on video requests, without servers of its own, in which these kinds of servers are watched at once.

    Servers change nothing that is learned, so that one run measures all of them.
    """
    stream, requests = problem.world.stream, problem.learner.train_samples
    assert isinstance(requests, RequestSamples)
    filled = stream.start(problem.seed)[1].source
    found = with_edges(stream, settings, requests, filled, edges, problem.seed)
    if found.at:
        found = found.at(problem.world.topology)
    return problem._replace(world=problem.world._replace(stream=found))


def first_samples(settings: VideoConfig, profiles: Profiles) -> Ints:
    """Samples of every user before the first round, `[n_users]`."""
    return np.minimum(settings.initial, profiles.capacity).astype(np.int64)
