"""What becomes of every selected device: time, energy, bits, and whether its update arrives."""

from math import inf
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..rng import stream
from ..types import Bools, Decision, Floats, Ints, Observation, Outcome, Uplink, World
from ..units import db_to_ratio
from . import air, cost, link
from .contract import DTYPES, TOLERANCE, check_decision
from .crosstalk import disturbed, station_watt
from .downlink import WayDown, download
from .forecast import budget_joule, compute_joule, sinr, success_probability, times

Number = TypeVar("Number", np.float64, np.int64)
NEVER_S = 1e15  # an upload this long counts as having no rate at all
DELIVERED, LATE, ENERGY, OUTAGE = map(int, (Outcome.DELIVERED, Outcome.LATE, Outcome.ENERGY, Outcome.OUTAGE))


class Unhindered(NamedTuple):
    """The work of a round if nothing stopped it, `[n_selected]`."""

    compute_s: Floats
    upload_s: Floats
    compute_joule: Floats
    silent: Bools  # has something to send and no rate


class Spent(NamedTuple):
    """Time and energy of computing and sending as far as each device got, `[n_selected]`."""

    compute_s: Floats
    upload_s: Floats
    compute_joule: Floats
    radio_joule: Floats


def transmit(world: World, observation: Observation, decision: Decision, seed: int) -> Uplink:
    """Compute and send on every selected device until it is done, late, or out of energy.

    A device works through computing, then sending. It stops at the deadline, or earlier once it has
    spent `min(energy_per_round_joule, battery)`; a complete upload may still meet an outage. If the
    world draws answer times, those set the clock and the work is stretched over them; energy is that
    of the work. A device without any rate is late, or lost to outage (sending nothing) if there is no
    deadline or if `link = nr`.

    With `access = air` the devices of a cell send together, as soon as the last of those that are not late is ready, so
    the last one ends as if each sent for itself. A device that is silent, late or cannot pay for its full power sends
    nothing. Joules are those of full power until the updates are known (`air.superposed`).

    A decision may set another budget; `inf` stops nobody. All joules are counted. Batteries pay for them as far as they
    go, and an empty one keeps its device out of the next round.

    Args:
        world: settings and budgets.
        observation: this round's channels, limits and answer times.
        decision: checked here against the contract.
        seed: of the run, for the outage draw.

    Returns: costs as far as each device got; zero for devices that were not selected.
    """
    check_decision(world, observation, decision)
    measured = _measured_watt(world, observation, decision)
    observation = disturbed(world, observation, decision)
    down = download(world, observation, decision)
    selected, n_devices = np.flatnonzero(decision.selected), world.n_devices
    sends = _sends_at_once(world, observation, decision, seed)
    idle_watt, charge = observation.devices.idle_watt, observation.battery_joule
    observation, decision = _seen_by(observation, selected), _asked_of(decision, selected)  # all that follows: theirs
    budget = budget_joule(observation)
    if decision.budget_joule is not None:
        budget = np.full_like(budget, decision.budget_joule)
    heard = _listened(world, down, budget, selected, decision.deadline_s, observation.response_s is None)
    budget = budget - heard.joule
    plan = unhindered(world, observation, decision)
    plan = plan if down is None else _begun(plan, heard.never)
    plan, repeats, decoded = _with_errors(world, observation, decision, plan, selected, seed)
    if sends is not None:
        plan, decoded = plan._replace(upload_s=np.where(sends, plan.upload_s, 0.0)), sends
    waits_s = _waits_s(world, observation.topology.cell[selected], plan, heard.seconds)
    finish_s = _finish_s(observation, plan, waits_s)
    late = finish_s > heard.deadline_s * (1 + TOLERANCE)
    if link.in_vain(world, decision.deadline_s):
        late |= plan.silent
    work = _stop_at_deadline(plan, late, finish_s, decision.power_watt, heard.deadline_s, waits_s)
    work, broke = _stop_at_budget(work, budget)
    lost = plan.silent | ~_heard(world, observation, decision, selected, seed) | ~decoded
    ended_s = np.minimum(finish_s + heard.seconds, decision.deadline_s)
    costs = np.array([*work, _sent_bit(decision, plan, work, broke | late | plan.silent) * repeats, ended_s])
    compute_s, upload_s, compute_joule, radio_joule, sent_bit, end_s = _for_all(costs, selected, n_devices)
    uplink = Uplink(
        *(compute_s, upload_s, compute_joule, radio_joule, sent_bit),
        outcome=_for_all(_outcome(broke | heard.broke, late, lost), selected, n_devices),
        round_s=_round_s(world, decision, ended_s),
        end_s=end_s,
        station_watt=measured,
    )
    if sends is not None:
        uplink = _symbols_alone(uplink)
    if down is not None:
        receive_joule = _for_all(np.asarray(heard.joule), selected, n_devices)
        uplink = uplink._replace(receive_joule=receive_joule, downlink_bit=down.bit)
    return standing_by(uplink, idle_watt, charge)


