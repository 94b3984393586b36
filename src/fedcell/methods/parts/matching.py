"""Who gets which band: what every device could do on every band, and the matching with the largest weight.

Bands are resource blocks with `world.access = block`; else a device has one band. Not a method itself: it has no
`build`.

Reference: chen-ch5, sections 4.5 and 4.6
"""

from typing import NamedTuple

import numpy as np

from ...learn.memory import require
from ...radio import bands, cost
from ...radio.forecast import as_on_shannon, compute_joule, room, times
from ...radio.uplink import NEVER_S
from ...solve.matching import assign
from ...types import Bools, Decision, Floats, Ints, Observation, Problem
from .resources import plan

TABLES = 6  # of a number per pair that lie in memory together


class Pairs(NamedTuple):
    """Every device on every band, each `[n_devices, n_bands]`."""

    power_watt: Floats  # the highest that hardware and energy allow, 0 if a pair is not feasible
    feasible: Bools  # there, within its energy and in time
    success: Floats  # probability that the upload survives outage, 0 if a pair is not feasible


def draft(
    problem: Problem, observation: Observation, steps: int | Ints, samples_per_step: float | Floats, n_selected: int
) -> Decision:
    """Full speed for everyone, with the band that each would have if `n_selected` of its cell were selected."""
    settings, cell = problem.world.settings, observation.topology.cell
    decision = plan(problem, observation, np.ones(len(cell), dtype=np.bool_), steps, samples_per_step)
    in_cell = np.bincount(cell)[cell]
    sharing = np.minimum(n_selected, in_cell) if settings.access == "fdma" else np.ones(len(cell))
    return decision._replace(bandwidth_hz=settings.bandwidth_hz / sharing)


def pairs(problem: Problem, observation: Observation, draft: Decision) -> Pairs:
    """Power, feasibility and success of every pair for the work of `draft`, sending as strongly as the budget allows.

    More power is faster and survives more often, so the highest that energy allows is best, and a pair that is late
    with it is late with any. If the world draws answer times, work takes no part in the deadline.

    Reference: chen-ch5, Eqs. (5.15a), (5.15b), (5.30)
    """
    world, band = problem.world, draft.bandwidth_hz
    n_bands = world.settings.n_blocks if world.settings.access == "block" else 1
    what = f"what {world.n_devices} devices could do on {n_bands} bands ({world.n_devices} x {n_bands} x {TABLES} x 8)"
    require(TABLES * 8 * world.n_devices * n_bands, what)
    power = highest_power_watt(problem, observation, draft)
    upload_s = cost.upload_s(draft.payload_bit[:, None], bands.rate_bps(world, observation, power, band))
    finish_s = times(world, observation, draft)[0][:, None] + upload_s
    most_s = room(world, observation, draft).deadline_s if observation.response_s is None else np.inf
    deadline_s = np.minimum(most_s, NEVER_S)
    feasible = observation.available[:, None] & (power > 0) & (finish_s <= np.reshape(deadline_s, (-1, 1)))
    success = bands.success_probability(world, observation, power, band)
    return Pairs(np.where(feasible, power, 0.0), feasible, np.where(feasible, success, 0.0))


def highest_power_watt(problem: Problem, observation: Observation, draft: Decision) -> Floats:
    """`min(p_E, p_max)` of every pair, 0 if computing and sending cost too much at any power."""
    world, most, band = problem.world, draft.power_watt, draft.bandwidth_hz
    left = room(world, observation, draft).budget_joule - compute_joule(observation, draft)
    full_s = cost.upload_s(draft.payload_bit[:, None], bands.rate_bps(world, observation, most, band))
    enough = cost.upload_joule(most[:, None], full_s) <= left[:, None]
    power = np.where(enough, most[:, None], 0.0)
    device, column = np.nonzero(~enough & (left > 0)[:, None])  # only these need the closed form
    if len(device):
        g = bands.sinr_per_watt(world, observation, band)[device, column]
        payload_bit = as_on_shannon(world, observation, draft).payload_bit
        limit = cost.affordable_power_watt(left[device], payload_bit[device], band[device], g)
        power[device, column] = np.minimum(limit, most[device])
    return power


def match(problem: Problem, observation: Observation, weight: Floats, n_selected: int) -> Ints:
    """The band of every device, -1 for none: the choice with the largest sum of weights.

    Args:
        problem: the world, whose cells are matched one by one.
        observation: the cell of each device.
        weight: `[n_devices, n_bands]`; a pair of weight 0 is never chosen.
        n_selected: devices per cell if bands are no resource blocks; else the blocks limit them.

    Reference: chen-ch5, Eqs. (5.31) to (5.34), A-7
    """
    band = np.full(len(weight), -1, dtype=np.int64)
    for cell in range(problem.world.n_cells):
        here = np.flatnonzero(observation.topology.cell == cell)
        if problem.world.settings.access == "block":
            band[here] = assign(weight[here])
        else:
            best = here[np.argsort(-weight[here, 0], kind="stable")[:n_selected]]
            band[best[weight[best, 0] > 0]] = 0
    return band


def given(problem: Problem, draft: Decision, found: Pairs, band: Ints) -> Decision:
    """The draft with the matched devices selected, each on its band with the power of that pair."""
    selected = band >= 0
    power = np.take_along_axis(found.power_watt, np.maximum(band, 0)[:, None], axis=1)[:, 0]
    block = band if problem.world.settings.access == "block" else np.full_like(band, -1)
    return draft._replace(selected=selected, power_watt=np.where(selected, power, 0.0), block=block)
