"""What a decision costs if nothing stops it: `uplink` simulates uploads from it, and methods plan with it."""

from typing import NamedTuple

import numpy as np

from ..types import Decision, Floats, Ints, Observation, World
from ..units import db_to_ratio
from . import air, cost, link, rate
from .contract import TOLERANCE
from .downlink import download

MOST_STEPS = 10**9  # stands for "no limit"


def times(world: World, observation: Observation, decision: Decision) -> tuple[Floats, Floats]:
    """Seconds of computing and of sending for every device, selected or not; sending without a rate takes for ever.

    Args:
        world: noise and access.
        observation: this round's channels and hardware.
        decision: steps, clocks, powers and bands; it need not keep to the contract.

    Returns: `[n_devices]` each.
    """
    compute_s = cost.compute_s(_cycles(observation, decision), _clock_hz(decision))
    if world.settings.access == "air":
        return compute_s, air.upload_s(world, decision.payload_bit)
    quality = sinr(world, observation, decision)
    return compute_s, cost.upload_s(decision.payload_bit, link.rate_bps(world, decision.bandwidth_hz, quality))


def sinr(world: World, observation: Observation, decision: Decision) -> Floats:
    """The SINR of every device's upload, a ratio."""
    noise, interference = noise_and_interference_watt(world, observation, decision)
    return rate.sinr(decision.power_watt, observation.gain, noise, interference)


def as_on_shannon(world: World, observation: Observation, decision: Decision) -> Decision:
    """The decision with payloads that take as long at Shannon's bound, by which closed forms plan, as on the real link.

    With `link = shannon` it is the decision itself and closed forms are exact. With `link = nr` they assume the mean
    number of attempts, and that the link loses as much to the bound at any power or share as at those of the decision.
    """
    longer = link.over_shannon(world, decision.bandwidth_hz, sinr(world, observation, decision))
    return decision if longer is None else decision._replace(payload_bit=decision.payload_bit * longer)


def compute_joule(observation: Observation, decision: Decision) -> Floats:
    """Joules of computing for every device."""
    return cost.compute_joule(_cycles(observation, decision), _clock_hz(decision), observation.devices.capacitance)


def noise_and_interference_watt(world: World, observation: Observation, decision: Decision) -> tuple[Floats, Floats]:
    """Noise and interference in each device's band; only resource blocks carry interference that is drawn.

    A device without a block gets the mean over the blocks. On a shared band, a device meets the part of the others'
    interference that lies in its share.
    """
    noise = rate.noise_watt(decision.bandwidth_hz, world.noise_watt_per_hz, world.settings.noise_watt)
    on_block = observation.interference_watt
    if on_block.ndim == 2:
        return noise, _of_others(world, decision, on_block)
    if world.settings.access != "block":
        return noise, np.zeros_like(noise)
    assigned = (decision.block >= 0) & (decision.block < len(on_block))
    return noise, np.where(assigned, on_block[np.where(assigned, decision.block, 0)], on_block.mean())


def _of_others(world: World, decision: Decision, on_block: Floats) -> Floats:
    """Interference from other cells in each device's block or share of the band."""
    if world.settings.access != "block":
        return np.asarray(on_block[:, 0] * decision.bandwidth_hz / world.settings.bandwidth_hz)
    block = np.clip(decision.block, 0, on_block.shape[1] - 1)
    return np.where(decision.block >= 0, on_block[np.arange(len(block)), block], on_block.mean(axis=1))


def density_watt_per_hz(world: World, observation: Observation) -> float | Floats:
    """Noise and interference from other cells per hertz of a shared band: `[n_devices]`; one number for noise alone."""
    if observation.interference_watt.ndim < 2:
        return world.noise_watt_per_hz
    return np.asarray(world.noise_watt_per_hz + observation.interference_watt[:, 0] / world.settings.bandwidth_hz)


def success_probability(world: World, observation: Observation, decision: Decision) -> Floats:
    """Chance that the upload of each device survives the fading; 1 in a world without outage."""
    if world.settings.outage_threshold_db is None:
        return np.ones(len(decision.power_watt))
    noise, interference = noise_and_interference_watt(world, observation, decision)
    threshold = float(db_to_ratio(world.settings.outage_threshold_db))
    return rate.success_probability(decision.power_watt, observation.mean_gain, noise, interference, threshold)


def budget_joule(observation: Observation) -> Floats:
    """What each device can spend this round: the round's budget or the charge that is left, whichever is less."""
    return np.minimum(observation.devices.energy_per_round_joule, observation.battery_joule)


