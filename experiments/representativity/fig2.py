"""Figure 3.2: how far estimated gradients of a device are from its present one.

E-PG is the gradient received last, E-MBG that of smaller batches. How often the device is scheduled is not said: all
devices are in every round (received one round ago), or 10 are by representativity.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure
from representativity_setting import STORE, TITLES, case, config, name

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import Measure, ahead, curve, missing, told_all, verdict
from fedcell.experiment.plots import dress, panels

BATCHES = (4, 8, 16)
SCHEDULES = {"everyone": {"policy": "random", "n_selected": 100}, "N=10": {"n_selected": 10}}
ROUNDS = {"mnist": 100, "cifar": 60}
COLUMNS = {"E-PG": "estimate_previous"} | {f"E-MBG {batch}": f"estimate_batch{batch}" for batch in BATCHES}


Of = Callable[[str], Measure]  # label of an estimate -> a number of a run


def key(data: str, schedule: str) -> str:
    return name(data, 2, f"estimates {schedule}")


def cases(quick: bool) -> list[Case]:
    out = []
    for data, rounds in ROUNDS.items():
        for schedule, settings in SCHEDULES.items():
            changes = {"eval_every": 1} | ({} if quick else {"rounds": rounds})
            if quick and data == "cifar" and schedule == "everyone":
                continue
            out.append(case(key(data, schedule), config(data, 2, quick, **changes), diagnose="estimates", **settings))
    return out


def recorded(row: Row, label: str) -> np.ndarray:
    """One error where it was recorded."""
    return np.array([value for value in row[COLUMNS[label]] if value is not None], dtype=np.float64)


def level(label: str) -> Measure:
    """Mean error over the rounds."""
    return lambda row: float(recorded(row, label).mean())


def swing(label: str) -> Measure:
    """Mean change of the error from round to round."""
    return lambda row: float(np.abs(np.diff(recorded(row, label))).mean())


def lower(rows: list[Row], one: str, label: str, other: str, measure: Of = level) -> bool:
    """Whether an error (or its swing) of one case is lower than another of the same case, beyond its standard error."""
    renamed = [row | {"case": which} for row in rows if row["case"] == one for which in (label, other)]
    return ahead(renamed, other, label, lambda row: measure(row["case"])(row))


def told(rows: list[Row], data: str, measure: Of = level) -> str:
    parts = []
    for schedule in SCHEDULES:
        one = key(data, schedule)
        renamed = [row | {"case": label} for row in rows if row["case"] == one for label in COLUMNS]
        labels = {label: label for label in COLUMNS}
        parts.append(f"{schedule}: " + told_all(renamed, labels, lambda row: measure(row["case"])(row), 2))
    return "; ".join(parts)


def check(rows: list[Row]) -> list[Finding]:
    there = [data for data in ROUNDS if not missing(rows, [key(data, schedule) for schedule in SCHEDULES])]
    return [finding for data in there for finding in _of(rows, data)]


def _of(rows: list[Row], data: str) -> list[Finding]:
    keys, rough = [key(data, schedule) for schedule in SCHEDULES], [f"E-MBG {batch}" for batch in BATCHES]
    lowest = [lower(rows, one, "E-PG", other) for one in keys for other in rough]
    falls = [lower(rows, one, more, fewer) for one in keys for fewer, more in pairwise(rough)]
    swings = [lower(rows, one, "E-PG", other, swing) for one in keys for other in rough]
    return [
        Finding(
            f"{data} lowest", told(rows, data), verdict(lowest), f"below E-MBG {sum(lowest)} of {len(lowest)} times"
        ),
        Finding(f"{data} batch", told(rows, data), verdict(falls), f"falls at {sum(falls)} of {len(falls)} steps"),
        Finding(
            f"{data} swing",
            told(rows, data, swing),
            verdict(swings),
            f"mean change from round to round above that of E-PG {sum(swings)} of {len(swings)} times",
        ),
    ]


def plot(rows: list[Row]) -> Figure:
    shown = [(data, s) for data in ROUNDS for s in SCHEDULES if not missing(rows, [key(data, s)])]
    figure, axes = panels(len(shown))
    for ax, (data, schedule) in zip(axes, shown, strict=False):
        for index, (label, column) in enumerate(COLUMNS.items()):
            curve(ax, rows, key(data, schedule), index, label, column)
        dress(ax, "round", "distance from the present gradient", f"{TITLES[data]}, {schedule}")
    return figure


def _claims(data: str) -> list[Claim]:
    where = TITLES[data]
    return [
        Claim(
            f"{data} lowest",
            f"{where}: the gradient received last is nearer to the true one than that of a mini-batch",
            "curves; no numbers",
        ),
        Claim(f"{data} batch", f"{where}: the error of a mini-batch falls with its size", "curves for 4, 8 and 16"),
        Claim(f"{data} swing", f"{where}: the error of a mini-batch fluctuates strongly", "curves; no numbers"),
    ]


EXPERIMENT = Experiment(
    title="Figure 3.2: error of estimated gradients",
    claims=[claim for data in ROUNDS for claim in _claims(data)],
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
