"""Cache rules: what a device keeps when new samples arrive and its memory is full.

With `B` the capacity, `b` the samples that arrive, `L` the cache, `S` the arrivals and `n_r` a count of class `r`:

- `fifo` drops the oldest; `lazy` keeps what it had first.
- `srsr` (static ratio) moves the label counts by a fixed weight `theta`: `(1 - theta b / B) n_r(L) + theta n_r(S)`.
- `drsr` (dynamic ratio) lets the weight fall as `B / (samples seen)`: the label shares become a running mean.

Both ratio rules take new samples of a class before they keep old ones, so instances stay fresh while the ratio
moves slowly. Their counts are real numbers, kept in a shadow and rounded only to fill the cache: rounding them and
feeding the integers back freezes the ratio as soon as a change is below half a sample.

No rule reads the law that samples are drawn from. Every function is vectorised over devices.

Reference: streaming, Eqs. (7)-(17); sections 3.3 and 3.4 of the method's page
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..data.datasets import rank_in_class
from ..data.partition import histogram
from ..errors import BadInput
from ..rng import stream, uniforms
from ..types import Bools, Floats, Ints, Store

ROUNDING = 1e-9  # differences below this are none: 134.999999999 samples are 135


class Cache(NamedTuple):
    """What the rules carry from round to round."""

    store: Store  # in the order of arrival, oldest first
    shadow: Floats  # [n_devices, n_classes], the label counts a ratio rule aims at
    seen: Ints  # [n_devices], samples that arrived so far; what a cache was filled with before does not count


class Keeper(NamedTuple):
    """What the rules need to know besides the samples."""

    capacity: Ints  # [n_devices], samples a cache can hold
    labels: Ints  # [n_samples], of the samples that stores index
    n_classes: int
    theta: float = 2 / 3  # weight of srsr, in [0, 1]


Rule = Callable[[Keeper, Cache, Store, int, int], Cache]  # keeper, cache, arrivals, seed, round


# ---------------------------------------------------------------- the rules


def begin(keeper: Keeper, store: Store) -> Cache:
    """The cache before the first arrival; `store` may be empty, partly filled or full."""
    counts = histogram(store, keeper.labels, keeper.n_classes)
    return Cache(store, counts.astype(np.float64), np.zeros(len(store.size), dtype=np.int64))


def fifo(keeper: Keeper, cache: Cache, new: Store, seed: int, round: int) -> Cache:
    """Drop exactly as many of the oldest samples as there is no room for. Reference: streaming, Eqs. (8), (9)"""
    items, real, _ = _join(cache.store, new)
    excess = np.maximum(real.sum(axis=1) - keeper.capacity, 0)
    keep = real & (np.cumsum(real, axis=1) > excess[:, None])
    return cache._replace(store=_compact(items, keep, cache.store), seen=cache.seen + new.size)


def lazy(keeper: Keeper, cache: Cache, new: Store, seed: int, round: int) -> Cache:
    """Fill the cache once and never change it again."""
    items, real, _ = _join(cache.store, new)
    keep = real & (np.cumsum(real, axis=1) <= keeper.capacity[:, None])
    return cache._replace(store=_compact(items, keep, cache.store), seen=cache.seen + new.size)


def srsr(keeper: Keeper, cache: Cache, new: Store, seed: int, round: int) -> Cache:
    """Static-ratio selective replacement. Reference: streaming, Eqs. (11), (12)"""
    return _replace_selectively(keeper, cache, new, srsr_gain(keeper, new.size), seed, round)


def drsr(keeper: Keeper, cache: Cache, new: Store, seed: int, round: int) -> Cache:
    """Dynamic-ratio selective replacement. Reference: streaming, Eq. (16)"""
    return _replace_selectively(keeper, cache, new, drsr_gain(keeper, new.size, cache.seen), seed, round)


RULES: dict[str, Rule] = {"fifo": fifo, "srsr": srsr, "drsr": drsr, "lazy": lazy}


# ---------------------------------------------------------------- counts


def srsr_gain(keeper: Keeper, n_new: Ints) -> Floats:
    """`theta b / B`, the weight of the arrivals' label shares, `[n_devices]`."""
    return keeper.theta * n_new / keeper.capacity


