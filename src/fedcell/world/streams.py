"""Streams: the samples that arrive at every device in a round, and the stores that a cache rule makes of them.

In the Markov stream every device has a few label laws (states). One is active in a round; the next is the more
probable the smaller its KL divergence from the present one. The label shares of a round wander, while their mean
under the chain's stationary law, the long-term distribution, is constant and unknown to the device.

Arrivals depend on (seed, round, device) alone, so every cache rule meets the same samples.

Reference: streaming, section VI; section 3.1 of the method's page
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import rel_entr

from .. import rng
from ..data.settings import StreamConfig
from ..errors import BadInput
from ..options import Law, check
from ..types import Floats, Ints, Store, Stream
from .caches import RULES, Cache, Keeper, begin, largest_remainder

STUCK = 1e-9  # a chain whose second eigenvalue is nearer to 1 than this has no usable stationary law
TRIES = 1000  # draws of random classes before giving up covering all of them


class LabelLaw(NamedTuple):
    """The Markov chains of all devices."""

    states: Floats  # [n_devices, n_states, n_classes], label shares of each state
    transition: Floats  # [n_devices, n_states, n_states], rows sum to one
    stationary: Floats  # [n_devices, n_states]
    long_term: Floats  # [n_devices, n_classes], the stationary mean of the states
    second_eigenvalue: Floats  # [n_devices], modulus: the correlation of successive rounds


class Source(NamedTuple):
    """Where samples come from. `state` is any tree of arrays."""

    start: Callable[[int], tuple[Store, Any]]  # seed -> what caches hold at first (rows of the capacity), state
    draw: Callable[[int, int, Any], tuple[Store, Any]]  # seed, round, state -> arrivals, state


class StreamMemory(NamedTuple):
    """What a stream with caches carries between rounds, besides the stores."""

    source: Any
    shadow: Floats  # [n_devices, n_classes], see caches
    seen: Ints  # [n_devices]


class LabelStream(Stream):
    """A stream whose long-term label law is known: to the ideal cache and to measurements, never to a rule."""

    law: LabelLaw


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


def markov_stream(settings: StreamConfig, labels: Ints, n_classes: int, n_devices: int, seed: int) -> LabelStream:
    """Labels that wander between states; samples are drawn with replacement inside their class.

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
        plain = _full_stream(settings.full_refresh, law, capacity, batch, labels)
    else:
        keeper = Keeper(capacity, labels, n_classes, settings.theta)
        filled = first_fill(settings, capacity)
        plain = streaming(_markov_source(law, filled, capacity, batch, labels), settings.cache, keeper)
    stream = LabelStream(*plain)
    stream.law = law
    return stream


