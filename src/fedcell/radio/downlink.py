"""The way down: how long the model takes to reach the devices, what listening costs, and the bits of the stations.

A station sends to the devices that a round selects. `broadcast`: once for all of a cell on the whole band, at the
rate of the weakest device that it reaches at all; each of them listens until the end. `unicast`: to each its own, on an
equal share of band and power. Channels are those of the way up, and so is the kind of link; with `nr` the mean number
of attempts counts.
"""

from typing import NamedTuple

import numpy as np

from ..types import Decision, Floats, Observation, World
from ..units import dbm_to_watt
from . import link, rate


class WayDown(NamedTuple):
    """What a round's way down costs; `[n_devices]`, zero for devices that are not selected."""

    seconds: Floats  # infinite for a device that nothing reaches
    joule: Floats  # of listening; until the deadline if it never ends, nothing if the device gives up
    bit: float  # sent by all stations


def download(world: World, observation: Observation, decision: Decision) -> WayDown | None:
    """The way down of a decision; None in a world without one.

    Fewer devices do not make it longer, so a plan that holds for a draft holds for any part of it. There is
    an exception: with `unicast` and `link = nr`, larger shares hold larger blocks, which may need a lower scheme.
    """
    settings = world.settings
    if settings.downlink == "none":
        return None
    selected, cell = decision.selected, observation.topology.cell
    bits = np.broadcast_to(world.model_bit if decision.download_bit is None else decision.download_bit, selected.shape)
    if settings.downlink == "unicast":
        in_cell = np.bincount(cell[selected], minlength=world.n_cells)[cell]
        rate_bps = rate_down_bps(world, observation, np.maximum(in_cell, 1).astype(np.float64))
        seconds = np.where(selected, _seconds(bits, rate_bps), 0.0)
        sent_bit = float(bits[selected].sum())
    else:
        rate_bps = rate_down_bps(world, observation, np.ones(len(selected)))
        slowest, largest = np.full(world.n_cells, np.inf), np.zeros(world.n_cells)
        reached = selected & (rate_bps > 0)
        np.minimum.at(slowest, cell[reached], rate_bps[reached])
        np.maximum.at(largest, cell[reached], bits[reached])
        never = np.where(selected & (bits > 0), np.inf, 0.0)
        seconds = np.where(reached, _seconds(largest, slowest)[cell], never)
        sent_bit = float(largest.sum())
    watt = observation.devices.receive_watt
    endless_s = decision.deadline_s if link.in_vain(world, decision.deadline_s) else 0.0
    joule = np.zeros_like(seconds) if watt is None else watt * np.where(np.isfinite(seconds), seconds, endless_s)
    return WayDown(seconds, joule, sent_bit)


def rate_down_bps(world: World, observation: Observation, sharing: Floats) -> Floats:
    """Bits per second from the own station to every device that gets a `1 / sharing` part of band and power."""
    settings = world.settings
    band = settings.downlink_bandwidth_hz / sharing
    noise = rate.noise_watt(band, world.noise_watt_per_hz, settings.noise_watt)
    power = dbm_to_watt(settings.station_power_dbm) / sharing
    quality = rate.sinr(power, observation.gain, noise, settings.downlink_interference_watt / sharing)
    return link.rate_bps(world, band, quality)


def _seconds(bits: Floats, rate_bps: Floats) -> Floats:
    """`S / r`; infinite without a rate, 0 without bits."""
    never = np.where(bits > 0, np.inf, 0.0)
    return np.asarray(np.divide(bits, rate_bps, out=never, where=rate_bps > 0))
