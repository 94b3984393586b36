"""What is claimed, what was found, and how the parts of a claim make its verdict.

A claim has one or more parts, each a comparison that holds or does not (`judging` makes them). The claim is

- `reproduced` if every part holds; `far larger` if every part holds and one by more than twice the printed margin;
- `partly` if at least half of the parts hold (a part that has the sign but not the size counts half);
- `not reproduced` if fewer do;
- `indicated` if a part rests on fewer than `LEAST_SEEDS` common seeds; the reason says which way;
- `cannot decide` if parts whose runs end at chance, or never reach the target, leave it open;
- `not run` if parts without runs do.
"""

from collections.abc import Sequence
from typing import NamedTuple

VERDICTS = ("reproduced", "far larger", "partly", "indicated", "not reproduced", "cannot decide", "not run")
RULES = 2  # of the rules on this page; results of older rules are not verdicts any more
LEAST_SEEDS = 3  # below that a claim is indicated at most
HALF = 0.5  # share of the parts that must hold for `partly`
UNDECIDED = "no run decides it yet"  # why a claim is "not run"
WEIGHTS = {"reproduced": 1.0, "far larger": 1.0, "partly": 0.5}  # what a part counts
UNITS = {  # of a part: what its numbers are multiplied by, the sign in front, and the words behind
    "": (1, "", ""),
    "difference": (1, "+", ""),
    "points": (100, "+", " points"),  # a difference of accuracies
    "%": (100, "", " %"),  # an accuracy
    "% saved": (100, "+", " % saved"),  # of time or rounds
}
DIRECTIONS = {
    "reproduced": "holds",
    "far larger": "holds, far larger",
    "partly": "holds in part",
    "not reproduced": "does not hold",
}


class Claim(NamedTuple):
    """What the paper says, and the numbers it prints."""

    key: str
    text: str
    printed: str
    kind: str = "claim"  # "check": about our own settings or code, not a result of the paper; not counted


class Part(NamedTuple):
    """One comparison of a claim; true if it holds.

    `low` and `high` are the ends of the 95 % interval; with fewer than `LEAST_SEEDS` seeds the least and largest value.
    Accuracies are fractions; `unit`, one of `UNITS`, says how a reader sees the numbers.
    """

    name: str
    verdict: str  # as if the seeds were enough
    n: int | None  # common seeds; None: nothing random is behind it
    mean: float = 0.0
    low: float = 0.0
    high: float = 0.0
    unit: str = ""

    def __bool__(self) -> bool:
        return self.verdict in ("reproduced", "far larger")

    def __str__(self) -> str:
        if self.n is None or self.verdict == "not run":
            return f"{self.name}: {self.verdict if self.n is not None else 'yes' if self else 'no'}"
        idle = ", undecided" if self.verdict == "cannot decide" else ""
        return f"{self.name}: {self.measured}, n = {self.n}{idle}"

    @property
    def measured(self) -> str:
        """The mean and its interval in the unit of the part.

        >>> Part("a > b", "reproduced", 5, 0.062, -0.0065, 0.1306, "points").measured
        '+6.2 points [-0.7, +13.1]'
        >>> Part("a > 0.4", "reproduced", 3, 0.4842, 0.4395, 0.529, "%").measured
        '48.4 % [44.0, 52.9]'
        >>> Part("rounds", "reproduced", 1, 8.4, 8.4, 8.4).measured
        '8.4'
        """
        factor, sign, word = UNITS[self.unit]
        few = max(abs(self.mean), self.high - self.low) * factor < 1
        digits = ".3g" if factor == 1 else ".2f" if few else ".1f"
        mean, low, high = (f"{factor * value:{sign}{digits}}" for value in (self.mean, self.low, self.high))
        return f"{mean}{word}" + (f" [{low}, {high}]" if (self.n or 0) >= LEAST_SEEDS else "")


class Finding(NamedTuple):
    """What was measured for a claim, and whether it holds."""

    claim: str
    ours: str
    verdict: str
    reason: str
    n: int | None = None  # seeds behind this claim: the fewest that a part has; None: nothing random is behind it
    parts: Sequence[Part] = ()


def finding(claim: str, parts: Part | Sequence[Part], ours: str = "", why: str = "") -> Finding:
    """Judge a claim by its parts.

    Args:
        claim: its key.
        parts: comparisons; none leaves it "not run".
        ours: what was measured, for a reader; empty: the parts.
        why: what is asked, in a few words; empty: what the one part asks.
    """
    parts = (parts,) if isinstance(parts, Part) else tuple(parts)
    if all(part.verdict == "not run" for part in parts):
        return Finding(claim, "", "not run", UNDECIDED, None, parts)
    seeds = [part.n for part in parts if part.n is not None and part.verdict != "not run"]
    n = min(seeds, default=None)
    verdict = combine(parts)
    reason = "; ".join(text for text in (why, _count(parts)) if text) or parts[0].name
    if n is not None and n < LEAST_SEEDS and verdict in DIRECTIONS:
        reason = f"indicated on {n} seed{'s' * (n > 1)}: {DIRECTIONS[verdict]}; {reason}"
        verdict = "indicated"
    return Finding(claim, ours or "; ".join(map(str, parts)), verdict, reason, n, parts)


def combine(parts: Sequence[Part]) -> str:
    """The verdict of a claim by those of its parts, however many seeds they have.

    Parts that decide nothing count as failed for `reproduced` and as held for `not reproduced`: what is given holds
    however they turn out.
    """
    found = [part.verdict for part in parts]
    held = sum(WEIGHTS.get(one, 0.0) for one in found)
    opened = [one for one in found if one in ("cannot decide", "not run")]
    if all(parts):
        return "far larger" if "far larger" in found else "reproduced"
    if held >= HALF * len(parts):
        return "partly"
    if held + len(opened) < HALF * len(parts) or not opened:
        return "not reproduced"
    return "cannot decide" if "cannot decide" in opened else "not run"


def _count(parts: Sequence[Part]) -> str:
    """How many parts hold, and the names of the others."""
    if len(parts) == 1:
        return ""
    words = {
        "not": [part.name for part in parts if part.verdict == "not reproduced"],
        "sign alone": [part.name for part in parts if part.verdict == "partly"],
        "far larger": [part.name for part in parts if part.verdict == "far larger"],
        "undecided": [part.name for part in parts if part.verdict == "cannot decide"],
        "not run": [part.name for part in parts if part.verdict == "not run"],
    }
    tail = "".join(f"; {word}: {', '.join(names)}" for word, names in words.items() if names)
    return f"{sum(map(bool, parts))} of {len(parts)} hold{tail}"
