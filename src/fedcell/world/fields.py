"""Channels with memory: shadowing that is correlated in space, fading that is correlated in time.

Each is a function of (seed, place), (seed, clock) or (seed, round), never of what happened before.
"""

from functools import lru_cache
from math import pi, sqrt

import numpy as np

from ..rng import SETUP, stream
from ..types import Bools, Floats
from ..units import db_to_ratio
from .pathloss import uma_los_db, uma_los_probability, uma_nlos_db, uma_shadowing_db
from .settings import WorldConfig

WAVES = 32  # plane waves of a map
PATHS = 16  # of a Jakes channel


@lru_cache(maxsize=16)
def _waves(seed: int, purpose: str, n_maps: int, distance_m: float) -> tuple[Floats, Floats]:
    """Wave vectors `[2, n_maps * WAVES]` of the spectrum of an exponential correlation, and their phases, in turns.

    The spectrum of `exp(-d / D)` in the plane has wave numbers `k = sqrt(1 / (1 - U)^2 - 1) / D` in all directions.
    """
    bearing, length, phase = stream(seed, SETUP, f"world.map {purpose}").random((3, n_maps * WAVES))
    k = np.sqrt(1.0 / np.square(1.0 - length) - 1.0) / distance_m
    return np.stack([k * np.cos(2 * pi * bearing), k * np.sin(2 * pi * bearing)]) / (2 * pi), phase


def maps(position_m: Floats, seed: int, purpose: str, n_maps: int, distance_m: float) -> Floats:
    """Standard normal maps at places, `[n, n_maps]`, each correlated by `exp(-d / D)` over a distance `d`.

    Args:
        position_m: `[n, 2]`.
        seed: of the run.
        purpose: tells maps apart.
        n_maps: independent ones.
        distance_m: `D`.

    Reference: Gudmundson, Correlation model for shadow fading in mobile radio systems, 1991
    """
    vector, phase = _waves(seed, purpose, n_maps, distance_m)
    waves = np.cos(_angle(position_m @ vector + phase))
    sums = waves.reshape(-1, WAVES) @ np.ones(WAVES, dtype=np.float32)
    return sqrt(2.0 / WAVES) * sums.astype(np.float64).reshape(len(position_m), n_maps)


def _angle(turns: Floats) -> np.ndarray:
    """Angles in radians, float32: whole turns go in float64, so that the much faster float32 cosines stay accurate."""
    turns -= np.rint(turns)
    return np.multiply(turns, 2 * pi, dtype=np.float32, casting="same_kind")


def correlated_gain(settings: WorldConfig, position_m: Floats, away_m: Floats, seed: int) -> Floats:
    """Urban macro gain to every station with maps of line of sight and shadowing, `[n_devices, n_cells]`.

    Args:
        settings: carrier, heights, distance and site correlation.
        position_m: `[n_devices, 2]`.
        away_m: `[n_devices, n_cells]`, to the stations.
        seed: of the run.
    """
    from scipy.special import ndtr  # slow to import, and few runs need it

    n_cells, distance_m = away_m.shape[1], settings.shadowing_distance_m
    los: Bools = ndtr(maps(position_m, seed, "los", n_cells, distance_m)) < uma_los_probability(away_m)
    found = maps(position_m, seed, "shadowing", n_cells + 1, distance_m)
    common = settings.site_correlation
    normal = sqrt(common) * found[:, :1] + sqrt(1.0 - common) * found[:, 1:]
    radio = (settings.carrier_hz, settings.station_height_m, settings.device_height_m)
    loss_db = np.where(los, uma_los_db(away_m, *radio), uma_nlos_db(away_m, *radio))
    return db_to_ratio(-(loss_db + normal * uma_shadowing_db(los)))


def jakes(n_devices: int, doppler_hz: float, seed: int, clock_s: float, which: str = "") -> Floats:
    """Power gain at a time, of `PATHS` waves from all directions: the amplitude has the autocorrelation `J0(2 pi f t)`.

    Reference: Clarke, A statistical theory of mobile radio reception, 1968
    """
    direction, phase = _paths(n_devices, seed, which)
    angle = _angle(doppler_hz * clock_s * direction + phase)
    real, imaginary = (part(angle).sum(axis=1, dtype=np.float64) for part in (np.cos, np.sin))
    return np.asarray((np.square(real) + np.square(imaginary)) / PATHS)


@lru_cache(maxsize=16)
def _paths(n_devices: int, seed: int, which: str) -> tuple[Floats, Floats]:
    bearing, phase = stream(seed, SETUP, f"world.jakes{which}").random((2, n_devices, PATHS))
    return np.cos(2 * pi * bearing), phase


def ar1(n_devices: int, memory: float, seed: int, round: int, which: str = "") -> Floats:
    """Power gain of a round whose complex amplitude is `a h + sqrt(1 - a^2) w` of the round before.

    The amplitude is correlated by `a^n` over `n` rounds. It is a function of (seed, round): a run that begins in the
    middle repeats the draws of all rounds before it.
    """
    towards = _amplitudes(n_devices, memory, seed)
    if which not in towards:
        towards[which] = _Amplitudes(n_devices, memory, seed, which)
    return np.square(np.abs(towards[which].at(round)))


class _Amplitudes:
    """The amplitudes of the round asked for last; a later round continues from them."""

    def __init__(self, n_devices: int, memory: float, seed: int, which: str) -> None:
        self.key = (n_devices, memory, seed, which)
        self.round, self.value = -1, np.zeros(n_devices, dtype=np.complex128)

    def at(self, round: int) -> np.ndarray:
        n_devices, memory, seed, which = self.key
        if round < self.round:
            self.round, self.value = -1, np.zeros(n_devices, dtype=np.complex128)
        while self.round < round:
            self.round += 1
            real, imaginary = stream(seed, self.round, f"world.ar1{which}").standard_normal((2, n_devices)) * sqrt(0.5)
            fresh = real + 1j * imaginary
            self.value = fresh if self.round == 0 else memory * self.value + sqrt(1.0 - memory**2) * fresh
        return self.value


@lru_cache(maxsize=2)
def _amplitudes(n_devices: int, memory: float, seed: int) -> dict[str, _Amplitudes]:
    """Amplitudes of the channels asked for so far; a run asks for those towards every base station in each round."""
    return {}
