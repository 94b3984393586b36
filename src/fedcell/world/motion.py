"""Where devices are at a time: on their way between waypoints, or on recorded tracks.

Places are functions of (seed, clock) and of nothing else, so all methods on one seed meet the same world at the same
time, however long their rounds are.
"""

from collections.abc import Callable
from functools import lru_cache
from math import inf, pi
from typing import NamedTuple

import numpy as np

from ..errors import BadInput
from ..rng import SETUP, stream, uniforms
from ..tables import File, Line, read_lines, whole_number, within
from ..types import Floats, Ints
from .devices import hardware
from .settings import WorldConfig
from .topology import disc_offset_m, lattice_m, square_offset_m

ReadCell = Callable[[File, Line, str, float, float], float]
MOVING = ("waypoints", "tracks")
PROBED = 20_000  # pairs of points that a mean distance is taken over
MOST_SCALE = 1e9


class Steps(NamedTuple):
    """Values of every device at given times, in order; short rows repeat their last values."""

    clock_s: Floats  # [n_devices, n_points], infinite if there is none
    values: Floats  # [n_columns, n_devices, n_points]


def positions_m(settings: WorldConfig, seed: int, clock_s: float) -> Floats:
    """Where every device is, `[n_devices, 2]`."""
    now_s = settings.start_s + clock_s
    return waypoints_m(settings, seed, now_s) if settings.geometry == "waypoints" else on_tracks_m(settings, now_s)


# ---------------------------------------------------------------- waypoints


def waypoints_m(settings: WorldConfig, seed: int, now_s: float) -> Floats:
    """Straight legs between points uniform over the cells.

    All legs of a device take equally long, `mean length / speed`, so that its place follows from the number of the leg
    alone; its speed differs from leg to leg around the mean that `speed_m_per_s` gives it.
    """
    leg_s, phase = _legs(settings, seed)
    device, done = np.arange(settings.n_devices), now_s / leg_s + phase
    leg = np.floor(done)
    begin, end = (_points_m(settings, seed, device, leg.astype(np.int64) + k) for k in (0, 1))
    return np.asarray(begin + (done - leg)[:, None] * (end - begin))


@lru_cache(maxsize=8)
def _legs(settings: WorldConfig, seed: int) -> tuple[Floats, Floats]:
    """Seconds per leg of every device, and the share of its first leg that is done at time 0."""
    leg_s = mean_leg_m(settings) / hardware(settings, seed).column("speed_m_per_s", settings.speed_m_per_s)
    return leg_s, uniforms(seed, SETUP, "world.waypoint_phase", np.arange(settings.n_devices), 0)


def _points_m(settings: WorldConfig, seed: int, device: Ints, number: Ints) -> Floats:
    uniform = uniforms(seed, SETUP, "world.waypoint", device[:, None], 3 * number[:, None] + np.arange(3))
    return area_points_m(settings, uniform)


def area_points_m(settings: WorldConfig, uniform: Floats) -> Floats:
    """Points uniform over the square, the disc, or all cells, made from `[n, 3]` numbers in [0, 1)."""
    if settings.topology == "square":
        return square_offset_m(uniform[:, :2], settings.side_m)
    station_m = lattice_m(settings.n_cells, 2.0 * settings.radius_m)
    cell = np.minimum((uniform[:, 2] * len(station_m)).astype(np.int64), len(station_m) - 1)
    return station_m[cell] + disc_offset_m(uniform[:, :2], settings.radius_m)


@lru_cache(maxsize=8)
def mean_leg_m(settings: WorldConfig) -> float:
    """Mean distance of two points of the area: `128 R / (45 pi)` in a disc, `0.5214 L` in a square."""
    if settings.topology == "square":
        return 0.521405433 * settings.side_m
    if settings.n_cells == 1:
        return 128.0 * settings.radius_m / (45.0 * pi)
    uniform = stream(0, SETUP, "world.mean_leg").random((2, PROBED, 3))
    ends = [area_points_m(settings, one) for one in uniform]
    return float(np.hypot(*(ends[1] - ends[0]).T).mean())


# ---------------------------------------------------------------- recorded steps


def on_tracks_m(settings: WorldConfig, now_s: float) -> Floats:
    """Places on the tracks, `[n_devices, 2]`: interpolated between points; at the end points before and after them."""
    track = tracks(settings.tracks, settings.n_devices, settings.track_period_s)
    time_s = now_s if settings.track_period_s == inf else now_s % settings.track_period_s
    after = np.count_nonzero(track.clock_s <= time_s, axis=1)
    last = np.count_nonzero(np.isfinite(track.clock_s), axis=1) - 1
    low, high, row = np.maximum(after - 1, 0), np.minimum(after, last), np.arange(settings.n_devices)
    begin_s, end_s = track.clock_s[row, low], track.clock_s[row, high]
    span = np.where(end_s > begin_s, end_s - begin_s, 1.0)
    share = np.clip((time_s - begin_s) / span, 0.0, 1.0)
    begin, end = track.values[:, row, low], track.values[:, row, high]
    return np.asarray((begin + share * (end - begin)).T)


@lru_cache(maxsize=8)
def tracks(file: File, n_devices: int, period_s: float) -> Steps:
    """Read the tracks of a file."""
    limits = {"x_m": (-MOST_SCALE, MOST_SCALE), "y_m": (-MOST_SCALE, MOST_SCALE)}
    return read_steps(file, n_devices, limits, "world.track_period_s", period_s)


def read_steps(
    file: File,
    n_devices: int,
    limits: dict[str, tuple[float, float]],
    key: str,
    period_s: float,
    read: ReadCell = within,
) -> Steps:
    """Read the columns `device`, `clock_s` and those of `limits`; raise BadInput, with the line, for what does not fit.

    Every device needs at least one line. Its lines are in order of time, none later than `period_s`, the value of the
    setting `key`. `read` reads one cell of the `limits` columns.
    """
    if not file:
        raise BadInput("world.geometry = 'tracks' needs world.tracks: name a CSV file of device, clock_s, x_m and y_m")
    points: list[list[tuple[float, ...]]] = [[] for _ in range(n_devices)]
    file = File.of(file)
    names = ("device", "clock_s", *limits)
    for line in read_lines(file, names, names):
        number = whole_number(file, line, "device", 0, n_devices - 1)
        clock_s = within(file, line, "clock_s", 0)
        if clock_s > period_s:
            raise BadInput(
                f"{file.path!r} line {line.number}: clock_s = {clock_s:g} is after {key} = {period_s:g}, "
                "when all begins anew: raise it, or drop the line"
            )
        mine = points[int(number)]
        if mine and clock_s <= mine[-1][0]:
            raise BadInput(
                f"{file.path!r} line {line.number}: clock_s = {clock_s:g} of device {int(number)} is not after "
                f"{mine[-1][0]:g}: sort the lines of each device by time"
            )
        mine.append((clock_s, *(read(file, line, name, *limits[name]) for name in limits)))
    if [] in points:
        raise BadInput(f"{file.path!r} has no line for device {points.index([])}: write one or more for each device")
    longest = max(map(len, points))
    whole = np.array([one + [(inf, *one[-1][1:])] * (longest - len(one)) for one in points])
    return Steps(whole[..., 0], np.moveaxis(whole[..., 1:], -1, 0))
