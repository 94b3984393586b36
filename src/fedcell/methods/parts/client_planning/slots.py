"""Clients that plan their own round in a cell that sends in turn: equal slots take the place of equal bands.

With `n` clients of a cell, each with a slot of `tau` seconds on the whole band, a client that computes and sends within
`T - (n - 1) tau`, sending for at most `tau`, ends by the deadline `T` whoever is ready first: it waits for at most
`n - 1` uploads. So its problem is that of a band of its own with a shorter deadline and a least power, that of a slot
used to its end, and its closed forms stay exact. The slots of a cell take one of `SHARES` of the deadline together:
that with which most clients take part, then that which is worth most. A client alone in its cell has all of it.

Not a method itself: it has no `build`.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ....types import Bools, Floats, Ints
from .problem import ROUNDING, Client, ClientPlan, power_for

SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 7 / 8)  # of the deadline, for the slots of a cell together


def slotted(client: Client, cell: Ints, n_in_turn: Ints, share: float) -> tuple[Client, Floats]:
    """The clients with a slot of `share T / n` seconds each, `T` being the least that listening leaves one of a cell.

    Args:
        client: limits and prices on the whole band.
        cell: `[n]`, the cell of each client.
        n_in_turn: `[n]`, clients that send in the same cell, the client itself included.
        share: of the deadline, below 1.

    Returns: the clients with the deadline that waiting leaves them, and the least power of a plan as a share of the
    highest. A client whose highest power cannot send within a slot gets one slot as its deadline, which is too short.
    """
    in_time = client.deadline_s > 0
    least_s = np.full(int(cell.max(initial=0)) + 1, np.inf)
    np.minimum.at(least_s, cell[in_time], client.deadline_s[in_time])
    several = (n_in_turn > 1) & np.isfinite(least_s[cell])
    slot_s = np.where(several, least_s[cell], 0.0) * share / np.maximum(n_in_turn, 1)
    needed_watt = np.where(several, power_for(client, slot_s), 0.0)
    fits = needed_watt <= client.power_watt * (1 + ROUNDING)
    deadline_s = np.where(fits, client.deadline_s - slot_s * np.maximum(n_in_turn - 1, 0), slot_s)
    known = fits & (client.power_watt > 0)
    least = np.divide(needed_watt, client.power_watt, out=np.zeros_like(needed_watt), where=known)
    return client._replace(deadline_s=deadline_s), np.minimum(least, 1.0)


def in_turn(solve: Callable[[Client, Floats], ClientPlan], client: Client, cell: Ints, tried: Bools) -> ClientPlan:
    """The plans of the clients tried, with the slots that let most of their cell take part, then do most steps.

    Args:
        solve: plans of clients that have a least power, as a share of the highest.
        client: limits and prices on the whole band.
        cell: `[n]`, the cell of each client.
        tried: `[n]`, who would send.
    """
    n_in_turn = np.bincount(cell[tried], minlength=int(cell.max(initial=0)) + 1)[cell]
    plans = [solve(*slotted(client, cell, n_in_turn, share)) for share in SHARES]
    steps = [np.where(tried, plan.steps, 0) for plan in plans]
    best = best_share([tried & plan.feasible for plan in plans], steps, cell)
    return ClientPlan._make(pick(parts, best) for parts in zip(*plans, strict=True))


def best_share(taking_part: Sequence[Bools], worth: Sequence[Ints | Floats], cell: Ints) -> Ints:
    """Which of several outcomes each client's cell takes, `[n]`: most taking part, then most worth, then the first."""
    n_cells = int(cell.max(initial=0)) + 1
    count = np.array([np.bincount(cell, weights=part, minlength=n_cells) for part in taking_part])
    total = np.array([np.bincount(cell, weights=part, minlength=n_cells) for part in worth])
    return np.where(count == count.max(axis=0), total, -np.inf).argmax(axis=0)[cell]


def pick(parts: Sequence[np.ndarray], best: Ints) -> np.ndarray:
    """Entry `k` of the array `parts[best[k]]`, for every `k`, `[n]`."""
    return np.asarray(np.stack(parts)[best, np.arange(len(best))])
