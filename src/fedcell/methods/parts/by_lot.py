"""Devices by lot, cheap ones more often: chances that fall with the seconds or the joules that a device will take.

Of the devices of a cell `n` are drawn without replacement, so that device `k` is among them with probability

    pi_k = min(1, c / cost_k),   c such that they sum to n

by systematic sampling: devices lie on a line in random order, each as long as its probability. Of `n` points, 1 apart
and with a random start, each draws the device that it falls on. Costs are foreseen from this round's channels, at
full speed with a `1 / n` share of the band; a device that could not send is never drawn.

Cheap devices are drawn more often, so that a mean of those drawn leans to their data. With `p_k / pi_k` for the weight
of a device, `p_k` its share of all samples, the expectation of the sum is the mean over all devices that have a chance,
as long as every upload arrives. Not a method itself: it has no `build`.

Reference: Madow, On the Theory of Systematic Sampling, II, 1949; Horvitz, Thompson, A Generalization of Sampling
Without Replacement from a Finite Universe, 1952.
"""

from collections.abc import Callable

import numpy as np

from ... import radio
from ...radio import cost
from ...radio.forecast import compute_joule
from ...rng import stream
from ...types import Bools, Decision, Floats, Observation, Problem


def alike(problem: Problem, observation: Observation, trial: Decision) -> Floats:
    """Cost of drawing evenly: 1 for every device, `[n_devices]`."""
    return np.ones(problem.world.n_devices)


def seconds(problem: Problem, observation: Observation, trial: Decision) -> Floats:
    """Seconds of computing and sending, `[n_devices]`."""
    return np.add(*radio.times(problem.world, observation, trial))


def joules(problem: Problem, observation: Observation, trial: Decision) -> Floats:
    """Joules of computing and sending, `[n_devices]`."""
    _, upload_s = radio.times(problem.world, observation, trial)
    return compute_joule(observation, trial) + cost.upload_joule(trial.power_watt, upload_s)


COSTS: dict[str, Callable[[Problem, Observation, Decision], Floats]] = {
    "random": alike,
    "latency": seconds,
    "energy": joules,
}


def chances(name: str, problem: Problem, observation: Observation, trial: Decision, n: int) -> Floats:
    """`pi_k` of every device, `[n_devices]`, if a scheduler of `COSTS` picks `n` per cell."""
    price, cell = COSTS[name](problem, observation, trial), observation.topology.cell
    found = np.zeros(len(price))
    for number in range(problem.world.n_cells):
        here = np.flatnonzero(observation.available & (cell == number) & np.isfinite(price))
        found[here] = inclusion(price[here], n)
    return found


def drawn(problem: Problem, observation: Observation, chance: Floats) -> Bools:
    """Draw devices in every cell, each with its chance, `[n_devices]`."""
    rng, cell = stream(problem.seed, observation.round, "schedule by cost"), observation.topology.cell
    chosen = np.zeros(len(chance), dtype=np.bool_)
    for number in range(problem.world.n_cells):
        order = rng.permutation(np.flatnonzero((cell == number) & (chance > 0)))
        ends = np.cumsum(chance[order])
        ends[-1:] = np.round(ends[-1:])  # a whole number, up to the rounding of the sum
        chosen[order] = np.diff(np.floor(ends + rng.random()), prepend=0.0) > 0
    return chosen


def inclusion(price: Floats, n: int) -> Floats:
    """`min(1, c / price)` that sum to `n`, or ones if there are no more than `n`; what costs nothing is sure to be in.

    >>> inclusion(np.array([1.0, 2.0, 4.0, 4.0]), 2).round(3).tolist()
    [1.0, 0.5, 0.25, 0.25]
    >>> inclusion(np.array([0.0, 0.0, 5.0]), 1).tolist()
    [0.5, 0.5, 0.0]
    """
    if len(price) <= n:
        return np.ones(len(price))
    free = int(np.count_nonzero(price == 0))
    if free > n:
        return np.where(price == 0, n / free, 0.0)
    order = np.argsort(price, kind="stable")
    with np.errstate(divide="ignore", over="ignore"):
        worth = price[order[n]] / price[order]  # descending
    left = np.cumsum(worth[::-1])[::-1]
    fits = [number for number in range(free, n) if (n - number) * worth[number] <= left[number]]
    sure = fits[0] if fits else n
    found = np.ones(len(price))
    found[order[sure:]] = (n - sure) * worth[sure:] / left[sure]
    return found
