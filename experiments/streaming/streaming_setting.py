"""What the figures of the streaming paper share: cases on both data sets, measures of a run, label laws, figures.

Accuracy is the mean of the per-class test accuracies, which on Fashion-MNIST is the plain accuracy. Claims are about
both data sets: without the traffic file (docs/methods/streaming.md says how to build it) run `--only fashion`, and
what is on the traffic data stays not run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedcell.experiment import Case, Row
from fedcell.experiment.judging import Measure, Part, ahead, of_accuracy, told
from fedcell.methods.streaming.theory import label_trace
from fedcell.options import override
from fedcell.scenarios import Config, get
from fedcell.types import Floats
from fedcell.world.labels import draw_law

METRIC = "balanced_accuracy"
TAIL = 20  # rounds at the end of a run that are averaged
SCENARIOS = {"traffic": "streaming_traffic", "fashion": "streaming"}
TITLES = {"traffic": "ISCX traffic", "fashion": "Fashion-MNIST"}
THETAS = {"0.1": 0.1, "1/3": 1 / 3, "2/3": 2 / 3, "1": 1.0}  # the paper gives 2/3 alone
QUICK = {"rounds": 40, "eval_every": 2}
LABEL_SEEDS = tuple(range(1, 11))  # of what needs no training
FRESH = {"traffic": (4, 5, 6, 7, 8)}  # the rate there was chosen after results of seeds 1 to 3
STORE = "figures"  # of all files of this folder
N_CLASSES = 10


def cases(grid: Mapping[str, Mapping[str, Any]], quick: bool, seeds: Mapping[str, Sequence[int]] = FRESH) -> list[Case]:
    """One case per data set and entry of the grid, named `data set/entry`; `seeds` are a data set's own."""
    out = []
    for data, scenario in SCENARIOS.items():
        preset = get(scenario).config
        for name, changes in grid.items():
            config = override(preset, {**changes, **(QUICK if quick else {})})
            out.append(Case(f"{data}/{name}", config, "streaming", seeds=seeds.get(data, ())))
    return out


def name(rule: str, capacity: int = 300, batch: int = 150, theta: str = "2/3") -> str:
    """What a rule with its numbers is called in every figure, so that figures can share runs."""
    weight = f"({theta})" if rule == "srsr" else ""
    return f"{rule}{weight} {batch}/{capacity}"


def stream(rule: str, capacity: int = 300, batch: int = 150, theta: str = "2/3") -> dict[str, Any]:
    """A rule with its numbers, as settings."""
    weight = THETAS[theta]
    return {"stream.cache": rule, "stream.capacity": capacity, "stream.batch": batch, "stream.theta": weight}


def grid(*entries: tuple[Any, ...]) -> dict[str, dict[str, Any]]:
    """Settings by name for some (rule, capacity, batch, theta)."""
    return {name(*entry): stream(*entry) for entry in entries}


def ran(rows: Sequence[Row]) -> list[str]:
    """The data sets that have rows."""
    return [data for data in SCENARIOS if any(row["case"].startswith(f"{data}/") for row in rows)]


# ---------------------------------------------------------------- measures of a run


def accuracies(row: Row) -> Floats:
    """Accuracy at the evaluated rounds, NaN after a run diverged."""
    return np.array([row[METRIC][number - 1] for number in row["rounds"]], dtype=np.float64)


def curves(rows: Sequence[Row], case: str) -> Floats:
    """Accuracy at the evaluated rounds, one row per seed in their order, `[n_seeds, n_evaluations]`."""
    own = sorted((row for row in rows if row["case"] == case), key=lambda row: row["seed"])
    return np.array([accuracies(row) for row in own])


def rounds(rows: Sequence[Row], case: str) -> Floats:
    """The evaluated rounds of a case."""
    return np.array(next(row["rounds"] for row in rows if row["case"] == case))


@of_accuracy
def tail(row: Row) -> float:
    """Mean accuracy over the last rounds."""
    at = np.array(row["rounds"])
    return float(accuracies(row)[at > at[-1] - TAIL].mean())


def third(number: int) -> Measure:
    """Mean accuracy over the first (0), second or last (2) third of the run."""
    return of_accuracy(lambda row: float(np.array_split(accuracies(row), 3)[number].mean()))


@of_accuracy
def wobble(row: Row) -> float:
    """Standard deviation of the change between evaluations in the last third."""
    return float(np.diff(np.array_split(accuracies(row), 3)[2]).std())


def beats(rows: Sequence[Row], high: str, low: str, value: Measure = tail, name: str = "") -> Part:
    """One case is more accurate than another, by default in the last rounds."""
    return ahead(rows, high, low, value, name=name)


def table(rows: Sequence[Row], names: Sequence[str], value: Measure = tail) -> str:
    """An accuracy of some cases on both data sets, in words."""
    return "; ".join(
        f"{TITLES[data]}: " + ", ".join(f"{name} {told(rows, f'{data}/{name}', value)}" for name in names)
        for data in ran(rows)
    )


# ---------------------------------------------------------------- labels, without training


def label_cases(grid: Mapping[str, Mapping[str, Any]]) -> list[Case]:
    """How far the cached labels are from their long-term law, for entries of a grid; no data set counts."""
    preset = get("streaming").config
    return [
        Case(f"labels/{name}", override(preset, changes), "streaming", seeds=LABEL_SEEDS, measure=labels)
        for name, changes in grid.items()
    ]


def labels(config: Config) -> dict[str, Any]:
    """The per-slot discrepancy psi_t of all rounds, without training."""
    law = draw_law(config.stream, np.arange(N_CLASSES), N_CLASSES, config.world.n_devices, config.seed)
    return {"discrepancy": label_trace(config.stream, law, config.rounds, config.seed).sum(axis=1).tolist()}


def discrepancy(rows: Sequence[Row], name: str) -> Floats:
    """psi_t of an entry, `[n_seeds, n_rounds]`; empty if it was not run."""
    own = sorted((row["seed"], row["discrepancy"]) for row in rows if row["case"] == f"labels/{name}")
    return np.array([values for _, values in own]) if own else np.empty((0, 3))


# ---------------------------------------------------------------- drawing


def plot(rows: Sequence[Row], panels: Mapping[str, Mapping[str, Sequence[str]]], extra: int = 0) -> Figure:
    """Mean accuracy and its spread over seeds; `panels` is title -> data set -> entries of the grid.

    `extra` panels are left empty at the end.
    """
    n = len(panels) + extra
    figure = Figure(figsize=(5.5 * max(n, 1), 4), layout="constrained")
    every = figure.subplots(1, max(n, 1), squeeze=False)[0]
    there = {row["case"] for row in rows}
    for axes, (title, of_data) in zip(every, panels.items(), strict=False):
        for data, names in of_data.items():
            for name in (one for one in names if f"{data}/{one}" in there):
                case = f"{data}/{name}"
                values, at = curves(rows, case), rounds(rows, case)
                (line,) = axes.plot(at, values.mean(axis=0), label=name)
                low, high = values.mean(axis=0) - values.std(axis=0), values.mean(axis=0) + values.std(axis=0)
                axes.fill_between(at, low, high, alpha=0.15, color=line.get_color())
        axes.set(title=title, xlabel="round", ylabel="accuracy (mean of classes)")
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
    return figure