class Room(NamedTuple):
    """What is left of a round's time and energy for computing and sending."""

    deadline_s: float | Floats  # after the way down
    budget_joule: Floats  # [n_devices], what listening does not take


def room(world: World, observation: Observation, decision: Decision) -> Room:
    """Time and energy of every device after the way down, if all or some of the decision's devices are selected.

    The charge that standing by will take until the deadline is set aside.

    If the world draws answer times, these include the way down.
    """
    down, budget = download(world, observation, decision), budget_joule(observation)
    idle = observation.devices.idle_watt
    if idle is not None and np.isfinite(decision.deadline_s):
        budget = np.minimum(budget, np.maximum(observation.battery_joule - idle * decision.deadline_s, 0.0))
    if down is None:
        return Room(decision.deadline_s, budget)
    deadline_s: float | Floats = decision.deadline_s
    if observation.response_s is None:  # nothing is left for a device that the way down does not reach
        reached = np.isfinite(down.seconds)
        deadline_s = np.subtract(deadline_s, down.seconds, out=np.full_like(down.seconds, -np.inf), where=reached)
    return Room(deadline_s, np.maximum(budget - down.joule, 0.0))


def most_steps(world: World, observation: Observation, decision: Decision, cycles: float = 0.0) -> Ints:
    """The most local steps with which a device still meets the deadline and its energy budget.

    `min((T - t_up) / t_step, (E - e_up) / e_step)`, rounded down, with the clocks, powers and bands of
    the decision; `T` and `E` are what the way down leaves. If the world draws answer times, work takes no part in
    the deadline. With `link = nr` it assumes the mean number of attempts; with `access = tdma` that a device waits for
    all that its cell selects.

    Args:
        world: noise, access, kind of answers.
        observation: this round's channels, hardware and batteries.
        decision: `steps` are ignored; `deadline_s` is `T`.
        cycles: of the CPU beside those of the steps; devices whose samples cost no cycles do not count them.

    Returns: `[n_devices]`, 0 if not even one step fits and 10**9 if nothing limits.
    """
    one = decision._replace(steps=np.ones_like(decision.steps))
    step_s, upload_s = times(world, observation, one)
    power, sendable = decision.power_watt, np.isfinite(upload_s)
    radio_joule = cost.upload_joule(power, np.where(sendable, upload_s, 0.0))
    left = room(world, observation, decision)
    beside, clock = np.where(observation.devices.cycles_per_sample > 0, cycles, 0.0), _clock_hz(decision)
    joule_left = left.budget_joule - radio_joule - cost.compute_joule(beside, clock, observation.devices.capacitance)
    by_energy = _fit(joule_left, compute_joule(observation, one))
    on_air_s = _on_air_s(world, observation, decision, np.where(sendable, upload_s, 0.0))
    time_left_s = left.deadline_s - on_air_s - cost.compute_s(beside, clock)
    by_time = _fit(time_left_s, step_s) if observation.response_s is None else np.full_like(step_s, MOST_STEPS)
    return np.where(sendable, np.minimum(by_energy, by_time), 0.0).astype(np.int64)


def _on_air_s(world: World, observation: Observation, decision: Decision, upload_s: Floats) -> Floats:
    """Seconds that sending takes: the own upload; with `tdma`, all uploads that the cell selects."""
    if world.settings.access != "tdma":
        return upload_s
    cell = observation.topology.cell
    others = np.bincount(cell, weights=np.where(decision.selected, upload_s, 0.0), minlength=world.n_cells)[cell]
    return np.asarray(others + np.where(decision.selected, 0.0, upload_s), dtype=np.float64)


def _fit(room: Floats, each: Floats) -> Floats:
    """How often `each` goes into `room`, from 0 to `MOST_STEPS`."""
    with np.errstate(over="ignore"):
        times_over = np.divide(room, each, out=np.where(room >= 0, np.inf, -np.inf), where=each > 0)
    most = np.floor(times_over * (1 + TOLERANCE / 2))  # well inside what an upload is granted
    return np.clip(most, 0, MOST_STEPS)


def _cycles(observation: Observation, decision: Decision) -> Floats:
    devices = observation.devices
    cycles = cost.cycles(decision.steps, decision.samples_per_step, devices.cycles_per_sample)
    return cycles if devices.step_cycles is None else cycles + decision.steps * devices.step_cycles


def _clock_hz(decision: Decision) -> Floats:
    return np.maximum(decision.cpu_hz, 1.0)  # the contract's least; devices that are not selected may say 0
