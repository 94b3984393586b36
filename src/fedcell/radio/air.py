"""Sending at once over the air: symbols and seconds, the station's antennas, who is silent, and what each can afford.

A symbol is a complex number and carries two numbers of an update, so an update of `n` takes `ceil(n / 2)` of them and
`ceil(n / 2) / B` seconds in a band `B`, whatever the channels are. With `h_k` the channels of device `k` to the `N`
antennas of its station, which combines them by a unit vector `f`, the device sends through `f^H h_k` and divides by it
beforehand: its symbols arrive in phase with those of all others, at the power `p_k |f^H h_k|^2`.
"""

import numpy as np
from numpy.typing import NDArray

from ..rng import stream
from ..types import Bools, Decision, Floats, Observation, World
from ..units import db_to_ratio
from .rate import noise_watt

Complexes = NDArray[np.complex128]
ASCENT_STEPS = 100  # of the search for the station's combination


def symbols(world: World, payload_bit: Floats) -> Floats:
    """Complex symbols of payloads: half as many as they hold numbers, rounded up."""
    return np.ceil(np.asarray(payload_bit) / world.settings.bits_per_parameter / 2)


def upload_s(world: World, payload_bit: Floats) -> Floats:
    """Time of sending: symbols over bandwidth."""
    return symbols(world, payload_bit) / world.settings.bandwidth_hz


def received_noise_watt(world: World) -> float:
    """Noise power of a combined symbol, `E|z|^2`; half of it meets each of the two numbers."""
    settings = world.settings
    return float(noise_watt(settings.bandwidth_hz, world.noise_watt_per_hz, settings.noise_watt))


def combined_gain(world: World, observation: Observation, decision: Decision, seed: int) -> Floats:
    """`|f^H h_k|^2` of every device, with `f` that of its cell; 0 for devices that are not selected, `[n_devices]`.

    With one antenna it is the gain of the round, `observation.gain`.
    """
    selected, cell = decision.selected, observation.topology.cell
    if world.settings.antennas == 1:
        return np.where(selected, observation.gain, 0.0)
    channel, found = channels(world, observation, seed), np.zeros(len(cell))
    for number in np.unique(cell[selected]):
        here = np.flatnonzero(selected & (cell == number))
        amplitude = np.sqrt(decision.power_watt[here])[:, None] * channel[here]
        able = amplitude.any(axis=1)  # a device without power has no say in `f`
        found[here] = np.abs(channel[here] @ combiner(amplitude[able]).conj()) ** 2
    return found


def channels(world: World, observation: Observation, seed: int) -> Complexes:
    """Amplitudes to every antenna, `[n_devices, antennas]`; the power at the first one is `observation.gain`.

    Phases are uniform. Fading at further antennas is Rayleigh and new in every round; without fading all antennas
    receive the same power.
    """
    settings, rng = world.settings, stream(seed, observation.round, "world.antennas")
    shape = len(observation.gain), settings.antennas
    phase, power = rng.random(shape), rng.standard_exponential(shape)
    power = (np.ones(shape) if settings.fading == "none" else power) * observation.mean_gain[:, None]
    power[:, 0] = observation.gain
    return np.asarray(np.sqrt(power) * np.exp(2j * np.pi * phase))


def combiner(amplitude: Complexes) -> Complexes:
    """A unit vector `f` with a large `min_k |f^H a_k|`, `[antennas]`.

    The best of each single antenna and of all points of a gradient ascent on `sum_k log |f^H a_k|^2`, whose gradient
    is `sum_k a_k / (f^H a_k)`. For one device it is `a / |a|`, which adds up the powers of all antennas.

    Args:
        amplitude: `a_k`, `[n_devices, antennas]`, channels times the root of the power limit; none of them 0.
    """
    n_devices, n_antennas = amplitude.shape
    a = amplitude / np.linalg.norm(amplitude, axis=1, keepdims=True)
    f = _unit(a.sum(axis=0))
    tried = [*np.eye(n_antennas, dtype=np.complex128), f]
    for _ in range(ASCENT_STEPS):
        through = a @ f.conj()
        away = np.abs(through) > 1e-12
        f = _unit(f + (a[away] / through[away, None]).sum(axis=0) / max(n_devices, 1))
        tried.append(f)
    weakest = np.abs(amplitude @ np.array(tried).conj().T).min(axis=0, initial=np.inf)
    return np.asarray(tried[int(weakest.argmax())])


def _unit(vector: Complexes) -> Complexes:
    length = np.linalg.norm(vector)
    return vector / length if length > 0 else np.eye(len(vector), dtype=np.complex128)[0]


def strong_enough(world: World, power_watt: Floats, gain: Floats, mean_gain: Floats) -> Bools:
    """Which devices send: those whose gain passes the threshold and whose power reaches the received level asked for.

    `gain >= threshold * mean gain`, and `p gain >= snr * noise` if the world sets `air_snr_db`. Under Rayleigh fading
    and with one antenna a share `exp(-threshold)` of them sends, or `exp(-snr * noise / (p * mean gain))`.

    Args:
        world: threshold, level and noise.
        power_watt: `p`, the limit of each.
        gain: of the round, as the antennas combine it.
        mean_gain: over the fading, at one antenna.
    """
    settings, arrives = world.settings, power_watt * gain
    sends = np.asarray((arrives > 0) & (gain >= settings.air_threshold * mean_gain))
    return sends if settings.air_snr_db is None else sends & (arrives >= level_watt(world))


def reach_watt(world: World, decision: Decision, gain: Floats) -> Floats:
    """The power at which each device may arrive, `[n_devices]`: all that it can, or the level that is asked for."""
    if world.settings.air_snr_db is None:
        return np.asarray(decision.power_watt * gain)
    return np.full(len(gain), level_watt(world))


def level_watt(world: World) -> float:
    """The received power that `air_snr_db` asks for."""
    return float(db_to_ratio(world.settings.air_snr_db or 0.0)) * received_noise_watt(world)
