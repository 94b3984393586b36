"""How batteries change: harvesting, charging, and the states (on, plugged) that recorded traces give to devices."""

from functools import lru_cache
from math import inf, pi

import numpy as np

from ..tables import File, whole_number
from ..types import Bools, Devices, Floats
from .motion import Steps, read_steps
from .settings import WorldConfig

DAY_S = 86400.0
SUNRISE_S = 21600.0  # six o'clock; the sun sets twelve hours later
ROUNDING = 1e-12  # relative: a battery emptied up to rounding is empty


def settled(battery_joule: Floats, spent_joule: Floats, gained_joule: float | Floats, full_joule: Floats) -> Floats:
    """Charge after a round: `min(max(b - spent, 0) + gained, full)`; what does not fit is lost."""
    emptied = spent_joule >= battery_joule * (1.0 - ROUNDING)
    left = np.where(emptied, 0.0, battery_joule - spent_joule)
    if isinstance(gained_joule, float) and not gained_joule:
        return left
    return np.minimum(left + gained_joule, np.maximum(full_joule, left))


def gained_joule(settings: WorldConfig, devices: Devices, clock_s: float, length_s: float) -> float | Floats:
    """Energy harvested and charged in a round of `length_s`, `[n_devices]`; 0.0 if no device gains any."""
    begin_s, end_s = settings.start_s + clock_s, settings.start_s + clock_s + length_s
    gained: float | Floats = 0.0
    if devices.harvest_watt is not None:
        shining_s = end_s - begin_s if settings.harvest == "constant" else sun_s(end_s) - sun_s(begin_s)
        gained = devices.harvest_watt * shining_s
    if devices.charge_watt is not None:
        gained = gained + devices.charge_watt * plugged_s(settings, begin_s, end_s)
    return gained


def sun_s(now_s: float) -> float:
    """Seconds of full sun since midnight of the first day: the integral of `max(sin(2 pi (t - sunrise) / day), 0)`.

    >>> round(sun_s(86400.0 + 43200.0) - sun_s(43200.0), 6) == round(86400.0 / pi, 6)
    True
    """
    days, rest_s = divmod(now_s - SUNRISE_S, DAY_S)
    today = (1.0 - np.cos(2 * pi * min(rest_s, DAY_S / 2) / DAY_S)) / 2.0
    return float((days + 1.0 + today) * DAY_S / pi)


def plugged_s(settings: WorldConfig, begin_s: float, end_s: float) -> Floats:
    """How long every device is plugged in between two times; without traces all the time."""
    if not settings.traces:
        return np.full(settings.n_devices, end_s - begin_s)
    return _plugged_until_s(settings, end_s) - _plugged_until_s(settings, begin_s)


def _plugged_until_s(settings: WorldConfig, now_s: float) -> Floats:
    """Seconds plugged in since time 0."""
    steps, period_s = states(settings.traces, settings.n_devices, settings.trace_period_s), settings.trace_period_s
    periods, rest_s = (0.0, now_s) if period_s == inf else divmod(now_s, period_s)
    found = _within_period_s(steps, rest_s)
    return found if not periods else found + periods * _within_period_s(steps, period_s)


def _within_period_s(steps: Steps, time_s: float) -> Floats:
    start = np.minimum(steps.clock_s, time_s)
    start[:, 0] = 0.0  # the first state holds before its time, too
    end = np.minimum(np.concatenate([steps.clock_s[:, 1:], np.full((len(start), 1), inf)], axis=1), time_s)
    return np.asarray((steps.values[1] * np.maximum(end - start, 0.0)).sum(axis=1))


def on_now(settings: WorldConfig, clock_s: float) -> Bools:
    """Which devices are switched on by their traces, `[n_devices]`; all of them without traces."""
    if not settings.traces:
        return np.ones(settings.n_devices, dtype=np.bool_)
    steps = states(settings.traces, settings.n_devices, settings.trace_period_s)
    now_s = settings.start_s + clock_s
    time_s = now_s if settings.trace_period_s == inf else now_s % settings.trace_period_s
    at = np.maximum(np.count_nonzero(steps.clock_s <= time_s, axis=1) - 1, 0)
    return np.asarray(steps.values[0, np.arange(len(at)), at] > 0.5)


@lru_cache(maxsize=8)
def states(file: File, n_devices: int, period_s: float) -> Steps:
    """Read the columns `on` and `plugged` of a trace file."""
    limits = {"on": (0.0, 1.0), "plugged": (0.0, 1.0)}
    return read_steps(file, n_devices, limits, "world.trace_period_s", period_s, whole_number)
