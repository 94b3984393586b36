"""Decisions at full speed with equal shares: what a method without a resource rule of its own uses.

Not a method itself: it has no `build`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...radio import bands
from ...solve.matching import assign
from ...types import Bools, Decision, Floats, Ints, Observation, Problem


class Wanted(NamedTuple):
    """What a method wants from those who train."""

    n_selected: int  # per cell
    steps: int | Ints
    samples_per_step: float | Floats  # 0: the whole store


def plan(
    problem: Problem,
    observation: Observation,
    selected: Bools,
    steps: int | Ints,
    samples_per_step: float | Floats,
    blocks: str = "first",
) -> Decision:
    """A decision at full clock and power with equal shares of the band; 0 samples per step means the whole store.

    `blocks` says who gets which resource block, see `BLOCKS`.
    """
    world, n = problem.world, problem.world.n_devices
    samples = np.where(np.asarray(samples_per_step) > 0, samples_per_step, observation.store.size)
    return Decision(
        selected=selected,
        steps=np.full(n, steps, dtype=np.int64),
        samples_per_step=np.full(n, samples, dtype=np.float64),
        cpu_hz=observation.devices.cpu_hz,
        power_watt=observation.devices.power_watt,
        bandwidth_hz=equal_share(problem, observation, selected),
        block=blocks_of(problem, observation, selected, blocks),
        payload_bit=np.full(n, world.payload_bit),
        deadline_s=world.settings.deadline_s,
    )


def sending(problem: Problem, up_bit: float, down_bit: float) -> Problem:
    """The problem as a planner sees it whose devices send and get so many bits, instead of the whole model."""
    return problem._replace(world=problem.world._replace(payload_bit=up_bit, model_bit=down_bit))


def waiting(problem: Problem, deadline_s: float | None) -> Problem:
    """The problem with a deadline of the method's own; None: that of the world."""
    if deadline_s is None:
        return problem
    settings = replace(problem.world.settings, deadline_s=deadline_s)
    return problem._replace(world=problem.world._replace(settings=settings))


def foreseen(problem: Problem, observation: Observation, wanted: Wanted) -> Decision:
    """All devices at full speed, each with a `1 / n_selected` share of the band: what schedulers look ahead with."""
    everyone_on = np.ones(problem.world.n_devices, dtype=bool)
    trial = plan(problem, observation, everyone_on, wanted.steps, wanted.samples_per_step)
    if problem.world.settings.access == "fdma":
        share = problem.world.settings.bandwidth_hz / wanted.n_selected
        trial = trial._replace(bandwidth_hz=np.full(problem.world.n_devices, share))
    return trial


def epoch_steps(epochs: int, size: Ints, batch_size: int) -> Ints:
    """Local steps of so many passes over stores of a size, `[n_devices]`; 0 samples per step means the whole store.

    The last mini-batch of a round is filled up from the next pass, so that all have the same size.

    >>> epoch_steps(2, np.array([0, 5, 8]), 4).tolist()
    [1, 3, 4]
    """
    n_steps = np.full_like(size, epochs) if batch_size == 0 else -(-epochs * size // batch_size)
    return np.maximum(n_steps, 1)


def equal_share(problem: Problem, observation: Observation, selected: Bools) -> Floats:
    """Bandwidth of each selected device `[n_devices]`: an equal share of its cell's band, its own band, or a block."""
    settings = problem.world.settings
    if settings.access != "fdma":
        return np.where(selected, settings.bandwidth_hz, 0.0)
    in_cell = np.bincount(observation.topology.cell[selected], minlength=problem.world.n_cells)
    return np.where(selected, settings.bandwidth_hz / np.maximum(in_cell, 1)[observation.topology.cell], 0.0)


# ---------------------------------------------------------------- who gets which resource block

WORST = 1e-9  # of the best rate: a device without any rate still has a place in a matching


def in_order(rate_bps: Floats) -> Ints:
    """The first device on the first block, and so on."""
    return np.arange(len(rate_bps))


def by_rate(rate_bps: Floats) -> Ints:
    """The largest sum of rates: the strongest devices get the best blocks, the weakest wait longest."""
    return assign(_usable(rate_bps))


def by_time(rate_bps: Floats) -> Ints:
    """The least sum of upload times, all sending equally much: the weakest devices get the best blocks."""
    seconds = 1 / _usable(rate_bps)  # up to a common factor
    return assign(2 * seconds.max(initial=0.0) - seconds)  # above 0, so that everyone is placed


BLOCKS: dict[str, Callable[[Floats], Ints]] = {"first": in_order, "rate": by_rate, "time": by_time}


def _usable(rate_bps: Floats) -> Floats:
    """Rates above 0."""
    return np.maximum(rate_bps, WORST * rate_bps.max(initial=0.0) or 1.0)


def blocks_of(
    problem: Problem, observation: Observation, selected: Bools, rule: str, held: Sequence[Ints] | None = None
) -> Ints:
    """A resource block of its cell for every selected device, -1 for the others.

    Args:
        problem: has the blocks.
        observation: of the round.
        selected: `[n_devices]`.
        rule: one of `BLOCKS`.
        held: for every cell, the blocks that are taken; None: all are free.
    """
    block = np.full(len(selected), -1)
    if problem.world.settings.access != "block":
        return block
    nothing = np.empty((len(selected), 0))  # no rates: the rule `first` looks at none
    known = rule != "first"
    rate_bps = bands.rate_bps(problem.world, observation, observation.devices.power_watt) if known else nothing
    for cell in range(problem.world.n_cells):
        here = np.flatnonzero(selected & (observation.topology.cell == cell))
        if held is None:
            block[here] = BLOCKS[rule](rate_bps[here])
        else:
            free = np.setdiff1d(np.arange(problem.world.settings.n_blocks), held[cell])
            block[here] = free[BLOCKS[rule](rate_bps[here][:, free] if known else rate_bps[here])]
    return block
