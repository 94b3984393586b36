"""Who starts next while others are on the way, and on which part of the radio.

Not a method itself: it has no `build`.
"""

import numpy as np

from ... import radio
from ...types import Bools, Decision, Floats, Ints, Observation, Problem
from .defaults import setting, steps_of
from .flights import Flights, OverTimeConfig
from .resources import Wanted, blocks_of, equal_share, plan
from .schedulers import SCHEDULERS, most_at_once

ROUNDING = 1e-9  # relative: a share that is free up to rounding is free


def decide(config: OverTimeConfig, problem: Problem, state: Flights, observation: Observation) -> Decision:
    """Give the model to free devices, at full clock and power, on the band that nobody holds."""
    steps, batch_size = steps_of(config, problem, observation.store), int(setting(config, problem, "batch_size"))
    n_selected = problem.world.n_devices if config.scheduler == "all" else config.n_selected
    wanted = Wanted(most_at_once(problem, n_selected), steps, batch_size)
    scores = SCHEDULERS[config.scheduler](problem, observation, wanted)
    selected = starters(problem, state, observation, scores, wanted.n_selected)
    decision = plan(problem, observation, selected, steps, batch_size)
    decision = decision._replace(
        bandwidth_hz=shares_hz(problem, state, observation, selected, wanted.n_selected),
        block=free_blocks(problem, state, observation, selected, config.blocks),
    )
    if config.effort == "fixed":
        return decision
    most = np.minimum(decision.steps, radio.most_steps(problem.world, observation, decision))
    return decision._replace(selected=selected & (most >= 1), steps=np.maximum(most, 1))


def starters(problem: Problem, state: Flights, observation: Observation, scores: Floats, most: int) -> Bools:
    """The free and available devices with the highest scores, `[n_devices]`; ties go to the lower number.

    Args:
        problem: what is learned, and where.
        state: who is on the way.
        observation: who is available, and in which cell.
        scores: `[n_devices]`, the higher the sooner.
        most: devices of a cell that may be on the way at once.
    """
    cell, n_cells = observation.topology.cell, problem.world.n_cells
    busy, selected = state.fate != 0, np.zeros(len(cell), dtype=np.bool_)
    slots = slots_of(problem, state, observation, most)
    room = slots - np.bincount(state.cell[busy], minlength=n_cells)
    if problem.world.settings.access == "fdma":
        free_share = _free_hz(problem, state) / problem.world.settings.bandwidth_hz
        room = np.minimum(room, np.floor(free_share * slots * (1 + ROUNDING)).astype(np.int64))
    for number in range(n_cells):
        here = np.flatnonzero(observation.available & ~busy & (cell == number))
        selected[here[np.argsort(-scores[here], kind="stable")][: max(int(room[number]), 0)]] = True
    return selected


def slots_of(problem: Problem, state: Flights, observation: Observation, most: int) -> Ints:
    """The shares that the band of a cell is cut into, `[n_cells]`: one for each device that has charge and samples.

    No more than may be on the way at once, and one at least. A device that is switched off for a while keeps its share.
    """
    able = ((observation.battery_joule > 0) & (observation.store.size > 0)) | (state.fate != 0)
    return np.clip(np.bincount(observation.topology.cell[able], minlength=problem.world.n_cells), 1, most)


def shares_hz(problem: Problem, state: Flights, observation: Observation, selected: Bools, most: int) -> Floats:
    """Bandwidth of those that start, `[n_devices]`: one of the shares of `slots_of`, or less if less is free."""
    settings, cell, n_cells = problem.world.settings, observation.topology.cell, problem.world.n_cells
    if settings.access != "fdma":
        return equal_share(problem, observation, selected)
    starting = np.maximum(np.bincount(cell[selected], minlength=n_cells), 1)
    slots = slots_of(problem, state, observation, most)
    share = np.minimum(settings.bandwidth_hz / slots, _free_hz(problem, state) / starting)
    return np.where(selected, share[cell], 0.0)


def _free_hz(problem: Problem, state: Flights) -> Floats:
    """Band that nobody holds, `[n_cells]`."""
    held = np.bincount(state.cell, weights=state.bandwidth_hz, minlength=problem.world.n_cells)
    return np.maximum(problem.world.settings.bandwidth_hz - held, 0.0)


def free_blocks(problem: Problem, state: Flights, observation: Observation, selected: Bools, rule: str) -> Ints:
    """A resource block of its cell that nobody holds for every device that starts, -1 for the others."""
    held = [state.block[(state.fate != 0) & (state.cell == number)] for number in range(problem.world.n_cells)]
    return blocks_of(problem, observation, selected, rule, held)
