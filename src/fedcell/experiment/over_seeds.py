"""Numbers of cases over seeds: paired differences, whether a case learned, and how a number is written."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..types import Floats
from .measures import Measure, final, is_accuracy
from .stores import Row

Chance = float | Callable[[Row], float] | None  # accuracy of guessing, by the row if splits differ; None: no guard
TEN_CLASSES = 0.1  # chance among ten classes
LEARNED = 0.05  # accuracy above chance from which on a run has learned something
LEARNS = TEN_CLASSES + LEARNED


def by_seed(rows: Sequence[Row], key: str, value: Measure = final) -> dict[int, float]:
    """A number of one case for every seed it was run on."""
    return {row["seed"]: value(row) for row in rows if row["case"] == key}


def values_of(rows: Sequence[Row], key: str, value: Measure = final) -> Floats:
    """The same as an array, by seed."""
    return np.array([number for _, number in sorted(by_seed(rows, key, value).items())])


def mean(rows: Sequence[Row], key: str, value: Measure = final) -> float:
    """The mean of a number over seeds."""
    return float(np.mean(list(by_seed(rows, key, value).values())))


def gap(rows: Sequence[Row], high: str, low: str, value: Measure = final, low_value: Measure | None = None) -> Floats:
    """Paired differences over the seeds both cases have; `low_value` if the second has another number."""
    left, right = by_seed(rows, high, value), by_seed(rows, low, low_value or value)
    return np.array([left[seed] - right[seed] for seed in sorted(left.keys() & right.keys())])


def ratio(rows: Sequence[Row], top: str, bottom: str, value: Measure = final) -> Floats:
    """How many times the second case's number the first one has, on the seeds both cases have."""
    left, right = by_seed(rows, top, value), by_seed(rows, bottom, value)
    return np.array([left[seed] / right[seed] for seed in sorted(left.keys() & right.keys())])


def missing(rows: Sequence[Row], keys: Sequence[str]) -> bool:
    """Whether a case was not run."""
    return not set(keys) <= {row["case"] for row in rows}


def learned(rows: Sequence[Row], key: str, chance: Chance = TEN_CLASSES) -> bool:
    """Whether a case ends above chance: by more than `LEARNED`, in the mean over seeds."""
    if chance is None:
        return True
    above_chance = [final(row) - (chance(row) if callable(chance) else chance) for row in rows if row["case"] == key]
    return bool(np.mean(above_chance) > LEARNED) if above_chance else False


def told(rows: Sequence[Row], key: str, value: Measure = final, digits: int = 3) -> str:
    """Mean and standard deviation over seeds, of an accuracy in percent; an infinite number stands for never."""
    values = np.array(list(by_seed(rows, key, value).values()))
    if np.isinf(values).any():
        return "never" if np.isinf(values).all() else "not on every seed"
    if is_accuracy(value) and len(values):
        return f"{spread(100 * values, max(digits - 2, 0))} %"
    return spread(values, digits)


def spread(numbers: Floats, digits: int = 4) -> str:
    """Mean and standard deviation over seeds; one seed has no spread."""
    if not len(numbers):
        return "not run"
    return f"{numbers.mean():.{digits}f}" + (f"±{numbers.std(ddof=1):.{digits}f}" if len(numbers) > 1 else "")


def told_all(rows: Sequence[Row], keys: Mapping[str, str], value: Measure = final, digits: int = 3) -> str:
    """The same of several cases, by their names."""
    return ", ".join(f"{name} {told(rows, key, value, digits)}" for name, key in keys.items())
