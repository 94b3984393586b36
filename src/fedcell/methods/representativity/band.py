"""Seconds of every device alone in its band, and the band divided so that all who were picked end together.

Not a method itself: it has no `build`.

Reference: chen-ch3, sections 2.2, 2.3 and 4.4
"""

from typing import NamedTuple

import numpy as np

from ... import radio
from ...radio import rate
from ...radio.forecast import as_on_shannon, density_watt_per_hz, room
from ...radio.uplink import NEVER_S
from ...solve.equal_finish import equal_finish
from ...solve.lambert import log_multiple
from ...solve.scalar import convex_minimum
from ...types import Bools, Decision, Floats, Observation, Problem
from ..parts.resources import plan


class Alone(NamedTuple):
    """Each device as if the band of its cell were its own, `[n_devices]`."""

    compute_s: Floats  # T^L
    upload_s: Floats  # T^{C,min}; 0 if bands are not shared, its time being in compute_s
    usable: Bools  # available, and with a rate


def alone(problem: Problem, observation: Observation, work: Decision) -> Alone:
    """Times of everyone for the work given with the whole band.

    If devices do not share a band (`own_band`, `block`), none takes bandwidth from another, so their whole time is
    fixed. In turns (`tdma`) each sends with the whole band. Deviation: if noise grows with the band, a narrower band
    has a better SINR than reckoned here; policies see the upper bound, and the division of the band is exact.

    Reference: chen-ch3, Eqs. (3.6), (3.7)
    """
    settings = problem.world.settings
    whole = work._replace(bandwidth_hz=np.full(problem.world.n_devices, settings.bandwidth_hz))
    compute_s, upload_s = radio.times(problem.world, observation, whole)
    usable = observation.available & (compute_s + upload_s < NEVER_S)
    upload_s = np.where(usable, upload_s, 0.0)
    if settings.access not in ("fdma", "tdma"):
        return Alone(compute_s + upload_s, np.zeros_like(upload_s), usable)
    return Alone(compute_s, upload_s, usable)


def left_s(problem: Problem, observation: Observation) -> float:
    """Seconds left of the round for the slowest available device, once the model was sent to all of them."""
    settings = problem.world.settings
    if settings.downlink == "none":
        return settings.deadline_s
    draft = plan(problem, observation, observation.available, 1, 1.0)
    left = np.broadcast_to(room(problem.world, observation, draft).deadline_s, draft.selected.shape)
    return float(left[observation.available].min(initial=settings.deadline_s))


def divided(problem: Problem, observation: Observation, draft: Decision, found: Alone) -> Decision:
    """The plan with the band of every cell divided among its selected devices so that they end together.

    Reference: chen-ch3, Lemma 3
    """
    settings, band = problem.world.settings, draft.bandwidth_hz.copy()
    if settings.access != "fdma":
        return draft
    for number in np.unique(observation.topology.cell[draft.selected]):
        here = np.flatnonzero(draft.selected & (observation.topology.cell == number))
        if settings.noise_watt is not None:
            share = equal_finish(found.compute_s[here], found.upload_s[here]).share
        else:
            payload_bit = as_on_shannon(problem.world, observation, draft).payload_bit[here]
            density = np.broadcast_to(density_watt_per_hz(problem.world, observation), band.shape)[here]
            snr = rate.sinr(draft.power_watt[here], observation.gain[here], density)
            share = share_of_density(
                found.compute_s[here], payload_bit, snr / settings.bandwidth_hz, settings.bandwidth_hz
            )
        band[here] = settings.bandwidth_hz * share
    return draft._replace(bandwidth_hz=band)


def share_of_density(compute_s: Floats, payload_bit: Floats, snr: Floats, bandwidth_hz: float) -> Floats:
    """Shares of a band with which all end together if the noise in a share grows with it, `[n]`.

    To send `S` bits in `t` seconds a device needs the share `snr / y` with `y = a log(1 + y)` and
    `a = B snr t / (S ln 2)`; needs fall with `t`, and the common end is where they fill the band. It lies between the
    times with the whole band and with equal shares.

    Args:
        compute_s: `[n]`, before sending.
        payload_bit: `[n]`, `S`.
        snr: `[n]`, of the whole band.
        bandwidth_hz: `B`.
    """

    def needs(end_s: Floats) -> Floats:
        a = bandwidth_hz * snr * (end_s - compute_s) / (payload_bit * np.log(2.0))
        y = log_multiple(a)
        return np.divide(snr, y, out=np.full_like(y, np.inf), where=y > 0)

    n = len(compute_s)
    whole_s, equal_s = (payload_bit / rate.rate_bps(bandwidth_hz / k, snr * k) for k in (1, n))
    low, high = np.max(compute_s + whole_s), np.max(compute_s + equal_s)
    end_s = convex_minimum(lambda t: 1.0 - needs(t).sum(keepdims=True), np.array([low]), np.array([high]))
    share = needs(end_s)
    if not np.isfinite(share).all():  # an SNR below rounding: the rate is the same in any share
        return np.full(n, 1 / n)
    return np.asarray(share / share.sum())
