"""What logs give away: guesses from what was seen, and the frequency of tags within a period.

A party that sees nothing but sealed boxes can do no better than to name the commonest file. `guesses` is a strong
reader of a log: it is told the truth about one half of the entries and names the other half by what it saw of them.

Tags alone, without boxes around them, are weaker. Within a period a file has one tag; whoever knows how popular files
are counts tags and gives the commonest tag to the most popular file. `frequency_attack` measures how often it is right.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from ....errors import BadInput
from ....rng import stream
from ....types import Floats, Ints


class Guessed(NamedTuple):
    """How well what was seen of the second half of a log gives it away."""

    right: int
    of: int
    chance: float  # share of the commonest truth: what is right without looking
    p: float  # probability of so many right guesses by chance alone


def guesses(seen: Sequence[Hashable], truth: Sequence[int]) -> Guessed:
    """Name the truth behind the second half of a log by what was seen with it in the first half.

    Args:
        seen: what a party saw of each entry.
        truth: what it should not know; at least two entries.
    """
    from scipy.stats import binomtest  # slow to import, and few need it

    half = len(truth) // 2
    if not half:
        raise BadInput(f"truth has {len(truth)} entries, which make no two halves: give at least 2")
    known: defaultdict[Hashable, Counter[int]] = defaultdict(Counter)
    for look, what in zip(seen[:half], truth[:half], strict=True):
        known[look][what] += 1
    (usual, _), *_ = Counter(truth[:half]).most_common(1)
    named = [known[look].most_common(1)[0][0] if look in known else usual for look in seen[half:]]
    right = sum(name == what for name, what in zip(named, truth[half:], strict=True))
    chance = max(Counter(truth[half:]).values()) / len(named)
    return Guessed(right, len(named), chance, float(binomtest(right, len(named), chance, alternative="greater").pvalue))


def frequency_attack(files: Ints, popularity: Floats, period: int, seed: int = 0) -> float:
    """The share of requests whose file counting tags gives away; of equal counts the attacker takes any.

    Args:
        files: of all requests, in order.
        popularity: long-run share of every file, which the attacker knows, `[n_files]`.
        period: requests between two rotations; only whole periods are looked at.
        seed: of the tags and of the attacker's lots.

    >>> frequency_attack(np.array([0, 0, 1, 1, 1, 0]), np.array([0.7, 0.3]), 3)
    0.5
    """
    by_popularity = np.argsort(-popularity, kind="stable")
    n_periods, right = len(files) // period, 0
    for number, part in enumerate(files[: n_periods * period].reshape(n_periods, period)):
        file_of = stream(seed, number, "tags").permutation(len(popularity))  # by tag
        counts = np.bincount(part, minlength=len(popularity))[file_of]  # by tag
        tags = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        right += int(counts[tags[file_of[tags] == by_popularity[: len(tags)]]].sum())
    return right / max(n_periods * period, 1)


def tag_period(files: Ints, popularity: Floats, most: float, periods: Sequence[int]) -> int:
    """The longest of some periods in which counting tags tells at most a share `most` of the requests; 0: none."""
    fits = [period for period in sorted(periods) if frequency_attack(files, popularity, period) <= most]
    return max(fits, default=0)
