"""Large-scale channel gain as a function of distance: 3GPP urban macro, and a power law.

Distances are horizontal (2-D) metres unless a name says otherwise.
"""

from typing import NamedTuple
from weakref import finalize

import numpy as np

from ..types import Bools, Floats
from ..units import LIGHT_SPEED_M_PER_S

SHADOWING_LOS_DB = 4.0
SHADOWING_NLOS_DB = 6.0


def slant_m(distance_m: Floats, station_height_m: float, device_height_m: float) -> Floats:
    """Distance between the antennas: `d3D = sqrt(d2D^2 + (hBS - hUT)^2)`.

    Reference: 3GPP TR 38.901, section 7.4.1; osafl, section 2.4
    """
    return np.hypot(distance_m, station_height_m - device_height_m)


def breakpoint_m(carrier_hz: float, station_height_m: float, device_height_m: float) -> float:
    """Distance where the slope changes: `d'BP = 4 (hBS - 1)(hUT - 1) fc / c0`.

    Args:
        carrier_hz: `fc`.
        station_height_m: `hBS`, above 1.
        device_height_m: `hUT`, above 1 and at most 13.

    Reference: 3GPP TR 38.901, section 7.4.1; osafl, section 2.4
    """
    return 4.0 * (station_height_m - 1.0) * (device_height_m - 1.0) * carrier_hz / LIGHT_SPEED_M_PER_S


def uma_los_db(distance_m: Floats, carrier_hz: float, station_height_m: float, device_height_m: float) -> Floats:
    """Path loss with line of sight, with `f` the carrier in GHz.

    Up to the breakpoint `28 + 22 lg d3D + 20 lg f`; beyond it
    `28 + 40 lg d3D + 20 lg f - 9 lg(d'BP^2 + (hBS - hUT)^2)`.

    Reference: 3GPP TR 38.901, Table 7.4.1-1 (UMa LOS); osafl, section 2.4
    """
    d3 = slant_m(distance_m, station_height_m, device_height_m)
    d_bp = breakpoint_m(carrier_hz, station_height_m, device_height_m)
    common = 28.0 + 20.0 * np.log10(carrier_hz / 1e9)
    near = common + 22.0 * np.log10(d3)
    far = common + 40.0 * np.log10(d3) - 9.0 * np.log10(d_bp**2 + (station_height_m - device_height_m) ** 2)
    return np.asarray(np.where(distance_m <= d_bp, near, far))


def uma_nlos_db(distance_m: Floats, carrier_hz: float, station_height_m: float, device_height_m: float) -> Floats:
    """Path loss without line of sight: `max(LOS, 13.54 + 39.08 lg d3D + 20 lg f - 0.6 (hUT - 1.5))`.

    Reference: 3GPP TR 38.901, Table 7.4.1-1 (UMa NLOS); osafl, section 2.4
    """
    d3 = slant_m(distance_m, station_height_m, device_height_m)
    blocked = 13.54 + 39.08 * np.log10(d3) + 20.0 * np.log10(carrier_hz / 1e9) - 0.6 * (device_height_m - 1.5)
    return np.asarray(np.maximum(uma_los_db(distance_m, carrier_hz, station_height_m, device_height_m), blocked))


def uma_los_probability(distance_m: Floats) -> Floats:
    """Probability of line of sight for devices at most 13 m high.

    1 up to 18 m, then `18/d + exp(-d/63) (1 - 18/d)`.

    Reference: 3GPP TR 38.901, Table 7.4.2-1 (UMa); osafl, section 2.4
    """
    near = 18.0 / np.maximum(distance_m, 18.0)
    return np.asarray(near + np.exp(-np.asarray(distance_m) / 63.0) * (1.0 - near))


class UmaLosses(NamedTuple):
    """Urban macro path loss at some distances, each `[n]`."""

    los_probability: Floats
    los_db: Floats
    nlos_db: Floats


Radio = tuple[float, float, float]  # carrier, and the heights of station and device
_KNOWN: dict[tuple[int, Radio], UmaLosses] = {}  # keyed by the id of a read-only array of distances


def uma_losses(distance_m: Floats, radio: Radio) -> UmaLosses:
    """Path losses with and without line of sight; those of read-only distances are computed once."""
    key = id(distance_m), radio
    if key in _KNOWN and not distance_m.flags.writeable:
        return _KNOWN[key]
    found = UmaLosses(uma_los_probability(distance_m), uma_los_db(distance_m, *radio), uma_nlos_db(distance_m, *radio))
    if not distance_m.flags.writeable and distance_m.base is None:
        _KNOWN[key] = found
        finalize(distance_m, _KNOWN.pop, key, None).atexit = False
    return found


def uma_shadowing_db(los: Bools) -> Floats:
    """Standard deviation of the log-normal shadowing: 4 dB with line of sight, 6 dB without.

    Reference: 3GPP TR 38.901, Table 7.4.1-1 (UMa); osafl, section 2.4
    """
    return np.where(los, SHADOWING_LOS_DB, SHADOWING_NLOS_DB)


def power_law_gain(distance_m: Floats, reference_gain: float, exponent: float) -> Floats:
    """Gain `h0 d^-v`, with `h0` the gain at 1 m.

    Args:
        distance_m: `d`.
        reference_gain: `h0`, a ratio.
        exponent: `v`.

    Reference: chen-ch3, section 2.4; chen-ch4, section 2.4
    """
    return np.asarray(reference_gain * np.asarray(distance_m, dtype=np.float64) ** -exponent)