def drsr_gain(keeper: Keeper, n_new: Ints, seen: Ints) -> Floats:
    """`min(b / B, b / seen)`, the weight of the arrivals' label shares, `[n_devices]`.

    With equal batches this is `min(1 / M, 1 / t)`, `M = B / b`.
    Deviation: the printed `1 / t` asks for more samples than exist before round `M`; the weight is capped there.
    """
    return n_new / np.maximum(keeper.capacity, seen + n_new)


def aim(keeper: Keeper, held: Ints, arrived: Ints, shadow: Floats, gain: Floats) -> tuple[Ints, Floats]:
    """How many samples of each class to keep, and the new shadow.

    `x_r = (1 - gain) x_r + gain B n_r(S) / b`, rounded by largest remainders to what there is. While everything
    fits, everything is kept and the shadow is the count itself.

    Args:
        keeper: capacities.
        held: counts in the cache, `[n_devices, n_classes]`.
        arrived: counts of the arrivals, `[n_devices, n_classes]`.
        shadow: real-valued counts before the arrivals, `[n_devices, n_classes]`.
        gain: weight of the arrivals' shares in [0, 1], `[n_devices]`.

    Returns: (counts to keep, shadow), each `[n_devices, n_classes]`.
    """
    there, n_new = held + arrived, arrived.sum(axis=1)
    n_there = there.sum(axis=1)
    before = shadow / np.maximum(shadow.sum(axis=1), 1)[:, None]
    share = arrived / np.maximum(n_new, 1)[:, None]
    moved = keeper.capacity[:, None] * ((1 - gain)[:, None] * before + gain[:, None] * share)
    idle = np.where((n_new == 0)[:, None], shadow, there)  # no arrivals leave the shadow alone
    ideal = np.where((n_there > keeper.capacity)[:, None], moved, idle)
    return largest_remainder(ideal, np.minimum(keeper.capacity, n_there), there), ideal


def largest_remainder(ideal: Floats, total: Ints, upper: Ints | None = None) -> Ints:
    """Whole numbers near `ideal` that sum to `total` in each row and stay within `upper`.

    Everyone gets the floor, then the largest remainders one more each; ties go to the lower index.

    >>> largest_remainder(np.array([[4.5, 3.75, 3.75]]), np.array([12])).tolist()
    [[4, 4, 4]]
    """
    floor = np.floor(ideal + ROUNDING).astype(np.int64)
    given: Ints = floor if upper is None else np.minimum(floor, upper)
    if upper is not None and (upper.sum(axis=1) < total).any():
        raise BadInput("the upper limits of a row sum to less than its total: no apportionment exists")
    order = np.argsort(-np.round(ideal - given, 9), axis=1, kind="stable")
    missing = total - given.sum(axis=1)
    while (missing > 0).any():  # once, unless an upper limit binds
        open_ = np.ones_like(order, dtype=bool) if upper is None else np.take_along_axis(given < upper, order, axis=1)
        more = open_ & (np.cumsum(open_, axis=1) <= missing[:, None])
        given = given + _unsort(more, order)
        missing = total - given.sum(axis=1)
    return given


def _unsort(sorted_: Bools, order: Ints) -> Bools:
    out = np.empty_like(sorted_)
    np.put_along_axis(out, order, sorted_, axis=1)
    return out


# ---------------------------------------------------------------- samples


