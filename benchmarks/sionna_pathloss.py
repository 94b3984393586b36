"""Ask Sionna for urban macro path losses and lines of sight, for `experiments/sionna/pathloss.py` to be held against.

    /tmp/sionna/bin/python benchmarks/sionna_pathloss.py      # see nr_tables.py

A development tool: the answers are stored, and fedcell never imports Sionna.
"""

import json
from pathlib import Path

import numpy as np

ANSWERS = Path(__file__).parents[1] / "experiments" / "sionna" / "answers.json"
CARRIERS_HZ = (0.7e9, 2.4e9, 3.5e9, 28e9)
DISTANCES = 60
HEIGHTS_M = (1.5, 6.0, 12.5)
STATION_M = 25.0


def main() -> None:
    import sionna  # type: ignore[import-not-found]
    import torch
    from sionna.phy import config  # type: ignore[import-not-found]
    from sionna.phy.channel.tr38901 import PanelArray  # type: ignore[import-not-found]
    from sionna.phy.channel.tr38901.uma_scenario import UMaScenario  # type: ignore[import-not-found]

    config.device = "cpu"
    distance_m = np.geomspace(10.0, 5000.0, DISTANCES).round(3)
    found = []
    for carrier_hz in CARRIERS_HZ:
        array = PanelArray(1, 1, "single", "V", "omni", carrier_hz, precision="double", device="cpu")
        scenario = UMaScenario(carrier_hz, "low", array, array, "uplink", precision="double", device="cpu")
        for height_m in HEIGHTS_M:
            devices = torch.tensor(np.stack([distance_m, 0 * distance_m, 0 * distance_m + height_m], 1)[None])
            none = torch.zeros_like(devices)
            losses = []
            for sight in (True, False):
                station = torch.tensor([[[0.0, 0.0, STATION_M]]], dtype=torch.float64)
                outside = torch.zeros(1, len(distance_m), dtype=torch.bool)
                scenario.set_topology(devices, station, none, torch.zeros_like(station), none, outside, sight)
                losses.append(scenario.basic_pathloss.reshape(-1).tolist())
            chance = scenario.los_probability.reshape(-1).tolist()
            found.append([carrier_hz, height_m, *losses, chance])
    answers = {"sionna": sionna.__version__, "station_m": STATION_M, "distance_m": distance_m.tolist(), "uma": found}
    ANSWERS.write_text(json.dumps(answers, separators=(",", ":")) + "\n")
    print(f"{ANSWERS.name}: {ANSWERS.stat().st_size} bytes")


if __name__ == "__main__":
    main()
