"""The settings of over-the-air aggregation: all devices send at once, and the base station hears their sum."""

from dataclasses import dataclass

from ..options import option


@dataclass(frozen=True)
class AirConfig:
    """Keys of the `world` section that matter only with `access = air`."""

    air_rule: str = option(
        "analog",
        "what devices send at once: analog: their weighted updates, at the largest common scale that all can afford; "
        "cotaf: the same at the scale of the longest update and the weakest channel; obda: signs, which are voted on",
        choices=("analog", "cotaf", "obda"),
        needs="access=air",
    )
    air_threshold: float = option(
        0.0,
        "a device is silent if its gain is below so many times its mean gain",
        least=0,
        most=1e6,
        needs="access=air",
    )
    air_snr_db: float | None = option(
        None,
        "received power of the longest update over the noise, and a device that cannot reach it is silent; none: the "
        "most that all who send can afford",
        least=-300,
        most=300,
        needs="access=air",
    )
    air_full_scale: float = option(
        0.0,
        "entries of an update, root mean square, that the scale is kept for even if updates are smaller; 0: none",
        least=0,
        most=1e6,
        needs="air_rule=analog",
    )
    air_step: float = option(1e-3, "how far a vote moves every parameter", above=0, most=1e6, needs="air_rule=obda")
    antennas: int = option(
        1, "antennas of a base station, which it combines for the sum", least=1, most=1024, needs="access=air"
    )
