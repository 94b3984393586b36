"""Who trains: the set functions of representativity and latency, the policies that search them, and their baselines.

Every cell is scheduled on its own, from its available devices that have a rate. Not a method itself: it has no
`build`.

Reference: chen-ch3, sections 4 and 5
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...rng import stream
from ...solve import facility
from ...solve.double_greedy import Sum, double_greedy
from ...solve.equal_finish import Ends, Finish, earliest, front, together
from ...solve.in_series import in_series, without_each
from ...types import Bools, Floats, Ints

ROUNDING = 1e-9  # relative: times that lie nearer may be the same


class Candidates(NamedTuple):
    """What a policy chooses from in one cell; arrays of sites have one entry per device that can be picked."""

    n_selected: int
    compute_s: Floats  # [n_sites]
    upload_s: Floats  # [n_sites], with the whole band; 0 if a device has a band of its own
    ends: Ends | None  # when a set ends; None: by sharing the band so that all end together
    distance: Floats  # [n_points, n_sites], from every device of the cell that holds data; empty without a memory
    score: Floats  # [n_sites], of policies that pick the highest
    error_weight: float  # rho1, with its scale
    latency_weight: float  # rho2
    seed: int
    round: int


def by_score(asked: Candidates) -> Ints:
    """The `n_selected` highest scores, ties to the lower index."""
    return np.argsort(-asked.score, kind="stable")[: asked.n_selected]


def by_latency(asked: Candidates) -> Ints:
    """Greedy on `T*`. Reference: chen-ch3, Algorithm 2"""
    return earliest(asked.compute_s, asked.upload_s, asked.n_selected, asked.ends or together)


def by_representativity(asked: Candidates) -> Ints:
    """Greedy on `H`. Reference: chen-ch3, section 4.6"""
    return facility.greedy(asked.distance, asked.n_selected)


def by_both(asked: Candidates) -> Ints:
    """Double greedy on `rho1 H + rho2 T*`, in a new random order each round; picks at least one device.

    Reference: chen-ch3, Algorithm 3, sections 4.7 and 4.8
    """
    rng, n = stream(asked.seed, asked.round, "schedule"), len(asked.compute_s)
    order, uniform = rng.permutation(n), rng.random(n)
    chosen = double_greedy(_tracked(asked, on=False), _tracked(asked, on=True), order, uniform)
    if chosen.any():
        return np.flatnonzero(chosen)
    alone = asked.error_weight * asked.distance.sum(axis=0) + asked.latency_weight * (asked.compute_s + asked.upload_s)
    return np.array([np.argmin(alone)])


def _tracked(asked: Candidates, on: bool) -> Sum:
    member = np.full(len(asked.compute_s), on)
    error = facility.Cover(asked.distance, member)
    latency = Finish(asked.compute_s, asked.upload_s, member, asked.ends)
    return Sum(member, [(asked.error_weight, error), (asked.latency_weight, latency)])


POLICIES: dict[str, Callable[[Candidates], Ints]] = {
    "representativity": by_representativity,
    "latency": by_latency,
    "both": by_both,
    "random": by_score,
    "power_of_choice": by_score,
    "gradient_norm": by_score,
}


def error_scale(kind: str, distance: Floats) -> float:
    """What `H` is multiplied by: 1 as printed, `1 / K`, or `1 / H(nothing)`. Reference: chen-ch3, section 4.7"""
    nothing = facility.cost(distance, np.zeros(0, dtype=np.int64))
    return {"sum": 1.0, "mean": 1.0 / max(len(distance), 1), "relative": 1.0 / nothing if nothing > 0 else 0.0}[kind]


def within(
    chosen: Ints, compute_s: Floats, upload_s: Floats, deadline_s: float, most: int, ends: Ends | None = None
) -> Ints:
    """Drop chosen devices until at most `most` are left and all of them are in time; returns those left, ascending.

    A set is late if its last device is. Each step drops the device without which the set ends soonest.

    Reference: chen-ch3, section 4.3 (a latency limit)
    """
    chosen, ends = np.sort(chosen), ends or together
    while len(chosen) and (len(chosen) > most or float(ends(compute_s[chosen], upload_s[chosen])) > deadline_s):
        chosen = np.delete(chosen, _last(compute_s[chosen], upload_s[chosen], ends))
    return chosen


def _last(compute_s: Floats, upload_s: Floats, ends: Ends) -> int:
    """The place of the device without which a set ends soonest, of equal ones the first; only some are tried."""
    if ends is in_series or not upload_s.any():  # without uploads both rules give the largest `compute_s`
        times = without_each(compute_s, upload_s)
        tried = np.flatnonzero(times <= times.min() * (1 + ROUNDING))
    else:
        tried = front(-compute_s, -upload_s)
    others = np.arange(len(compute_s) - 1)
    rest = others + (others >= tried[:, None])  # a row for each that is tried: all the others
    return int(tried[np.argmin(ends(compute_s[rest], upload_s[rest]))])


def points_and_sites(cell: Ints, number: int, holds: Bools, usable: Bools) -> tuple[Ints, Ints]:
    """The devices of a cell that are to be represented, and those that can be picked."""
    here = cell == number
    return np.flatnonzero(here & holds), np.flatnonzero(here & usable)
