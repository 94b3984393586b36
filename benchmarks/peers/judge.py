"""From trials to a verdict: medians, ratios, distances of final models, bars."""

from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from peers import DEMAND, OURS, TITLES
from trial import Trial


class Line(NamedTuple):
    """A framework's row in the table of a task."""

    peer: str
    setting: str
    round_s: float  # median over all steady rounds
    ratio: float  # of its seconds to fedcell's of the same repetition, median over repetitions
    ratios: list[float]  # of every repetition
    startup_s: float
    warm_up_s: float
    peak_byte: int
    distance: float  # of its final model from fedcell's, over the way that fedcell's went


class Verdict(NamedTuple):
    """Whether a demand is met."""

    what: str
    found: str
    holds: bool


def distance(final: NDArray[np.float32], ours: NDArray[np.float32], start: NDArray[np.float32]) -> float:
    """`|final - ours| / |ours - start|`: 0 if both did the same work, 1 if one did none."""
    if final.shape != ours.shape:
        return float("inf")
    way = float(np.linalg.norm(ours.astype(np.float64) - start))
    apart = float(np.linalg.norm(final.astype(np.float64) - ours))
    return apart / way if way else float("inf")


def lines(repetitions: list[list[Trial]], distances: dict[str, float]) -> list[Line]:
    """One row per framework, fedcell first, then the fastest."""
    ours_s = [_of(trials, OURS).steady_s for trials in repetitions]
    found = []
    for first in repetitions[0]:
        mine = [_of(trials, first.peer) for trials in repetitions]
        ratios = [trial.steady_s / base for trial, base in zip(mine, ours_s, strict=True)]
        found.append(
            Line(
                peer=first.peer,
                setting=first.setting,
                round_s=median(second for trial in mine for second in trial.round_s[1:]),
                ratio=median(ratios),
                ratios=ratios,
                startup_s=median(trial.startup_s for trial in mine),
                warm_up_s=median(trial.warm_up_s for trial in mine),
                peak_byte=int(median(trial.peak_byte for trial in mine)),
                distance=distances[first.peer],
            )
        )
    return sorted(found, key=lambda line: (line.peer != OURS, line.round_s))


def verdicts(found: list[Line], bars: dict[str, float], same_model: float = 1e-3) -> list[Verdict]:
    """Every demand on a task: the bars of speed, nobody faster, start-up, memory, the same final model."""
    ours, others = found[0], found[1:]
    if not others:
        return []
    speed = [
        Verdict(f"at least {bars[line.peer]:g} times as fast as {TITLES[line.peer]}", f"{line.ratio:.2f}", holds)
        for line in others
        if line.peer in bars
        for holds in [line.ratio >= bars[line.peer]]
    ]
    nearest = min(others, key=lambda line: line.ratio)
    quickest = min(others, key=lambda line: line.startup_s)
    leanest = min(others, key=lambda line: line.peak_byte)
    furthest = max(others, key=lambda line: line.distance)
    return [
        *speed,
        Verdict(
            "no peer is faster",
            f"{TITLES[nearest.peer]} takes {nearest.ratio:.2f} times as long",
            nearest.ratio >= 1,
        ),
        Verdict(
            "start-up not above the quickest peer's",
            f"{ours.startup_s:.2f} s, {TITLES[quickest.peer]} {quickest.startup_s:.2f} s",
            ours.startup_s <= quickest.startup_s,
        ),
        Verdict(
            f"memory not above {DEMAND.memory:g} times the leanest peer's",
            f"{ours.peak_byte / 2**20:.0f} MiB, {TITLES[leanest.peer]} {leanest.peak_byte / 2**20:.0f} MiB",
            ours.peak_byte <= DEMAND.memory * leanest.peak_byte,
        ),
        Verdict(
            f"final models within {same_model:g}",
            f"{TITLES[furthest.peer]} is {furthest.distance:.1e} away",
            furthest.distance < same_model,
        ),
    ]


def fastest(trials: list[Trial]) -> dict[str, str]:
    """The setting of every framework that was fastest."""
    best: dict[str, Trial] = {}
    for trial in trials:
        if trial.peer not in best or trial.steady_s < best[trial.peer].steady_s:
            best[trial.peer] = trial
    return {peer: trial.setting for peer, trial in best.items()}


def from_stored(stored: dict[str, Any]) -> list[Line]:
    """The rows of a task from its stored trials."""
    repetitions = [[Trial(**trial) for trial in trials] for trials in stored["repetitions"]]
    return lines(repetitions, stored["distances"])


def _of(trials: list[Trial], peer: str) -> Trial:
    return next(trial for trial in trials if trial.peer == peer)
