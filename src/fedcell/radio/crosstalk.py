"""Interference that devices make: what is sent in a cell disturbs the base stations of all others.

With `G[k, j]` the gain from device `k` to station `j`, an upload of power `p_k` arrives at every other station `j` as
`p_k G[k, j]`. An upload on a resource block meets those on the same block. On a shared band it meets their mean density
over the band: with `fdma` that of all uploads, with `tdma` that of one per cell. All uploads of a round count as if
they overlapped, which is the worst case.
"""

import numpy as np

from ..types import Bools, Decision, Floats, Ints, Observation, World


def disturbed(world: World, observation: Observation, decision: Decision) -> Observation:
    """The observation with the interference that the decided uploads make; unchanged unless devices make it."""
    if observation.gains is None:
        return observation
    made = station_watt(world, observation, decision)[observation.topology.cell]
    return observation._replace(interference_watt=background_watt(world, observation) + made)


def station_watt(world: World, observation: Observation, decision: Decision) -> Floats:
    """Power that each station receives from other cells: `[n_cells, n_blocks]`, or `[n_cells, 1]` on a shared band."""
    settings, cell = world.settings, observation.topology.cell
    sender = np.flatnonzero(decision.selected)
    power = decision.power_watt[sender]
    if settings.access == "tdma":
        power = power / np.bincount(cell[sender], minlength=world.n_cells)[cell[sender]]
    block = decision.block[sender] if settings.access == "block" else np.zeros(len(sender), dtype=np.int64)
    return _at_stations(world, observation, sender, power, block)


def foreseen(world: World, observation: Observation, last_watt: Floats | None = None) -> Observation:
    """The observation with the interference that schedulers expect, by `world.forecast`.

    Either none beside the drawn one; or what each station measured in the last round, `last_watt` (None: there was
    none); or that of all available devices at full power.
    """
    if observation.gains is None:
        return observation
    background, made = background_watt(world, observation), last_watt
    if world.settings.forecast == "full":
        made = _at_worst(world, observation, observation.available)
    if made is None:
        return observation._replace(interference_watt=background)
    return observation._replace(interference_watt=background + made[observation.topology.cell])


def background_watt(world: World, observation: Observation) -> Floats:
    """Interference that devices do not make, `[n_devices, n_blocks or 1]`: the drawn one of the blocks, or zero."""
    drawn = world.interference_watt if world.settings.access == "block" else np.zeros(1)
    return np.broadcast_to(drawn, (len(observation.gain), len(drawn)))


def _at_worst(world: World, observation: Observation, available: Bools) -> Floats:
    """All available devices at full power: spread over the blocks, one at a time (`tdma`), or all at once (`fdma`)."""
    settings, cell = world.settings, observation.topology.cell
    sender = np.flatnonzero(available)
    power, in_cell = observation.devices.power_watt[sender], np.bincount(cell[sender], minlength=world.n_cells)
    if settings.access == "tdma":
        power = power / in_cell[cell[sender]]
    if settings.access == "block":
        power = power / np.maximum(in_cell, settings.n_blocks)[cell[sender]]
        one = _at_stations(world, observation, sender, power, np.zeros(len(sender), dtype=np.int64))[:, :1]
        return np.broadcast_to(one, (world.n_cells, settings.n_blocks))
    return _at_stations(world, observation, sender, power, np.zeros(len(sender), dtype=np.int64))


def _at_stations(world: World, observation: Observation, sender: Ints, power: Floats, block: Ints) -> Floats:
    """Power that arrives at every station from senders of other cells, by block."""
    assert observation.gains is not None
    cell, blocks = observation.topology.cell, world.settings.n_blocks if world.settings.access == "block" else 1
    arrives = power[:, None] * observation.gains[sender]  # [n_senders, n_cells]
    arrives[np.arange(len(sender)), cell[sender]] = 0.0  # the own station wants it
    at_station = np.zeros((blocks, world.n_cells))
    np.add.at(at_station, block, arrives)
    return at_station.T
