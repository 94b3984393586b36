"""Where base stations and devices stand: a disc, a square, or several cells."""

from functools import lru_cache
from math import ceil, pi, sqrt

import numpy as np

from ..errors import BadInput
from ..tables import Line
from ..types import Floats, Ints, Topology
from .devices import PLACES, listed
from .settings import WorldConfig


def place(settings: WorldConfig, rng: np.random.Generator, lines: tuple[Line, ...] = ()) -> Topology:
    """Place every device at random around the base station that serves it.

    A device nearer than `min_distance_m` is pushed outwards along its bearing. Two numbers are drawn
    per device whatever the shape, so the first devices stay where they are when more are added.

    Args:
        settings: shape, sizes and counts.
        rng: the stream of places.
        lines: of a device table that may say where devices stand.

    Reference: osafl, section 2.4; chen-ch3, section 2.4
    """
    if lines and "x_m" in lines[0].cells:
        return listed_places(settings, lines)
    _check_room(settings)
    uniform = rng.random((settings.n_devices, 2))
    if settings.topology == "square":
        offset_m = square_offset_m(uniform, settings.side_m)
    else:
        offset_m = disc_offset_m(uniform, settings.radius_m)
    offset_m = push_out_m(offset_m, settings.min_distance_m)
    station_m = lattice_m(settings.n_cells, 2.0 * settings.radius_m)
    cell = (
        listed(settings, lines, "cell").astype(np.int64)
        if lines and "cell" in lines[0].cells
        else cells(settings.n_devices, settings.n_cells, settings.devices_per_cell)
    )
    distance_m = np.maximum(np.hypot(offset_m[:, 0], offset_m[:, 1]), settings.min_distance_m)
    return Topology(station_m, station_m[cell] + offset_m, cell, distance_m)


def listed_places(settings: WorldConfig, lines: tuple[Line, ...]) -> Topology:
    """Places of a device table. A device belongs to the cell that its line names, or to the nearest base station."""
    position_m = np.stack([listed(settings, lines, name) for name in PLACES], axis=1)
    station_m = lattice_m(settings.n_cells, 2.0 * settings.radius_m)
    away_m = to_stations_m(position_m, station_m)
    named = "cell" in lines[0].cells
    cell = listed(settings, lines, "cell").astype(np.int64) if named else away_m.argmin(axis=1)
    own_m = away_m[np.arange(len(cell)), cell]
    return Topology(station_m, position_m, cell, np.maximum(own_m, settings.min_distance_m))


def to_stations_m(position_m: Floats, station_m: Floats) -> Floats:
    """Distance of every device to every base station, `[n_devices, n_cells]`."""
    offset_m = position_m[:, None] - station_m
    return np.hypot(offset_m[..., 0], offset_m[..., 1])


def disc_offset_m(uniform: Floats, radius_m: float) -> Floats:
    """Points uniform over the area of a disc: `r = R sqrt(U1)`, bearing `2 pi U2`.

    Args:
        uniform: `[n, 2]` numbers in [0, 1).
        radius_m: `R`.

    Returns: `[n, 2]` metres from the centre.
    """
    r, bearing = radius_m * np.sqrt(uniform[:, 0]), 2.0 * pi * uniform[:, 1]
    return np.stack([r * np.cos(bearing), r * np.sin(bearing)], axis=1)


def square_offset_m(uniform: Floats, side_m: float) -> Floats:
    """Points uniform over a square, `[n, 2]` metres from its centre."""
    return np.asarray((uniform - 0.5) * side_m)


def push_out_m(offset_m: Floats, min_distance_m: float) -> Floats:
    """Move points nearer than `min_distance_m` outwards along their bearing (due east from the centre).

    >>> push_out_m(np.array([[3.0, 4.0], [0.0, 0.0]]), 10.0).tolist()
    [[6.0, 8.0], [10.0, 0.0]]
    """
    distance_m = np.hypot(offset_m[:, 0], offset_m[:, 1])[:, None]
    bearing = np.divide(offset_m, distance_m, out=np.full_like(offset_m, [1.0, 0.0]), where=distance_m > 0)
    return np.where(distance_m < min_distance_m, bearing * min_distance_m, offset_m)


@lru_cache(maxsize=8)
def lattice_m(n_cells: int, spacing_m: float) -> Floats:
    """The `n_cells` innermost points of a hexagonal lattice, ring by ring around the origin.

    Args:
        n_cells: base stations.
        spacing_m: between neighbours; twice the radius lets the discs of cells touch but not overlap.

    Returns: `[n_cells, 2]` metres.
    """
    rings = ceil((sqrt(12.0 * n_cells - 3.0) - 3.0) / 6.0)  # k rings hold 1 + 3 k (k + 1) points
    q, r = (grid.ravel() for grid in np.meshgrid(np.arange(-rings, rings + 1), np.arange(-rings, rings + 1)))
    x_m, y_m = spacing_m * (q + 0.5 * r), spacing_m * sqrt(0.75) * r
    ring = np.maximum(np.maximum(np.abs(q), np.abs(r)), np.abs(q + r))
    order = np.lexsort((np.arctan2(y_m, x_m) % (2.0 * pi), ring))[:n_cells]
    found = np.stack([x_m[order], y_m[order]], axis=1)
    found.flags.writeable = False  # it is kept
    return found


def cells(n_devices: int, n_cells: int, per_cell: tuple[int, ...] = ()) -> Ints:
    """The cell of every device: contiguous blocks of the given sizes, or of sizes that differ by at most one.

    >>> cells(5, 2).tolist(), cells(5, 3, (1, 0, 4)).tolist()
    ([0, 0, 0, 1, 1], [0, 2, 2, 2, 2])
    """
    if per_cell:
        return np.repeat(np.arange(n_cells, dtype=np.int64), per_cell)
    return np.arange(n_devices, dtype=np.int64) * n_cells // n_devices


def _check_room(settings: WorldConfig) -> None:
    square = settings.topology == "square"
    key, reach_m = ("side_m / 2", settings.side_m / 2.0) if square else ("radius_m", settings.radius_m)
    if settings.min_distance_m > reach_m:
        raise BadInput(
            f"world.min_distance_m = {settings.min_distance_m:g} > world.{key} = {reach_m:g}: "
            "lower it, or no device fits in its cell"
        )
