"""How the curves of Figures 4 to 6 are read: when they saturate, who leads, and where they are after a round."""

from collections.abc import Mapping, Sequence

import numpy as np
import osafl_setting as setting

from fedcell.experiment import Finding, Row, finding
from fedcell.experiment.judging import Measure, Part, accuracies, near, spread
from fedcell.experiment.measures import at_round, window

FULL = 0.98  # of its own best is where an accuracy has saturated
FLAT = 1.02  # times its own least is where a loss has
POINTS = 0.08  # a printed point of a curve is met within so much
EARLY = 20  # rounds
FEDERATED = ("osafl", *setting.BASELINES)


def saturation(levels: Mapping[int, float] | None = None) -> Measure:
    """The first round with `FULL` of the run's best, or of the level of its seed; one more than it has if never.

    >>> saturation()({"seed": 1, "rounds": [1, 2, 3], "accuracy": [0.1, 0.6, 0.606]})
    2.0
    """

    def measure(row: Row) -> float:
        values = accuracies(row)
        level = values.max() if levels is None else levels.get(row["seed"], np.inf)
        there = np.flatnonzero(values >= FULL * level)
        return float(row["rounds"][there[0]]) if len(there) else float(row["rounds"][-1] + 1)

    return measure


def settled(row: Row) -> float:
    """The first round with a loss within 2 % of its least."""
    losses = np.nan_to_num(np.array(row["loss"], dtype=float), nan=np.inf)
    return float(row["rounds"][int(np.argmax(losses <= FLAT * losses.min()))])


def early_loss(row: Row) -> float:
    """Mean loss over the first rounds."""
    return float(np.mean(np.array(row["loss"], dtype=float)[np.array(row["rounds"]) <= EARLY]))


def long_enough(rows: Sequence[Row], name: str, rounds: int) -> bool:
    """Whether a case was run for so many rounds."""
    found = setting.of_case(rows, name)
    return bool(found) and all(row["rounds"][-1] >= rounds for row in found.values())


def when(rows: Sequence[Row], name: str, printed: float, margin: float, value: Measure, label: str, least: int) -> Part:
    """The round at which something happens is a printed one; not run if runs are shorter than `least` rounds."""
    return near(rows if long_enough(rows, name, least) else (), name, printed, margin, value, label)


def points(
    rows: Sequence[Row], claim: str, model: str, k: int, number: int, printed: Mapping[str, float], nova: str
) -> Finding:
    """The accuracies after a round, against printed ones, and OSAFL first."""
    pairs, then = setting.Pairs(rows, model, k), at_round(number)
    entries = {entry: nova if entry == "m_fednova" else entry for entry in printed}
    close = [
        near(rows, pairs.key(other), printed[entry], POINTS, then, f"{setting.TITLES[other]} near")
        for entry, other in entries.items()
    ]
    first = [pairs.ahead("osafl", other, then) for other in entries.values() if other != "osafl"]
    told = ", ".join(
        f"{setting.TITLES[other]} {spread(setting.values(rows, pairs.key(other), then), 3)}"
        for other in entries.values()
    )
    return finding(claim, [*close, *first], told, f"all within {POINTS} of the printed ones, and OSAFL first")


def early_lead(rows: Sequence[Row], models: Sequence[str], claim: str, what: str = "accuracy") -> Finding:
    """OSAFL is ahead of every baseline in the mean of the first rounds."""
    parts, words = [], []
    value = window(1, EARLY) if what == "accuracy" else early_loss
    for model in models:
        for k in (1, 2):
            pairs = setting.Pairs(rows, model, k)
            for entry in setting.BASELINES:
                one = pairs.ahead("osafl", entry, value) if what == "accuracy" else pairs.below("osafl", entry, value)
                parts.append(one)
            if setting.ran(rows, model, k, FEDERATED):
                means = {entry: setting.values(rows, pairs.key(entry), value).mean() for entry in FEDERATED}
                told = ", ".join(f"{setting.TITLES[entry]} {mean:.3f}" for entry, mean in means.items())
                words.append(f"{setting.MODELS[model].title} K={k}: {told}")
    rule = f"mean {what} over the first {EARLY} rounds, OSAFL against each baseline"
    return finding(claim, parts, "; ".join(words), rule)
