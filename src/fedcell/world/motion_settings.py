"""The settings of a world in motion: paths, channels with memory, charge that comes and goes."""

from dataclasses import dataclass
from math import inf

from ..options import Law, option
from ..tables import File


@dataclass(frozen=True)
class MotionConfig:
    """Keys of the `world` section that change with the simulated clock."""

    speed_m_per_s: Law = option(
        Law((1.4,)), "mean speed of a device between waypoints", above=0, most=1e5, needs="geometry=waypoints"
    )
    tracks: File = option(File(""), "CSV file of places: device, clock_s, x_m, y_m (tracks)", needs="geometry=tracks")
    track_period_s: float = option(
        inf,
        "tracks begin anew after so long; inf: devices stay where they end",
        above=0,
        infinite=True,
        needs="geometry=tracks",
    )
    shadowing: str = option(
        "drawn",
        "line of sight and shadowing as `los` says, or correlated: maps that devices move through (uma)",
        choices=("drawn", "correlated"),
        needs="pathloss=uma",
    )
    shadowing_distance_m: float = option(
        50.0, "distance at which shadowing is correlated by 1/e", above=0, most=1e6, needs="shadowing=correlated"
    )
    site_correlation: float = option(
        0.5, "correlation of shadowing towards two base stations", least=0, most=1, needs="shadowing=correlated"
    )
    fading_memory: float = option(
        0.9, "correlation of the fading amplitude from round to round (ar1)", least=0, most=0.9999, needs="fading=ar1"
    )
    doppler_hz: float = option(
        1.0, "highest Doppler shift (jakes): speed * carrier / speed of light", least=0, most=1e6, needs="fading=jakes"
    )

    idle_watt: Law = option(
        Law((0.0,)), "power of a device that stands by, always drawn", least=0, most=1e9, needs="device_class="
    )
    harvest_watt: Law = option(Law((0.0,)), "power that a device harvests, at its peak", least=0, most=1e9)
    harvest: str = option(
        "constant",
        "harvest_watt all the time, or day: from 6 to 18 o'clock as a half sine",
        choices=("constant", "day"),
        needs="harvest_watt!=0",
    )
    charge_watt: Law = option(Law((0.0,)), "power of a device that is plugged in, see traces", least=0, most=1e9)
    traces: File = option(
        File(""), "CSV file of states: device, clock_s, on, plugged (0 or 1), each until the next; empty: always on"
    )
    trace_period_s: float = option(86400.0, "traces begin anew after so long", above=0, infinite=True, needs="traces!=")
    start_s: float = option(0.0, "time of day at which a run begins (harvest=day, tracks, traces)", least=0, most=1e12)
