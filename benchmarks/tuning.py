"""Tuned settings against presets: what an accuracy costs before and after a search, on seeds that it did not see.

    python benchmarks/tuning.py [--trials 12]

Each case searches on two seeds and is judged on three others, seed by seed. Prints a line per case.
"""

import argparse
import tempfile
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedcell.report.paired import Difference, difference
from fedcell.sweeps import sweep
from fedcell.tuning.search import Tuning, cost_to, tune
from fedcell.until import Goal


class Case(NamedTuple):
    """A method in a scenario, its target, what is least, and what is searched."""

    method: str
    accuracy: float
    cost: str
    search: dict[str, str]
    settings: dict[str, Any]


CASES = {
    "cell": Case("fedavg", 0.85, "joules", {"train.lr": "0.05~1", "train.steps": "1..15"}, {"rounds": 100}),
    "cells": Case(
        "fedavg:scheduler=random",
        0.8,
        "joules",
        {"train.lr": "0.05~1", "train.steps": "1..15", "fedavg.n_selected": "2..8"},
        {"rounds": 100},
    ),
    "blocks": Case(
        "fedavg:scheduler=best-channel,n_selected=5",
        0.7,
        "joules",
        {"train.lr": "0.05~1", "train.steps": "1..15"},
        {"rounds": 150},
    ),
    "video": Case("osafl", 0.6, "joules", {"osafl.lr": "0.05~0.5", "osafl.server_lr": "5~80"}, {"rounds": 40}),
}
SEARCHED, JUDGED = (1, 2), (3, 4, 5)


def judge(scenario: str, case: Case, trials: int, folder: Path) -> tuple[Tuning, Difference, float, float]:
    """Search, then run the preset and the best settings on other seeds: the difference of their costs."""
    goal = Goal("accuracy", case.accuracy)
    asked: dict[str, Any] = {"until": {"accuracy": case.accuracy}, "search": case.search, "cost": case.cost}
    found = tune(
        case.method, scenario, **asked, settings=case.settings, seeds=SEARCHED, trials=trials, out=folder / "tune"
    )
    means = []
    for name, settings in (("preset", {}), ("best", dict(found.best.settings))):
        runs = sweep(
            case.method,
            scenario,
            JUDGED,
            {**case.settings, **settings},
            until={"accuracy": case.accuracy},
            out=folder / name,
        )
        means.append(np.array([cost_to(run.folder, goal, case.cost)[0] for run in runs]))
    before, after = means
    gap = difference(np.where(after == inf, np.nan, after), np.where(before == inf, np.nan, before))
    return found, gap, float(before.mean()), float(after.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--only", choices=[*CASES], action="append")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        for scenario in args.only or CASES:
            case = CASES[scenario]
            found, gap, before, after = judge(scenario, case, args.trials, Path(place) / scenario)
            words = " ".join(f"{key}={value}" for key, value in found.best.settings.items()) or "the preset"
            print(f"{scenario}: {case.method} to {100 * case.accuracy:g} %: {words}")
            print(f"  searched on seeds {SEARCHED}: {found.preset.cost:.4g} -> {found.best.cost:.4g} {case.cost}")
            print(f"  judged on seeds {JUDGED}: {before:.4g} -> {after:.4g} {case.cost}", end="")
            print(f" (difference {gap.mean:+.4g}, 95 % interval {gap.low:+.4g} to {gap.high:+.4g}, {gap.n} seeds)")


if __name__ == "__main__":
    main()
