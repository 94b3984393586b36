"""What the experiments on FL-GR share: cases, curves, and how orderings are judged.

Deviation: the source runs VGG-11 on CIFAR-100, which fedcell does not fetch; here VGG-11 runs on CIFAR-10, for fewer
rounds and one seed. Claims about CIFAR-100 are judged on it, and say so.

The source names a momentum of 0.9 that its update (5.3) lacks; the learning rules are also run without it, under names
that end in 0.

Final accuracy is the mean over the evaluations in the last tenth of the rounds: with two classes per device single
rounds swing. One case is ahead of another when the mean of their paired differences over seeds exceeds its standard
error. A target is reached in the first evaluated round with that accuracy; a run that never reaches it counts as one
round more than it has.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from fedcell.experiment import Case, Row
from fedcell.experiment.judging import by_seed
from fedcell.options import override
from fedcell.report.figure import COLOURS, LINES
from fedcell.scenarios import Config, get

SCENARIOS = {"mnist": "recycling_mnist", "cifar": "recycling", "vgg": "recycling_vgg"}
TITLES = {"mnist": "MNIST", "cifar": "CIFAR-10", "vgg": "VGG-11 on CIFAR-10"}
PLAIN = {"mnist0": "MNIST, no momentum", "cifar0": "CIFAR-10, no momentum"}  # the update (5.3) as it is written
NO_RADIO = {  # whoever is picked is heard
    "world.access": "own_band",
    "world.outage_threshold_db": None,
    "world.energy_per_round_joule": inf,
    "world.deadline_s": inf,
    "world.clock": "slowest",
}
VGG = {"rounds": 300, "eval_every": 10, "train.tf32": True}  # tf32 counts on a GPU alone
QUICK = {
    "mnist": {"rounds": 20, "eval_every": 2},
    "cifar": {"rounds": 4, "eval_every": 2},
    "vgg": {"rounds": 1, "eval_every": 1},
}


def config(data: str, quick: bool, **changes: Any) -> Config:
    """The scenario of a data set with changes; keys have `__` for the dot."""
    given = {key.replace("__", "."): value for key, value in changes.items()}
    if data in PLAIN:
        given["train.momentum"] = 0.0
    short = QUICK[base_of(data)] if quick else VGG if data == "vgg" else {}
    return override(get(SCENARIOS[base_of(data)]).config, {**given, **short})


def base_of(data: str) -> str:
    """The data set behind a variant of it."""
    return data.removesuffix("0")


def where(data: str) -> str:
    """The data set in words; claims on VGG-11 stand for CIFAR-100."""
    return {**TITLES, **PLAIN}[data] + (" (source: CIFAR-100)" if data == "vgg" else "")


def case(key: str, config: Config, most_seeds: int | None = None, **settings: Any) -> Case:
    """One run of FL-GR, or of a rule or scheduler beside it, per seed."""
    return Case(key, config, "recycling", settings, most_seeds=most_seeds)


# ---------------------------------------------------------------- measures


def wobble(row: Row) -> float:
    """Standard deviation of the change between evaluations in the last third."""
    return float(np.diff(np.array_split(row["accuracy"], 3)[2]).std())


def staleness(row: Row) -> float:
    """Mean staleness in the second half of the rounds played."""
    values = [value for value in row["stale_mean"] if value is not None]
    return float(np.mean(values[len(values) // 2 :]))


def rounds_to(target: float) -> Callable[[Row], float]:
    """First evaluated round with an accuracy; one more than the run has if never."""

    def measure(row: Row) -> float:
        reached = np.flatnonzero(np.array(row["accuracy"]) >= target)
        return float(row["rounds"][reached[0]] if len(reached) else row["rounds"][-1] + 1)

    return measure


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


def points(
    ax: Axes, rows: list[Row], xs: Sequence[float], keys: Sequence[str], value: Callable[[Row], float], label: str
) -> None:
    """Mean and spread of a number over a swept setting, where it was run."""
    there = {row["case"] for row in rows}
    run = [
        (x, np.array(list(by_seed(rows, key, value).values()))) for x, key in zip(xs, keys, strict=True) if key in there
    ]
    if run:
        mean, spread = [v.mean() for _, v in run], [v.std() for _, v in run]
        ax.errorbar([x for x, _ in run], mean, spread, capsize=3, marker="o", label=label)
