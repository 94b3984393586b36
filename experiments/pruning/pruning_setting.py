"""What the experiments on AMP-FL share: cases, measures, how claims are judged, and how figures look.

Deviation: VGG-11 on CIFAR-10 runs for fewer rounds than the source (`VGG_ROUNDS` instead of 1500, and 150 instead of
1000 where pruning rules are compared) and on one seed; what is read "after so many seconds" there is read at the end of
these rounds.

Final accuracy is the mean over the evaluations in the last tenth of the rounds: with two classes per device single
rounds swing. One case is ahead of another when the mean of their paired differences over seeds exceeds its standard
error. A printed margin is reproduced when at least half of it is there, and partly when the order is.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from torch import nn

from fedcell.experiment import Case, Row
from fedcell.experiment.judging import Measure, by_seed, final
from fedcell.experiment.runs import data_of
from fedcell.learn import models
from fedcell.learn.learner import initialise
from fedcell.options import override
from fedcell.report.figure import COLOURS, LINES
from fedcell.scenarios import Config, build_problem, get
from fedcell.types import Problem

SCENARIOS = {"mnist": "pruning", "vgg": "pruning_vgg"}
TITLES = {"mnist": "MNIST", "vgg": "VGG-11 on CIFAR-10"}
VGG_ROUNDS = 400
USUAL: dict[str, dict[str, Any]] = {
    "mnist": {"eval_every": 10},
    "vgg": {"rounds": VGG_ROUNDS, "eval_every": 10, "train.tf32": True},  # tf32 counts on a GPU alone
}
QUICK = {"rounds": 6, "eval_every": 2}  # MNIST; the reduced grid has no VGG-11
NO_RADIO = {"world.access": "own_band"}  # nothing is late or lost; who trains is drawn


def build_dense(config: Config) -> Problem:
    """The problem of the settings with a dense network whose weights start so that signals keep their size (He)."""
    dataset = data_of(config)

    def network() -> nn.Module:
        net = models.build(config.model, dataset.x_train.shape[1:], dataset.n_classes)
        for layer in net.modules():
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)
        return net

    return build_problem(config, dataset, initialise(network, config.seed))


def config(data: str, quick: bool, changes: Mapping[str, Any]) -> Config:
    """The scenario of a data set with changes."""
    return override(get(SCENARIOS[data]).config, {**USUAL[data], **changes, **(QUICK if quick else {})})


def case(key: str, quick: bool, changes: Mapping[str, Any], method: str = "pruning", **settings: Any) -> Case:
    """One run per seed; the data set is the first part of the key. VGG-11 runs on one seed."""
    data = key.partition("/")[0]
    given = {**get(SCENARIOS[data]).methods[method], **settings}
    return Case(key, config(data, quick, changes), method, given, most_seeds=1 if data == "vgg" else None)


# ---------------------------------------------------------------- measures


def age(row: Row) -> float:
    """Mean age of a unit in the second half of the run."""
    values = [value for value in row["age_mean"] if value is not None]
    return float(np.mean(values[len(values) // 2 :]))


def seconds_to(target: float) -> Callable[[Row], float]:
    """Clock at the first evaluation with an accuracy; infinite if never."""

    def measure(row: Row) -> float:
        reached = np.flatnonzero(np.array(row["accuracy"]) >= target)
        return float(row["seconds"][reached[0]]) if len(reached) else inf

    return measure


def at_seconds(clock_s: float) -> Callable[[Row], float]:
    """Accuracy at a time: the mean of the last three evaluations before it, the first one where there is none."""

    def measure(row: Row) -> float:
        before = int(np.searchsorted(row["seconds"], clock_s, side="right"))
        return float(np.mean(row["accuracy"][max(before - 3, 0) : max(before, 1)]))

    return measure


# ---------------------------------------------------------------- drawing


def look(index: int) -> dict[str, Any]:
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": LINES[index % len(LINES)]}


def curve(ax: Axes, rows: list[Row], key: str, index: int, label: str, x: str = "rounds", y: str = "accuracy") -> None:
    """Mean over seeds of a column, with its spread, against the mean of another, at the evaluated rounds."""
    runs = [row for row in rows if row["case"] == key and y in row]
    if not runs:
        return
    at = np.array(runs[0]["rounds"]) - 1
    ys = np.array([row[y] if len(row[y]) == len(at) else np.array(row[y])[at] for row in runs], dtype=np.float64)
    xs = np.mean([row[x] for row in runs], axis=0)
    ax.plot(xs, ys.mean(axis=0), label=label, **look(index))
    if len(runs) > 1:
        low, high = ys.mean(axis=0) - ys.std(axis=0), ys.mean(axis=0) + ys.std(axis=0)
        ax.fill_between(xs, low, high, color=look(index)["color"], alpha=0.15, linewidth=0)


def points(
    ax: Axes, rows: list[Row], xs: Sequence[float], keys: Sequence[str], index: int, label: str, value: Measure = final
) -> None:
    """Mean and spread of a number over a swept setting, where it was run."""
    there = {row["case"] for row in rows}
    run = [(x, list(by_seed(rows, key, value).values())) for x, key in zip(xs, keys, strict=True) if key in there]
    if run:
        centre, spread = [np.mean(v) for _, v in run], [np.std(v) for _, v in run]
        ax.errorbar([x for x, _ in run], centre, spread, capsize=3, marker="o", label=label, **look(index))
