"""As many devices as meet the deadline: who they are if a cell shares its band, sends in turn, or neither.

FedCS adds the device that lengthens the round least, as long as the deadline is met. Here the largest set is found:

- With equal shares of a band, `n` devices can train if `n` of them end in time with a `1 / n` share each. A smaller
  share makes nobody faster, so the largest `n` is found by bisection; the `n` fastest train.
- With turns, the first to be ready sends first, and the last must have sent by the deadline. Read backwards from the
  deadline `T`, device `k` needs `upload_k` seconds and is due after `T - compute_k`: Moore and Hodgson's rule leaves
  out the longest upload whenever one is overdue, which keeps the most.
- Otherwise nobody slows others down, and everyone who ends in time can train.

Times are those of full speed, known before the round; answer times that the world draws are not. Not a method itself:
it has no `build`.

Reference: Nishio, Yonetani, Client Selection for Federated Learning with Heterogeneous Resources in Mobile Edge, 2019;
Moore, An n Job, One Machine Sequencing Algorithm for Minimizing the Number of Late Jobs, 1968.
"""

from heapq import heappop, heappush

import numpy as np

from ... import radio
from ...radio.forecast import room
from ...types import Bools, Decision, Floats, Ints, Observation, Problem


def in_time(problem: Problem, observation: Observation, trial: Decision, most: int) -> Bools:
    """The largest set of available devices that all meet the deadline, at most `most` per cell, `[n_devices]`.

    Args:
        problem: budgets of the cells.
        observation: channels, hardware, who is available.
        trial: work, clocks, powers and payloads of all devices; its bands and blocks are ignored on what is shared.
        most: devices per cell.
    """
    trial = trial._replace(block=np.full(problem.world.n_devices, -1))  # which blocks they get is not known yet
    left_s = np.broadcast_to(room(problem.world, observation, trial).deadline_s, problem.world.n_devices)
    if problem.world.settings.access == "tdma":
        return _in_turns(problem, observation, trial, left_s, most)
    return _side_by_side(problem, observation, trial, left_s, most)


def _side_by_side(problem: Problem, observation: Observation, trial: Decision, left_s: Floats, most: int) -> Bools:
    world, cell, available = problem.world, observation.topology.cell, observation.available

    def finish_s(n: Ints) -> Floats:
        """Seconds of every device if `n` of each cell train; infinite if it misses the deadline."""
        shared, band = trial, world.settings.bandwidth_hz
        if world.settings.access == "fdma":
            shared = trial._replace(bandwidth_hz=band / np.maximum(n, 1)[cell])
        seconds = np.add(*radio.times(world, observation, shared))
        return np.where(available & (seconds <= left_s), seconds, np.inf)

    fewest = np.zeros(world.n_cells, dtype=np.int64)
    highest = np.minimum(most, np.bincount(cell[available], minlength=world.n_cells))
    while (fewest < highest).any():
        middle = (fewest + highest + 1) // 2
        enough = np.bincount(cell[np.isfinite(finish_s(middle))], minlength=world.n_cells) >= middle
        fewest, highest = np.where(enough, middle, fewest), np.where(enough, highest, middle - 1)
    seconds = finish_s(fewest)
    order = np.lexsort((seconds, cell))
    place_in_cell = np.arange(len(cell)) - np.searchsorted(cell[order], cell[order])
    chosen = np.zeros(len(cell), dtype=np.bool_)
    chosen[order[place_in_cell < fewest[cell[order]]]] = True
    return chosen & np.isfinite(seconds)


def _in_turns(problem: Problem, observation: Observation, trial: Decision, left_s: Floats, most: int) -> Bools:
    compute_s, upload_s = radio.times(problem.world, observation, trial)
    chosen = np.zeros(len(compute_s), dtype=np.bool_)
    for cell in range(problem.world.n_cells):
        here = np.flatnonzero(observation.available & (observation.topology.cell == cell) & np.isfinite(upload_s))
        kept = here[most_on_time((left_s - compute_s)[here], upload_s[here])]
        chosen[kept[np.argsort(upload_s[kept], kind="stable")[:most]]] = True  # fewer are no later
    return chosen


def most_on_time(due: Floats, length: Floats) -> Ints:
    """The largest set of jobs that one machine can end by their due times, ascending, by Moore and Hodgson's rule.

    >>> most_on_time(np.array([4.0, 5.0, 6.0]), np.array([3.0, 2.0, 3.0])).tolist()
    [1, 2]
    """
    total, kept = 0.0, list[tuple[float, int]]()
    for job in np.argsort(due, kind="stable").tolist():
        heappush(kept, (-float(length[job]), job))
        total += float(length[job])
        if total > due[job]:
            total += heappop(kept)[0]
    return np.array(sorted(job for _, job in kept), dtype=np.int64)
