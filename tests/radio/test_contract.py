"""The contract of a decision: every breach is named with its fix."""

from typing import Any

import numpy as np
import pytest
from scenes import scene

from fedcell.errors import ContractError
from fedcell.radio import check_decision

CELLS = {"topology": "cells", "n_cells": 2}
FDMA = {"access": "fdma"}
BLOCK = {"access": "block"}


@pytest.mark.parametrize(
    ("config", "changes"),
    [
        ({}, {}),
        ({}, {"power_watt": 1.0 + 5e-10, "cpu_hz": 2e9 * (1 + 5e-10), "bandwidth_hz": 1e6 * (1 + 5e-10)}),
        (FDMA, {"bandwidth_hz": [0.5e6, 0.25e6, 0.25e6]}),
        (FDMA, {"bandwidth_hz": 1e6 / 3 * (1 + 5e-10)}),
        (FDMA, {"bandwidth_hz": [0.6e6, 0.4e6, 0.9e6], "selected": [True, True, False]}),
        (FDMA | CELLS, {"bandwidth_hz": [0.6e6, 0.4e6, 1e6]}),
        (BLOCK, {"block": [0, 3, 1]}),
        (BLOCK, {"block": [2, 2, -1], "selected": [True, False, False]}),
        (BLOCK | CELLS, {"block": [0, 3, 0]}),
        ({}, {"selected": False, "steps": 0, "cpu_hz": 0.0, "available": False}),
        ({}, {"selected": [True, False, True], "power_watt": [1.0, 99.0, 0.0], "payload_bit": [0.0, -1.0, 1.0]}),
        ({"clock": "deadline", "deadline_s": 1.0}, {"round_s": 2.0}),
    ],
)
def test_good_decisions_pass(config: dict[str, Any], changes: dict[str, Any]) -> None:
    check_decision(*scene(3, config=config, **changes))


@pytest.mark.parametrize(
    ("config", "changes", "said"),
    [
        ({}, {"available": [True, False, True]}, "selected device 1 is not available: mask by observation.available"),
        ({}, {"power_watt": [0.1, 0.1, 1.1]}, "power_watt of device 2 is 1.1 > limit 1: clip in decide()"),
        ({}, {"power_watt": -0.1}, "power_watt of device 0 is -0.1 < 0: raise or deselect it in decide()"),
        ({}, {"cpu_hz": 2.1e9}, "cpu_hz of device 0 is 2100000000 > limit 2000000000"),
        ({}, {"cpu_hz": 2e9 * (1 + 2e-9)}, "cpu_hz of device 0"),
        ({}, {"cpu_hz": 0.0}, "cpu_hz of device 0 is 0 < 1"),
        ({}, {"steps": [1, 0, 1]}, "steps of device 1 is 0 < 1"),
        ({}, {"payload_bit": -1.0}, "payload_bit of device 0 is -1 < 0"),
        ({}, {"samples": -1.0}, "samples_per_step of device 0 is -1 < 0"),
        ({}, {"bandwidth_hz": 1.2e6}, "bandwidth_hz of device 0 is 1200000 > limit 1000000"),
        ({}, {"power_watt": [0.1, np.nan, 0.1]}, "power_watt of device 1 is nan: return finite numbers"),
        ({}, {"payload_bit": np.inf}, "payload_bit of device 0 is inf"),
        ({}, {"selected": False, "cpu_hz": np.nan}, "cpu_hz of device 0 is nan"),
        ({}, {"deadline_s": 0.0}, "deadline_s is 0.0: return a time above 0"),
        ({}, {"deadline_s": np.nan}, "deadline_s is nan"),
        ({}, {"round_s": np.inf}, "round_s is inf: return a finite time or None"),
        ({}, {"round_s": -1.0}, "round_s is -1.0"),
        ({"clock": "deadline", "deadline_s": 1.0}, {}, "deadline_s is inf with world.clock = 'deadline'"),
        (
            FDMA,
            {"bandwidth_hz": [0.6e6, 0.4e6, 0.2e6]},
            "bandwidth_hz sums to 1200000 in cell 0 > budget 1000000: normalise in decide()",
        ),
        (FDMA | CELLS, {"bandwidth_hz": [0.1e6, 0.1e6, 1.2e6]}, "bandwidth_hz of device 2"),
        (FDMA | CELLS, {"bandwidth_hz": [0.6e6, 0.6e6, 0.1e6]}, "sums to 1200000 in cell 0"),
        (BLOCK, {"block": [0, -1, 1]}, "block of device 1 is -1, not in 0..3: assign one in decide()"),
        (BLOCK, {"block": [0, 1, 4]}, "block of device 2 is 4"),
        (BLOCK, {"block": [2, 1, 2]}, "block 2 of cell 0 goes to 2 devices: assign it once in decide()"),
        (BLOCK | CELLS, {"block": [0, 0, 0]}, "block 0 of cell 0 goes to 2 devices"),
        (BLOCK, {"block": [0, 1, 2], "bandwidth_hz": 2e6}, "bandwidth_hz of device 0"),
    ],
)
def test_breaches_are_named(config: dict[str, Any], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ContractError) as caught:
        check_decision(*scene(3, config=config, **changes))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("steps", np.ones(3), "steps is float64, not an array of int64: convert it in decide()"),
        ("selected", np.ones(3, dtype=np.int64), "selected is int64, not an array of bool"),
        ("power_watt", np.ones(3, dtype=np.float32), "power_watt is float32"),
        ("power_watt", [1.0, 1.0, 1.0], "power_watt is list"),
        ("cpu_hz", np.ones(2), "cpu_hz has shape (2,), not (3,): one entry per device"),
        ("cpu_hz", np.ones((3, 1)), "cpu_hz has shape (3, 1)"),
        ("download_bit", np.ones(2), "download_bit has shape (2,), not (3,): one entry per device"),
        ("download_bit", 1e6, "download_bit is float, not an array of float64: convert it in decide()"),
        ("download_bit", np.array([1.0, np.nan, 1.0]), "download_bit of device 1 is nan: return finite numbers"),
        ("download_bit", np.array([1.0, 0.0, -2.0]), "download_bit of device 2 is -2 < 0: return 0 or more"),
    ],
)
def test_shapes_and_types_are_named(name: str, value: Any, said: str) -> None:
    world, observation, decision = scene(3)
    with pytest.raises(ContractError) as caught:
        check_decision(world, observation, decision._replace(**{name: value}))
    assert said in str(caught.value)
