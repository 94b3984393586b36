"""Every device on every band that it could be given, `[n_devices, n_bands]`: what a scheduler chooses from.

With `access = block` the bands are the resource blocks of a cell; else a device has one band, and there is one column.
Powers are `[n_devices]`, or `[n_devices, n_bands]` if they depend on the band.
"""

import numpy as np

from ..types import Floats, Observation, World
from ..units import db_to_ratio
from . import link, rate


def disturbance_watt(world: World, observation: Observation, bandwidth_hz: Floats | None = None) -> Floats:
    """Noise and interference together, `[n_devices, n_bands]`.

    Args:
        world: noise and access.
        observation: this round's interference.
        bandwidth_hz: `[n_devices]`; None: `world.bandwidth_hz` for everyone.
    """
    settings = world.settings
    band = np.full(world.n_devices, settings.bandwidth_hz) if bandwidth_hz is None else bandwidth_hz
    noise = rate.noise_watt(band, world.noise_watt_per_hz, settings.noise_watt)[:, None]
    if settings.access == "block":
        return noise + observation.interference_watt
    if observation.interference_watt.ndim == 2:  # made by others, over the whole band
        return noise + observation.interference_watt * (band / settings.bandwidth_hz)[:, None]
    return noise + np.zeros(1)


def sinr_per_watt(world: World, observation: Observation, bandwidth_hz: Floats | None = None) -> Floats:
    """`h / (I + sigma^2)`, `[n_devices, n_bands]`; arguments as of `disturbance_watt`."""
    return rate.sinr(1.0, observation.gain[:, None], disturbance_watt(world, observation, bandwidth_hz))


def rate_bps(world: World, observation: Observation, power_watt: Floats, bandwidth_hz: Floats | None = None) -> Floats:
    """Bits per second of every device on every band, `[n_devices, n_bands]`.

    Reference: chen-ch5, Eq. (5.11)
    """
    quality = _columns(power_watt) * sinr_per_watt(world, observation, bandwidth_hz)
    return link.rate_bps(world, world.settings.bandwidth_hz if bandwidth_hz is None else bandwidth_hz[:, None], quality)


def success_probability(
    world: World, observation: Observation, power_watt: Floats, bandwidth_hz: Floats | None = None
) -> Floats:
    """Probability that an upload survives the fading, `[n_devices, n_bands]`; 1 in a world without outage.

    Block errors of `link = nr` are no part of it: retransmissions mend them, or the SINR is hopeless.

    Reference: chen-ch5, Eq. (5.14)
    """
    power, threshold_db = _columns(power_watt), world.settings.outage_threshold_db
    disturbance = disturbance_watt(world, observation, bandwidth_hz)
    if threshold_db is None:
        return np.ones(np.broadcast_shapes(power.shape, disturbance.shape))
    gain, threshold = observation.mean_gain[:, None], float(db_to_ratio(threshold_db))
    return rate.success_probability(power, gain, disturbance, 0.0, threshold)


def _columns(power_watt: Floats) -> Floats:
    return power_watt if power_watt.ndim == 2 else power_watt[:, None]
