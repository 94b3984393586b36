"""The channels of a round: large-scale gain, fading and interference, each from its own random stream."""

from typing import NamedTuple

import numpy as np

from ..radio.rate import noise_watt
from ..rng import SETUP, stream
from ..types import Floats, Topology
from ..units import db_to_ratio, dbm_to_watt
from .fields import ar1, correlated_gain, jakes
from .pathloss import power_law_gain, uma_losses, uma_shadowing_db
from .settings import WorldConfig
from .topology import to_stations_m


def mean_gain(settings: WorldConfig, distance_m: Floats, seed: int, round: int, which: str = "") -> Floats:
    """Gain of every device before small-scale fading: path loss, and shadowing for urban macro.

    `which` keys the draws towards other base stations; it is empty for the serving one.
    """
    if settings.pathloss == "power_law":
        return power_law_gain(distance_m, float(db_to_ratio(settings.reference_gain_db)), settings.exponent)
    return uma_gain(settings, distance_m, seed, SETUP if settings.los == "static" else round, which)


class Channels(NamedTuple):
    """The channels of a round."""

    topology: Topology  # with the serving cells
    mean: Floats  # [n_devices], to the serving base station, without fading
    fading: Floats  # [n_devices]
    to_all: Floats | None  # [n_devices, n_cells], without fading; None unless shadowing is correlated


def channels(settings: WorldConfig, topology: Topology, seed: int, round: int, clock_s: float) -> Channels:
    """Compute the channels of a round. With correlated shadowing the strongest base station serves a moving device."""
    rho = fading(settings, settings.n_devices, seed, round, clock_s=clock_s)
    if settings.shadowing != "correlated" or settings.pathloss != "uma":
        return Channels(topology, mean_gain(settings, topology.distance_m, seed, round), rho, None)
    away_m = np.maximum(to_stations_m(topology.position_m, topology.station_m), settings.min_distance_m)
    to_all = correlated_gain(settings, topology.position_m, away_m, seed)
    cell = topology.cell if settings.geometry == "static" else to_all.argmax(axis=1)
    row = np.arange(len(cell))
    return Channels(topology._replace(cell=cell, distance_m=away_m[row, cell]), to_all[row, cell], rho, to_all)


def gains_to_all(settings: WorldConfig, found: Channels, seed: int, round: int, clock_s: float) -> Floats:
    """Gain of every device to every base station, `[n_devices, n_cells]`; `found` has the gain to the serving one.

    Every other station has draws of its own, so the channel to the serving one is the same as without them.
    """
    topology = found.topology
    away_m = np.maximum(to_stations_m(topology.position_m, topology.station_m), settings.min_distance_m)
    gains = np.empty_like(away_m)
    for station in range(away_m.shape[1]):
        which = f" {station}"
        known = found.to_all
        mean = mean_gain(settings, away_m[:, station], seed, round, which) if known is None else known[:, station]
        gains[:, station] = mean * fading(settings, len(away_m), seed, round, which, clock_s)
    gains[np.arange(len(away_m)), topology.cell] = found.mean * found.fading
    return gains


def uma_gain(settings: WorldConfig, distance_m: Floats, seed: int, round: int, which: str = "") -> Floats:
    """Urban macro gain with a drawn line of sight and shadowing: `10^(-(PL + X)/10)`.

    `PL` is the LOS loss with the LOS probability, else the NLOS loss; `X ~ N(0, sigma^2)` with that
    state's deviation. A device draws one uniform and one normal number wherever it stands.

    Args:
        settings: carrier and heights.
        distance_m: `[n_devices]`.
        seed: of the run.
        round: of the draws, `SETUP` for those made once.
        which: keys the draws towards another base station.

    Reference: osafl, section 2.4
    """
    found = uma_losses(distance_m, (settings.carrier_hz, settings.station_height_m, settings.device_height_m))
    los = stream(seed, round, f"world.los{which}").random(len(distance_m)) < found.los_probability
    normal = stream(seed, round, f"world.shadowing{which}").standard_normal(len(distance_m))
    loss_db = np.where(los, found.los_db, found.nlos_db)
    return db_to_ratio(-(loss_db + normal * uma_shadowing_db(los)))


def fading(
    settings: WorldConfig, n_devices: int, seed: int, round: int, which: str = "", clock_s: float = 0.0
) -> Floats:
    """Small-scale power gain with mean 1: `Exp(1)` (Rayleigh amplitude), or 1 when switched off.

    `ar1` has memory from round to round, `jakes` over the clock.

    Reference: chen-ch3, section 2.4
    """
    if settings.fading == "none":
        return np.ones(n_devices)
    if settings.fading == "ar1":
        return ar1(n_devices, settings.fading_memory, seed, round, which)
    if settings.fading == "jakes":
        return jakes(n_devices, settings.doppler_hz, seed, settings.start_s + clock_s, which)
    return stream(seed, round, f"world.fading{which}").standard_exponential(n_devices)


def interference_watt(settings: WorldConfig, seed: int, round: int) -> Floats:
    """Interference power on every resource block, a drawn multiple of that block's noise power.

    Args:
        settings: the law of the multiple, the blocks and the noise.
        seed: of the run.
        round: of the draw; one draw at `SETUP` serves every round when interference is static.

    Returns: `[n_blocks]`.

    Reference: chen-ch5, Table 5-B and A-9; chen-ch6, A-7
    """
    rng = stream(seed, round if settings.interference == "redraw" else SETUP, "world.interference")
    multiple = settings.interference_over_noise.draw(rng, settings.n_blocks)
    density = float(dbm_to_watt(settings.noise_dbm_per_hz))
    return np.asarray(multiple * noise_watt(settings.bandwidth_hz, density, settings.noise_watt))
