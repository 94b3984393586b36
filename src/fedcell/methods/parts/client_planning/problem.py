"""The problem a client solves in every round: how many steps, at which clock, sent with which power.

    max_{kappa, f, p}  eps kappa / (v/2 c f^2) + (1 - eps) R(p) / p
    s.t. kappa <= kappa_max, f <= f_max, p <= p_max, e_cp + e_up <= e_bd, t_cp + t_up <= t_th

with `t_cp = c kappa / f`, `e_cp = v/2 c kappa f^2`, `R(p) = omega log2(1 + a p)`, `t_up = S / R`, `e_up = p t_up`.
Each variable has a closed form given the other two; the joint optimum is degenerate (it has the fewest steps).
Every entry of an array is one client. Not a method itself: it has no `build`.

Reference: osafl, Eqs. (5)-(13)
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from ....radio import cost, rate
from ....types import Bools, Floats, Ints

ROUNDING = 1e-9  # what an upload is granted beyond deadline and budget
LARGEST_EXPONENT = 60.0  # bits per second and hertz beyond which no power suffices
LN2 = np.log(2.0)


class Client(NamedTuple):
    """Limits and prices, each `[n]`."""

    snr_per_watt: Floats  # a = gain / noise in the band
    bandwidth_hz: Floats  # omega
    payload_bit: Floats  # S
    cycles_per_step: Floats  # c
    capacitance: Floats  # v / 2: joules = capacitance * cycles * hertz^2
    most_steps: Ints  # kappa_max
    cpu_hz: Floats  # f_max
    power_watt: Floats  # p_max
    budget_joule: Floats  # e_bd
    deadline_s: Floats  # t_th


class Limit(IntEnum):
    """Why a client cannot take part."""

    NONE = 0
    TIME = 1  # the upload alone misses the deadline at the power of the plan
    ENERGY = 2  # the upload, or it and one step, cost more than the budget
    POWER = 3  # meeting the deadline needs more than the highest power
    CPU = 4  # one step does not fit beside the upload at the clock of the plan


class ClientPlan(NamedTuple):
    """What every client does; those with a limit do nothing."""

    steps: Ints
    cpu_hz: Floats
    power_watt: Floats
    limit: Ints  # Limit codes

    @property
    def feasible(self) -> Bools:
        return np.asarray(self.limit == Limit.NONE)


# ---------------------------------------------------------------- prices


def upload(client: Client, power_watt: Floats) -> tuple[Floats, Floats]:
    """Seconds and joules of sending; both infinite without a rate."""
    seconds = cost.upload_s(client.payload_bit, rate.rate_bps(client.bandwidth_hz, client.snr_per_watt * power_watt))
    joule = np.full_like(seconds, np.inf)
    return seconds, np.multiply(power_watt, seconds, out=joule, where=np.isfinite(seconds))


def compute_joule(client: Client, steps: Ints | Floats | float, cpu_hz: Floats) -> Floats:
    """`v/2 c kappa f^2`."""
    return cost.compute_joule(client.cycles_per_step * steps, cpu_hz, client.capacitance)


# ---------------------------------------------------------------- one variable given the other two


def step_limits(client: Client, cpu_hz: Floats, power_watt: Floats) -> tuple[Floats, Floats]:
    """Real-valued steps that energy and time allow, `J1 = (e_bd - e_up) / (v/2 c f^2)`, `J2 = f (t_th - t_up) / c`.

    Reference: osafl, Eq. (7), Lemma 1
    """
    upload_s, upload_joule = upload(client, power_watt)
    return (
        _fit(client.budget_joule, upload_joule, compute_joule(client, 1.0, cpu_hz)),
        _fit(client.deadline_s, upload_s, client.cycles_per_step / cpu_hz),
    )


def most_steps(client: Client, by_energy: Floats, by_time: Floats) -> Ints:
    """`floor(min(kappa_max, J1, J2))`, at least 0.

    Deviation: the paper's is real-valued. Without the 1e-9, a `J2` of 4.9999999 would lose a step in every pass.
    """
    real = np.minimum(client.most_steps, np.minimum(by_energy, by_time))
    return np.floor(np.maximum(real, 0.0) + ROUNDING).astype(np.int64)


def least_clock_hz(client: Client, steps: Ints | Floats, upload_s: Floats) -> Floats:
    """`c kappa / (t_th - t_up)`: the slowest clock in time, which is the cheapest; infinite if no time is left.

    Reference: osafl, Eq. (9), Lemma 2
    """
    some = upload_s < client.deadline_s
    left_s = np.where(some, client.deadline_s - np.where(some, upload_s, 0.0), 0.0)
    return np.divide(client.cycles_per_step * steps, left_s, out=np.full_like(left_s, np.inf), where=left_s > 0)


def least_power_watt(client: Client, steps: Ints | Floats, cpu_hz: Floats) -> Floats:
    """`(2^{S f / (omega (t_th f - c kappa))} - 1) / a`, the lowest power in time; infinite if there is none.

    The cheapest too, since energy per bit grows with power: the solution of the power block.

    Reference: osafl, Eq. (10c); section 4.3, fact 3
    """
    left_s = client.deadline_s - client.cycles_per_step * steps / cpu_hz
    return power_for(client, left_s)


def power_for(client: Client, upload_s: Floats) -> Floats:
    """The power that sends the payload in `upload_s`; infinite if no power does it or that is no time."""
    need = client.bandwidth_hz * np.where(np.isfinite(upload_s), upload_s, 0.0)
    never = np.full_like(need, np.inf)
    exponent = np.divide(client.payload_bit, need, out=never.copy(), where=need > 0)
    possible = (exponent <= LARGEST_EXPONENT) & (client.snr_per_watt > 0)
    ratio = np.expm1(LN2 * np.where(possible, exponent, 0.0))
    with np.errstate(over="ignore"):
        return np.divide(ratio, client.snr_per_watt, out=never, where=possible)


def _fit(room: Floats, used: Floats, each: Floats) -> Floats:
    """How often `each` goes into what is left of `room`; -inf if nothing is left."""
    possible = np.isfinite(used) & (used <= room)
    left = np.where(possible, room - np.where(possible, used, 0.0), -np.inf)
    with np.errstate(over="ignore"):
        return np.divide(left, each, out=np.where(left >= 0, np.inf, -np.inf), where=each > 0)


# ---------------------------------------------------------------- tangents of the power block


def efficiency_tangent(client: Client, p: Floats) -> tuple[Floats, Floats]:
    """Value and slope at `p` of `R(p) / p`, which is convex and falls: its tangents lie below it.

    Reference: osafl, Eq. (12)
    """
    a = client.snr_per_watt
    log, omega = np.log1p(a * p), client.bandwidth_hz / LN2
    return omega * log / p, omega * (a / (p * (1 + a * p)) - log / p**2)


def energy_tangent(client: Client, p: Floats) -> tuple[Floats, Floats]:
    """Value and slope at `p` of `e_up(p) = S p / R(p)`, which is concave and grows: its tangents lie above it.

    Reference: osafl, Eq. (13)
    """
    a = client.snr_per_watt
    log = np.log1p(a * p)
    price = client.payload_bit * LN2 / (client.bandwidth_hz * log)
    return price * p, price * (1 - a * p / ((1 + a * p) * log))


def time_tangent(client: Client, p: Floats) -> tuple[Floats, Floats]:
    """Value and slope at `p` of `t_up(p) = S / R(p)`, which is convex and falls: its tangents lie below it.

    Reference: rawhfl, Eq. (39)
    """
    a = client.snr_per_watt
    log = np.log1p(a * p)
    seconds = client.payload_bit * LN2 / (client.bandwidth_hz * log)
    return seconds, -seconds * a / ((1 + a * p) * log)
