"""Signal, noise, rate and outage of an upload: each equation once, for scalars or arrays."""

import numpy as np

from ..types import Floats

Real = float | Floats


def noise_watt(bandwidth_hz: Real, density_watt_per_hz: float, fixed_watt: float | None = None) -> Floats:
    """Noise power in a band: `B N0`, or the same for every band if the world fixes it.

    Args:
        bandwidth_hz: `B`.
        density_watt_per_hz: `N0`, see `World.noise_watt_per_hz`.
        fixed_watt: noise power that does not grow with the band, see `WorldConfig.noise_watt`.

    Reference: osafl, section 2.3; chen-ch3, section 2.3 (fixed)
    """
    band = np.asarray(bandwidth_hz, dtype=np.float64)
    return band * density_watt_per_hz if fixed_watt is None else np.full_like(band, fixed_watt)


def sinr(power_watt: Real, gain: Real, noise_watt: Real, interference_watt: Real = 0.0) -> Floats:
    """Signal to interference and noise, `p h / (I + sigma^2)`; 0 if there is no band, hence no noise.

    Args:
        power_watt: `p`.
        gain: `h`.
        noise_watt: `sigma^2`, in the band of the upload.
        interference_watt: `I`, in that band.

    Reference: chen-ch5, section 2.4
    """
    signal = np.asarray(power_watt, dtype=np.float64) * np.asarray(gain)
    disturbance = np.asarray(interference_watt, dtype=np.float64) + np.asarray(noise_watt)
    out = np.zeros(np.broadcast(signal, disturbance).shape)
    return np.asarray(np.divide(signal, disturbance, out=out, where=disturbance > 0))


def rate_bps(bandwidth_hz: Real, sinr: Real) -> Floats:
    """Bits per second, `B log2(1 + SINR)`.

    >>> float(rate_bps(1e6, 3.0))
    2000000.0

    Reference: osafl, section 2.3; chen-ch5, Eq. (5.11)
    """
    return np.asarray(np.asarray(bandwidth_hz, dtype=np.float64) * np.log1p(sinr) / np.log(2.0))


def success_probability(
    power_watt: Real,
    mean_gain: Real,
    noise_watt: Real,
    interference_watt: Real,
    threshold: float,
) -> Floats:
    """Probability that the SINR reaches a threshold under Rayleigh fading; 0 without power.

    `Pr(p g rho / (I + sigma^2) >= gamma) = exp(-gamma (I + sigma^2) / (p g))` with `rho ~ Exp(1)`.

    Args:
        power_watt: `p`.
        mean_gain: `g`, averaged over the fading.
        noise_watt: `sigma^2`, in the band of the upload.
        interference_watt: `I`, in that band.
        threshold: `gamma`, a ratio.

    Reference: chen-ch5, Eq. (5.14)
    """
    signal = np.asarray(power_watt, dtype=np.float64) * np.asarray(mean_gain)
    needed = threshold * (np.asarray(interference_watt, dtype=np.float64) + np.asarray(noise_watt))
    out = np.full(np.broadcast_shapes(signal.shape, needed.shape), np.inf)
    with np.errstate(over="ignore"):  # a vanishing signal needs an infinite fading gain
        fading_needed = np.divide(needed, signal, out=out, where=signal > 0)
    return np.asarray(np.exp(-fading_needed))
