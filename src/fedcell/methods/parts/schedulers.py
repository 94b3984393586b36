"""Simple rules for who trains, usable in any method: each scores devices, the highest in a cell are picked.

Not a method itself: it has no `build`.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from ...rng import stream
from ...types import Bools, Floats, Ints, Observation, Problem
from . import by_lot
from .in_time import in_time
from .resources import Wanted, epoch_steps, foreseen, plan

Scores = Callable[[Problem, Observation, Wanted], Floats]


def schedule(
    name: str,
    n_selected: int,
    problem: Problem,
    observation: Observation,
    steps: int | Ints | None = None,
    samples_per_step: float | Floats | None = None,
) -> Bools:
    """Who trains, `[n_devices]`: at most `n_selected` per cell, never more than there are blocks.

    `all` takes everyone, `poisson` `n_selected` on average.

    `steps` and `samples_per_step` are the local work that devices pay for; None: that of the `train` section.
    """
    train = problem.train
    if steps is None:
        epochs = train.epochs
        steps = epoch_steps(epochs, observation.store.size, train.batch_size) if epochs else train.steps
    wanted = Wanted(n_selected, steps, train.batch_size if samples_per_step is None else samples_per_step)
    most = problem.world.n_devices if name in ("all", "poisson") else n_selected
    if name not in LEAVE_OUT and most_at_once(problem, most) >= problem.world.n_devices:
        return observation.available.copy()
    scores = SCHEDULERS[name](problem, observation, wanted)
    selected = pick(problem, observation, scores, most)
    return selected & (scores > -np.inf) if name in LEAVE_OUT else selected


def pick(problem: Problem, observation: Observation, scores: Floats, n_selected: int) -> Bools:
    """The available devices with the highest scores: at most `n_selected` per cell, never more than there are blocks.

    Args:
        problem: what is learned, and where.
        observation: who is available, and in which cell.
        scores: `[n_devices]`, the higher the sooner.
        n_selected: devices per cell.
    """
    cell, most = observation.topology.cell, most_at_once(problem, n_selected)
    scores = np.where(observation.available, scores, -np.inf)
    if most >= len(cell):
        selected = np.ones(len(cell), dtype=bool)
    elif problem.world.n_cells == 1:
        selected = highest(scores, most)
    else:
        selected = np.zeros(len(cell), dtype=bool)
        order = np.lexsort((-scores, cell))  # the same cell by cell
        place_in_cell = np.arange(len(cell)) - np.searchsorted(cell[order], cell[order])
        selected[order[place_in_cell < most]] = True
    return selected & observation.available


def most_at_once(problem: Problem, n_selected: int) -> int:
    """How many devices of a cell can send at once."""
    settings = problem.world.settings
    return min(n_selected, settings.n_blocks) if settings.access == "block" else n_selected


def highest(scores: Floats, most: int) -> Bools:
    """Which are the `most` highest scores, `[n_devices]`; ties go to the lower index. Several times as fast as sorting.

    >>> highest(np.array([1.0, 3.0, 2.0, 2.0]), 2).tolist()
    [False, True, True, False]
    """
    last = np.partition(scores, -most)[-most]  # the lowest that is still in
    chosen = scores > last
    chosen[np.flatnonzero(scores == last)[: most - np.count_nonzero(chosen)]] = True
    return chosen


def everyone(problem: Problem, observation: Observation, wanted: Wanted) -> Floats:
    """No preference; if blocks are short, a turn-taking window."""
    return round_robin(problem, observation, wanted._replace(n_selected=problem.world.settings.n_blocks))


def at_random(problem: Problem, observation: Observation, wanted: Wanted) -> Floats:
    """Uniformly at random."""
    return stream(problem.seed, observation.round, "schedule").random(problem.world.n_devices)


def each_by_itself(problem: Problem, observation: Observation, wanted: Wanted) -> Floats:
    """Poisson sampling: every device tosses a coin of its own, with the chance `poisson_rate`; -inf for the others."""
    draws = stream(problem.seed, observation.round, "schedule").random(problem.world.n_devices)
    rate = poisson_rate(problem, observation.topology.cell, wanted.n_selected)
    return np.where(draws < rate, -draws, -np.inf)


def poisson_rate(problem: Problem, cell: Ints, n_selected: int) -> Floats:
    """`min(n_selected / N, 1)` with `N` the devices of a cell, there or not, `[n_devices]`."""
    return np.minimum(n_selected / np.bincount(cell, minlength=problem.world.n_cells)[cell], 1.0)


def round_robin(problem: Problem, observation: Observation, wanted: Wanted) -> Floats:
    """In turns: a window of `n_selected` moves around each cell's devices."""
    cell = observation.topology.cell
    order = np.argsort(cell, kind="stable")
    place = np.empty(len(cell), dtype=np.int64)
    place[order] = np.arange(len(cell)) - np.searchsorted(cell[order], cell[order])
    in_cell = np.bincount(cell, minlength=problem.world.n_cells)[cell]
    return -((place - observation.round * wanted.n_selected) % in_cell).astype(np.float64)


def best_channel(problem: Problem, observation: Observation, wanted: Wanted) -> Floats:
    """The strongest channel gains."""
    return observation.gain


def fastest(problem: Problem, observation: Observation, wanted: Wanted) -> Floats:
    """The shortest time to compute and upload at full speed with a `1 / n_selected` share of the band."""
    return -by_lot.seconds(problem, observation, foreseen(problem, observation, wanted))


def most_in_time(problem: Problem, observation: Observation, wanted: Wanted) -> Floats:
    """1 for those who train: as many as meet the deadline, `n_selected` at most; -inf for all others.

    Reference: Nishio, Yonetani, Client Selection for Federated Learning with Heterogeneous Resources in Mobile Edge,
    2019 (FedCS).
    """
    everyone_on = np.ones(problem.world.n_devices, dtype=bool)
    trial = plan(problem, observation, everyone_on, wanted.steps, wanted.samples_per_step)
    return np.where(in_time(problem, observation, trial, most_at_once(problem, wanted.n_selected)), 1.0, -np.inf)


def by_chance(name: str, problem: Problem, observation: Observation, wanted: Wanted) -> Floats:
    """1 for those who are drawn by a lot of `by_lot.COSTS`; -inf for all others."""
    chosen = by_lot.drawn(problem, observation, chances(name, problem, observation, wanted))
    return np.where(chosen, 1.0, -np.inf)


def chances(name: str, problem: Problem, observation: Observation, wanted: Wanted) -> Floats:
    """With which chance a scheduler of `by_lot.COSTS` picks each device, `[n_devices]`."""
    n = most_at_once(problem, wanted.n_selected)
    return by_lot.chances(name, problem, observation, foreseen(problem, observation, wanted), n)


SCHEDULERS: dict[str, Scores] = {
    "all": everyone,
    "random": at_random,
    "poisson": each_by_itself,
    "round-robin": round_robin,
    "best-channel": best_channel,
    "fastest": fastest,
    "fedcs": most_in_time,
    "latency": partial(by_chance, "latency"),
    "energy": partial(by_chance, "energy"),
}
# Leave devices out, by -inf, even if fewer than `n_selected` are left.
LEAVE_OUT = ("fedcs", "poisson", "latency", "energy")
