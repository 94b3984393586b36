"""Random streams keyed by (seed, round, purpose); there is no global seed anywhere.

Two methods run on one seed ask for the same keys, so they meet the same channels, arrivals,
responses and mini-batches whatever they decide.
"""

import random
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from .types import Floats

ROW, COLUMN = 0x9E3779B97F4A7C15, 0xD1342543DE82EF95  # what `uniforms` multiplies its counters by
MIX = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of SplitMix64
SETUP = -1  # the "round" of everything drawn once, before the first round


def stream(seed: int, round: int, purpose: str) -> np.random.Generator:
    """A fresh generator for one purpose in one round (`SETUP` for draws made once per run)."""
    return np.random.Generator(np.random.Philox(_sequence(seed, round, purpose)))


def uniforms(seed: int, round: int, purpose: str, rows: ArrayLike, columns: ArrayLike) -> Floats:
    """Uniform numbers in [0, 1) that depend only on each (row, column) pair and the key.

    A counter-based hash (two rounds of SplitMix64) instead of a sequential generator, so that the
    numbers of one device do not depend on which other devices are drawn beside it. `rows` and
    `columns` are integer arrays that broadcast against each other.

    >>> few, all_ = uniforms(1, 0, "x", [7], [0, 1]), uniforms(1, 0, "x", [[3], [7]], [0, 1])
    >>> bool((few == all_[1]).all())
    True
    """
    key = np.uint64(key_of(seed, round, purpose))
    with np.errstate(over="ignore"):
        row_key = _mix(np.asarray(rows).astype(np.uint64) * np.uint64(ROW) + key)
        bits = _mix(row_key + np.asarray(columns).astype(np.uint64) * np.uint64(COLUMN))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def key_of(seed: int, round: int, purpose: str) -> int:
    """The 64-bit key of `uniforms`."""
    return int(_sequence(seed, round, purpose).generate_state(1, np.uint64)[0])


def global_streams() -> tuple[Any, ...]:
    """The state of Python's and NumPy's global random streams, to detect whether a network draws from them."""
    numpy: Any = np.random.get_state()  # noqa: NPY002
    return random.getstate(), numpy[1].tobytes(), numpy[2]


def _sequence(seed: int, round: int, purpose: str) -> np.random.SeedSequence:
    """The seed sequence of a key. An array of 32-bit words takes half the time of a list."""
    words = [seed, round + 1, crc32(purpose.encode())]
    return np.random.SeedSequence(np.array(words, dtype=np.uint32) if 0 <= seed < 2**32 else words)


def _mix(z: np.ndarray) -> np.ndarray:
    """The SplitMix64 finaliser: every input bit moves about half of the output bits."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX[0])
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX[1])
    return z ^ (z >> np.uint64(31))
