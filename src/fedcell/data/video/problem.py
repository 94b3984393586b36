"""The way from settings to training samples, test samples and a stream of requests."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import ContractError
from ...options import check
from ...types import Ints, Store, Stream
from ...world.caches import Keeper
from ...world.streams import Source, streaming
from .catalogue import Catalogue, build_catalogue
from .edge import edges_of, first_samples, with_edges
from .features import feature_table
from .requests import draw_arrivals, draw_requests
from .samples import FeatureSamples, HistorySamples, RequestSamples
from .settings import VideoConfig
from .users import Profiles, draw_profiles

CPU = torch.device("cpu")


class VideoParts(NamedTuple):
    """What a problem needs of the video-request world, and what its ceilings are computed from."""

    train: RequestSamples  # all requests of the run, user after user; stores say which are there
    test: RequestSamples  # of every user equally many
    stream: Stream
    n_classes: int
    shape: tuple[int, ...]  # of one sample
    catalogue: Catalogue
    profiles: Profiles


def video_problem_parts(
    settings: VideoConfig, n_devices: int, n_rounds: int, seed: int, device: torch.device = CPU
) -> VideoParts:
    """Draw the catalogue, the users and all requests of a run.

    Args:
        settings: the world of requests; checked here.
        n_devices: users, one per device.
        n_rounds: rounds that requests are drawn for.
        seed: of the run.
        device: where batches are taken.
    """
    check(settings, "video.")
    catalogue = build_catalogue(settings, seed)
    profiles = draw_profiles(settings, n_devices, seed)
    arrivals = draw_arrivals(profiles, n_rounds, seed)
    filled = first_samples(settings, profiles)
    per_user = int((filled + arrivals.sum(axis=0)).max())

    def samples(n_samples: int, lead: int, purpose: str) -> RequestSamples:
        log = draw_requests(catalogue, profiles, lead + n_samples, seed, purpose)
        return _samples(settings, catalogue, profiles, log, lead, device)

    # Nobody can take a batch of nothing: if no sample ever arrives there is one that no store holds.
    train = samples(max(per_user, 1), settings.lead, "train")
    test = samples(settings.test_samples, max(settings.test_warm_up, settings.lead), "test")
    capacity = np.minimum(profiles.capacity, train.per_user).astype(np.int64)
    keeper = Keeper(capacity, train.labels, catalogue.n_files, settings.theta)
    stream = streaming(request_source(filled, capacity, arrivals, train.per_user, seed), settings.cache, keeper)
    stream = with_edges(stream, settings, train, filled, edges_of(settings), seed)
    return VideoParts(train, test, stream, catalogue.n_files, train.shape, catalogue, profiles)


def request_source(filled: Ints, capacity: Ints, arrivals: Ints, per_user: int, seed: int) -> Source:
    """Requests in the order they are made, those of a round all at once before it starts.

    Args:
        filled: samples of every user before the first round, `[n_users]`.
        capacity: samples a store can hold, `[n_users]`.
        arrivals: samples that come before each round, `[n_rounds, n_users]`.
        per_user: samples of every user in the log; user `u` has `u * per_user` and the next ones.
        seed: the log was drawn with; another one has no log here.
    """
    begin = np.arange(len(filled)) * per_user
    widest = int(arrivals.max(initial=0))

    def take(first: Ints, count: Ints, width: int) -> Store:
        place = np.arange(width)
        return Store(np.where(place < count[:, None], (begin + first)[:, None] + place, 0), count)

    def start(seed_asked: int) -> tuple[Store, Ints]:
        _check_log(seed_asked, 0, seed, max(len(arrivals), 1))
        return take(np.zeros_like(filled), filled, int(capacity.max())), filled

    def draw(seed_asked: int, round: int, seen: Ints) -> tuple[Store, Ints]:
        _check_log(seed_asked, round, seed, len(arrivals))
        return take(seen, arrivals[round], widest), seen + arrivals[round]

    return Source(start, draw)


def _check_log(seed_asked: int, round: int, seed: int, n_rounds: int) -> None:
    if seed_asked != seed or round >= n_rounds:
        raise ContractError(
            f"the requests were drawn for seed {seed} and {n_rounds} rounds, not for seed {seed_asked} and round "
            f"{round}: build the problem for them"
        )


def _samples(
    settings: VideoConfig,
    catalogue: Catalogue,
    profiles: Profiles,
    log: NDArray[np.int32],
    lead: int,
    device: torch.device,
) -> RequestSamples:
    if settings.features == "history":
        return HistorySamples(log, lead, settings.history, device)
    return FeatureSamples(log, lead, feature_table(settings, catalogue, profiles), device)
