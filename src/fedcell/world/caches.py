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

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..errors import BadInput
from ..labels import histogram
from ..rng import uniforms
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
    """Per class, keep random new samples and no old ones if the new suffice (case 1), else all new and some old."""
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
