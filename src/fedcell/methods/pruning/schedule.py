"""What a device can keep of the model on every band, which units these are, and who gets which band.

Within a layer units are kept in one order per device, whatever the band: the oldest first, the most important first, or
at random. So units are sorted once, and the worth of keeping `n` of them is a prefix sum. Not a method itself: it has
no `build`.

Reference: chen-ch6, sections 4.4, 4.5 and 5
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...radio import bands, cost
from ...radio.downlink import download
from ...radio.forecast import times
from ...radio.uplink import NEVER_S
from ...rng import stream
from ...types import Bools, Decision, Floats, Ints, Observation, Problem
from ..parts.matching import match

ROUNDING = 1e-9  # so that 0.57 of 100 units are 57


class BandOffers(NamedTuple):
    """Every device on every band, `[n_devices, n_bands]`."""

    keep: Floats  # psi, the largest keep ratio that meets the deadline, or the fixed one
    counts: Ints  # [n_devices, n_bands, n_layers], units kept of each layer
    share: Floats  # kept units over all units; its square is the share of the load
    rate_bps: Floats
    feasible: Bools  # available, in time, and with a unit in every layer


# ---------------------------------------------------------------- keep ratios


def offers(
    problem: Problem,
    observation: Observation,
    draft: Decision,
    sizes: Sequence[int],
    keep: float | None,
    min_one_unit: bool,
) -> BandOffers:
    """What every device can keep on every band.

    Args:
        problem: the world.
        observation: this round's channels and hardware.
        draft: the full model's work, payload, band and deadline.
        sizes: units of every layer.
        keep: a fixed keep ratio; None: as the deadline allows.
        min_one_unit: keep a unit in layers that would lose all; without a fixed ratio even if that is late.
    """
    rate_bps = bands.rate_bps(problem.world, observation, draft.power_watt, draft.bandwidth_hz)
    before_s, down_s = _way_down(problem, observation, draft)
    compute_s = down_s + times(problem.world, observation, draft)[0]
    full_s = compute_s[:, None] + cost.upload_s(draft.payload_bit[:, None], rate_bps)
    # if answer times are drawn, the work does not count against the deadline
    drawn = observation.response_s is not None
    left_s = np.subtract(draft.deadline_s, before_s, out=np.zeros_like(before_s), where=np.isfinite(before_s))
    deadline_s = np.inf if drawn else np.maximum(left_s, 0.0)[:, None]
    psi = keep_ratio(full_s, deadline_s) if keep is None else np.full(full_s.shape, keep)
    counts = kept_counts(psi, sizes)
    waits = (counts.min(axis=-1) < 1) & (min_one_unit and keep is None)
    if min_one_unit:
        counts = np.maximum(counts, 1)
    share = counts.sum(axis=-1) / sum(sizes)
    reachable = observation.available[:, None] & (full_s < NEVER_S) & np.isfinite(before_s)[:, None]
    in_time = waits | (share**2 * np.where(reachable, full_s, 0.0) <= deadline_s * (1 + ROUNDING))
    return BandOffers(psi, counts, share, rate_bps, reachable & in_time & (counts.min(axis=-1) > 0))


def _way_down(problem: Problem, observation: Observation, draft: Decision) -> tuple[Floats, Floats]:
    """Seconds of the way down that nobody can shorten, and those that shrink with the own sub-model, `[n_devices]`.

    A broadcast lasts as long as the largest sub-model of the cell, which may be the whole model.
    """
    nothing, down = np.zeros(len(draft.selected)), download(problem.world, observation, draft)
    if down is None:
        return nothing, nothing
    return (nothing, down.seconds) if problem.world.settings.downlink == "unicast" else (down.seconds, nothing)


def keep_ratio(full_s: Floats, deadline_s: float | Floats) -> Floats:
    """`psi = min(1, sqrt(T_max / (T_compute + T_upload)))` of the full model's times, which shrink with `psi^2`.

    Deviation: the source floors the ratio itself, which would leave nothing whenever pruning is needed; here the number
    of units is floored.

    >>> keep_ratio(np.array([0.05, 0.1, 0.4]), 0.1).tolist()
    [1.0, 1.0, 0.5]

    Reference: chen-ch6, Eq. (6.16)
    """
    late = full_s > deadline_s
    return np.sqrt(np.divide(deadline_s, full_s, out=np.ones_like(full_s), where=late))


def kept_counts(keep: Floats, sizes: Sequence[int]) -> Ints:
    """`floor(psi I_l)` of every layer, `[..., n_layers]`. Reference: chen-ch6, Algorithm 9 and A-2"""
    return np.floor(keep[..., None] * np.asarray(sizes) + ROUNDING).astype(np.int64)


# ---------------------------------------------------------------- which units


def unit_order(priority: Floats, sizes: Sequence[int]) -> list[Ints]:
    """Units of every layer from the first kept to the last, each `[n_devices, n_units_of_layer]`; ties by index."""
    return [np.argsort(-part, axis=1, kind="stable") for part in _layers(priority, sizes)]


def omega(age: Ints, order: Sequence[Ints], counts: Ints) -> Floats:
    """`Omega = sum_i m_i (age_i + 1)^2` of every device on every band, `[n_devices, n_bands]`.

    Args:
        age: `[n_devices, n_units]`, before the round.
        order: of `unit_order`.
        counts: `[n_devices, n_bands, n_layers]`.

    Reference: chen-ch6, Eq. (6.18)
    """
    total = np.zeros(counts.shape[:2])
    for layer, part in enumerate(_layers(age, [found.shape[1] for found in order])):
        worth = np.take_along_axis((part + 1.0) ** 2, order[layer], axis=1)
        prefix = np.concatenate([np.zeros((len(worth), 1)), np.cumsum(worth, axis=1)], axis=1)
        total += np.take_along_axis(prefix, counts[..., layer], axis=1)
    return total


def unit_masks(order: Sequence[Ints], counts: Ints) -> Bools:
    """The first `counts[k, l]` units in the order of every layer, `[n_rows, n_units]`."""
    masks = []
    for layer, found in enumerate(order):
        mask = np.zeros(found.shape, dtype=np.bool_)
        np.put_along_axis(mask, found, np.arange(found.shape[1]) < counts[:, layer, None], axis=1)
        masks.append(mask)
    return np.concatenate(masks, axis=1)


def _layers(per_unit: Floats | Ints, sizes: Sequence[int]) -> list[Floats]:
    return np.split(per_unit, np.cumsum(sizes)[:-1], axis=1)


# ---------------------------------------------------------------- who gets which band


class Bands(NamedTuple):
    """What a scheduler chooses from."""

    problem: Problem
    observation: Observation
    offers: BandOffers
    omega: Floats  # [n_devices, n_bands]
    n_selected: int  # per cell, if bands are no resource blocks

    def match(self, weight: Floats) -> Ints:
        """Match feasible pairs for the largest sum of weights; returns the band of every device, -1 for none."""
        worth = np.where(self.offers.feasible, weight, 0.0)
        return match(self.problem, self.observation, worth, self.n_selected)


def by_age(choice: Bands) -> Ints:
    """Match for the largest sum of `Omega`. Reference: chen-ch6, Algorithm 10"""
    return choice.match(choice.omega)


def by_keep(choice: Bands) -> Ints:
    """Match for the largest sum of keep ratios. Reference: chen-ch6, section 5.2 (PR-scheduling)"""
    return choice.match(choice.offers.keep)


def by_channel(choice: Bands) -> Ints:
    """Pick the devices with the strongest channels, then match them with bands for the largest sum of rates.

    Reference: chen-ch6, section 5.2 (C-scheduling)
    """
    chosen = choice.match(np.broadcast_to(choice.observation.gain[:, None], choice.omega.shape)) >= 0
    rate_bps = choice.offers.rate_bps
    enough = rate_bps.max(initial=0.0) * len(chosen)  # worth more than any rates, so that no chosen device is left out
    return choice.match(np.where(chosen[:, None], enough + rate_bps, 0.0))


def at_random(choice: Bands) -> Ints:
    """Draw a number for every device and pick the highest; far smaller draws decide who gets which band."""
    seed, round, shape = choice.problem.seed, choice.observation.round, choice.omega.shape
    lot = stream(seed, round, "schedule").random((shape[0], 1))
    return choice.match(lot + 1e-9 * stream(seed, round, "schedule blocks").random(shape))


SCHEDULERS: dict[str, Callable[[Bands], Ints]] = {
    "omega": by_age,
    "pr": by_keep,
    "channel": by_channel,
    "random": at_random,
}
