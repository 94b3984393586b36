"""Where the time of a round goes: training, and everything around it.

FedAvg with all devices in the `cell` world: LeNet on 28 x 28 images with 100 devices, logistic regression with 10,000.
The bars: all but training and evaluation below 5 % of a round at 100 devices, below 20 % at 10,000.

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

CASES: dict[str, tuple[int, dict[str, Any], float]] = {  # devices, settings, bar
    "LeNet": (100, {"model.name": "cnn", "model.channels": (10, 20), "model.hidden": (50,)}, 0.05),
    "logistic": (10_000, {"model.name": "logistic"}, 0.20),
}
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
    share = 1 - (spent["training"] + spent["aggregate"]) / total_s
    told = ", ".join(f"{part} {1e3 * value / (rounds - 1):.2f}" for part, value in spent.items())
    print(
        f"{name}, {n_devices} devices: {1e3 * total_s / (rounds - 1):.1f} ms a round; ms of its parts: {told}; "
        f"around learning {100 * share:.2f} % (bar {100 * bar:g} %: {'holds' if share < bar else 'MISSED'})",
        flush=True,
    )
    return share < bar


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    held = [measure(name, rounds) for name in CASES]
    return int(not all(held))


if __name__ == "__main__":
    raise SystemExit(main())
