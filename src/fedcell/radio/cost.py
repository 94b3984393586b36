"""Seconds and joules of computing and of sending: each equation once, for scalars or arrays."""

import numpy as np

from ..solve.lambert import log_multiple
from ..types import Floats, Ints
from ..units import dbm_to_watt

Real = float | Floats
RESOURCE_BLOCK_HZ = 180e3  # 12 subcarriers of 15 kHz


def cycles(steps: Real | Ints, samples_per_step: Real, cycles_per_sample: Real) -> Floats:
    """CPU cycles of local training: `c = steps * samples per step * cycles per sample`.

    Reference: osafl, section 2.2; chen-ch5, Eq. (5.9)
    """
    return np.asarray(steps * samples_per_step * cycles_per_sample, dtype=np.float64)


def compute_s(cycles: Real, cpu_hz: Real) -> Floats:
    """Time of computing, `c / f`.

    Reference: osafl, section 2.2; chen-ch3, Eq. (3.6)
    """
    return np.asarray(cycles / cpu_hz)


def compute_joule(cycles: Real, cpu_hz: Real, capacitance: Real) -> Floats:
    """Energy of computing, `kappa c f^2`.

    Args:
        cycles: `c`.
        cpu_hz: `f`.
        capacitance: `kappa`, effective; if a source has a factor 1/2 it is inside.

    Reference: osafl, section 2.2; chen-ch4, Eq. (4.11); chen-ch5, Eq. (5.10)
    """
    return np.asarray(capacitance * cycles * np.square(cpu_hz))


def upload_s(payload_bit: Real, rate_bps: Real) -> Floats:
    """Time of sending, `S / r`: infinite without a rate, zero without a payload.

    Reference: osafl, section 2.3; chen-ch5, Eq. (5.12)
    """
    payload, rate = np.asarray(payload_bit, dtype=np.float64), np.asarray(rate_bps, dtype=np.float64)
    without_rate = np.where(payload > 0, np.inf, np.zeros_like(rate))
    with np.errstate(over="ignore"):
        return np.asarray(np.divide(payload, rate, out=without_rate, where=rate > 0))


def upload_joule(power_watt: Real, upload_s: Real) -> Floats:
    """Energy of sending, `p t`.

    Reference: osafl, section 2.3; chen-ch5, Eq. (5.13)
    """
    return np.asarray(power_watt * upload_s)


def open_loop_watt(mean_gain: Real, bandwidth_hz: Real, p0_dbm: float, pathloss_share: float) -> Floats:
    """Power that makes up for the path loss: `P0 M PL^alpha`, with `M` the resource blocks of 180 kHz in the band.

    Args:
        mean_gain: `1 / PL`, without fading.
        bandwidth_hz: of the upload.
        p0_dbm: `P0`.
        pathloss_share: `alpha`.

    Reference: 3GPP TS 38.213, section 7.1.1, without closed-loop terms
    """
    return np.asarray(dbm_to_watt(p0_dbm) * (bandwidth_hz / RESOURCE_BLOCK_HZ) * mean_gain**-pathloss_share)


def affordable_power_watt(budget_joule: Real, payload_bit: Real, bandwidth_hz: Real, sinr_per_watt: Real) -> Floats:
    """The power at which an upload costs its whole budget, `p S / r(p) = E`; 0 if no power is cheap enough.

    `p = (-a W_{-1}(-exp(-1 / a) / a) - 1) / g` with `a = E B g / (S ln 2)`; the energy of sending grows with the power
    from `S ln 2 / (B g)`, so for `a <= 1` none will do. Without a payload any power will: infinite.

    Args:
        budget_joule: `E`.
        payload_bit: `S`.
        bandwidth_hz: `B`.
        sinr_per_watt: `g`.

    Reference: chen-ch5, Eqs. (5.29), (5.30)
    """
    g = np.asarray(sinr_per_watt, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # an infinite budget without a channel
        worth = np.nan_to_num(np.maximum(budget_joule, 0.0) * (bandwidth_hz * g), posinf=np.inf)
    needed = np.broadcast_to(np.asarray(payload_bit, dtype=np.float64) * np.log(2.0), worth.shape)
    a = np.divide(worth, needed, out=np.where(worth > 0, np.inf, 0.0), where=needed > 0)
    y = log_multiple(a)
    return np.divide(y, g, out=np.zeros_like(y), where=y > 0)
