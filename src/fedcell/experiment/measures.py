"""Numbers of one run: where its accuracy ends, how soon it rises, when it reaches a target, how much it swings.

A measure takes the row of a run and gives a number; `judging` compares measures over seeds. Accuracy is 0 once a
run has diverged. Measures marked with `of_accuracy` are written in percent, and their differences in points.
"""

from collections.abc import Callable
from weakref import WeakSet

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..types import Floats
from .stores import Row

Measure = Callable[[Row], float]
TAIL, HEAD = 0.1, 1 / 3  # shares of the rounds: those that make a final accuracy, and the early ones
_ACCURACIES: WeakSet[Measure] = WeakSet()


def of_accuracy(measure: Measure) -> Measure:
    """Mark a measure whose numbers are accuracies between 0 and 1."""
    _ACCURACIES.add(measure)
    return measure


def is_accuracy(measure: Measure) -> bool:
    """Whether the numbers of a measure are accuracies."""
    return measure in _ACCURACIES


def accuracies(row: Row) -> Floats:
    """Accuracy at the evaluated rounds; 0 once the run has diverged."""
    return np.nan_to_num(np.array(row["accuracy"], dtype=np.float64))


@of_accuracy
def final(row: Row) -> float:
    """Mean accuracy in the last tenth of the rounds."""
    return last_tenth(row, accuracies(row))


def last_tenth(row: Row, values: Floats) -> float:
    """The mean of what was evaluated in the last tenth of the rounds."""
    at = np.array(row["rounds"])
    return float(np.mean(values[at > at[-1] * (1 - TAIL)]))


@of_accuracy
def early(row: Row) -> float:
    """Mean accuracy in the first third of the rounds: how soon it is learned."""
    at = np.array(row["rounds"])
    return float(np.mean(accuracies(row)[at <= max(at[-1] * HEAD, at[0])]))


@of_accuracy
def best(row: Row) -> float:
    """The highest accuracy of all evaluations."""
    return float(accuracies(row).max())


@of_accuracy
def area(row: Row) -> float:
    """Mean accuracy over the whole run; the paired difference of two runs is the area under the lead, per round."""
    return float(accuracies(row).mean())


def window(first: float, last: float) -> Measure:
    """Mean accuracy over the evaluations in rounds `first` to `last`; NaN, so no pair, if there is none."""

    def measure(row: Row) -> float:
        at = np.array(row["rounds"])
        inside = (at >= first) & (at <= last)
        return float(accuracies(row)[inside].mean()) if inside.any() else np.nan

    return of_accuracy(measure)


def at_round(number: int) -> Measure:
    """Accuracy after a round; NaN if that round was not evaluated."""
    return window(number, number)


def at_seconds(clock_s: float, smooth: int = 3) -> Measure:
    """Accuracy at a time: the mean of the last evaluations before it, the first one if there is none."""

    def measure(row: Row) -> float:
        before = int(np.searchsorted(row["seconds"], clock_s, side="right"))
        return float(np.mean(accuracies(row)[max(before - smooth, 0) : max(before, 1)]))

    return of_accuracy(measure)


def smoothed(values: Floats, n: int) -> Floats:
    """Mean of the last `n` values at every value, of fewer at the beginning.

    >>> smoothed(np.array([0.0, 1.0, 2.0, 3.0]), 3).tolist()
    [0.0, 0.5, 1.0, 2.0]
    """
    n = min(n, len(values))
    begin = [values[:k].mean() for k in range(1, n)]
    return np.array([*begin, *sliding_window_view(values, n).mean(axis=1)])


def first_hit(target: float, by: str = "rounds", smooth: int = 1) -> Measure:
    """The first evaluated round (`by="seconds"`: time) with an accuracy; infinite if never.

    Single evaluations swing with few classes per device: `smooth` averages the last so many.
    """

    def measure(row: Row) -> float:
        there = np.flatnonzero(smoothed(accuracies(row), smooth) >= target)
        return float(row[by][there[0]]) if len(there) else np.inf

    return measure


def stays(target: float, by: str = "rounds", smooth: int = 1) -> Measure:
    """The first evaluated round (`by="seconds"`: time) from which on the accuracy is never below; infinite if never."""

    def measure(row: Row) -> float:
        below = np.flatnonzero(smoothed(accuracies(row), smooth) < target)
        since = int(below[-1]) + 1 if len(below) else 0
        return float(row[by][since]) if since < len(row[by]) else np.inf

    return measure


@of_accuracy
def wobble(row: Row) -> float:
    """Standard deviation of the change between evaluations in the last third of the run; NaN if it has fewer than 2."""
    changes = np.diff(np.array_split(accuracies(row), 3)[2])
    return float(changes.std()) if len(changes) else np.nan


def column(name: str, second_half: bool = False) -> Measure:
    """Mean of a column of the method's own over the rounds played, or over the second half of them."""

    def measure(row: Row) -> float:
        values = [value for value in row[name] if value is not None]
        return float(np.mean(values[len(values) // 2 if second_half else 0 :]))

    return measure
