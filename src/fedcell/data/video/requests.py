"""Requests: every user walks through the catalogue, one file after another.

With probability `stay` the next file is similar to the last one and of its genre; otherwise it comes from another
genre, picked by preference, and is picked there by popularity. The presets differ in the two picks alone.

Numbers are keyed by (seed, user, place in the sequence): neither more users nor a longer run change what was there.

Reference: osafl, Algorithm 5; rawhfl, section II-B
"""

import numpy as np
from numpy.typing import NDArray

from ...rng import SETUP, uniforms
from ...types import Floats, Ints
from .catalogue import Catalogue
from .users import Profiles, leave_law

BLOCK = 256  # requests whose random numbers are drawn at once


def draw_requests(
    catalogue: Catalogue, profiles: Profiles, n_requests: int, seed: int, purpose: str
) -> NDArray[np.int32]:
    """The first `n_requests` files that every user asks for, `[n_users, n_requests]`.

    Args:
        catalogue: files and the laws of picking among them.
        profiles: users.
        n_requests: length of every sequence.
        seed: of the run.
        purpose: sequences of different purposes (training, test) share no draws.
    """
    out = np.empty((n_requests, profiles.n_users), dtype=np.int32)
    leave = _edges(leave_law(profiles.preference))
    pick_similar = _edges(catalogue.similar_share)
    everyone, file = np.arange(profiles.n_users), np.empty(0, dtype=np.int64)
    for first in range(0, n_requests, BLOCK):
        n = min(BLOCK, n_requests - first)
        coin, pick, rank = _numbers(catalogue, profiles.n_users, first, n, seed, purpose)
        stays = coin < profiles.stay
        for step in range(n):
            if first + step == 0:
                genre = _inverse(_edges(profiles.preference), pick[0])
                file = catalogue.popular[genre, rank[0]]
            else:
                genre = _inverse(leave[everyone, file // catalogue.per_genre], pick[step])
                near = catalogue.similar[file, _inverse(pick_similar[file], pick[step])]
                file = np.where(stays[step], near, catalogue.popular[genre, rank[step]])
            out[first + step] = file
    return np.ascontiguousarray(out.T)


def draw_arrivals(profiles: Profiles, n_rounds: int, seed: int) -> Ints:
    """New requests of every user before each round, `[n_rounds, n_users]`: `Bin(slots, activity)`.

    An inactive slot makes no request, so it does not move the user's sequence.

    Reference: osafl, section II (arrivals); rawhfl, Eq. (1)
    """
    users, slot = np.arange(profiles.n_users)[:, None], np.arange(profiles.slots.max())
    counts = np.zeros((n_rounds, profiles.n_users), dtype=np.int64)
    for round in range(n_rounds):
        active = uniforms(seed, round, "video.arrivals", users, slot) < profiles.activity[:, None]
        counts[round] = (active & (slot < profiles.slots[:, None])).sum(axis=1)
    return counts


def _numbers(
    catalogue: Catalogue, n_users: int, first: int, n: int, seed: int, purpose: str
) -> tuple[Floats, Floats, Ints]:
    """For `n` requests of every user: a coin (stay or leave), a pick (among similar files, or genres), a rank."""
    place = first + np.arange(n)[:, None]
    coin, pick, rank = (
        uniforms(seed, SETUP, f"video.{purpose}.{what}", np.arange(n_users), place) for what in ("coin", "pick", "rank")
    )
    return coin, pick, np.searchsorted(_edges(catalogue.popularity), rank, side="right")


def _edges(share: Floats) -> Floats:
    """Inner edges of the cumulated law on the last axis; entries without mass have no width."""
    edge = np.cumsum(share, axis=-1)
    return edge[..., :-1] / edge[..., -1:]


def _inverse(edges: Floats, u: Floats) -> Ints:
    """The entry of each row's law that holds `u`."""
    return (u[:, None] >= edges).sum(axis=1)