def _measured_watt(world: World, observation: Observation, decision: Decision) -> Floats | None:
    """This round's interference, if the next round's schedulers learn it (`forecast = last`); None otherwise."""
    if observation.gains is None or world.settings.forecast != "last":
        return None
    return station_watt(world, observation, decision)


def standing_by(uplink: Uplink, idle_watt: Floats | None, charge_joule: Floats) -> Uplink:
    """The uplink with `idle_joule`: what every device draws while the round lasts, as far as its battery goes."""
    if idle_watt is None:
        return uplink
    left = np.maximum(charge_joule - uplink.spent_joule, 0.0)
    return uplink._replace(idle_joule=np.minimum(idle_watt * uplink.round_s, left))


def mark_invalid(uplink: Uplink, devices: Ints) -> Uplink:
    """The same uplink with those of `devices` that delivered marked as having sent unusable numbers."""
    if not len(devices):
        return uplink
    named = np.zeros(len(uplink.outcome), dtype=np.bool_)
    named[devices] = True
    return uplink._replace(outcome=np.where(named & uplink.delivered, int(Outcome.INVALID), uplink.outcome))


def _seen_by(observation: Observation, devices: Ints) -> Observation:
    """The observation of some devices only, in the parts that uploads depend on."""
    response_s = observation.response_s
    return observation._replace(
        gain=observation.gain[devices],
        mean_gain=observation.mean_gain[devices],
        response_s=None if response_s is None else response_s[devices],
        devices=observation.devices.some(devices),
        battery_joule=observation.battery_joule[devices],
        interference_watt=observation.interference_watt
        if observation.interference_watt.ndim == 1
        else observation.interference_watt[devices],
    )


def _asked_of(decision: Decision, devices: Ints) -> Decision:
    """The decision for some devices only."""
    return decision._replace(**{name: getattr(decision, name)[devices] for name in DTYPES})


def _for_all(part: NDArray[Number], devices: Ints, n_devices: int) -> NDArray[Number]:
    """Spread the values of some devices over all, `[..., n_devices]`, with zeros for the others."""
    every = np.zeros((*part.shape[:-1], n_devices), dtype=part.dtype)
    every[..., devices] = part
    return every


def unhindered(world: World, observation: Observation, decision: Decision) -> Unhindered:
    """Times and energies of the decided work if no deadline or budget ended it."""
    compute_s, upload_s = times(world, observation, decision)
    silent = upload_s > NEVER_S
    upload_s = np.where(silent, inf if link.in_vain(world, decision.deadline_s) else 0.0, upload_s)
    return Unhindered(compute_s, upload_s, compute_joule(observation, decision), silent)


