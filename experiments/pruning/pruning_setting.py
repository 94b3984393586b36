"""What the experiments on AMP-FL share: cases, measures, and how figures look.

Inputs are standardised, and VGG-11 has batch norm with batch statistics; both were chosen after results on other seeds,
so all cases run on fresh ones (`SEEDS`). VGG-11 runs for the published rounds, on three seeds and in fewer cases.

Final accuracy is the mean over the evaluations in the last tenth of the rounds: with two classes per device single
rounds swing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from fedcell.experiment import Case, Row
from fedcell.experiment.judging import Measure, final, values_of
from fedcell.experiment.measures import column
from fedcell.options import override
from fedcell.report.figure import COLOURS, LINES
from fedcell.scenarios import Config, get

SCENARIOS = {"mnist": "pruning", "vgg": "pruning_vgg"}
TITLES = {"mnist": "MNIST", "vgg": "VGG-11 on CIFAR-10"}
SEEDS = {"mnist": (31, 32, 33, 34, 35), "vgg": (31, 32, 33)}
USUAL: dict[str, dict[str, Any]] = {
    "mnist": {"eval_every": 10},
    "vgg": {"eval_every": 20, "train.tf32": True},  # tf32 counts on a GPU alone
}
QUICK = {"rounds": 6, "eval_every": 2}  # MNIST; the reduced grid has no VGG-11
NO_RADIO = {"world.access": "own_band"}  # nothing is late or lost; who trains is drawn


def config(data: str, quick: bool, changes: Mapping[str, Any]) -> Config:
    """The scenario of a data set with changes."""
    return override(get(SCENARIOS[data]).config, {**USUAL[data], **changes, **(QUICK if quick else {})})


def case(key: str, quick: bool, changes: Mapping[str, Any], method: str = "pruning", **settings: Any) -> Case:
    """One run per seed; the data set is the first part of the key."""
    data = key.partition("/")[0]
    given = {**get(SCENARIOS[data]).methods[method], **settings}
    return Case(key, config(data, quick, changes), method, given, seeds=SEEDS[data])


age = column("age_mean", second_half=True)


def fastest(rows: list[Row], keys: Mapping[str, str], when: Measure) -> str:
    """The name of the case that gets somewhere first in the mean; one that never does takes as long as its run."""

    def seconds(name: str) -> float:
        ends = values_of(rows, keys[name], lambda row: float(row["seconds"][-1]))
        return float(np.minimum(values_of(rows, keys[name], when), ends).mean()) if len(ends) else np.inf

    return min(keys, key=seconds)


def best(rows: list[Row], keys: Mapping[str, str], value: Measure = final) -> str:
    """The name of the case with the highest number in the mean; those not run come last."""

    def number(name: str) -> float:
        values = values_of(rows, keys[name], value)
        return float(values.mean()) if len(values) else -np.inf

    return max(keys, key=number)


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
    """Mean and spread of a number over a swept setting, if it was run."""
    found = [(x, values_of(rows, key, value)) for x, key in zip(xs, keys, strict=True)]
    run = [(x, values) for x, values in found if len(values)]
    if run:
        centre, spread = [v.mean() for _, v in run], [v.std() for _, v in run]
        ax.errorbar([x for x, _ in run], centre, spread, capsize=3, marker="o", label=label, **look(index))
