"""Where the time of a round goes: training, and everything around it.

FedAvg with all devices in the `cell` world: LeNet on 28 x 28 images with 100 devices, logistic regression with 10,000.
The bars: world, decision, radio and row below 5 % of a round at 100 devices, below 20 % at 10,000. (Large cohorts train
when sums are asked for, so their training shows in none of the parts.) The same with all of the world on (`CITY`:
motion, correlated channels, interference of others, a 5G link both ways, idle energy and harvesting). Last, a moving
world of 1,000 devices alone, whose bar is 10 ms of processor time a round.

    python benchmarks/shares.py [--rounds 5]
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

import fedcell
from fedcell import methods, radio, simulate, world
from fedcell.options import override
from fedcell.scenarios import Config, build_problem
from fedcell.types import Problem

CITY = {
    "world.topology": "cells",
    "world.n_cells": 3,
    "world.geometry": "waypoints",
    "world.shadowing": "correlated",
    "world.fading": "jakes",
    "world.interference": "others",
    "world.link": "nr",
    "world.downlink": "broadcast",
    "world.receive_watt": 0.5,
    "world.idle_watt": 0.02,
    "world.harvest_watt": 0.1,
    "world.harvest": "day",
    "world.battery_joule": 1e6,
}
LENET = {"model.name": "cnn", "model.channels": (10, 20), "model.hidden": (50,)}
CASES: dict[str, tuple[int, dict[str, Any], float]] = {  # devices, settings, bar
    "LeNet": (100, LENET, 0.05),
    "logistic": (10_000, {"model.name": "logistic"}, 0.20),
    "LeNet in the city": (100, LENET | CITY, 0.05),
    "logistic in the city": (10_000, {"model.name": "logistic"} | CITY, 0.20),
}
MOVING_S = 0.010  # bar of a moving world of 1,000 devices
COMMON = {"train.steps": 5, "train.batch_size": 32, "data.partition": "iid", "eval_every": 10**6}


def problem_of(n_devices: int, settings: dict[str, Any], rounds: int) -> Problem:
    rng = np.random.default_rng(1)
    n = max(6000, 2 * n_devices)
    x, y = rng.random((n, 1, 28, 28), dtype=np.float32), rng.integers(0, 10, n)
    data = fedcell.from_arrays(x, y, x[:10], y[:10])
    asked = {**COMMON, **settings, "world.n_devices": n_devices, "rounds": rounds}
    return build_problem(override(Config(), asked), data)


def timed(spent: dict[str, float], name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with its seconds added up under a name."""

    def watched(*given: Any, **named: Any) -> Any:
        begun_s = time.perf_counter()
        try:
            return work(*given, **named)
        finally:
            spent[name] += time.perf_counter() - begun_s

    return watched


def measure(name: str, rounds: int) -> bool:
    n_devices, settings, bar = CASES[name]
    problem, method = problem_of(n_devices, settings, rounds + 1), methods.parse("fedavg").build()
    spent: dict[str, float] = defaultdict(float)
    watched = method._replace(
        decide=timed(spent, "decide", method.decide),
        local=timed(spent, "training", method.local),
        aggregate=timed(spent, "aggregate", method.aggregate),
    )
    parts = ((world, "observe"), (world, "settle"), (radio, "transmit"), (simulate, "measure"))
    before = [getattr(place, part) for place, part in parts]
    for place, part in parts:
        setattr(place, part, timed(spent, part, getattr(place, part)))
    try:
        rows = simulate.simulate(problem, watched)
        next(rows)  # warms up
        spent.clear()
        begun_s = time.perf_counter()
        for _ in range(rounds - 1):  # without the last round, which is evaluated
            next(rows)
        total_s = time.perf_counter() - begun_s
    finally:
        for (place, part), old in zip(parts, before, strict=True):
            setattr(place, part, old)
    share = sum(spent[part] for part in ("observe", "decide", "transmit", "settle", "measure")) / total_s
    told = ", ".join(f"{part} {1e3 * value / (rounds - 1):.2f}" for part, value in spent.items())
    print(
        f"{name}, {n_devices} devices: {1e3 * total_s / (rounds - 1):.1f} ms a round; ms of its parts: {told}; "
        f"around learning {100 * share:.2f} % (bar {100 * bar:g} %: {'holds' if share < bar else 'MISSED'})",
        flush=True,
    )
    return share < bar


def moving(rounds: int) -> bool:
    """The world alone: places, cells, channels to all stations and batteries of 1,000 devices."""
    problem = problem_of(1000, {"model.name": "logistic"} | CITY, 1)
    state, seconds = world.start(problem.world, 1), []
    for round in range(rounds + 1):
        begun_s = time.process_time()  # whatever else the machine does
        world.observe(problem.world, state._replace(clock_s=600.0 * round), 1, round)
        seconds.append(time.process_time() - begun_s)
    median_s = float(np.median(seconds[1:]))  # the first draws what is kept
    told = "holds" if median_s < MOVING_S else "MISSED"
    print(f"moving world, 1,000 devices: {1e3 * median_s:.2f} ms a round (bar {1e3 * MOVING_S:g} ms: {told})")
    return median_s < MOVING_S


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    held = [*(measure(name, rounds) for name in CASES), moving(max(rounds, 30))]
    return int(not all(held))


if __name__ == "__main__":
    raise SystemExit(main())
