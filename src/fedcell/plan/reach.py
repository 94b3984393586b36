"""Who can take part at all: devices that could deliver one local step alone in their cell, and why others cannot.

A device has the whole band of its cell, or the best block, and may choose clock and power freely within its limits. It
computes for a time `t` and sends for the rest of the deadline `T`. With `c` cycles and `S` bits it needs the clock
`c / t` and the power `p` at which `S / r(p) = T - t`. It can take part in a round if some `t` keeps both within the
limits and `kappa c (c / t)^2 + p (T - t)` within its energy budget. No method reaches more devices with whole updates.

The download takes its time and energy first. Nobody else sends, so there is no interference from other devices. With
`link = nr` times are those of the mean number of attempts; energies stay those of Shannon's bound, which no link beats.
"""

from typing import NamedTuple

import numpy as np

from ..radio import air, bands, cost, link
from ..radio.contract import TOLERANCE
from ..radio.crosstalk import background_watt
from ..radio.downlink import rate_down_bps
from ..radio.forecast import budget_joule
from ..types import Bools, Floats, Observation, World
from ..units import db_to_ratio

RARE = 0.01  # a device that could deliver in a smaller share of the rounds cannot take part
SPLITS = 64  # of the deadline between computing and sending that are tried
REASONS = ("deadline", "energy", "outage", "absent")


class Reach(NamedTuple):
    """What every device could do in the rounds drawn, `[n_devices]` each; shares of the rounds."""

    present: Floats  # switched on, charged and with samples
    in_time: Floats  # at full clock and power
    affordable: Floats  # within the energy budget, at any speed
    feasible: Floats  # both at once
    delivered: Floats  # expected share: feasible and not lost to outage

    @property
    def able(self) -> Bools:
        return self.delivered >= RARE

    def why_not(self) -> dict[str, int]:
        """Devices that cannot take part, by the first reason that holds; `REASONS` are the keys."""
        rest, found = ~self.able, {}
        absent = rest & (self.present < RARE)
        late = rest & ~absent & (self.in_time < RARE)
        broke = rest & ~absent & ~late & (np.minimum(self.affordable, self.feasible) < RARE)
        for name, who in zip(REASONS, (late, broke, rest & ~absent & ~late & ~broke, absent), strict=True):
            found[name] = int(who.sum())
        return found


def look(world: World, observation: Observation, batch_size: int) -> Floats:
    """Who could deliver in one round, `[5, n_devices]` in the order of `Reach`, as shares of 1.

    Args:
        world: settings and payload.
        observation: channels, hardware and charges of the round.
        batch_size: samples of the one local step; 0: the whole store.
    """
    devices = observation.devices
    samples = np.full(world.n_devices, float(batch_size)) if batch_size else observation.store.size.astype(np.float64)
    cycles = devices.cycles_per_step(samples)
    deadline_s, budget = _after_the_way_down(world, observation)
    if world.settings.access == "air":
        return _at_once(world, observation, cycles, deadline_s, budget)
    if observation.gains is not None:
        observation = observation._replace(interference_watt=background_watt(world, observation))
    per_watt = bands.sinr_per_watt(world, observation).max(axis=1)  # on the best band
    band_hz, bit = world.settings.bandwidth_hz, world.payload_bit
    upload_s = cost.upload_s(bit, link.rate_bps(world, band_hz, devices.power_watt * per_watt))
    fastest_s = cycles / devices.cpu_hz + upload_s if observation.response_s is None else observation.response_s
    in_time = (fastest_s <= deadline_s * (1 + TOLERANCE)) & np.isfinite(upload_s)
    affordable = cost.affordable_power_watt(budget * (1 + TOLERANCE), bit, band_hz, per_watt) > 0
    if observation.response_s is not None:  # the clock is not the device's to choose
        feasible = in_time & affordable
    else:
        feasible = (
            in_time
            & affordable
            & _some_split(observation, cycles, upload_s, per_watt, bit / band_hz, deadline_s, budget)
        )
    chance = _chance(world, observation, per_watt)
    present = observation.available
    return np.array([present, present & in_time, present & affordable, present & feasible, present * feasible * chance])


