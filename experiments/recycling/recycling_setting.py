"""What the experiments on FL-GR share: worlds, cases, measures, and how curves are drawn.

Inputs are standardised. The momentum of 0.9 that the source names is local and starts anew in every round; its update
(5.3) has none, so the learning rules are also run without it, under names that end in 0.

Schedulers and sweeps are judged in the cell whose deadline binds (`tight`, 0.25 s). The cell in which every device can
meet its budgets (`slack`, 0.3 s) is reported beside it.

Deviation: the source runs VGG-11 on CIFAR-100, which fedcell does not fetch; here VGG-11 runs on CIFAR-10 with batch
norm and for fewer rounds. Claims about CIFAR-100 are judged on it, and say so.

Final accuracy is the mean over the evaluations in the last tenth of the rounds: with two classes per device single
rounds swing. The readings were chosen after results on other seeds; all cases run on fresh ones (`SEEDS`).
"""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from fedcell.experiment import Case, Row
from fedcell.experiment.judging import Measure, values_of
from fedcell.experiment.measures import column
from fedcell.options import override
from fedcell.report.figure import COLOURS, LINES
from fedcell.scenarios import Config, get

SCENARIOS = {
    "mnist": "recycling_mnist",
    "cifar": "recycling",
    "tight": "recycling_tight",
    "slack": "recycling",
    "reach": "recycling",
    "vgg": "recycling_vgg",
    "vgg tight": "recycling_vgg",
}
TITLES = {
    "mnist": "MNIST",
    "cifar": "CIFAR-10",
    "tight": "deadline 0.25 s",
    "slack": "deadline 0.3 s",
    "reach": "CIFAR-10, no radio",
    "vgg": "VGG-11 on CIFAR-10 (source: CIFAR-100)",
    "vgg tight": "VGG-11 on CIFAR-10, deadline 40 s (source: CIFAR-100)",
    "mnist0": "MNIST, no momentum",
    "cifar0": "CIFAR-10, no momentum",
}
SEEDS = {
    "mnist": (31, 32, 33, 34, 35),  # three of them on CIFAR-10
    "tight": (31, 32, 33, 34, 35, 36),  # the last three were added, to all cases at once, when the first left most open
}
NO_RADIO = {  # whoever is picked is heard
    "world.access": "own_band",
    "world.outage_threshold_db": None,
    "world.energy_per_round_joule": inf,
    "world.deadline_s": inf,
    "world.clock": "slowest",
}
SHORT_VGG = {"rounds": 300, "eval_every": 10, "train.tf32": True}  # tf32 counts on a GPU alone
OF_WORLD: dict[str, dict[str, Any]] = {
    "mnist": NO_RADIO,
    "cifar": NO_RADIO,
    "reach": NO_RADIO,
    "vgg": SHORT_VGG | NO_RADIO,
    "vgg tight": SHORT_VGG | {"world.deadline_s": 40.0},  # three quarters of the devices can be reached in a round
}
QUICK = {
    "mnist": {"rounds": 20, "eval_every": 2},
    "vgg": {"rounds": 1, "eval_every": 1},
    "vgg tight": {"rounds": 1, "eval_every": 1},
}


def config(world: str, quick: bool, **changes: Any) -> Config:
    """The scenario of a world with changes; keys have `__` for the dot. A 0 at the end of its name: no momentum."""
    base = base_of(world)
    given = {key.replace("__", "."): value for key, value in changes.items()}
    if world != base:
        given["train.momentum"] = 0.0
    short = QUICK.get(base, {"rounds": 4, "eval_every": 2}) if quick else {}
    return override(get(SCENARIOS[base]).config, {**OF_WORLD.get(base, {}), **given, **short})


def base_of(world: str) -> str:
    """The world behind a variant of it."""
    return world.removesuffix("0")


def case(key: str, quick: bool, changes: dict[str, Any] | None = None, **settings: Any) -> Case:
    """A run of FL-GR, or of a rule or scheduler beside it, per seed; its world is the first part of the key."""
    world = key.partition("/")[0]
    seeds = SEEDS.get(base_of(world), SEEDS["mnist"][:3])
    return Case(key, config(world, quick, **(changes or {})), "recycling", settings, seeds=seeds)


staleness = column("stale_mean", second_half=True)


# ---------------------------------------------------------------- drawing


def curve(ax: Axes, rows: list[Row], key: str, index: int, x: str = "rounds", y: str = "accuracy") -> None:
    """Mean over seeds of one column against another; columns of all rounds are taken at the evaluated ones."""
    runs = [row for row in rows if row["case"] == key]
    if not runs:
        return
    at = np.array(runs[0]["rounds"]) - 1
    columns = [np.array(row[y], dtype=np.float64) for row in runs]
    values = [column if len(column) == len(at) else column[at] for column in columns]
    look = {"color": COLOURS[index % len(COLOURS)], "linestyle": LINES[index % len(LINES)]}
    ax.plot(runs[0][x], np.mean(values, axis=0), label=key.partition("/")[2] or key, **look)


def points(ax: Axes, rows: list[Row], xs: Sequence[float], keys: Sequence[str], value: Measure, label: str) -> None:
    """Mean and spread of a number over a swept setting, if it was run."""
    found = [(x, values_of(rows, key, value)) for x, key in zip(xs, keys, strict=True)]
    run = [(x, values) for x, values in found if len(values)]
    if run:
        mean, spread = [v.mean() for _, v in run], [v.std() for _, v in run]
        ax.errorbar([x for x, _ in run], mean, spread, capsize=3, marker="o", label=label)