def binomial_stream(settings: StreamConfig, part: Store, labels: Ints, n_classes: int, seed: int) -> Stream:
    """Each device walks through its own samples, `Binomial(batch, activity)` a round, from the top when through.

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


# ---------------------------------------------------------------- the chains


def draw_law(settings: StreamConfig, present: Ints, n_classes: int, n_devices: int, seed: int) -> LabelLaw:
    """Draw the states of every device from a Dirichlet law over its classes, and make chains of them.

    Args:
        settings: the chain.
        present: the classes that have training samples.
        n_classes: number of classes.
        n_devices: devices to serve.
        seed: of the run.
    """
    each = settings.classes_per_device
    if each > len(present):
        raise BadInput(
            f"stream.classes_per_device = {each} but the training data has {len(present)} classes: "
            f"lower it to at most {len(present)}"
        )
    classes = _classes(settings, present, n_devices, seed)
    draw = rng.stream(seed, rng.SETUP, "stream.states")
    share = draw.dirichlet(np.full(each, settings.alpha), (n_devices, settings.n_states))
    states = np.zeros((n_devices, settings.n_states, n_classes))
    np.put_along_axis(states, np.broadcast_to(classes[:, None], share.shape), share, axis=2)
    return make_law(states, settings.beta, settings.smoothing)


def make_law(states: Floats, beta: float, smoothing: float) -> LabelLaw:
    """Chains over given states: `P_ij = exp(-beta KL(p_i || p_j)) / sum_j' exp(-beta KL(p_i || p_j'))`.

    Args:
        states: label shares, `[n_devices, n_states, n_classes]`.
        beta: at 0 all states follow each other equally; large values stay near.
        smoothing: added to the shares of a device's classes before the divergence is taken.
    """
    known = states.any(axis=1, keepdims=True)  # the classes of a device
    smooth = np.where(known, states + smoothing, 0.0)
    smooth /= smooth.sum(axis=2, keepdims=True)
    divergence = rel_entr(smooth[:, :, None], smooth[:, None, :]).sum(axis=3)
    weight = np.exp(-beta * divergence)
    transition = weight / weight.sum(axis=2, keepdims=True)
    modulus = np.sort(np.abs(np.linalg.eigvals(transition)), axis=1)
    second = modulus[:, -2] if modulus.shape[1] > 1 else np.zeros(len(states))
    if (second > 1 - STUCK).any():
        raise BadInput(f"stream.beta = {beta:g} leaves states that are never left: lower it")
    stationary = _stationary(transition)
    return LabelLaw(states, transition, stationary, (stationary[:, None] @ states)[:, 0], second)


def first_state(law: LabelLaw, seed: int) -> Ints:
    """The state of every device in the first round, from the stationary law, `[n_devices]`."""
    return _pick(law.stationary, seed, rng.SETUP, "stream.state", 1)[:, 0]


def next_state(law: LabelLaw, state: Ints, seed: int, round: int) -> Ints:
    """The state of every device in the round after `round`, `[n_devices]`."""
    return _pick(law.transition[np.arange(len(state)), state], seed, round, "stream.state", 1)[:, 0]


def draw_labels(law: LabelLaw, state: Ints, n: int, seed: int, round: int) -> Ints:
    """Labels of `n` samples of every device in a round (`SETUP`: of the first cache), `[n_devices, n]`."""
    return _pick(law.states[np.arange(len(state)), state], seed, round, "stream.labels", n)


def ideal_labels(law: LabelLaw, capacity: Ints) -> Ints:
    """The labels of the ideal cache, `[n_devices, widest]`: long-term shares, classes evenly spread along the row."""
    counts = largest_remainder(law.long_term * capacity[:, None], capacity)
    rows = np.zeros((len(capacity), int(capacity.max())), dtype=np.int64)
    for row, n_each in zip(rows, counts, strict=True):
        label = np.repeat(np.arange(len(n_each)), n_each)
        place = np.concatenate([(np.arange(n) + 0.5) / n for n in n_each if n])
        row[: len(label)] = label[np.argsort(place, kind="stable")]
    return rows


def _classes(settings: StreamConfig, present: Ints, n_devices: int, seed: int) -> Ints:
    """The classes of every device, `[n_devices, classes_per_device]`."""
    each = settings.classes_per_device
    if settings.classes == "cyclic":
        return present[(np.arange(n_devices)[:, None] + np.arange(each)) % len(present)]
    draw = rng.stream(seed, rng.SETUP, "stream.classes")
    for _ in range(TRIES):
        chosen = np.stack([draw.permutation(present)[:each] for _ in range(n_devices)])
        if len(np.unique(chosen)) == min(len(present), n_devices * each):
            return chosen
    raise BadInput(
        f"stream.classes = 'random' left a class out in {TRIES} draws of {each} for {n_devices} devices: use cyclic"
    )


def _stationary(transition: Floats) -> Floats:
    """`rho P = rho`, `sum rho = 1` for every device: one equation of the first is replaced by the second."""
    n_states = transition.shape[1]
    system = np.swapaxes(transition, 1, 2) - np.eye(n_states)
    system[:, -1] = 1.0
    right = np.zeros((len(transition), n_states, 1))
    right[:, -1] = 1.0
    rho = np.maximum(np.linalg.solve(system, right)[:, :, 0], 0.0)
    return rho / rho.sum(axis=1, keepdims=True)


def _pick(share: Floats, seed: int, round: int, purpose: str, n: int) -> Ints:
    """`n` draws from the law of each row, `[n_rows, n]`; entries of share zero are never drawn."""
    edge = np.cumsum(share, axis=1)
    edge /= edge[:, -1:]
    u = rng.uniforms(seed, round, purpose, np.arange(len(share))[:, None], np.arange(n))
    return np.sum(u[:, :, None] >= edge[:, None, :-1], axis=2, dtype=np.int64)


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

    return Stream(start, arrive)


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
