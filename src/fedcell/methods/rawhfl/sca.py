"""RawHFL's Algorithm 2: the allocation by successive linear programs, as printed and with a step limit.

From full clock and power with the best choice there, solve the problem linearised at the present point
(`program.program`), move, repeat; then round.

Deviation: literally iterated, the first program returns `f = 0` or `P = 0`, since tangents promise that slower stays in
time for ever; the next tangent then divides by 0. With a step limit a program may move clock and power by a share
only. What it promises is checked with the true formulas: clock and power are raised until the deadline holds, and if
that leaves a client worse off than before, it stays where it was and its step limit is halved. Every iterate is
feasible. Not a method itself: it has no `build`.

Reference: rawhfl, Algorithm 2; sections 4.3 and 4.6
"""

from typing import NamedTuple

import numpy as np

from ...types import Bools, Floats, Ints
from ..parts.client_planning.problem import (
    ROUNDING,
    Client,
    ClientPlan,
    compute_joule,
    least_clock_hz,
    least_power_watt,
    upload,
)
from .allocation import Allocation, full_speed, offers, settle
from .program import Point, program
from .selection import Cells, select

FLOOR = 1e-12  # of the highest clock and power: what is not above it counts as 0
LEAST_SHARE = 1e-6  # a client with a smaller `x` counts as not chosen
TIE = 1e-6  # weight of a client's value, which decides between clients with equal shares `x`


class Settings(NamedTuple):
    """Settings of Algorithm 2."""

    iterations: int = 50  # I
    penalty: float = 1.0  # rho
    step: float | None = 0.2  # delta, the largest relative change of clock and power; None: none, as printed
    tolerance: float = 1e-4  # relative change at which it stops
    least_power: float = 0.0  # as a share of the highest


class ScaResult(NamedTuple):
    """An allocation, and how it was reached."""

    allocation: Allocation
    iterations: int  # programs solved
    collapsed: Bools  # [n], clients that a program gave clock or power 0; the point before it was kept


class Iterate(NamedTuple):
    """A relaxed choice, and a plan of every client with real-valued steps, each `[n]`."""

    x: Floats
    steps: Floats
    cpu_hz: Floats
    power_watt: Floats

    @property
    def point(self) -> Point:
        return Point(self.x, self.x * self.steps, self.cpu_hz, self.power_watt)


def allocate_sca(client: Client, cells: Cells, theta: float, settings: Settings | None = None) -> ScaResult:
    """Allocate by Algorithm 2: iterate from full speed, round, and check the result.

    Clients that cannot take part at full speed stay out. Whole steps are the real ones rounded down, and the choice is
    that of the largest shares within the overlap limit.

    Args:
        client: limits and prices, `[n]`.
        cells: who is where, and the limits of the choice.
        theta: weight of steps against joules, in [0, 1].
        settings: of the algorithm; None: the defaults.
    """
    start = full_speed(client)
    chosen = select(offers(client, start, theta).value, cells)
    who = np.flatnonzero(cells.available & start.feasible)
    some, there = Client._make(part[who] for part in client), _only(cells, who)
    begin = (chosen[who], start.steps[who], start.cpu_hz[who], start.power_watt[who])
    first = Iterate._make(np.asarray(part, dtype=np.float64) for part in begin)
    found, iterations, lost = iterate(some, there, theta, settings or Settings(), first)
    plan = _rounded(some, found, start, who)
    final = offers(client, plan, theta)
    share, collapsed = np.full(len(chosen), -np.inf), np.zeros(len(chosen), dtype=np.bool_)
    tie = TIE / (1 + np.abs(final.value[who]).max(initial=0.0))
    share[who], collapsed[who] = found.x.round(6) + tie * final.value[who], lost
    return ScaResult(settle(final, select(share, cells), cells), iterations, collapsed)


