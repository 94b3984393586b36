"""What the figures of the streaming paper share: cases on both data sets, curves, and comparisons over seeds.

Accuracy is the mean of the per-class test accuracies, which on Fashion-MNIST is the plain accuracy. A comparison
holds when the mean of the paired differences over seeds exceeds twice its standard error.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedcell.data import cache_dir
from fedcell.experiment import Case, Row
from fedcell.options import override
from fedcell.scenarios import get
from fedcell.scenarios.streaming_traffic import TRAFFIC

METRIC = "balanced_accuracy"
TAIL = 20  # rounds at the end of a run that are averaged
SCENARIOS = {"traffic": "streaming_traffic", "fashion": "streaming"}
TITLES = {"traffic": "ISCX traffic", "fashion": "Fashion-MNIST"}
ABSENT = f"no traffic data: put {TRAFFIC} into the data folder (FEDCELL_DATA)"
THETAS = {"0.1": 0.1, "1/3": 1 / 3, "2/3": 2 / 3, "1": 1.0}  # the paper gives 2/3 alone
ENGINE = {"train.engine": "sequential"}  # a full batch fills a GPU by itself, and runs side by side share it
QUICK = {"rounds": 40, "eval_every": 2}


def data_sets() -> list[str]:
    """The data sets that can be run here."""
    here = Path(TRAFFIC).is_file() or (cache_dir() / TRAFFIC).is_file()
    return ["traffic", "fashion"] if here else ["fashion"]


def cases(grid: Mapping[str, Mapping[str, Any]], quick: bool) -> list[Case]:
    """One case per data set and entry of the grid, named `data set/entry`."""
    out = []
    for data in data_sets():
        preset = get(SCENARIOS[data]).config
        for name, changes in grid.items():
            config = override(preset, {**ENGINE, **changes, **(QUICK if quick else {})})
            out.append(Case(f"{data}/{name}", config, "streaming"))
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


def curves(rows: Sequence[Row], case: str) -> np.ndarray:
    """Accuracy at the evaluated rounds, one row per seed in their order, `[n_seeds, n_evaluations]`."""
    own = sorted((row for row in rows if row["case"] == case), key=lambda row: row["seed"])
    return np.array([[a for a in row[METRIC] if a is not None] for row in own])


def rounds(rows: Sequence[Row], case: str) -> np.ndarray:
    """The evaluated rounds of a case."""
    return np.array(next(row["rounds"] for row in rows if row["case"] == case))


def tail(rows: Sequence[Row], case: str) -> np.ndarray:
    """Mean accuracy over the last rounds of every seed, `[n_seeds]`."""
    at = rounds(rows, case)
    return curves(rows, case)[:, at > at[-1] - TAIL].mean(axis=1)


def third(rows: Sequence[Row], case: str, number: int) -> np.ndarray:
    """Mean accuracy over the first (0), second or last (2) third of the run of every seed, `[n_seeds]`."""
    return np.array_split(curves(rows, case), 3, axis=1)[number].mean(axis=1)


def wobble(rows: Sequence[Row], case: str) -> np.ndarray:
    """Standard deviation of the change between evaluations in the last third of every seed, `[n_seeds]`."""
    return np.diff(np.array_split(curves(rows, case), 3, axis=1)[2], axis=1).std(axis=1)


def beats(high: np.ndarray, low: np.ndarray) -> bool:
    """Whether paired values are higher by more than twice the standard error of their mean difference."""
    difference = high - low
    error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.inf
    return bool(difference.mean() > 2 * error)


def spread(values: np.ndarray, digits: int = 3) -> str:
    """Mean and standard deviation over seeds."""
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1) if len(values) > 1 else 0:.{digits}f}"


def table(rows: Sequence[Row], data: str, names: Sequence[str]) -> str:
    """The tail accuracies of some cases of a data set in one line."""
    return f"{TITLES[data]}: " + ", ".join(f"{name} {spread(tail(rows, f'{data}/{name}'))}" for name in names)


def plot(rows: Sequence[Row], panels: Mapping[str, Mapping[str, Sequence[str]]]) -> Figure:
    """Mean accuracy and its spread over seeds; `panels` is title -> data set -> entries of the grid."""
    figure = Figure(figsize=(5.5 * max(len(panels), 1), 4), layout="constrained")
    for number, (title, of_data) in enumerate(panels.items()):
        axes = figure.add_subplot(1, len(panels), number + 1)
        for data, names in of_data.items():
            for name in names:
                case = f"{data}/{name}"
                values, at = curves(rows, case), rounds(rows, case)
                (line,) = axes.plot(at, values.mean(axis=0), label=name)
                low, high = values.mean(axis=0) - values.std(axis=0), values.mean(axis=0) + values.std(axis=0)
                axes.fill_between(at, low, high, alpha=0.15, color=line.get_color())
        axes.set(title=title, xlabel="round", ylabel="accuracy (mean of classes)")
        axes.grid(alpha=0.3)
        axes.legend()
    return figure
