"""One resource divided among jobs so that all end together, which ends the last one soonest.

Job `k` needs `fixed[k]` whatever it is given, and then `full[k] / share[k]`. The least time in which a set of jobs can
end is the root `T` of

    sum_k full[k] / (T - fixed[k]) = 1,   T > max fixed,

and the shares are its terms. Solved for `x = T - max fixed`, where nothing cancels.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..types import Bools, Floats, Ints

NEWTON_STEPS = 50
HALVINGS = 2200  # from any double to any other
ROUNDING = 16 * np.finfo(np.float64).eps


Ends = Callable[[Floats, Floats], Floats]  # fixed, full `[..., n_jobs]` -> when the last of each set ends `[...]`


class Split(NamedTuple):
    """When jobs end, and what each of them gets."""

    time: Floats  # [...], 0 for a set without jobs
    share: Floats  # [..., n_jobs], 0 for jobs outside the set


def equal_finish(fixed: Floats, full: Floats, member: Bools | None = None) -> Split:
    """The least time in which all jobs of a set can end, and their shares; many sets at once.

    The root lies between `max (fixed + full)`, below which some share would exceed one or be negative, and
    `max fixed + sum full`. Newton's iteration on the reciprocal of the sum, which is concave and increases with `T`,
    rises from the lower end to the root without passing it, and reaches it in one step if all `fixed` are equal. If it
    does not converge, bisection takes over.

    Args:
        fixed: `[..., n_jobs]`, finite, at least 0.
        full: `[..., n_jobs]`, time with the whole resource; finite, at least 0. Jobs with 0 get no share; if one of
            them ends last, the resource may not be used up.
        member: `[..., n_jobs]`, the jobs of each set; None: all.

    >>> split = equal_finish(np.array([0.3, 0.6, 0.35]), np.array([0.01, 0.02, 0.05]))
    >>> float(split.time.round(4)), float(split.share.sum().round(12))
    (0.6254, 1.0)

    Reference: chen-ch3, Eq. (3.20), Algorithm 1 with the lower end of section 4.4
    """
    if member is not None:
        fixed, full = np.where(member, fixed, -np.inf), np.where(member, full, 0.0)
    latest = fixed.max(axis=-1, initial=0.0)
    lag = np.where(full > 0, latest[..., None] - fixed, np.inf)  # for ever, if there is nothing to share
    x = _root(lag, full)
    share = full / (x[..., None] + lag)
    return Split(latest + x, share / np.maximum(share.sum(axis=-1), 1.0)[..., None])


def together(fixed: Floats, full: Floats) -> Floats:
    """Only the time of `equal_finish`."""
    return equal_finish(fixed, full).time


def _root(lag: Floats, full: Floats) -> Floats:
    """The root of `u(x) = sum full / (x + lag) = 1`, `[...]`; 0 if the sum is less everywhere.

    Newton: `x <- x + u (u - 1) / s` with `-s` the slope of `u`.
    """
    low = (full - lag).max(axis=-1, initial=0.0)
    x = low
    for _ in range(NEWTON_STEPS):
        room = x[..., None] + lag
        share = full / room
        used, slope = share.sum(axis=-1), (share / room).sum(axis=-1)
        over = used - 1.0
        step = np.divide(used * over, slope, out=np.zeros_like(used), where=slope > 0)
        before, x = x, np.maximum(x + step, low)
        if ((np.abs(x - before) <= ROUNDING * x) | (np.abs(over) <= ROUNDING)).all():
            return np.asarray(x)
    return _bisected(lag, full, low)


def _bisected(lag: Floats, full: Floats, low: Floats) -> Floats:
    """The root of `_root` by bisection, until no double lies between the ends; returns the upper end."""
    high = np.maximum(low, full.sum(axis=-1))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if ((middle <= low) | (middle >= high)).all():
            return high
        short = (full / (middle[..., None] + lag)).sum(axis=-1) > 1.0
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    raise ArithmeticError(f"no root between {low} and {high}: pass finite times that are not negative")


def _end(fixed: Floats, full: Floats, near: float) -> float:
    """The time of `equal_finish` for one set: the same iteration from a nearby time, with far less overhead."""
    if not len(fixed):
        return 0.0
    latest = float(fixed.max())
    lag = np.where(full > 0, latest - fixed, np.inf)
    low = max(float((full - lag).max()), 0.0)
    x = max(near - latest, low)
    for _ in range(NEWTON_STEPS):
        inverse = 1.0 / (x + lag)
        used, slope = float(full @ inverse), float(full @ (inverse * inverse))
        if slope == 0:
            return latest
        before, x = x, max(x + used * (used - 1.0) / slope, low)
        if abs(x - before) <= ROUNDING * x or abs(used - 1.0) <= ROUNDING:
            return latest + x
    return float(equal_finish(fixed, full).time)


class Finish:
    """The least time in which a set of jobs can end, for a set that changes by one job at a time.

    `ends` says when a set ends; None: `together`.
    """

    def __init__(self, fixed: Floats, full: Floats, member: Bools, ends: Ends | None = None) -> None:
        self.member, self._fixed, self._full, self._ends = member.copy(), fixed, full, ends
        self.value = float((ends or together)(fixed[member], full[member]))
        self._asked: tuple[int, float] | None = None  # the last answer is often wanted again

    def flipped(self, job: int) -> float:
        """The time if the job joined, or left."""
        self.member[job] = not self.member[job]
        time = self._time()
        self.member[job] = not self.member[job]
        self._asked = job, time
        return time

    def flip(self, job: int) -> None:
        """Let the job join, or leave."""
        self.value = self._asked[1] if self._asked and self._asked[0] == job else self.flipped(job)
        self.member[job] = not self.member[job]
        self._asked = None

    def _time(self) -> float:
        fixed, full = self._fixed[self.member], self._full[self.member]
        return _end(fixed, full, near=self.value) if self._ends is None else float(self._ends(fixed, full))


def earliest(fixed: Floats, full: Floats, n: int, ends: Ends = together) -> Ints:
    """Jobs that end early together: `n` times the one with which the set ends soonest joins, ties to the lower index.

    A job that needs no less than another in both parts is no better, so only jobs that no other undercuts are tried.

    Args:
        fixed, full: `[n_jobs]`, as of `equal_finish`.
        n: how many; all if there are fewer.
        ends: when a set ends; a job that needs less in one part and no more in the other must never end a set later.

    Returns: `[n]`, in the order in which they joined.

    Reference: chen-ch3, Algorithm 2
    """
    left, chosen = np.arange(len(fixed)), np.zeros(0, dtype=np.int64)
    while len(left) and len(chosen) < n:
        tried = left[front(fixed[left], full[left])]
        sets = np.concatenate([np.broadcast_to(chosen, (len(tried), len(chosen))), tried[:, None]], axis=1)
        best = tried[int(np.argmin(ends(fixed[sets], full[sets])))]
        chosen, left = np.append(chosen, best), left[left != best]
    return chosen


def front(fixed: Floats, full: Floats) -> Ints:
    """The jobs that no other undercuts in both parts, ascending; of equal ones the first."""
    order = np.lexsort((np.arange(len(fixed)), full, fixed))
    least = np.minimum.accumulate(full[order])
    first = np.append(True, full[order][1:] < least[:-1])
    return np.sort(order[first])
