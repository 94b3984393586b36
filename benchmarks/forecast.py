"""Forecasts from short pilots against full runs: predicted and measured seconds and joules, and how often they agree.

    python benchmarks/forecast.py [--seeds 3]

Five small worlds, each on several seeds; the constants of the forecast were chosen with seeds 1 and 2, which are not
among them. A pilot is about a third of the rounds that the target takes. Prints a line per run and the share of the
intervals that hold what was measured.
"""

import argparse
import tempfile
from collections.abc import Iterator
from math import inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple

import fedcell
from fedcell.plan.forecast import Forecast, forecast
from fedcell.tuning.search import cost_to
from fedcell.until import Goal

DENSE = {"model.name": "mlp", "model.hidden": "32", "data.name": "digits", "data.scaling": "unit"}
CASES: dict[str, tuple[str, float, int, dict[str, Any]]] = {  # scenario: method, accuracy, pilot rounds, settings
    "cell": ("fedavg", 0.88, 12, {}),
    "cells": ("fedavg:scheduler=random,n_selected=4", 0.8, 7, {}),
    "blocks": ("fedavg:scheduler=random,n_selected=5", 0.8, 20, {"world.outage_threshold_db": 10}),
    "recycling": ("recycling", 0.85, 8, DENSE | {"world.n_devices": 30, "eval_every": 1, "train.batch_size": 16}),
    "cafe": ("cafe:quorum=10", 0.8, 60, DENSE | {"world.n_devices": 30, "eval_every": 1}),
}
MOST_ROUNDS = 400
ROUNDING = 1e-9  # clocks are sums of rounds in one and the clock of the run in the other
FIRST_SEED = 31


class Judged(NamedTuple):
    """A forecast and what came true."""

    scenario: str
    seed: int
    found: Forecast
    measured: dict[str, float]


def judge(scenario: str, seed: int, folder: Path) -> Judged:
    """Run a pilot, forecast, run on, and measure."""
    method, accuracy, pilot, settings = CASES[scenario]
    goal = Goal("accuracy", accuracy)
    values = {"rounds": MOST_ROUNDS, **settings, "seed": seed}
    short = fedcell.run(method, scenario, {**values, "rounds": pilot}, out=folder / "pilot")[0]
    found = forecast(short.folder, goal, horizon=MOST_ROUNDS)
    whole = fedcell.run(method, scenario, values, until={"accuracy": accuracy}, out=folder / "whole")[0]
    names = ("rounds", "seconds", "joules")
    return Judged(scenario, seed, found, {name: cost_to(whole.folder, goal, name)[0] for name in names})


def lines(found: list[Judged]) -> Iterator[str]:
    """A line per run, then what holds."""
    yield f"{'scenario':<12}{'seed':>5}{'predicted s':>34}{'measured s':>12}{'predicted J':>34}{'measured J':>12}"
    held = {"seconds": 0, "joules": 0}
    ratios = {"seconds": list[float](), "joules": list[float]()}
    for one in found:
        cells = []
        for name in held:
            cost, real = one.found.costs[name], one.measured[name]
            held[name] += cost.low * (1 - ROUNDING) <= real <= cost.high * (1 + ROUNDING)
            if isfinite(cost.median) and real < inf:
                ratios[name].append(cost.median / real)
            cells += [f"{cost.median:.4g} ({cost.low:.4g} to {cost.high:.4g})", f"{real:.4g}"]
        yield f"{one.scenario:<12}{one.seed:>5}{cells[0]:>34}{cells[1]:>12}{cells[2]:>34}{cells[3]:>12}"
    share = 100 * found[0].found.confidence
    for name, count in held.items():
        middle = sorted(ratios[name])[len(ratios[name]) // 2] if ratios[name] else float("nan")
        inside = f"{count} of {len(found)} runs lie in their {share:g} % interval"
        yield f"{name}: {inside}; median predicted / measured {middle:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found = [
            judge(scenario, seed, Path(place) / f"{scenario}-{seed}")
            for scenario in CASES
            for seed in range(FIRST_SEED, FIRST_SEED + args.seeds)
        ]
    print("\n".join(lines(found)))


if __name__ == "__main__":
    main()
