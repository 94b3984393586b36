"""The channels of a round: large-scale gain, fading and interference, each from its own random stream."""

import numpy as np

from ..radio.rate import noise_watt
from ..rng import SETUP, stream
from ..types import Floats
from ..units import db_to_ratio, dbm_to_watt
from .pathloss import power_law_gain, uma_los_db, uma_los_probability, uma_nlos_db, uma_shadowing_db
from .settings import WorldConfig


def mean_gain(settings: WorldConfig, distance_m: Floats, seed: int, round: int) -> Floats:
    """Gain of every device before small-scale fading: path loss, and shadowing for urban macro."""
    if settings.pathloss == "power_law":
        return power_law_gain(distance_m, float(db_to_ratio(settings.reference_gain_db)), settings.exponent)
    return uma_gain(settings, distance_m, seed, SETUP if settings.los == "static" else round)


def uma_gain(settings: WorldConfig, distance_m: Floats, seed: int, round: int) -> Floats:
    """Urban macro gain with a drawn line of sight and shadowing: `10^(-(PL + X)/10)`.

    `PL` is the LOS loss with the LOS probability, else the NLOS loss; `X ~ N(0, sigma^2)` with that
    state's deviation. A device draws one uniform and one normal number wherever it stands.

    Args:
        settings: carrier and heights.
        distance_m: `[n_devices]`.
        seed: of the run.
        round: of the draws, `SETUP` for those made once.

    Reference: osafl, section 2.4
    """
    los = stream(seed, round, "world.los").random(len(distance_m)) < uma_los_probability(distance_m)
    normal = stream(seed, round, "world.shadowing").standard_normal(len(distance_m))
    radio = (settings.carrier_hz, settings.station_height_m, settings.device_height_m)
    loss_db = np.where(los, uma_los_db(distance_m, *radio), uma_nlos_db(distance_m, *radio))
    return db_to_ratio(-(loss_db + normal * uma_shadowing_db(los)))


def fading(settings: WorldConfig, n_devices: int, seed: int, round: int) -> Floats:
    """Small-scale power gain with mean 1: `Exp(1)` (Rayleigh amplitude), or 1 when switched off.

    Reference: chen-ch3, section 2.4
    """
    if settings.fading == "none":
        return np.ones(n_devices)
    return stream(seed, round, "world.fading").standard_exponential(n_devices)


def interference_watt(settings: WorldConfig, seed: int, round: int) -> Floats:
    """Interference power on every resource block, a drawn multiple of that block's noise power.

    Args:
        settings: the law of the multiple, the blocks and the noise.
        seed: of the run.
        round: of the draw; one draw at `SETUP` serves every round when interference is static.

    Returns: `[n_blocks]`.

    Reference: chen-ch5, Table 5-B and A-9; chen-ch6, A-7
    """
    rng = stream(seed, SETUP if settings.interference == "static" else round, "world.interference")
    multiple = settings.interference_over_noise.draw(rng, settings.n_blocks)
    density = float(dbm_to_watt(settings.noise_dbm_per_hz))
    return np.asarray(multiple * noise_watt(settings.bandwidth_hz, density, settings.noise_watt))
