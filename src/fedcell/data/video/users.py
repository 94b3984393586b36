"""Users: what each one likes, how active each is and how much each can store. All fixed for a run."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...options import Law
from ...rng import SETUP, stream, uniforms
from ...types import Floats, Ints
from .settings import VideoConfig


class Profiles(NamedTuple):
    """One row per user."""

    preference: Floats  # [n_users, n_genres], sums to 1
    stay: Floats  # [n_users], probability that the next request stays in the genre
    activity: Floats  # [n_users], probability of a request in a slot
    slots: Ints  # [n_users], arrival slots between two rounds
    capacity: Floats  # [n_users], whole numbers or inf

    @property
    def n_users(self) -> int:
        return len(self.stay)


def draw_profiles(settings: VideoConfig, n_users: int, seed: int) -> Profiles:
    """Draw the users of a run; more users leave the earlier ones as they are.

    Args:
        settings: the laws.
        n_users: users to draw.
        seed: of the run.
    """

    def spread(name: str, law: Law) -> Floats:
        return law.draw(stream(seed, SETUP, f"video.{name}"), n_users)

    activity = spread("activity", settings.activity)
    slots = np.ceil(settings.slots * activity) if settings.slots_by_activity else np.full(n_users, settings.slots)
    return Profiles(
        preference=draw_preferences(settings.alpha, n_users, settings.n_genres, seed),
        stay=spread("stay", settings.stay),
        activity=activity,
        slots=slots.astype(np.int64),
        capacity=np.rint(spread("capacity", _with_ends(settings.capacity))),
    )


def draw_preferences(alpha: float, n_users: int, n_genres: int, seed: int) -> Floats:
    """Symmetric Dirichlet rows `[n_users, n_genres]`, each from numbers of its own user alone.

    A Dirichlet vector is a vector of independent Gamma(alpha) numbers over its sum. If all of them underflow,
    the row is its limit for small `alpha`: everything on one genre.
    """
    from scipy.special import gammaincinv  # slow to import, and few runs need it

    u = uniforms(seed, SETUP, "video.preference", np.arange(n_users)[:, None], np.arange(n_genres))
    gamma = gammaincinv(alpha, u)
    total = gamma.sum(axis=1, keepdims=True)
    return np.where(total > 0, gamma / np.where(total > 0, total, 1.0), np.eye(n_genres)[u.argmax(axis=1)])


def leave_law(preference: Floats) -> Floats:
    """Where a user goes who leaves genre `g`: `p_g' / (1 - p_g)` for `g' != g`, `[n_users, n_genres, n_genres]`.

    If nothing is left of the preference (one entry numerically 1), the other genres are equally probable.

    >>> leave_law(np.array([[0.5, 0.25, 0.25]]))[0].round(2).tolist()
    [[0.0, 0.5, 0.5], [0.67, 0.0, 0.33], [0.67, 0.33, 0.0]]
    """
    n_genres = preference.shape[1]
    other = ~np.eye(n_genres, dtype=bool)
    weight = np.where(other, preference[:, None, :], 0.0)
    rest = weight.sum(axis=2, keepdims=True)
    return np.where(rest > 0, weight / np.where(rest > 0, rest, 1.0), other / (n_genres - 1))


def _with_ends(law: Law) -> Law:
    """A range widened by a half on both sides, so that rounding gives every whole number of it alike."""
    if law.kind != "uniform":
        return law
    low, high = law.values
    return replace(law, values=(np.rint(low) - 0.5, np.nextafter(np.rint(high) + 0.5, low)))
