"""A cache on a real device: labels wander from day to day, and the cache keeps their long-term mixture.

Run: python examples/streaming_cache.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedcell.world import StreamingCache

DAYS, PER_DAY, CAPACITY = 200, 40, 100
HABITS = np.array([[0.9, 0.1, 0.0], [0.1, 0.1, 0.8], [0.3, 0.6, 0.1]])  # three kinds of days, three classes


def day(number: int) -> tuple[np.ndarray, np.ndarray]:
    """What the device meets on one day: readings of eight numbers with their classes."""
    rng = np.random.default_rng(number)
    labels = rng.choice(3, PER_DAY, p=HABITS[number // 20 % 3])  # habits last for twenty days
    return rng.normal(labels[:, None], 1.0, (PER_DAY, 8)), labels


def main() -> None:
    caches = {rule: StreamingCache(CAPACITY, rule) for rule in ("fifo", "drsr")}
    met = np.zeros(3)
    for number in range(DAYS):
        samples, labels = day(number)
        met += np.bincount(labels, minlength=3)
        for cache in caches.values():
            cache.offer(samples, labels)
    print("met in all      ", np.round(met / met.sum(), 2))
    for rule, cache in caches.items():
        print(f"kept by {rule}    ", np.round(cache.counts / len(cache), 2))

    features, classes = caches["drsr"].sample(32)  # a mini-batch to train on
    print("a mini-batch    ", features.shape, classes.shape)

    with TemporaryDirectory() as folder:  # a restart of the device: plain arrays on disk, no pickle
        path = Path(folder) / "cache.npz"
        arrays: dict[str, Any] = dict(caches["drsr"].state_dict())
        np.savez(path, **arrays)
        restarted = StreamingCache(CAPACITY, "drsr")
        with np.load(path, allow_pickle=False) as state:
            restarted.load_state_dict(state)
    for cache in (caches["drsr"], restarted):
        cache.offer(*day(DAYS))
    same = np.array_equal(restarted.contents()[0], caches["drsr"].contents()[0])
    print("after a restart ", "the same samples" if same else "other samples")


if __name__ == "__main__":
    main()
