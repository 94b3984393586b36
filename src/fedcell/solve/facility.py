"""Sites that stand for points: the sum over all points of the distance to the nearest chosen site.

    H(S) = sum_k min_{h in S} distance[k, h],   H(nothing) = sum_k max_h distance[k, h]

With that value for the empty set, gains of adding a site are never negative and fall as the set grows.

Reference: chen-ch3, Eq. (3.16), sections 4.6 and 4.8
"""

import numpy as np

from ..types import Bools, Floats, Ints


def cost(distance: Floats, chosen: Bools | Ints) -> float:
    """`H(S)`.

    Args:
        distance: `[n_points, n_sites]`, at least 0.
        chosen: the sites of `S`, as a mask or as numbers.
    """
    part = distance[:, chosen]
    return float((part.min(axis=1) if part.shape[1] else distance.max(axis=1)).sum())


def nearest(distance: Floats, chosen: Ints) -> Ints:
    """The chosen site that stands for each point, `[n_points]`; of equally near ones the lowest number.

    >>> nearest(np.array([[1.0, 0.0, 1.0], [2.0, 3.0, 2.0]]), np.array([2, 0])).tolist()
    [0, 0]
    """
    sites = np.sort(chosen)
    return np.asarray(sites[np.argmin(distance[:, sites], axis=1)])


def weights(distance: Floats, chosen: Ints) -> Ints:
    """How many points each chosen site stands for, `[n_chosen]`, in the order of `chosen`.

    Reference: chen-ch3, section 3.2
    """
    return np.asarray(np.bincount(nearest(distance, chosen), minlength=distance.shape[1])[chosen])


def greedy(distance: Floats, n: int) -> Ints:
    """Choose `n` times the site that lowers the cost most, ties to the lower index; the first is the medoid.

    Lazy: gains only fall, so a site that still leads after its gain is updated is the best; no other is evaluated.

    Returns: `[n]`, in the order of choice; all sites if there are fewer.

    Reference: chen-ch3, section 4.6
    """
    sites = np.ascontiguousarray(distance.T)
    least = distance.max(axis=1, initial=0.0)
    bound, chosen = np.maximum(least - sites, 0.0).sum(axis=1), []
    for _ in range(min(n, len(sites))):
        best = int(np.argmax(bound))
        while True:
            bound[best] = np.maximum(least - sites[best], 0.0).sum()
            leader = int(np.argmax(bound))
            if leader == best:
                break
            best = leader
        chosen.append(best)
        bound[best] = -np.inf
        least = np.minimum(least, sites[best])
    return np.array(chosen, dtype=np.int64)


class Cover:
    """The cost of a set of sites that changes by one site at a time."""

    def __init__(self, distance: Floats, member: Bools) -> None:
        self.member = member.copy()
        self._distance, self._sites = distance, np.ascontiguousarray(distance.T)
        self._farthest = distance.max(axis=1, initial=0.0)
        self._nearest, self._least = self._among(np.arange(len(distance)), self.member)

    @property
    def value(self) -> float:
        return float(self._least.sum())

    def flipped(self, site: int) -> float:
        """The cost if the site joined, or left."""
        if not self.member[site]:
            return float(np.minimum(self._least, self._sites[site]).sum())
        rows, _, least = self._without(site)
        return float(self._least.sum() + (least - self._least[rows]).sum())

    def flip(self, site: int) -> None:
        """Let the site join, or leave."""
        if self.member[site]:
            rows, self._nearest[rows], self._least[rows] = self._without(site)
        else:
            nearer = self._sites[site] < self._least
            nearer |= self._nearest < 0
            self._nearest[nearer], self._least[nearer] = site, self._sites[site][nearer]
        self.member[site] = not self.member[site]

    def _without(self, site: int) -> tuple[Ints, Ints, Floats]:
        """Points that the site stands for, the site that would replace it for each, and its distance."""
        rows, rest = np.flatnonzero(self._nearest == site), self.member.copy()
        rest[site] = False
        return rows, *self._among(rows, rest)

    def _among(self, rows: Ints, member: Bools) -> tuple[Ints, Floats]:
        """The nearest member of some points and its distance; -1 and the farthest site's if there is none."""
        part = np.where(member, self._distance[rows], np.inf)
        place = part.argmin(axis=1)
        least = part[np.arange(len(rows)), place]
        found = np.isfinite(least)
        return np.where(found, place, -1), np.where(found, least, self._farthest[rows])
