"""Small worlds with exact numbers, for every test of the radio."""

from typing import Any

import numpy as np

from fedcell.types import Decision, Devices, Observation, Store, Topology, World
from fedcell.world import static_stream
from fedcell.world.settings import WorldConfig

Scene = tuple[World, Observation, Decision]


DEFAULTS: dict[str, Any] = {
    "gain": 3e-8,
    "mean_gain": 3e-8,
    "interference": [0.0, 1e-9, 2e-9, 4e-9],
    "available": True,
    "response_s": None,
    "energy": np.inf,
    "battery": np.inf,
    "round": 0,
    "selected": True,
    "steps": 5,
    "samples": 20.0,
    "cycles_per_sample": 1e7,
    "cpu_hz": 1e9,
    "power_watt": 0.1,
    "bandwidth_hz": 1e6,
    "block": -1,
    "payload_bit": 1e6,
    "deadline_s": np.inf,
    "round_s": None,
}


def _spread(value: Any, n: int, dtype: type = np.float64) -> Any:
    return np.broadcast_to(np.asarray(value, dtype=dtype), (n,)).copy()


def scene(n: int = 3, *, config: dict[str, Any] | None = None, **changes: Any) -> Scene:
    """`n` devices: 1 MHz each, 1e6 bit, SINR 3 (so 0.5 s at 0.1 W), 1e9 cycles at 1 GHz (1 s, 0.1 J)."""
    base: dict[str, Any] = {"access": "own_band", "bandwidth_hz": 1e6, "n_blocks": 4}
    settings = WorldConfig(n_devices=n, **base | (config or {}))
    given = DEFAULTS | changes
    devices = Devices(
        cpu_hz=np.full(n, 2e9),
        cycles_per_sample=_spread(given["cycles_per_sample"], n),
        capacitance=np.full(n, 1e-28),
        power_watt=np.full(n, 1.0),
        energy_per_round_joule=_spread(given["energy"], n),
        battery_joule=np.full(n, np.inf),
    )
    cell = np.arange(n, dtype=np.int64) * settings.n_cells // n
    topology = Topology(np.zeros((settings.n_cells, 2)), np.zeros((n, 2)), cell, np.full(n, 100.0))
    store = Store(np.zeros((n, 1), dtype=np.int64), np.ones(n, dtype=np.int64))
    interference = np.asarray(given["interference"], dtype=np.float64)
    world = World(settings, devices, topology, static_stream(store), interference, 1e-15, 1e6)
    response = None if given["response_s"] is None else _spread(given["response_s"], n)
    gain, mean_gain, battery = (_spread(given[name], n) for name in ("gain", "mean_gain", "battery"))
    available = _spread(given["available"], n, bool)
    observation = Observation(
        given["round"], gain, mean_gain, interference, available, response, devices, topology, store, battery
    )
    decision = Decision(
        selected=_spread(given["selected"], n, bool),
        steps=_spread(given["steps"], n, np.int64),
        samples_per_step=_spread(given["samples"], n),
        cpu_hz=_spread(given["cpu_hz"], n),
        power_watt=_spread(given["power_watt"], n),
        bandwidth_hz=_spread(given["bandwidth_hz"], n),
        block=_spread(given["block"], n, np.int64),
        payload_bit=_spread(given["payload_bit"], n),
        deadline_s=given["deadline_s"],
        round_s=given["round_s"],
    )
    return world, observation, decision
