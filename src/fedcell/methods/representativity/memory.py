"""The last gradient of every device, and how far these are from each other.

A round changes only the rows of the devices it heard, so only their distances are computed anew. Not a method itself:
it has no `build`.

Reference: chen-ch3, sections 3.2 and 3.3
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...learn.memory import require
from ...machine import for_each
from ...solve import facility
from ...types import Floats, Ints, Observation
from ..parts.contributions import Contributions, nothing, remember, rows_of

CANCELS = 0.01  # share of the squared norms below which a squared distance is computed from the difference itself
NUMBERS = {"cpu": 2**21, "cuda": 2**28}  # numbers in memory for one piece of a product


class Memory(NamedTuple):
    """What a server knows of every device's gradient."""

    kept: Contributions  # rows of devices never heard are zero
    distance: Floats  # [n_devices, n_devices], Euclidean

    @property
    def norm(self) -> Floats:
        return self.kept.norm


def blank(n_devices: int, n_params: int) -> Memory:
    """Make the memory before anything was heard."""
    require(8 * n_devices**2, f"the distances of {n_devices} gradients from each other")
    return Memory(nothing(n_devices, n_params), np.zeros((n_devices, n_devices)))


def heard(memory: Memory, device: Ints, delta: Tensor, steps: Ints, lr: float) -> Memory:
    """Return the memory with `g_k = -delta_k / lr` of some devices.

    Args:
        memory: left as it is.
        device: `[n_rows]`, ascending.
        delta: `[n_rows, n_params]`, what local training moved.
        steps: `[n_rows]`, local steps behind each row.
        lr: local learning rate.

    Reference: chen-ch3, sections 3.3 and 3.4
    """
    if not len(device):
        return memory
    kept = remember(memory.kept, device, delta, steps, scale=np.full(len(device), -1.0 / lr))
    distance = memory.distance.copy()
    fresh = distances(kept, device, delta, -1.0 / lr)
    distance[device], distance[:, device] = fresh, fresh.T
    return Memory(kept, distance)


def shares(known: Memory | None, observation: Observation, device: Ints) -> Floats:
    """Weights of the devices heard, `[n_rows]`, summing to one: `gamma_h / K`, or equal without a memory.

    The nearest device heard represents every device that holds data. A device heard always represents itself; distances
    do not ensure that, because rows of devices never heard before are all alike.
    """
    points = np.flatnonzero(observation.store.size > 0)
    if known is None or not len(device) or not len(points):
        return np.full(len(device), 1 / max(len(device), 1))
    distance = known.distance[points]
    distance[np.arange(len(points)), points] = -1.0  # nearer to itself than anyone
    return facility.weights(distance, device) / len(points)


def distances(kept: Contributions, device: Ints, rows: Tensor, scale: float = 1.0) -> Floats:
    """Euclidean distances of some devices' rows from all rows, `[n_rows, n_devices]`.

    `|g|^2 + |h|^2 - 2 <g, h>`, products in float32 and sums of them in float64; if the terms nearly cancel, the
    difference itself. Symmetric if both devices are asked for, zero from a row to itself.

    Args:
        kept: all rows.
        device: `[n_rows]`, the devices whose rows are looked at.
        rows: `[n_rows, n_params]`; `scale * rows` are the rows that are kept of them.
        scale: see `rows`.
    """
    size = kept.norm[device, None] ** 2 + kept.norm**2
    square = size - 2.0 * scale * _products(kept, rows)
    close = (square < CANCELS * size) & (np.arange(len(kept.norm)) != device[:, None])
    out = np.sqrt(np.maximum(square, 0.0))
    for number in np.flatnonzero(close.any(axis=1)):
        other = np.flatnonzero(close[number])
        pair = rows_of(kept, np.append(other, device[number]), rows[0])
        out[number, other] = torch.linalg.vector_norm(pair[:-1] - pair[-1], dim=1).double().cpu().numpy()
    out[np.arange(len(device)), device] = 0.0
    out[:, device] = 0.5 * (out[:, device] + out[:, device].T)
    return out


def _products(kept: Contributions, rows: Tensor) -> Floats:
    """`<g, h>` of some rows with all, `[n_rows, n_devices]`; columns in pieces, on a CPU by one worker per core."""
    width = max(1, NUMBERS[rows.device.type] // len(kept.norm))
    pieces = [slice(first, first + width) for first in range(0, rows.shape[1], width)]
    found: list[Tensor] = [rows] * len(pieces)

    def multiply(number: int) -> None:
        columns = pieces[number]
        found[number] = (rows[:, columns] @ _columns(kept, columns, rows).T).double()  # the few rows first: faster

    if rows.device.type == "cpu":
        for_each(multiply, range(len(pieces)), workers=0)
    else:
        for number in range(len(pieces)):
            multiply(number)
    return np.asarray(torch.stack(found).sum(dim=0).cpu().numpy())


def _columns(kept: Contributions, columns: slice, like: Tensor) -> Tensor:
    """Some columns of all rows, `[n_devices, n_columns]`."""
    blank = like.new_zeros(kept.height, len(range(*columns.indices(like.shape[1]))))
    pages = [blank if page is None else page[:, columns] for page in kept.pages]
    return torch.cat(pages)[: len(kept.norm)]