def _with_errors(
    world: World, observation: Observation, decision: Decision, plan: Unhindered, devices: Ints, seed: int
) -> tuple[Unhindered, float | Floats, Bools]:
    """(The work stretched by drawn retransmissions, how often each bit was sent, which uploads were decoded)."""
    if world.settings.link == "shannon":
        return plan, 1.0, np.ones(len(devices), dtype=np.bool_)
    quality = sinr(world, observation, decision)
    band, payload, round = decision.bandwidth_hz, decision.payload_bit, observation.round
    longer, repeats, decoded = link.played(world, band, quality, payload, devices, seed, round)
    upload_s = np.multiply(plan.upload_s, longer, out=plan.upload_s.copy(), where=~plan.silent)
    return plan._replace(upload_s=upload_s), repeats, decoded


class Listened(NamedTuple):
    """What listening takes and what it leaves of the round; it takes nothing in a world without a way down."""

    seconds: float | Floats
    joule: float | Floats
    deadline_s: float | Floats  # seconds that are left
    broke: Bools  # ran out of energy before the model was there
    never: Bools  # cannot be reached and does not wait for the deadline: it does nothing


def _begun(plan: Unhindered, never: Bools) -> Unhindered:
    """The plan in which devices that are never reached (`never`) compute and send nothing."""
    if not never.any():
        return plan
    compute_s, upload_s, joule = (np.where(never, 0.0, part) for part in plan[:3])
    return Unhindered(compute_s, upload_s, joule, plan.silent | never)


def _listened(
    world: World, down: WayDown | None, budget: Floats, devices: Ints, deadline_s: float, timed: bool
) -> Listened:
    """Listening of the selected devices. `timed`: it takes time of the round; else drawn answer times include it."""
    nobody = np.zeros(len(devices), dtype=np.bool_)
    if down is None:
        return Listened(0.0, 0.0, deadline_s, nobody, nobody)
    seconds, joule = down.seconds[devices], down.joule[devices]
    endless = np.isinf(seconds)
    never = nobody if link.in_vain(world, deadline_s) else endless
    seconds = np.where(never, 0.0, seconds)
    cut = _share(np.minimum(seconds, deadline_s), seconds)  # nobody listens beyond the deadline
    joule = joule * np.where((seconds > 0) & ~endless, cut, 1.0)
    broke = joule > budget * (1 + TOLERANCE)
    if not timed:
        return Listened(0.0, np.minimum(joule, budget), deadline_s, broke, never)
    return Listened(seconds, np.minimum(joule, budget), np.maximum(deadline_s - seconds, 0.0), broke, never)


def _waits_s(world: World, cell: Ints, plan: Unhindered, heard_s: float | Floats) -> Floats | None:
    """How long each device waits for its turn: the first to be ready in a cell sends first; None without turns."""
    if world.settings.access != "tdma" or world.settings.response != "computed":
        return None
    start_s = plan.compute_s + heard_s
    waits = np.zeros(len(cell))
    for number in np.unique(cell):
        here = np.flatnonzero((cell == number) & ~plan.silent)
        here = here[np.argsort(start_s[here], kind="stable")]
        ready, upload = start_s[here], plan.upload_s[here]
        before = np.cumsum(upload) - upload
        waits[here] = np.maximum.accumulate(ready - before) + before - ready
    return waits


def _sends_at_once(world: World, observation: Observation, decision: Decision, seed: int) -> Bools | None:
    """Which selected devices send over the air, `[n_selected]`; None in a world where each sends for itself."""
    if world.settings.access != "air":
        return None
    gain = air.combined_gain(world, observation, decision, seed)
    return air.strong_enough(world, decision.power_watt, gain, observation.mean_gain)[decision.selected]


def _symbols_alone(uplink: Uplink) -> Uplink:
    """The uplink of sums over the air: symbols are no bits, and only devices in a sum spend time and energy on them."""
    upload_s, joule = (np.where(uplink.delivered, part, 0.0) for part in (uplink.upload_s, uplink.radio_joule))
    return uplink._replace(upload_s=upload_s, radio_joule=joule, sent_bit=np.zeros_like(upload_s))


