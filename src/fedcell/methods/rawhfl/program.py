"""One linear program of RawHFL's Algorithm 2: the allocation problem with everything replaced by its tangent.

With `x` relaxed to [0, 1] and `Lbar = x L`, linearised at `(x_i, Lbar_i, f_i, P_i)` and solved by HiGHS:

    min  alpha sum_u [-theta Lbar + (1 - theta) (e_cp + e_up)] + rho sum_u (1 - 2 x_i) x
    s.t. sum x = Z and sum_previous x <= Psi per cell, x <= Lbar <= L x, t_cp + t_up <= x t_th, e_cp + e_up <= x e_bd

The printed constraints (30)-(32) on a fifth variable `L_u` leave exactly this set of `(x, Lbar)`. Not a method
itself: it has no `build`.

Reference: rawhfl, Eqs. (30)-(40)
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, vstack

from ...types import Bools, Floats
from ..parts.client_planning.problem import Client, energy_tangent, time_tangent
from .selection import Cells


class Point(NamedTuple):
    """Where the problem is linearised, and what a program returns, each `[n]`."""

    x: Floats  # share of a selection
    load: Floats  # Lbar
    cpu_hz: Floats
    power_watt: Floats


class Linear(NamedTuple):
    """A linear function of a point, each `[n]`."""

    constant: Floats
    slope: Point

    def at(self, point: Point) -> Floats:
        """The value at a point."""
        return np.asarray(self.constant + sum(s * p for s, p in zip(self.slope, point, strict=True)))

    def plus(self, other: "Linear") -> "Linear":
        """The sum of this function and another."""
        slope = Point(*(a + b for a, b in zip(self.slope, other.slope, strict=True)))
        return Linear(self.constant + other.constant, slope)


# ---------------------------------------------------------------- tangents


def compute_joule_line(client: Client, at: Point) -> Linear:
    """Tangent of `v/2 c Lbar f^2`. Reference: rawhfl, Eq. (36)"""
    price, none = client.capacitance * client.cycles_per_step * at.cpu_hz, np.zeros_like(at.x)
    slope = Point(none, price * at.cpu_hz, 2 * price * at.load, none)
    return Linear(-2 * price * at.cpu_hz * at.load, slope)


def upload_joule_line(client: Client, at: Point) -> Linear:
    """Tangent of `x P t_up(P)`. Reference: rawhfl, Eq. (37)"""
    return _upload_line(*energy_tangent(client, at.power_watt), at)


def compute_s_line(client: Client, at: Point) -> Linear:
    """Tangent of `c Lbar / f`. Reference: rawhfl, Eq. (38)"""
    seconds, none = client.cycles_per_step / at.cpu_hz, np.zeros_like(at.x)
    slope = Point(none, seconds, -seconds * at.load / at.cpu_hz, none)
    return Linear(seconds * at.load, slope)


def upload_s_line(client: Client, at: Point) -> Linear:
    """Tangent of `x t_up(P)`. Reference: rawhfl, Eq. (39)"""
    return _upload_line(*time_tangent(client, at.power_watt), at)


def _upload_line(value: Floats, slope: Floats, at: Point) -> Linear:
    none = np.zeros_like(at.x)
    return Linear(-at.x * slope * at.power_watt, Point(value, none, none, at.x * slope))


# ---------------------------------------------------------------- the linear program


def program(
    client: Client, cells: Cells, theta: float, penalty: float, at: Point, step: Floats, least_power: float = 0.0
) -> Point | None:
    """The solution of the problem linearised at a point, None if there is none.

    Args:
        client: limits and prices.
        cells: the cell of every client, and the limits of the choice.
        theta: weight of steps against joules.
        penalty: `rho`, on fractional shares.
        at: the point.
        step: `[n]`, largest relative change of clock and power; infinite: none but the hardware.
        least_power: lowest power as a share of the highest.

    Reference: rawhfl, Eq. (40)
    """
    n, alpha = len(at.x), 1 / (cells.n_cells * cells.z)
    unit = Point(np.ones(n), np.ones(n), at.cpu_hz, at.power_watt)  # clock and power in parts of the present ones
    joule = compute_joule_line(client, at).plus(upload_joule_line(client, at))
    seconds = compute_s_line(client, at).plus(upload_s_line(client, at))
    cost = Point(*((1 - theta) * alpha * s for s in joule.slope))
    cost = cost._replace(x=cost.x + penalty * (1 - 2 * at.x), load=cost.load - theta * alpha)
    rows = [
        _row(Point(np.ones(n), -np.ones(n), np.zeros(n), np.zeros(n))),  # x <= Lbar
        _row(Point(-client.most_steps.astype(np.float64), np.ones(n), np.zeros(n), np.zeros(n))),  # Lbar <= L x
        _limit(seconds, client.deadline_s, unit),
        _limit(joule, client.budget_joule, unit),
    ]
    limited = np.bincount(cells.cell, weights=at.x * cells.previous, minlength=cells.n_cells) <= cells.psi + 0.5
    repeated = _per_cell(cells.previous & limited[cells.cell], cells)
    chosen = np.bincount(cells.cell, weights=at.x, minlength=cells.n_cells)
    solved = linprog(
        np.concatenate([c * u for c, u in zip(cost, unit, strict=True)]),
        A_ub=vstack([*(row for row, _ in rows), repeated]),
        b_ub=np.concatenate([*(right for _, right in rows), np.full(cells.n_cells, float(cells.psi))]),
        A_eq=_per_cell(np.ones(n, dtype=np.bool_), cells),
        b_eq=np.round(chosen),
        bounds=_bounds(client, at, step, least_power),
        method="highs",
    )
    if solved.x is None:
        return None
    return Point(*(part * u for part, u in zip(solved.x.reshape(4, n), unit, strict=True)))


def _bounds(client: Client, at: Point, step: Floats, least_power: float) -> Floats:
    """Least and largest of every variable, `[4 n, 2]`, clock and power in parts of the present ones."""
    none, moves = np.zeros_like(at.x), np.where(np.isfinite(client.deadline_s), step, 0.0)
    least = np.maximum(1 - moves, 0.0)
    most = [
        np.minimum(1 + moves, limit / now)
        for limit, now in zip((client.cpu_hz, client.power_watt), at[2:], strict=True)
    ]
    low = np.concatenate([none, none, least, np.maximum(least, least_power * client.power_watt / at.power_watt)])
    high = np.concatenate([none + 1, np.asarray(client.most_steps, dtype=np.float64), *most])
    return np.stack([low, np.maximum(high, low)], axis=1)


def _row(slope: Point) -> tuple[csr_array, Floats]:
    """`slope @ point <= 0`, one row per client."""
    n = len(slope.x)
    place = np.tile(np.arange(n), 4), np.arange(4 * n)
    return coo_array((np.concatenate(slope), place), shape=(n, 4 * n)).tocsr(), np.zeros(n)


def _limit(line: Linear, room: Floats, unit: Point) -> tuple[csr_array, Floats]:
    """`line <= x room`, in parts of the room, one row for every client whose room is finite."""
    some = np.isfinite(room)
    size = np.where(some, room, 1.0)
    slope = Point(*(s * u / size for s, u in zip(line.slope, unit, strict=True)))
    rows, _ = _row(slope._replace(x=slope.x - 1))
    return rows[np.flatnonzero(some)], (-line.constant / size)[some]


def _per_cell(member: Bools, cells: Cells) -> csr_array:
    """The sum of `x` over the members of every cell."""
    who, n = np.flatnonzero(member), len(member)
    return coo_array((np.ones(len(who)), (cells.cell[who], who)), shape=(cells.n_cells, 4 * n)).tocsr()
