"""Who trains under energy budgets, and with which band and power: everyone chosen sends until the deadline.

Sending slower costs less, so a device uses all the time that computing leaves, `T_k = T_max - T_k^L`, and needs the
power `(s B N0 / h) (2^(Q / (T_k s B)) - 1)` for a share `s` of the band. Shares are those of least weighted energy.

If a cell sends in turn, all slots lie in the time `W` that is left once everyone chosen has computed. A slot of
`s W` on the whole band costs what a share `s` of the band costs over all of `W`, with the power `(B N0 / h)
(2^(Q / (W s B)) - 1)`, so the same shares cost least. `W` begins when a share of the cell's devices has computed: that
of `STARTS` which is worth most. Not a method itself: it has no `build`.

Reference: chen-ch4, sections 4.2 to 4.4 and 5
"""

from typing import NamedTuple

import numpy as np

from ... import radio
from ...radio.forecast import as_on_shannon, compute_joule, density_watt_per_hz, room
from ...radio.link import HOPELESS
from ...solve.energy_bandwidth import effort, least_energy_shares, least_share
from ...types import Bools, Decision, Floats, Ints, Observation, Problem

SMALL_QUEUE = 1e-6  # joules, stands for an empty queue when the band is shared by queues
STARTS = (0.25, 0.5, 0.75, 0.9, 1.0)  # shares of a cell's devices that have computed when slots begin


class Offer(NamedTuple):
    """What the devices of one band have to do and may spend; `[n]` each, except the two flags."""

    compute_joule: Floats
    send_s: Floats  # what the deadline leaves, T_k
    load: Floats  # bits times ln 2 over `send_s` and the whole band, a_k
    noise_watt: Floats  # noise in the whole band over the channel gain
    power_watt: Floats  # most that it can send with
    least: Floats  # share at which it needs all its power; infinite if it cannot take part
    limit_joule: Floats  # most that it may spend in this round
    shared: bool = True  # whether shares add up to one, or each has a band of its own
    in_turn: bool = False  # whether shares are slots of `send_s`, on the whole band


class Grant(NamedTuple):
    """Who was chosen, and what each gets; `[n_chosen]` each."""

    device: Ints  # places in the offer
    share: Floats
    power_watt: Floats
    joule: Floats  # of computing and sending


# ---------------------------------------------------------------- what devices offer


def starts_s(problem: Problem, observation: Observation, draft: Decision, at: Ints) -> Floats:
    """When the slots of a cell may begin, if its devices `at` send in turn."""
    ready = ready_s(problem, observation, draft)[at]
    ready = ready[observation.available[at] & (ready < draft.deadline_s)]
    return np.unique(np.quantile(ready, STARTS, method="higher")) if len(ready) else np.array([draft.deadline_s])


def ready_s(problem: Problem, observation: Observation, draft: Decision) -> Floats:
    """When every device has got the model and computed, `[n_devices]`."""
    left = room(problem.world, observation, draft._replace(selected=observation.available))
    return np.asarray(draft.deadline_s - left.deadline_s + radio.times(problem.world, observation, draft)[0])


def offer_of(
    problem: Problem,
    observation: Observation,
    draft: Decision,
    spendable_joule: Floats,
    at: Ints,
    start_s: float | None = None,
) -> Offer:
    """The offer of the devices `at`, which share one band.

    Args:
        problem: the world with its noise and bands.
        observation: this round's channels, hardware and charge.
        draft: steps, clocks, payloads and the deadline.
        spendable_joule: `[n_devices]`, beside the limits of round and battery.
        at: device numbers.
        start_s: when the first of them sends, if they do so in turn; those who are not ready by then stay out.
    """
    settings = problem.world.settings
    noise = np.broadcast_to(density_watt_per_hz(problem.world, observation), observation.gain.shape)[at]
    left = room(problem.world, observation, draft._replace(selected=observation.available))
    send_s = (left.deadline_s - radio.times(problem.world, observation, draft)[0])[at]
    if start_s is not None:
        in_time = ready_s(problem, observation, draft)[at] <= start_s
        send_s = np.where(in_time, draft.deadline_s - start_s, 0.0)
    whole = draft._replace(bandwidth_hz=np.full(len(observation.gain), settings.bandwidth_hz))
    payload_bit = as_on_shannon(problem.world, observation, whole).payload_bit[at]
    reachable = payload_bit < HOPELESS * draft.payload_bit[at]
    able = (send_s > 0) & (observation.gain[at] > 0) & observation.available[at] & reachable
    time_s, gain = np.where(able, send_s, 1.0), np.where(able, observation.gain[at], 1.0)
    load = np.where(able, payload_bit, draft.payload_bit[at]) * np.log(2.0) / (time_s * settings.bandwidth_hz)
    noise_watt, power = noise * settings.bandwidth_hz / gain, observation.devices.power_watt[at]
    return Offer(
        compute_joule=compute_joule(observation, draft)[at],
        send_s=time_s,
        load=load,
        noise_watt=noise_watt,
        power_watt=power,
        least=np.where(able, _least(load, power / noise_watt, start_s is not None), np.inf),
        limit_joule=np.minimum(left.budget_joule, spendable_joule)[at],
        shared=settings.access in ("fdma", "tdma"),
        in_turn=start_s is not None,
    )