def _replace_selectively(keeper: Keeper, cache: Cache, new: Store, gain: Floats, seed: int, round: int) -> Cache:
    """Per class, a random part of the new and no old where the new are enough (case 1), else all new and some old."""
    held = histogram(cache.store, keeper.labels, keeper.n_classes)
    arrived = histogram(new, keeper.labels, keeper.n_classes)
    target, shadow = aim(keeper, held, arrived, cache.shadow, gain)
    take_new = np.minimum(target, arrived)
    items, real, is_new = _join(cache.store, new)
    # Groups of a row: (class 0, old), (class 0, new), (class 1, old), ..., and the padding last.
    group = np.where(real, 2 * keeper.labels[items] + is_new, 2 * keeper.n_classes)
    quota = np.stack([target - take_new, take_new], axis=2).reshape(len(target), -1)
    keep = _draw_from_groups(group, np.pad(quota, ((0, 0), (0, 1))), seed, round)
    return Cache(_compact(items, keep, cache.store), shadow, cache.seen + new.size)


def _draw_from_groups(group: Ints, quota: Ints, seed: int, round: int) -> Bools:
    """A random `quota[k, g]` of the entries of group `g` in each row `k`."""
    n_rows, width = group.shape
    key = uniforms(seed, round, "caches.keep", np.arange(n_rows)[:, None], np.arange(width))
    order = np.argsort(group + key, axis=1)
    ordered = np.take_along_axis(group, order, axis=1)
    cell = np.arange(n_rows)[:, None] * quota.shape[1] + group
    sizes = np.bincount(cell.ravel(), minlength=quota.size).reshape(quota.shape)
    first = np.cumsum(sizes, axis=1) - sizes
    rank = np.arange(width) - np.take_along_axis(first, ordered, axis=1)
    return _unsort(rank < np.take_along_axis(quota, ordered, axis=1), order)


def _join(held: Store, new: Store) -> tuple[Ints, Bools, Bools]:
    """Rows of old then new samples with their padding: (items, which entries are real, which are new)."""
    real = [np.arange(store.items.shape[1]) < store.size[:, None] for store in (held, new)]
    is_new = np.arange(held.items.shape[1] + new.items.shape[1]) >= held.items.shape[1]
    return np.concatenate([held.items, new.items], axis=1), np.concatenate(real, axis=1), is_new


def _compact(items: Ints, keep: Bools, like: Store) -> Store:
    """The kept entries of each row at its left, in the order they had, in rows as wide as those of `like`."""
    size = keep.sum(axis=1)
    packed = np.zeros_like(like.items)
    packed[np.arange(packed.shape[1]) < size[:, None]] = items[keep]
    return Store(packed, size)


# ---------------------------------------------------------------- one cache, on a real device


class StreamingCache:
    """A cache of one device: offer what arrives, train on what is kept. Its work does not grow with the capacity.

    An offer touches as many samples as it brings, and the counts of the classes. Counts are those of the simulated
    rule. An offer larger than the cache is taken in pieces of its size.

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
        if capacity < 1 or not 0 <= theta <= 1:
            raise BadInput(f"capacity = {capacity}, theta = {theta:g}: keep at least 1 sample, with theta in [0, 1]")
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
        """(samples, labels) of `n` different held samples at random, or of all where there are fewer."""
        self._draws += 1
        at = stream(self.seed, self._draws, "cache.sample").permutation(len(self))[:n]
        return self._samples[at], self._labels[at]

    def offer(self, samples: ArrayLike, labels: ArrayLike) -> None:
        """Let the rule decide what of `samples` `[n, ...]` with class numbers `labels` `[n]` replaces what."""
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
        """Go on from a saved state: later offers keep what they would have kept."""
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
        fits = x.shape[1:] == self._samples.shape[1:] and np.can_cast(x.dtype, self._samples.dtype, "same_kind")
        if len(y) and len(self) and not fits:
            own = f"{self._samples.dtype} {self._samples.shape[1:]}"
            raise BadInput(f"{x.dtype} samples of shape {x.shape[1:]} do not fit a cache of {own}: offer the same kind")

    def _take(self, x: np.ndarray, y: Ints) -> None:
        """One step of the rule; nothing larger than the cache arrives here."""
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
