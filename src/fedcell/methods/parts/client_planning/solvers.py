"""Solvers of the client problem: the paper's alternation over the three variables, and an exact one.

Alternation ends after one pass: the clock makes the deadline tight, so the least power is the power it started
from. The start point therefore decides the power, and with it who is a straggler. `exact` looks for the cheapest way
to do a number of steps instead, and does as many as the budget buys. Not a method itself: it has no `build`.

Deviation: without a deadline slower is always cheaper and no best clock or power exists; they stay at the start point.

Reference: osafl, Algorithms 1 and 3; section 4.3, facts 3, 4 and 7
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from ....solve.sca import successive_linear
from ....solve.scalar import convex_minimum, largest
from ....types import Bools, Floats, Ints
from .problem import (
    LN2,
    ROUNDING,
    Client,
    ClientPlan,
    Limit,
    compute_joule,
    efficiency_tangent,
    energy_tangent,
    least_clock_hz,
    least_power_watt,
    most_steps,
    power_for,
    step_limits,
    upload,
)

LEAST_CLOCK_HZ = 1.0  # a slower one is no clock
PowerBlock = Callable[[Client, Ints, Floats, Floats], Floats]  # client, steps, clock, present power -> power


class Cheapest(NamedTuple):
    """The way to do a number of steps that costs least energy, each `[n]`."""

    upload_s: Floats
    joule: Floats
    possible: Bools  # in time and within the budget


def closed_power(client: Client, steps: Ints, cpu_hz: Floats, power_watt: Floats) -> Floats:
    """The power block in closed form: the least power that meets the deadline."""
    return least_power_watt(client, steps, cpu_hz)


def sca_power(
    client: Client,
    steps: Ints,
    cpu_hz: Floats,
    power_watt: Floats,
    *,
    epsilon: float = 0.5,
    iterations: int = 10,
    tolerance: float = 1e-6,
) -> Floats:
    """The power block by successive convex approximation; infinite if it finds nothing.

    Args:
        client: limits and prices.
        steps, cpu_hz: the other two variables.
        power_watt: where to linearise first, above 0.
        epsilon: weight of computing in the objective, which changes nothing.
        iterations, tolerance: when to stop.

    Reference: osafl, Algorithm 3
    """

    def weighed(p: Floats) -> tuple[Floats, Floats]:
        value, slope = efficiency_tangent(client, p)
        return (1 - epsilon) * value, (1 - epsilon) * slope

    least = least_power_watt(client, steps, cpu_hz)
    with np.errstate(all="ignore"):  # clients without a channel or a budget
        found = successive_linear(
            weighed,
            partial(energy_tangent, client),
            client.budget_joule * (1 + ROUNDING) - compute_joule(client, steps, cpu_hz),
            least,
            client.power_watt * (1 + ROUNDING),
            power_watt,
            iterations=iterations,
            tolerance=tolerance,
        )
    return np.where(found.feasible, found.x, np.inf)


def alternate(
    client: Client,
    cpu_hz: Floats,
    power_watt: Floats,
    power_block: PowerBlock = closed_power,
    *,
    passes: int = 10,
    tolerance: float = 1e-6,
) -> ClientPlan:
    """Steps, clock and power in turn until nothing moves.

    Args:
        client: limits and prices.
        cpu_hz, power_watt: the start point, above 0.
        power_block: how the power is found.
        passes: most passes.
        tolerance: relative change of clock and power that counts as none.

    Reference: osafl, Algorithm 1
    """
    plan = ClientPlan(np.zeros_like(client.most_steps), cpu_hz, power_watt, np.zeros_like(client.most_steps))
    for _ in range(passes):
        following = _one_pass(client, plan, power_block)
        moved = (np.abs(following.cpu_hz - plan.cpu_hz) > tolerance * plan.cpu_hz) | (
            np.abs(following.power_watt - plan.power_watt) > tolerance * plan.power_watt
        )
        plan = following
        if not (moved & plan.feasible).any():
            break
    return plan


def exact(
    client: Client,
    cpu_hz: Floats,
    power_watt: Floats,
    step_worth_joule: float = np.inf,
    least_power: float | Floats = 0.0,
) -> ClientPlan:
    """As many steps as can be paid for and are worth it, each number of them done at the least energy.

    For `kappa` steps and an upload of `tau` seconds the energy is convex in `tau`,
    `E(tau) = tau / a (2^{S / (omega tau)} - 1) + v/2 (c kappa)^3 / (t_th - tau)^2`,
    between the upload at full power and what full clock leaves. A plan exists iff its least value is in the budget.
    That value is convex in `kappa`, so steps are added while the next costs at most `step_worth_joule`.

    Args:
        client: limits and prices.
        cpu_hz, power_watt: used by clients without a deadline only.
        step_worth_joule: the most that a step beyond the first may add to the least energy.
        least_power: lowest power of a plan as a share of the highest, in [0, 1].

    Reference: osafl, section 4.3, fact 7; rawhfl, section 4.4
    """
    timed = np.isfinite(client.deadline_s)
    shortest_s = upload(client, client.power_watt)[0]
    reachable = timed & (shortest_s < client.deadline_s)
    bounded = client._replace(deadline_s=np.where(timed, client.deadline_s, 1.0))
    least_s = np.where(reachable, shortest_s, 0.5 * bounded.deadline_s)
    most_s = np.maximum(upload(client, least_power * client.power_watt)[0], least_s)

    def holds(k: Ints) -> Bools:
        found = cheapest(bounded, k, least_s, most_s)
        if step_worth_joule == np.inf:
            return found.possible & reachable
        before = cheapest(bounded, np.maximum(k - 1, 1), least_s, most_s)
        with np.errstate(invalid="ignore"):  # if neither is possible both are infinite
            return found.possible & reachable & (found.joule - before.joule <= step_worth_joule)

    steps = largest(holds, np.where(reachable, client.most_steps, 0))
    upload_s = cheapest(bounded, np.maximum(steps, 1), least_s, most_s).upload_s
    plan = ClientPlan(
        steps=steps,
        cpu_hz=_clip_clock(client, client.cycles_per_step * steps / (bounded.deadline_s - upload_s)),
        power_watt=np.minimum(power_for(client, upload_s), client.power_watt),
        limit=_why_not(bounded, steps, shortest_s),
    )
    if timed.all():
        return plan
    free = alternate(client, cpu_hz, power_watt)
    worth = compute_joule(client, 1.0, free.cpu_hz) <= step_worth_joule
    free = free._replace(steps=np.where(worth, free.steps, np.minimum(free.steps, 1)))
    return ClientPlan(*(np.where(timed, mine, other) for mine, other in zip(plan, free, strict=True)))


def _one_pass(client: Client, plan: ClientPlan, power_block: PowerBlock) -> ClientPlan:
    """Algorithm 1, lines 3 to 10, for all clients; the first limit a client ever met stays."""
    f, p = plan.cpu_hz, plan.power_watt
    upload_s, upload_joule = upload(client, p)
    by_energy, by_time = step_limits(client, f, p)
    steps = most_steps(client, by_energy, by_time)
    timed = np.isfinite(client.deadline_s)
    wanted_hz = np.where(timed, least_clock_hz(client, steps, upload_s), f)
    clock = _clip_clock(client, wanted_hz)
    power = np.where(timed, power_block(client, steps, clock, p), p)
    in_time = _in_time_at_full_power(client, steps, clock)
    power = np.where(in_time, np.minimum(power, client.power_watt), power)
    spent_joule = compute_joule(client, steps, clock) + upload(client, np.where(np.isfinite(power), power, p))[1]
    limit = np.select(
        [
            plan.limit != Limit.NONE,
            upload_s >= client.deadline_s,
            (upload_joule > client.budget_joule) | ((steps < 1) & (by_energy < by_time)),
            (steps < 1) | (wanted_hz > client.cpu_hz * (1 + ROUNDING)),
            ~in_time,
            ~(spent_joule <= client.budget_joule * (1 + ROUNDING)) | ~np.isfinite(power),
        ],
        [plan.limit, Limit.TIME, Limit.ENERGY, Limit.CPU, Limit.POWER, Limit.ENERGY],
        Limit.NONE,
    ).astype(np.int64)
    on = limit == Limit.NONE
    return ClientPlan(np.where(on, steps, 0), np.where(on, clock, f), np.where(on, power, p), limit)


def _in_time_at_full_power(client: Client, steps: Ints, cpu_hz: Floats) -> Bools:
    """Whether full power meets the deadline; compares seconds, where rounding is harmless, rather than powers."""
    total_s = client.cycles_per_step * steps / cpu_hz + upload(client, client.power_watt)[0]
    return np.asarray(total_s <= client.deadline_s * (1 + ROUNDING))


def _clip_clock(client: Client, cpu_hz: Floats) -> Floats:
    return np.minimum(np.maximum(cpu_hz, LEAST_CLOCK_HZ), client.cpu_hz)


def cheapest(client: Client, steps: Ints, shortest_s: Floats, slowest_s: Floats) -> Cheapest:
    """The upload time at which `steps` cost least, what they cost, and whether they can be done at all.

    Args:
        client: limits and prices, with a finite deadline.
        steps: at least 1.
        shortest_s, slowest_s: of the upload, at the highest and at the lowest power; above 0.
    """
    cycles = client.cycles_per_step * steps
    longest_s = client.deadline_s - cycles / client.cpu_hz
    fits = shortest_s <= longest_s + ROUNDING * client.deadline_s
    effort = 2 * client.capacitance * cycles**3

    def slope(tau: Floats) -> Floats:
        y, left_s = nats / tau, client.deadline_s - tau
        return effort / (left_s * left_s * left_s) - (np.exp(y) * (y - 1) + 1) / client.snr_per_watt

    with np.errstate(all="ignore"):  # clients without a channel or without time are masked by `fits`
        nats = LN2 * client.payload_bit / client.bandwidth_hz
        most_s = np.where(fits, np.minimum(longest_s, slowest_s), shortest_s)
        upload_s = convex_minimum(slope, np.minimum(shortest_s, most_s), most_s)
        upload_s = np.maximum(upload_s, shortest_s)
        joule = upload_s * power_for(client, upload_s) + compute_joule(
            client, steps, cycles / (client.deadline_s - upload_s)
        )
    return Cheapest(upload_s, joule, fits & (joule <= client.budget_joule * (1 + ROUNDING)))


def _why_not(client: Client, steps: Ints, shortest_s: Floats) -> Ints:
    """Why no plan has a single step: the power, the clock, or else the energy."""
    left_s = client.deadline_s * (1 + ROUNDING) - shortest_s
    return np.select(
        [steps >= 1, left_s <= 0, client.cycles_per_step / client.cpu_hz > left_s],
        [Limit.NONE, Limit.POWER, Limit.CPU],
        Limit.ENERGY,
    ).astype(np.int64)
