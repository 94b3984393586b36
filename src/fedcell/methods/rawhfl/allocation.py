"""RawHFL's allocation of a round: who trains in every cell, how many steps, at which clock, with which power.

    min  -theta sum_b alpha_b sum_{u in b} alpha_u x_u L_u + (1 - theta) sum_b alpha_b sum_{u in b} alpha_u x_u e_u
    s.t. sum_{u in b} x_u = Z, at most Psi of them chosen the last time,
         1 <= L_u <= L, f_u <= f_max, P_u <= P_max, t_cp + t_up <= t_th, e_u = e_cp + e_up <= e_bd

with `alpha_u = 1 / Z`, `alpha_b = 1 / B`. Given the choice clients decouple, so `exact` finds the best plan of every
client and then the best choice; `full` plans everyone at full clock and power. Not a method itself: it has no `build`.

Reference: rawhfl, Eqs. (28), (29); sections 4.4 to 4.6
"""

from typing import NamedTuple

import numpy as np

from ...types import Bools, Floats, Ints
from ..parts.client_planning.problem import Client, ClientPlan, Limit, compute_joule, most_steps, step_limits, upload
from ..parts.client_planning.slots import SHARES, best_share, pick, slotted
from ..parts.client_planning.solvers import exact
from .selection import Cells, select, select_blocks


class Allocation(NamedTuple):
    """The plan of every client and its costs, and who is chosen. All but the last two are `[n]`."""

    selected: Bools
    steps: Ints  # 0 if there is no plan
    cpu_hz: Floats
    power_watt: Floats
    compute_s: Floats
    upload_s: Floats
    compute_joule: Floats
    upload_joule: Floats
    limit: Ints  # codes of `Limit`: why a client is not eligible
    block: Ints  # resource block of the clients chosen, -1 for the others
    steps_term: float  # mean steps of a slot, `sum_b alpha_b sum_u alpha_u x_u L_u`
    joule_term: float  # mean joules of a slot

    def objective(self, theta: float) -> float:
        """The objective, which is minimised. Reference: rawhfl, Eq. (29)"""
        return -theta * self.steps_term + (1 - theta) * self.joule_term


class Offers(NamedTuple):
    """A plan for every client with its prices, of any shape; without a plan all prices are 0."""

    plan: ClientPlan
    compute_s: Floats
    upload_s: Floats
    compute_joule: Floats
    upload_joule: Floats
    value: Floats  # theta L - (1 - theta) e; minus infinity without a plan


# ---------------------------------------------------------------- plans


def full_speed(client: Client) -> ClientPlan:
    """The most steps at the highest clock and power. Reference: rawhfl, section 4.5, `max`"""
    by_energy, by_time = step_limits(client, client.cpu_hz, client.power_watt)
    steps = most_steps(client, by_energy, by_time)
    limit = np.select(
        [steps >= 1, upload(client, client.power_watt)[0] >= client.deadline_s, by_energy < by_time],
        [Limit.NONE, Limit.TIME, Limit.ENERGY],
        Limit.CPU,
    ).astype(np.int64)
    return ClientPlan(steps, client.cpu_hz, client.power_watt, limit)


def best(client: Client, theta: float, least_power: float | Floats = 0.0) -> ClientPlan:
    """The plan of the largest `theta L - (1 - theta) e`, of all that meet deadline and budget.

    A step beyond the first pays while it adds at most `theta / (1 - theta)` joules to the least energy.
    Deviation: without a deadline slower is always cheaper and no best plan exists; clock and power stay at the highest.

    Reference: rawhfl, section 4.4
    """
    worth_joule = theta / (1 - theta) if theta < 1 else np.inf
    return exact(client, client.cpu_hz, client.power_watt, worth_joule, least_power)


def offers(client: Client, plan: ClientPlan, theta: float) -> Offers:
    """Seconds, joules and value of a plan."""
    on = plan.feasible
    upload_s, upload_joule = (np.where(on, price, 0.0) for price in upload(client, plan.power_watt))
    computing_s = np.where(on, client.cycles_per_step * plan.steps / np.maximum(plan.cpu_hz, 1.0), 0.0)
    computing_joule = np.where(on, compute_joule(client, plan.steps, plan.cpu_hz), 0.0)
    value = theta * plan.steps - (1 - theta) * (computing_joule + upload_joule)
    return Offers(plan, computing_s, upload_s, computing_joule, upload_joule, np.where(on, value, -np.inf))