def _after_the_way_down(world: World, observation: Observation) -> tuple[float | Floats, Floats]:
    """What is left of deadline and energy budget once a device has the model, if it is the only one selected."""
    deadline_s, budget = world.settings.deadline_s, budget_joule(observation)
    if world.settings.downlink == "none":
        return deadline_s, budget
    takes_s = cost.upload_s(world.model_bit, rate_down_bps(world, observation, np.ones(world.n_devices)))
    reached, watt = np.isfinite(takes_s), observation.devices.receive_watt
    takes_s = np.where(reached, takes_s, 0.0)
    budget = np.where(reached, budget - (0.0 if watt is None else watt * takes_s), 0.0)
    if observation.response_s is not None:  # drawn answer times hold the way down as well
        return deadline_s, budget
    return np.where(reached, deadline_s - takes_s, -np.inf), budget


def _at_once(
    world: World, observation: Observation, cycles: Floats, deadline_s: float | Floats, budget: Floats
) -> Floats:
    """`look` for devices that send at once, with symbols that take equally long and full power in the worst case.

    A channel that is too weak is an outage. A device that sends alone has the gain of all antennas, here with the mean
    fading at all but the first.
    """
    devices = observation.devices
    upload_s = air.upload_s(world, np.full(world.n_devices, world.payload_bit))
    in_time = cycles / devices.cpu_hz + upload_s <= deadline_s * (1 + TOLERANCE)
    sending_joule = devices.power_watt * upload_s
    affordable = sending_joule <= budget * (1 + TOLERANCE)
    slowest_hz = np.where(
        in_time, cycles / np.where(in_time, deadline_s - upload_s, 1.0), 0.0
    )  # takes the least energy
    joule = cost.compute_joule(cycles, slowest_hz, devices.capacitance) + sending_joule
    feasible = in_time & (joule <= budget * (1 + TOLERANCE))
    gain = observation.gain + (world.settings.antennas - 1) * observation.mean_gain
    present = observation.available
    heard = present & feasible & air.strong_enough(world, devices.power_watt, gain, observation.mean_gain)
    return np.array([present, present & in_time, present & affordable, present & feasible, heard], dtype=np.float64)


def _some_split(
    observation: Observation,
    cycles: Floats,
    upload_s: Floats,
    per_watt: Floats,
    bit_per_hz: float,
    deadline_s: float | Floats,
    budget: Floats,
) -> Bools:
    """Whether any split of the deadline between computing and sending is within the budget."""
    if (budget == np.inf).all():
        return np.ones(len(cycles), dtype=np.bool_)
    devices = observation.devices
    least_s = cycles / devices.cpu_hz
    # Beyond a hundred times the fastest, speed hardly changes the energy: it stands for having no deadline.
    end_s = np.minimum(deadline_s, 100.0 * (least_s + upload_s)) - upload_s
    found = np.zeros(len(cycles), dtype=np.bool_)
    with np.errstate(all="ignore"):
        for share in np.linspace(0.0, 1.0, SPLITS):
            computing_s = least_s + share * np.maximum(end_s - least_s, 0.0)
            sending_s = end_s + upload_s - computing_s
            power = np.expm1(bit_per_hz / sending_s * np.log(2.0)) / per_watt
            joule = devices.capacitance * cycles * (cycles / computing_s) ** 2 + power * sending_s
            found |= joule <= budget * (1 + 1e-6)
    return found


def _chance(world: World, observation: Observation, per_watt: Floats) -> Floats:
    """Probability that the channel lets an upload through at full power on the best band."""
    power, threshold_db = observation.devices.power_watt, world.settings.outage_threshold_db
    if threshold_db is None:
        return np.ones(world.n_devices)
    if world.settings.outage == "same_fading":
        return (power * per_watt >= db_to_ratio(threshold_db)).astype(np.float64)
    return bands.success_probability(world, observation, power).max(axis=1)
