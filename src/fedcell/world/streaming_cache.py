"""The cache of one real device: the rules of `caches` on samples that come one offer at a time.

Reference: streaming, Eqs. (7)-(17); sections 3.3 and 3.4 of the method's page
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from ..errors import BadInput
from ..labels import rank_in_class
from ..rng import stream
from ..types import Floats, Ints
from .caches import RULES, Keeper, aim, drsr_gain, srsr_gain

MOST_CLASSES = 10_000_000  # counts are kept of each
STATE = ("numbers", "theta", "samples", "labels", "slots", "shadow")


class StreamingCache:
    """A cache of one device: offer what arrives, train on what is kept. Its work does not grow with the capacity.

    An offer touches as many samples as it brings, and the counts of the classes. The cache holds the
    same counts as the simulated rule. An offer larger than the cache is taken in pieces of its size.

    >>> cache = StreamingCache(capacity=4, rule="drsr")
    >>> for day in range(8):
    ...     cache.offer(np.full((2, 3), day), [0, day % 2])
    >>> samples, labels = cache.contents()
    >>> samples.shape, cache.counts.tolist()
    ((4, 3), [3, 1])
    """

    def __init__(self, capacity: int, rule: str = "drsr", theta: float = 2 / 3, seed: int = 0) -> None:
        """
        Args:
            capacity: samples to keep at most.
            rule: fifo, srsr, drsr or lazy.
            theta: weight of new label shares in [0, 1] (srsr).
            seed: of the choice among samples of one class.
        """
        if rule not in RULES:
            raise BadInput(f"rule = {rule!r} is unknown: choose one of {', '.join(RULES)}")
        if not isinstance(capacity, int | np.integer) or capacity < 1 or not 0 <= theta <= 1:
            what = f"capacity = {capacity!r}, theta = {theta:g}"
            raise BadInput(f"{what}: keep at least 1 sample (a whole number), with theta in [0, 1]")
        self.capacity, self.rule, self.theta, self.seed = capacity, rule, theta, seed
        self._samples: np.ndarray = np.empty(0)  # [capacity, ...] from the first offer on
        self._labels: Ints = np.zeros(capacity, dtype=np.int64)
        self._slots: list[list[int]] = []  # where the samples of each class lie, in any order
        self._counts: Ints = np.zeros(0, dtype=np.int64)
        self._shadow: Floats = np.zeros(0)
        self._seen = self._offers = self._draws = 0

    def __len__(self) -> int:
        return int(self._counts.sum())

    @property
    def counts(self) -> Ints:
        """Samples held of each class, `[n_classes]`, up to the highest label met so far."""
        return self._counts.copy()

    def contents(self) -> tuple[np.ndarray, Ints]:
        """(samples, labels) held, in no particular order."""
        return self._samples[: len(self)].copy(), self._labels[: len(self)].copy()

    def sample(self, n: int) -> tuple[np.ndarray, Ints]:
        """(samples, labels) of `n` different held samples at random, or of all if there are fewer."""
        self._draws += 1
        at = stream(self.seed, self._draws, "cache.sample").permutation(len(self))[:n]
        return self._samples[at], self._labels[at]

    def offer(self, samples: ArrayLike, labels: ArrayLike) -> None:
        """Offer `samples` `[n, ...]` with class numbers `labels` `[n]`; the rule decides which replace held ones."""
        x, y = np.asarray(samples), np.asarray(labels)
        self._check(x, y)
        if len(y) and not len(self):
            self._samples = np.empty((self.capacity, *x.shape[1:]), dtype=x.dtype)
        for first in range(0, len(y), self.capacity):
            part = slice(first, first + self.capacity)
            self._take(x[part], y[part].astype(np.int64))

    def state_dict(self) -> dict[str, np.ndarray]:
        """Everything as plain arrays, for np.savez or safetensors."""
        numbers = (list(RULES).index(self.rule), self.capacity, self.seed, self._seen, self._offers, self._draws)
        x, y = self.contents()
        slots = np.array([slot for of_class in self._slots for slot in of_class], dtype=np.int64)
        own = {"numbers": np.array(numbers, dtype=np.int64), "theta": np.array([self.theta])}
        return own | {"samples": x, "labels": y, "slots": slots, "shadow": self._shadow.copy()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a saved state: later offers keep what they would have kept."""
        if missing := [name for name in STATE if name not in state]:
            raise BadInput(f"the state has no array {missing[0]!r}: give what state_dict() of a cache returned")
        rule, capacity, seed, seen, offers, draws = (int(number) for number in state["numbers"])
        given, own = (capacity, list(RULES)[rule], float(state["theta"][0])), (self.capacity, self.rule, self.theta)
        if given != own:
            raise BadInput(f"the state is of StreamingCache{given}, not of StreamingCache{own}: make one like it")
        x, y = state["samples"], state["labels"]
        self._samples = np.empty((capacity, *x.shape[1:]), dtype=x.dtype)
        self._samples[: len(y)], self._labels[: len(y)] = x, y
        self._shadow = state["shadow"].copy()
        self._counts = np.bincount(y, minlength=len(self._shadow)).astype(np.int64)
        ends = np.cumsum(self._counts)
        self._slots = [state["slots"][a:b].tolist() for a, b in zip(ends - self._counts, ends, strict=True)]
        self.seed, self._seen, self._offers, self._draws = seed, seen, offers, draws

    def _check(self, x: np.ndarray, y: np.ndarray) -> None:
        if y.ndim != 1 or x.shape[:1] != y.shape:
            raise BadInput(f"{x.shape[:1]} samples came with labels of shape {y.shape}: offer one label per sample")
        if len(y) and (y.dtype.kind not in "iu" or y.min() < 0):
            raise BadInput(f"labels of {y.dtype} from {y.min()}: they must be whole numbers from 0")
        if len(y) and y.max() >= MOST_CLASSES:
            raise BadInput(f"labels go up to {y.max()} >= {MOST_CLASSES}: number the classes 0, 1, 2, ... without gaps")
        fits = x.shape[1:] == self._samples.shape[1:] and np.can_cast(x.dtype, self._samples.dtype, "same_kind")
        if len(y) and len(self) and not fits:
            own = f"{self._samples.dtype} {self._samples.shape[1:]}"
            raise BadInput(f"{x.dtype} samples of shape {x.shape[1:]} do not fit a cache of {own}: offer the same kind")

    def _take(self, x: np.ndarray, y: Ints) -> None:
        """Apply the rule to one offer, which is no larger than the cache."""
        more = max(0, int(y.max()) + 1 - len(self._counts))
        self._counts, self._shadow = np.pad(self._counts, (0, more)), np.pad(self._shadow, (0, more))
        self._slots += [[] for _ in range(more)]
        size, fresh = len(self), np.arange(len(y))
        free = list(range(size, min(self.capacity, size + len(y))))
        if self.rule == "fifo":
            free = ((self._seen + fresh) % self.capacity).tolist()  # a ring: the oldest lies where the next goes
            self._counts -= np.bincount(self._labels[[s for s in free if s < size]], minlength=len(self._counts))
        elif self.rule == "lazy" or len(free) == len(y):
            fresh = fresh[: len(free)]
            self._shadow = (self._counts + np.bincount(y[fresh], minlength=len(self._counts))).astype(np.float64)
        else:
            evicted, fresh = self._select(y)
            free += evicted
        self._put(free, x[fresh], y[fresh])
        self._seen, self._offers = self._seen + len(y), self._offers + 1

    def _select(self, y: Ints) -> tuple[list[int], Ints]:
        """(slots to empty, places in the offer to take) of one selective replacement."""
        keeper = Keeper(np.array([self.capacity]), y, len(self._counts), self.theta)
        n_new, seen = np.array([len(y)]), np.array([self._seen])
        gain = srsr_gain(keeper, n_new) if self.rule == "srsr" else drsr_gain(keeper, n_new, seen)
        arrived = np.bincount(y, minlength=len(self._counts))
        target, shadow = aim(keeper, self._counts[None], arrived[None], self._shadow[None], gain)
        self._shadow = shadow[0]
        take = np.minimum(target[0], arrived)
        evict = self._counts - (target[0] - take)
        rng = stream(self.seed, self._offers, "cache.keep")
        order = rng.permutation(len(y))
        fresh = order[rank_in_class(y[order]) < take[y[order]]]
        emptied = [slot for r in np.flatnonzero(evict) for slot in _pop(self._slots[r], rng.random(evict[r]))]
        self._counts = self._counts - evict
        return emptied, fresh

    def _put(self, slots: list[int], x: np.ndarray, y: Ints) -> None:
        self._samples[slots], self._labels[slots] = x, y
        self._counts = self._counts + np.bincount(y, minlength=len(self._counts))
        if self.rule in ("srsr", "drsr"):
            for slot, label in zip(slots, y.tolist(), strict=True):
                self._slots[label].append(slot)


def _pop(slots: list[int], uniform: Floats) -> list[int]:
    """Take one random slot out of a list for every uniform number, each in constant time."""
    out = []
    for u in uniform.tolist():
        place = int(u * len(slots))
        slots[place], slots[-1] = slots[-1], slots[place]
        out.append(slots.pop())
    return out