# ---------------------------------------------------------------- allocations


def allocate(
    client: Client, cells: Cells, theta: float, mode: str = "exact", least_power: float | Floats = 0.0
) -> Allocation:
    """Plan every client, then choose; the blocks of a cell are alike.

    Args:
        client: limits and prices, `[n]`.
        cells: who is where, and the limits of the choice.
        theta: weight of steps against joules, in [0, 1].
        mode: `exact`, the global optimum, or `max`, the best choice at full clock and power.
        least_power: lowest power of a plan as a share of the highest, in [0, 1].
    """
    found = offers(client, _plan(client, theta, mode, least_power), theta)
    return settle(found, select(found.value, cells), cells)


def allocate_blocks(
    client: Client, cells: Cells, theta: float, mode: str = "exact", least_power: float = 0.0
) -> Allocation:
    """Like `allocate`, if blocks differ: `client` is `[n_blocks, n]`, every client as it would be on every block."""
    found = offers(client, _plan(client, theta, mode, least_power), theta)
    block = select_blocks(found.value, cells)
    taken = np.where(block >= 0, block, found.value.argmax(axis=0)), np.arange(len(block))
    mine = Offers(ClientPlan._make(part[taken] for part in found.plan), *(part[taken] for part in found[1:]))
    return settle(mine, block >= 0, cells)._replace(block=block)


def settle(found: Offers, selected: Bools, cells: Cells) -> Allocation:
    """Make the allocation of a given choice; every client chosen gets a block of its own."""
    chosen = Allocation(
        selected,
        found.plan.steps,
        found.plan.cpu_hz,
        found.plan.power_watt,
        *found[1:5],
        limit=found.plan.limit,
        block=_free_blocks(selected, cells),
        steps_term=0.0,
        joule_term=0.0,
    )
    return _priced(chosen, cells)


def _priced(found: Allocation, cells: Cells) -> Allocation:
    """Fill in the two terms of the objective."""
    share, on = 1 / (cells.n_cells * cells.z), found.selected
    spent = found.compute_joule + found.upload_joule
    steps_term, joule_term = (share * float(part[on].sum()) for part in (found.steps, spent))
    return found._replace(steps_term=steps_term, joule_term=joule_term)


def allocate_in_turn(
    client: Client, cells: Cells, theta: float, mode: str = "exact", least_power: float = 0.0
) -> Allocation:
    """Like `allocate`, if the clients chosen in a cell send in turn: in equal slots, as long as suits the cell best."""
    available = np.bincount(cells.cell[cells.available], minlength=cells.n_cells)[cells.cell]
    tried = [slotted(client, cells.cell, np.minimum(available, cells.z), share) for share in SHARES]
    found = [allocate(some, cells, theta, mode, np.maximum(least, least_power)) for some, least in tried]
    worth = [theta * one.steps - (1 - theta) * (one.compute_joule + one.upload_joule) for one in found]
    chosen = [one.selected for one in found]
    best = best_share(chosen, [np.where(*pair, 0.0) for pair in zip(chosen, worth, strict=True)], cells.cell)
    arrays = (pick(parts, best) for parts in zip(*(one[:-2] for one in found), strict=True))
    return _priced(Allocation._make([*arrays, 0.0, 0.0]), cells)


def _plan(client: Client, theta: float, mode: str, least_power: float | Floats) -> ClientPlan:
    return full_speed(client) if mode == "max" else best(client, theta, least_power)


def _free_blocks(selected: Bools, cells: Cells) -> Ints:
    """The first free block of its cell for every client chosen, -1 for the others."""
    order = np.lexsort((~selected, cells.cell))
    place = np.arange(len(order)) - np.searchsorted(cells.cell[order], cells.cell[order])
    block = np.empty_like(place)
    block[order] = place
    return np.where(selected, block, -1)
