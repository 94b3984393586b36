"""Scenarios that are older than tables, the 5G link, the way down and motion: the same numbers today.

`before.json` holds sums over three rounds of FedAvg, made by this file at commit 9304951, the last one without them:
`PYTHONPATH=src python tests/world/test_before.py`. `tests/byte_equal.py` compares whole runs of two commits.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from fedcell import methods, radio, scenarios, world
from fedcell.types import Problem, Store
from fedcell.world import build_world, static_stream

STORED = Path(__file__).with_name("before.json")


def played(scenario: str) -> dict[str, float]:
    """What the world and the radio of a scenario make of three rounds in which everyone trains."""
    config, fedavg = scenarios.get(scenario).config, methods.load("fedavg")
    n = config.world.n_devices
    store = Store(np.zeros((n, 50), dtype=np.int64), np.full(n, 50))
    place = build_world(config.world, static_stream(store), 20_000, 1e6, config.seed)
    problem = Problem(place, None, config.train, config.seed, 3)  # type: ignore[arg-type]
    decide, state, sums = fedavg.build(fedavg.Config()).decide, world.start(place, config.seed), dict[str, float]()
    for round in range(3):
        seen, state = world.observe(place, state, config.seed, round)
        uplink = radio.transmit(place, seen, decide(problem, None, seen), config.seed)
        state = world.settle(place, state, uplink)
        hardware = {name: getattr(seen.devices, name) for name in ("cpu_hz", "cycles_per_sample", "power_watt")}
        costs = ("compute_s", "upload_s", "compute_joule", "radio_joule", "sent_bit", "outcome", "round_s")
        drawn = {"gain": seen.gain, "mean_gain": seen.mean_gain, "interference_watt": seen.interference_watt}
        drawn |= {"distance_m": seen.topology.distance_m, "available": seen.available, "response_s": seen.response_s}
        drawn |= {"battery_joule": state.battery_joule, "clock_s": state.clock_s}
        for name, value in (hardware | drawn | {cost: getattr(uplink, cost) for cost in costs}).items():
            if value is not None and np.isfinite(value).all():
                sums[name] = sums.get(name, 0.0) + float(np.sum(np.arange(1, np.size(value) + 1) * value))
    return sums


@pytest.mark.parametrize("scenario", json.loads(STORED.read_text()) if STORED.exists() else [])
def test_a_scenario_is_what_it_was(scenario: str) -> None:
    found, before = played(scenario), json.loads(STORED.read_text())[scenario]
    assert found == pytest.approx(before, rel=1e-12)


if __name__ == "__main__":
    STORED.write_text(json.dumps({name: played(name) for name in scenarios.names()}, indent=0) + "\n")
