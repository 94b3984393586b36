"""The map of a run: places, gains and hardware, drawn again from its settings and seed without training anything."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import options
from ..errors import FedcellError
from ..rng import SETUP
from ..units import ratio_to_db, watt_to_dbm
from ..world.build import places
from ..world.channel import mean_gain
from ..world.devices import draw_devices
from ..world.settings import WorldConfig

GAIN_ROUNDS = 50  # that gains are averaged over, if they are drawn in every round


def draw(config: Mapping[str, Any]) -> dict[str, Any]:
    """Stations, devices and what is known of each; only `note` if the settings are those of another version.

    Gains are path loss and shadowing in dB, without small-scale fading, averaged over the first rounds.
    """
    try:
        settings: WorldConfig = options.from_dict(WorldConfig(), config["world"])
    except (FedcellError, KeyError) as error:
        return {"note": f"The map cannot be drawn: {error}."}
    seed, moving = int(config["seed"]), settings.geometry != "static"
    topology = places(settings, seed, 0 if moving else SETUP)
    rounds = min(GAIN_ROUNDS, int(config["rounds"])) if settings.pathloss == "uma" and settings.los == "redraw" else 1
    gains = np.stack([mean_gain(settings, topology.distance_m, seed, round) for round in range(rounds)])
    devices = draw_devices(settings, 0.0, seed)
    square = settings.topology == "square"
    return {
        "shape": "square" if square else "disc",
        "reach_m": settings.side_m / 2.0 if square else settings.radius_m,
        "stations": _short(topology.station_m),
        "positions": _short(topology.position_m),
        "cell": topology.cell.tolist(),
        "distance_m": _short(topology.distance_m),
        "gain_db": _short(ratio_to_db(gains).mean(axis=0)),
        "cpu_hz": devices.cpu_hz.tolist(),
        "power_dbm": _short(watt_to_dbm(devices.power_watt)),
        "note": "Places are drawn anew in every round; these are those of round 1." if moving else "",
        "gain_note": f"mean of the first {rounds} rounds" if rounds > 1 else "the same in every round",
    }


def _short(values: Any) -> Any:
    return np.round(values, 2).tolist()