def _finish_s(observation: Observation, plan: Unhindered, waits_s: Floats | None) -> Floats:
    if observation.response_s is not None:
        return observation.response_s
    busy_s = plan.compute_s + plan.upload_s
    return busy_s if waits_s is None else busy_s + waits_s


def _stop_at_deadline(
    plan: Unhindered,
    late: Bools,
    finish_s: Floats,
    power_watt: Floats,
    deadline_s: float | Floats,
    waits_s: Floats | None,
) -> Spent:
    """Cut the work of late devices at the deadline, read on each device's own time line."""
    if not late.any():
        return Spent(
            plan.compute_s,
            plan.upload_s,
            plan.compute_joule,
            cost.upload_joule(power_watt, plan.upload_s),
        )
    busy_s = plan.compute_s + plan.upload_s
    end_s = np.full_like(busy_s, deadline_s)
    done = np.divide(end_s, finish_s, out=np.ones_like(busy_s), where=late & (finish_s > end_s))
    stop_s = np.where(late, np.multiply(busy_s, done, out=end_s, where=np.isfinite(busy_s)), inf)
    if waits_s is not None:  # turns: a device computes, waits, sends
        stop_s = np.where(late, deadline_s, inf)
    computing_s = np.minimum(stop_s, plan.compute_s)
    sending_s = np.clip(stop_s - plan.compute_s - (0.0 if waits_s is None else waits_s), 0.0, plan.upload_s)
    return Spent(
        computing_s,
        sending_s,
        plan.compute_joule * _share(computing_s, plan.compute_s),
        cost.upload_joule(power_watt, sending_s),
    )


def _stop_at_budget(work: Spent, budget: Floats) -> tuple[Spent, Bools]:
    """Cut the work where its energy budget ends, and say which devices were cut."""
    if (budget == inf).all():
        return work, np.zeros(len(budget), dtype=np.bool_)
    broke = work.compute_joule + work.radio_joule > budget * (1 + TOLERANCE)
    computing_joule = np.minimum(work.compute_joule, budget)
    sending_joule = np.minimum(work.radio_joule, budget - computing_joule)
    computing_s = np.where(broke, work.compute_s * _share(computing_joule, work.compute_joule), work.compute_s)
    sending_s = np.where(broke, work.upload_s * _share(sending_joule, work.radio_joule), work.upload_s)
    return Spent(computing_s, sending_s, computing_joule, sending_joule), broke


def _share(part: Floats, whole: Floats) -> Floats:
    """`part / whole`, and 0 if there is nothing to share."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _heard(world: World, observation: Observation, decision: Decision, devices: Ints, seed: int) -> Bools:
    """Which uploads the channel lets through; one uniform number per device decides, or the round's own fading."""
    if world.settings.outage_threshold_db is None:
        return np.ones(len(devices), dtype=np.bool_)
    if world.settings.outage == "same_fading":
        return np.asarray(sinr(world, observation, decision) >= db_to_ratio(world.settings.outage_threshold_db))
    chance = success_probability(world, observation, decision)
    return np.asarray(stream(seed, observation.round, "outage").random(world.n_devices)[devices] < chance)


def _sent_bit(decision: Decision, plan: Unhindered, work: Spent, cut: Bools) -> Floats:
    if not cut.any():
        return decision.payload_bit
    return np.asarray(decision.payload_bit * np.where(cut, _share(work.upload_s, plan.upload_s), 1.0))


def _outcome(broke: Bools, late: Bools, lost: Bools) -> Ints:
    """The outcome of each device: out of energy, else late, else lost to outage, else delivered."""
    outcome = np.full(len(lost), DELIVERED, dtype=np.int64)
    for mask, fate in ((lost, OUTAGE), (late, LATE), (broke, ENERGY)):
        outcome[mask] = fate
    return outcome


def _round_s(world: World, decision: Decision, ended_s: Floats) -> float:
    if decision.round_s is not None:
        return float(decision.round_s)
    if world.settings.clock == "deadline":
        return float(decision.deadline_s)
    return float(ended_s.max(initial=0.0))
