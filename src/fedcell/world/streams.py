"""Streams: the samples that arrive at every device in a round, and the stores that a cache rule makes of them.

Arrivals depend on (seed, round, device) alone, so every cache rule meets the same samples.

Reference: streaming, section VI; section 3.1 of the method's page
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import rng
from ..options import Law, check
from ..types import Floats, Ints, Store, Stream
from .caches import RULES, Cache, Keeper, begin
from .labels import LabelLaw, draw_labels, draw_law, first_state, ideal_labels, next_state
from .settings import StreamConfig


class Source(NamedTuple):
    """Where samples come from. `state` is any tree of arrays."""

    start: Callable[[int], tuple[Store, Any]]  # seed -> what caches hold at first (rows of the capacity), state
    draw: Callable[[int, int, Any], tuple[Store, Any]]  # seed, round, state -> arrivals, state


class StreamMemory(NamedTuple):
    """What a stream with caches carries between rounds, besides the stores."""

    source: Any
    shadow: Floats  # [n_devices, n_classes], see caches
    seen: Ints  # [n_devices]


# ---------------------------------------------------------------- streams


def streaming(source: Source, rule: str, keeper: Keeper) -> Stream:
    """Samples of a source, kept by a cache rule.

    Args:
        source: what arrives.
        rule: a name of `caches.RULES`.
        keeper: capacities, and the labels of the training samples.
    """

    def start(seed: int) -> tuple[Store, StreamMemory]:
        store, state = source.start(seed)
        _, shadow, seen = begin(keeper, store)
        return store, StreamMemory(state, shadow, seen)

    def arrive(seed: int, round: int, store: Store, memory: StreamMemory) -> tuple[Store, StreamMemory]:
        new, state = source.draw(seed, round, memory.source)
        cache = Cache(store, memory.shadow, memory.seen)
        held, shadow, seen = RULES[rule](keeper, cache, new, seed, round)
        return held, StreamMemory(state, shadow, seen)

    return Stream(start, arrive)


def markov_stream(settings: StreamConfig, labels: Ints, n_classes: int, n_devices: int, seed: int) -> Stream:
    """Labels that wander between states; samples are drawn with replacement inside their class.

    The stream tells its law to the ideal cache and to measurements, never to a rule.

    Args:
        settings: the chain, the cache rule and its capacity.
        labels: of the training samples, `[n_samples]`.
        n_classes: number of classes.
        n_devices: devices to serve.
        seed: of the run; fixes the chains.
    """
    check(settings, "stream.")
    law = draw_law(settings, np.unique(labels), n_classes, n_devices, seed)
    capacity, batch = sizes(settings, n_devices, seed)
    if settings.cache == "full":
        return _full_stream(settings.full_refresh, law, capacity, batch, labels)
    keeper = Keeper(capacity, labels, n_classes, settings.theta)
    source = _markov_source(law, first_fill(settings, capacity), capacity, batch, labels)
    return streaming(source, settings.cache, keeper)._replace(law=law)


def binomial_stream(settings: StreamConfig, part: Store, labels: Ints, n_classes: int, seed: int) -> Stream:
    """Each device receives its own samples in order, `Binomial(batch, activity)` per round, and starts over at the end.

    Args:
        settings: cache rule, capacities, arrivals and activities, drawn per device.
        part: the samples of each device, in the order they arrive.
        labels: of the training samples, `[n_samples]`.
        n_classes: number of classes.
        seed: of the run; fixes the draws per device.

    Reference: osafl, section II (arrivals)
    """
    check(settings, "stream.")
    n_devices = len(part.size)
    capacity, batch = sizes(settings, n_devices, seed)
    activity = settings.activity.draw(rng.stream(seed, rng.SETUP, "stream.activity"), n_devices)
    filled = np.minimum(first_fill(settings, capacity), part.size)
    everyone, length = np.arange(n_devices)[:, None], np.maximum(part.size, 1)

    def take(first: Ints, count: Ints, width: int) -> Store:
        place = (first[:, None] + np.arange(width)) % length[:, None]
        return _padded(part.items[everyone, place], count)

    def start(seed: int) -> tuple[Store, Ints]:
        return take(np.zeros_like(filled), filled, int(capacity.max())), filled

    def draw(seed: int, round: int, first: Ints) -> tuple[Store, Ints]:
        coin = rng.uniforms(seed, round, "stream.binomial", everyone, np.arange(batch.max()))
        tossed = (coin < activity[:, None]) & (np.arange(batch.max()) < batch[:, None])
        count = np.where(part.size > 0, tossed.sum(axis=1), 0)
        return take(first, count, int(batch.max())), (first + count) % length

    return streaming(Source(start, draw), settings.cache, Keeper(capacity, labels, n_classes, settings.theta))


def sizes(settings: StreamConfig, n_devices: int, seed: int) -> tuple[Ints, Ints]:
    """(capacity, arrivals per round) of every device, `[n_devices]` each."""

    def whole(name: str, law: Law) -> Ints:
        return np.rint(law.draw(rng.stream(seed, rng.SETUP, f"stream.{name}"), n_devices)).astype(np.int64)

    return whole("capacity", settings.capacity), whole("batch", settings.batch)


def first_fill(settings: StreamConfig, capacity: Ints) -> Ints:
    """Samples in every cache before the first round, `[n_devices]`."""
    return np.floor(capacity * (settings.fill if settings.initial == "prefill" else 0.0)).astype(np.int64)


# ---------------------------------------------------------------- samples of the Markov stream


def _markov_source(law: LabelLaw, filled: Ints, capacity: Ints, batch: Ints, labels: Ints) -> Source:
    instances = _instances(labels)

    def start(seed: int) -> tuple[Store, Ints]:
        state = first_state(law, seed)
        asked = draw_labels(law, state, int(capacity.max()), seed, rng.SETUP)
        return _padded(instances(asked, seed, rng.SETUP), filled), state

    def draw(seed: int, round: int, state: Ints) -> tuple[Store, Ints]:
        asked = draw_labels(law, state, int(batch.max()), seed, round)
        return _padded(instances(asked, seed, round), batch), next_state(law, state, seed, round)

    return Source(start, draw)


def _full_stream(refresh: str, law: LabelLaw, capacity: Ints, batch: Ints, labels: Ints) -> Stream:
    """The ideal cache: long-term label shares for ever; the oldest instances give way to new ones of their class."""
    instances, asked = _instances(labels), ideal_labels(law, capacity)
    place = np.arange(asked.shape[1])
    n_new = {"stream": batch, "all": capacity, "none": np.zeros_like(batch)}[refresh]

    def start(seed: int) -> tuple[Store, None]:
        return _padded(instances(asked, seed, rng.SETUP), capacity), None

    def arrive(seed: int, round: int, store: Store, memory: None) -> tuple[Store, None]:
        oldest = (place - round * n_new[:, None]) % capacity[:, None] < n_new[:, None]
        items = np.where(oldest, instances(asked, seed, round), store.items)
        return _padded(items, capacity), None

    return Stream(start, arrive, law)


def _instances(labels: Ints) -> Callable[[Ints, int, int], Ints]:
    """A function that draws a sample, with replacement, for every label of an array `[n_devices, n]`."""
    order = np.argsort(labels, kind="stable")
    size = np.bincount(labels)
    first = np.cumsum(size) - size

    def draw(asked: Ints, seed: int, round: int) -> Ints:
        n_devices, n = asked.shape
        u = rng.uniforms(seed, round, "stream.instances", np.arange(n_devices)[:, None], np.arange(n))
        return order[first[asked] + (u * size[asked]).astype(np.int64)]

    return draw


def _padded(items: Ints, size: Ints) -> Store:
    """A store whose rows end with zeros after their size."""
    return Store(np.where(np.arange(items.shape[1]) < size[:, None], items, 0), size)