def _least(load: Floats, reach: Floats, in_turn: bool) -> Floats:
    """The share, of the band or of the time, at which a load needs all the power there is."""
    if not in_turn:
        return least_share(load, reach)
    return np.divide(load, np.log1p(reach), out=np.full_like(load, np.inf), where=reach > 0)


def feasible(offer: Offer) -> Bools:
    """Who could send in time with the whole band."""
    return np.asarray(offer.least <= 1.0)


def cost_joule(offer: Offer, share: float | Floats, device: Ints | None = None) -> Floats:
    """`E_k` of computing, and of sending with a share of the band until the deadline at any power that takes.

    Reference: chen-ch4, Eqs. (4.11), (4.13)
    """
    at = slice(None) if device is None else device
    sending = offer.noise_watt[at] * effort(offer.load[at], np.asarray(share)) * offer.send_s[at]
    return np.asarray(offer.compute_joule[at] + sending)


# ---------------------------------------------------------------- band and power of a given set


def allocate(offer: Offer, weight: Floats, device: Ints, zero: str = "shared") -> Grant | None:
    """Band and power of a set of devices that cost least; None if the band is too small for them.

    Args:
        offer: of the devices.
        weight: `[n]`, of a joule of each device: its queue, `q_k`.
        device: places in the offer.
        zero: what a device of weight 0 gets: `shared`, as if it had a small one; `least`, the least, at full power.

    Reference: chen-ch4, Algorithm 5
    """
    least = offer.least[device]
    if not (least.sum() if offer.shared else least.max(initial=0.0)) <= 1.0:
        return None
    share = np.ones_like(least)
    if offer.shared:
        # Deviation: the source gives devices with an empty queue the least share, which wastes band and power.
        share = _shares(offer, np.maximum(weight[device], SMALL_QUEUE if zero == "shared" else 0.0), device)
    busy = share if offer.in_turn else 1.0  # share of the time in which a device sends
    power = np.minimum(offer.noise_watt[device] * effort(offer.load[device], share) / busy, offer.power_watt[device])
    return Grant(device, share, power, offer.compute_joule[device] + power * offer.send_s[device] * busy)


def _shares(offer: Offer, weight: Floats, device: Ints) -> Floats:
    """Least-energy shares of those with a weight, in what the others leave."""
    share, heavy = offer.least[device].copy(), weight > 0
    if heavy.any():
        some = device[heavy]
        price = offer.noise_watt[some] * weight[heavy] * offer.send_s[some]
        share[heavy] = least_energy_shares(offer.load[some], price, share[heavy], 1.0 - share[~heavy].sum()).share
    return share


def within_limits(offer: Offer, weight: Floats, device: Ints, zero: str = "shared") -> Grant:
    """Allocate, dropping devices that cannot pay until all can; with fewer devices nobody pays more."""
    while True:
        grant = allocate(offer, weight, device, zero)
        assert grant is not None, "a part of a set that fits the band fits, too"
        over = grant.joule > offer.limit_joule[device]
        if not over.any():
            return grant
        device = device[~over]


# ---------------------------------------------------------------- who


def by_queues(offer: Offer, queue: Floats, reward: Floats, zero: str = "shared") -> Grant:
    """The set that trades reward for weighted energy best, among those that grow in the order of their estimated worth.

    `Y(S) = -sum R_k + sum q_k E_k(S)` over prefixes of the order of `-R_k + q_k E_k` with a share of `1 / n`; growing
    ends when the band is full or a newcomer costs more than it brings. The empty set has `Y = 0`.

    Args:
        offer: of all devices.
        queue: `[n]`, joules over the budget so far, `q_k`.
        reward: `[n]`, `R_k = V gamma_t D_k`.
        zero: as for `allocate`.

    Reference: chen-ch4, Algorithm 6
    """
    estimate = cost_joule(offer, 1.0 / len(queue) if offer.shared else 1.0)
    payable = feasible(offer) & (cost_joule(offer, 1.0) <= offer.limit_joule)
    worth = -reward + np.multiply(queue, estimate, out=np.zeros_like(queue), where=queue > 0)
    order = np.argsort(worth, kind="stable")
    order = order[payable[order]]
    best = order[: best_prefix(offer, queue, reward, order, zero)]
    return within_limits(offer, queue, best, zero)