def iterate(client: Client, cells: Cells, theta: float, settings: Settings, now: Iterate) -> tuple[Iterate, int, Bools]:
    """Solve programs and move to their solutions until nothing changes.

    Returns: the last iterate, the number of programs, and the clients `[n]` that a program gave clock or power 0.
    """
    n, checked = len(now.x), settings.step is not None
    step, lost = np.full(n, settings.step if checked else np.inf), np.zeros(n, dtype=np.bool_)
    for count in range(1, settings.iterations + 1) if n else ():
        found = program(client, cells, theta, settings.penalty, now.point, step, settings.least_power)
        if found is None:
            return now, count, lost
        lost = (found.x > LEAST_SHARE) & (
            (found.cpu_hz <= FLOOR * client.cpu_hz) | (found.power_watt <= FLOOR * client.power_watt)
        )
        if lost.any():
            return now, count, lost
        following, refused = _move(client, theta, now, found, checked)
        settled = all(np.allclose(a, b, rtol=settings.tolerance, atol=0) for a, b in zip(following, now, strict=True))
        now, step = following, np.where(refused, step / 2, step)
        if settled and (not refused.any() or step.max() < settings.tolerance):
            return now, count, lost
    return now, settings.iterations if n else 0, lost


def _move(client: Client, theta: float, now: Iterate, found: Point, checked: bool) -> tuple[Iterate, Bools]:
    """Move to the solution of a program.

    If `checked`, a client stays where it was if the true formulas make the new point worse or infeasible.

    Returns: the new iterate, and the clients `[n]` that stayed.
    """
    on = found.x > LEAST_SHARE
    steps = np.clip(np.where(on, found.load / np.where(on, found.x, 1.0), now.steps), 1, client.most_steps)
    cpu_hz, power_watt = found.cpu_hz, found.power_watt
    if checked:
        cpu_hz, power_watt = _in_time(client, steps, cpu_hz, power_watt)
        better = _value(client, theta, steps, cpu_hz, power_watt) >= _value(client, theta, *now[1:]) - ROUNDING
        good = on & better & _keeps(client, steps, cpu_hz, power_watt)
    else:
        good = on
    moved = (np.where(good, new, old) for new, old in zip((steps, cpu_hz, power_watt), now[1:], strict=True))
    return Iterate(found.x, *moved), on & ~good


def _in_time(client: Client, steps: Floats, cpu_hz: Floats, power_watt: Floats) -> tuple[Floats, Floats]:
    """Raise the clock, and if that is not enough the power, until the deadline holds."""
    upload_s = upload(client, power_watt)[0]
    cpu_hz = np.clip(np.where(np.isfinite(client.deadline_s), least_clock_hz(client, steps, upload_s), 0), cpu_hz, None)
    cpu_hz = np.minimum(cpu_hz, client.cpu_hz)
    late = client.cycles_per_step * steps / cpu_hz + upload_s > client.deadline_s
    faster = np.minimum(least_power_watt(client, steps, cpu_hz), client.power_watt)
    return cpu_hz, np.where(late, faster, power_watt)


def _value(client: Client, theta: float, steps: Floats, cpu_hz: Floats, power_watt: Floats) -> Floats:
    """What a plan is worth in the objective: `theta L - (1 - theta) e`, `[n]`."""
    spent = compute_joule(client, steps, cpu_hz) + upload(client, power_watt)[1]
    return np.asarray(theta * steps - (1 - theta) * spent)


def _keeps(client: Client, steps: Floats | Ints, cpu_hz: Floats, power_watt: Floats) -> Bools:
    """Whether deadline and budget hold."""
    upload_s, upload_joule = upload(client, power_watt)
    seconds = client.cycles_per_step * steps / cpu_hz + upload_s
    spent = compute_joule(client, steps, cpu_hz) + upload_joule
    room = 1 + ROUNDING
    return np.asarray((seconds <= client.deadline_s * room) & (spent <= client.budget_joule * room))


def _rounded(client: Client, found: Iterate, start: ClientPlan, who: Ints) -> ClientPlan:
    """Round the plan to whole steps; a client whose rounded plan breaks a limit gets its plan at full speed."""
    steps = np.maximum(np.floor(found.steps + ROUNDING), 1).astype(np.int64)
    cpu_hz, power_watt = found.cpu_hz, found.power_watt
    kept = _keeps(client, steps, cpu_hz, power_watt)
    plan = ClientPlan._make(np.array(part) for part in start)
    for whole, part in zip(plan[:3], (steps, cpu_hz, power_watt), strict=True):
        whole[who[kept]] = part[kept]
    return plan


def _only(cells: Cells, who: Ints) -> Cells:
    return cells._replace(cell=cells.cell[who], available=cells.available[who], previous=cells.previous[who])
