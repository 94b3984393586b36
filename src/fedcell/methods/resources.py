"""Decisions at full speed with equal shares: what a method without a resource rule of its own uses.

Not a method itself: it has no `build`.
"""

import numpy as np

from ..types import Bools, Decision, Floats, Ints, Observation, Problem


def plan(
    problem: Problem, observation: Observation, selected: Bools, steps: int | Ints, samples_per_step: float | Floats
) -> Decision:
    """A decision at full clock and power with equal shares of the band; 0 samples per step means the whole store."""
    world, n = problem.world, problem.world.n_devices
    samples = np.where(np.asarray(samples_per_step) > 0, samples_per_step, observation.store.size)
    return Decision(
        selected=selected,
        steps=np.full(n, steps, dtype=np.int64),
        samples_per_step=np.full(n, samples, dtype=np.float64),
        cpu_hz=observation.devices.cpu_hz,
        power_watt=observation.devices.power_watt,
        bandwidth_hz=equal_share(problem, observation, selected),
        block=_blocks(problem, observation, selected),
        payload_bit=np.full(n, world.payload_bit),
        deadline_s=world.settings.deadline_s,
    )


def equal_share(problem: Problem, observation: Observation, selected: Bools) -> Floats:
    """Bandwidth of each selected device `[n_devices]`: an equal share of its cell's band, its own band, or a block."""
    settings = problem.world.settings
    if settings.access != "fdma":
        return np.where(selected, settings.bandwidth_hz, 0.0)
    in_cell = np.bincount(observation.topology.cell[selected], minlength=problem.world.n_cells)
    return np.where(selected, settings.bandwidth_hz / np.maximum(in_cell, 1)[observation.topology.cell], 0.0)


def _blocks(problem: Problem, observation: Observation, selected: Bools) -> Ints:
    """The first free resource block of its cell for every selected device, -1 for the others."""
    block = np.full(len(selected), -1)
    if problem.world.settings.access == "block":
        for cell in range(problem.world.n_cells):
            here = np.flatnonzero(selected & (observation.topology.cell == cell))
            block[here] = np.arange(len(here))
    return block
