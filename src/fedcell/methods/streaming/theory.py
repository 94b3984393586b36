"""How far cached labels stray from their long-term law, in a round and along a run without training.

`v` are the label shares of a cache, `pi` the long-term shares.

Reference: streaming, section III; section 4.1 of the method's page
"""

import numpy as np

from ...labels import histogram
from ...rng import SETUP
from ...types import Floats, Ints, Store
from ...world.caches import RULES, Cache, Keeper, aim, begin, drsr_gain, srsr_gain
from ...world.labels import LabelLaw, draw_labels, first_state, ideal_labels, next_state
from ...world.settings import StreamConfig
from ...world.streams import first_fill, sizes


def discrepancy(counts: Ints, long_term: Floats) -> Floats:
    """`sum_r (v_r - pi_r)^2` of every device, `[n_devices]`; their sum is the per-slot discrepancy `psi_t`.

    Args:
        counts: samples of each class in each cache, `[n_devices, n_classes]`.
        long_term: long-term label shares, `[n_devices, n_classes]`.
    """
    return np.asarray(np.sum(deviation(counts, long_term) ** 2, axis=1))


def deviation(counts: Ints, long_term: Floats) -> Floats:
    """`v - pi`, `[n_devices, n_classes]`."""
    return np.asarray(counts / np.maximum(counts.sum(axis=1), 1)[:, None] - long_term)


def label_trace(settings: StreamConfig, law: LabelLaw, n_rounds: int, seed: int) -> Floats:
    """The discrepancy of every device in every round without any training, `[n_rounds, n_devices]`.

    Labels and counts are those of the run with the same settings and seed; sums over devices are `psi_t`, their
    cumulative sums the accumulated discrepancy.
    """
    n_devices, _, n_classes = law.states.shape
    capacity, batch = sizes(settings, n_devices, seed)
    if settings.cache == "full":
        counts = histogram(Store(ideal_labels(law, capacity), capacity), np.arange(n_classes), n_classes)
        return np.tile(discrepancy(counts, law.long_term), (n_rounds, 1))
    keeper = Keeper(capacity, np.arange(n_classes), n_classes, settings.theta)  # a sample is its label
    state = first_state(law, seed)
    first = draw_labels(law, state, int(capacity.max()), seed, SETUP)
    cache = begin(keeper, Store(first, first_fill(settings, capacity)))
    held = histogram(cache.store, keeper.labels, n_classes)
    out = np.empty((n_rounds, n_devices))
    for round in range(n_rounds):
        new = Store(draw_labels(law, state, int(batch.max()), seed, round), batch)
        cache, held = _keep(settings.cache, keeper, cache, held, new)
        out[round] = discrepancy(held, law.long_term)
        state = next_state(law, state, seed, round)
    return out


def _keep(rule: str, keeper: Keeper, cache: Cache, held: Ints, new: Store) -> tuple[Cache, Ints]:
    """Process the arrivals of one round: the ratio rules need only counts, the others the order of arrival."""
    if rule not in ("srsr", "drsr"):
        cache = RULES[rule](keeper, cache, new, 0, 0)
        return cache, histogram(cache.store, keeper.labels, keeper.n_classes)
    gain = srsr_gain(keeper, new.size) if rule == "srsr" else drsr_gain(keeper, new.size, cache.seen)
    held, shadow = aim(keeper, held, histogram(new, keeper.labels, keeper.n_classes), cache.shadow, gain)
    return cache._replace(shadow=shadow, seen=cache.seen + new.size), held