def best_prefix(offer: Offer, queue: Floats, reward: Floats, order: Ints, zero: str = "shared") -> int:
    """How many of `order` are in the prefix of least `Y`; the result is that of trying one prefix after another.

    A device's share falls, and its energy rises, with every newcomer. So what it pays in the longest prefix is the most
    it pays in any, and computing alone the least; only prefixes that these bounds leave open are allocated.
    """
    q, reward = queue[order], reward[order]
    floor = -reward + q * offer.compute_joule[order]
    n = _longest(offer, order, floor)
    longest = allocate(offer, queue, order[:n], zero)
    assert longest is not None, "the band holds it"
    ceiling = -reward[:n] + q[:n] * longest.joule
    n = _first_stop(offer, queue, reward, order, np.flatnonzero(ceiling > 0), n, zero)
    best = min(0.0, float(np.cumsum(ceiling[:n]).min(initial=0.0)))
    rounding = 1e-12 * float(np.abs(reward[:n]).sum())
    open_ = np.flatnonzero(np.cumsum(floor[:n]) <= best + rounding)
    tried = {0: 0.0} | {int(k) + 1: value(offer, queue, reward, order[: k + 1], zero) for k in open_}
    return min(tried, key=lambda size: (tried[size], size))


def _longest(offer: Offer, order: Ints, floor: Floats) -> int:
    """The longest prefix that may be tried: the band holds it, and nobody in it costs too much by computing alone."""
    least = offer.least[order]
    full = np.cumsum(least) > 1.0 if offer.shared else np.zeros(len(order), dtype=np.bool_)
    stops = np.flatnonzero(full | (floor > 0))
    return int(stops[0]) if len(stops) else len(order)


def _first_stop(offer: Offer, queue: Floats, reward: Floats, order: Ints, doubtful: Ints, n: int, zero: str) -> int:
    """The first of the doubtful newcomers that costs more than it brings in its own prefix; `n` if none does."""
    for place in doubtful:
        grant = allocate(offer, queue, order[: place + 1], zero)
        assert grant is not None, "the band holds it"
        if -reward[place] + queue[order[place]] * grant.joule[-1] > 0:
            return int(place)
    return n


def value(offer: Offer, queue: Floats, reward: Floats, device: Ints, zero: str = "shared") -> float:
    """`Y(S)`; `reward` in the order of `device`. Reference: chen-ch4, Eq. (4.22)"""
    grant = allocate(offer, queue, device, zero)
    assert grant is not None, "the band holds it"
    return float((-reward[: len(device)] + queue[device] * grant.joule).sum())


def in_turns(offer: Offer, times: Ints, n_selected: int) -> Grant:
    """Choose the devices chosen least often so far, among those that can pay for an equal share.

    Reference: chen-ch4, section 5 (Round Robin)
    """
    estimate = cost_joule(offer, 1.0 / n_selected if offer.shared else 1.0)
    order = np.lexsort((np.arange(len(times)), times))
    order = order[(feasible(offer) & (estimate <= offer.limit_joule))[order]][:n_selected]
    return within_limits(offer, np.ones(len(times)), order[: _fitting(offer, order)])


def by_allowance(offer: Offer, allowance_joule: Floats) -> Grant:
    """Choose all whose estimated cost is within the allowance of the round, the cheapest first, while the band lasts.

    Reference: chen-ch4, section 5 (Adaptive Myopic)
    """
    offer = offer._replace(limit_joule=np.minimum(offer.limit_joule, allowance_joule))
    estimate = cost_joule(offer, 1.0 / len(allowance_joule) if offer.shared else 1.0)
    order = np.argsort(estimate, kind="stable")
    order = order[(feasible(offer) & (estimate <= offer.limit_joule))[order]]
    return within_limits(offer, np.ones(len(allowance_joule)), order[: _fitting(offer, order)])


def _fitting(offer: Offer, order: Ints) -> int:
    return _longest(offer, order, np.full(len(order), -1.0))
