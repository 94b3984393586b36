"""Updates that are on the way: the row of every device that has trained and whose update the server has not got yet.

Rows stay in the matrix that they were trained into, one parcel per round, which is never written to again: a snapshot
taken before stays whole. A parcel shrinks to the rows that are still on the way once they are half of it or less, and
goes with the last. So memory holds at most twice the rows that are on the way. Not a method itself: it has no `build`.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...types import Ints

NONE = -1


class Parcels(NamedTuple):
    """Rows on the way, in parcels by the round that they were trained in."""

    rows: dict[int, Tensor]  # [n_rows, n_sent] each
    tails: dict[int, Tensor]  # [n_rows, n_tail] each, running statistics that are sent beside the rows, if any
    parcel: Ints  # [n_devices], the round; NONE: nothing is on the way
    place: Ints  # [n_devices], row of the parcel


def nothing(n_devices: int) -> Parcels:
    """No parcels: nothing is on the way."""
    return Parcels({}, {}, np.full(n_devices, NONE), np.zeros(n_devices, dtype=np.int64))


def sent_off(before: Parcels, round: int, device: Ints, rows: Tensor, tail: Tensor | None) -> Parcels:
    """Add a parcel with the updates of one round.

    Args:
        before: left as it is.
        round: number of the new parcel.
        device: `[n_rows]`, none of which has an update on the way.
        rows: `[n_rows, n_sent]`, not written to by anybody from now on.
        tail: `[n_rows, n_tail]`, not written to either.
    """
    if not len(device):
        return before
    parcel, place = before.parcel.copy(), before.place.copy()
    parcel[device], place[device] = round, np.arange(len(device))
    tails = before.tails if tail is None else {**before.tails, round: _alone(tail)}
    return Parcels({**before.rows, round: _alone(rows)}, tails, parcel, place)


def taken(before: Parcels, device: Ints) -> tuple[Parcels, list[Tensor], list[Tensor]]:
    """Take the rows of some devices out: (the parcels without them, these rows, their tails if there are any).

    Rows are views of the parcels: stack them.
    """
    from_parcel, at = before.parcel[device].tolist(), before.place[device].tolist()
    found = [before.rows[number][row] for number, row in zip(from_parcel, at, strict=True)]
    tails = [before.tails[number][row] for number, row in zip(from_parcel, at, strict=True) if number in before.tails]
    parcel, place = before.parcel.copy(), before.place.copy()
    parcel[device] = NONE
    after = Parcels(dict(before.rows), dict(before.tails), parcel, place)
    on_the_way = np.flatnonzero(parcel != NONE)
    for number in set(from_parcel):
        _shrink(after, number, on_the_way[parcel[on_the_way] == number])
    return after, found, tails


def _shrink(new: Parcels, number: int, left: Ints) -> None:
    """Shrink a parcel to the rows of `left`, those on the way, if they are half of it or less; writes into `new`."""
    if 2 * len(left) > len(new.rows[number]):
        return
    for part in (new.rows, new.tails):
        if number in part and len(left):
            part[number] = part[number][torch.from_numpy(new.place[left]).to(part[number].device)]
        elif number in part:
            del part[number]
    new.place[left] = np.arange(len(left))


def _alone(rows: Tensor) -> Tensor:
    """The rows, copied if they are views that would keep much more memory alive than their own."""
    return rows.clone() if rows.untyped_storage().nbytes() > 2 * rows.nbytes else rows
