"""How runs are compared: numbers of a run, paired differences over seeds, verdicts, and curves.

One case is ahead of another when the mean of their paired differences over seeds exceeds its standard error. A run that
diverged has accuracy 0 from there on.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from ..report.figure import COLOURS, LINES
from ..types import Floats
from .frame import UNDECIDED, Finding
from .runs import Row

Measure = Callable[[Row], float]
TAIL, HEAD = 0.1, 1 / 3  # shares of the rounds: those that make a final accuracy, and the early ones
LEARNS = 0.15  # accuracy among ten classes from which on a run is worth comparing


def final(row: Row) -> float:
    """Mean accuracy in the last tenth of the rounds."""
    return last_tenth(row, accuracies(row))


def last_tenth(row: Row, values: Floats) -> float:
    """The mean of what was evaluated in the last tenth of the rounds."""
    at = np.array(row["rounds"])
    return float(np.mean(values[at > at[-1] * (1 - TAIL)]))


def early(row: Row) -> float:
    """Mean accuracy in the first third of the rounds: how soon it is learned."""
    at = np.array(row["rounds"])
    return float(np.mean(accuracies(row)[at <= max(at[-1] * HEAD, at[0])]))


def accuracies(row: Row) -> Floats:
    """Accuracy at the evaluated rounds; 0 from where the run diverged."""
    return np.nan_to_num(np.array(row["accuracy"], dtype=np.float64))


def by_seed(rows: Sequence[Row], key: str, value: Measure = final) -> dict[int, float]:
    """A number of one case for every seed it was run on."""
    return {row["seed"]: value(row) for row in rows if row["case"] == key}


def mean(rows: Sequence[Row], key: str, value: Measure = final) -> float:
    """The mean of a number over seeds."""
    return float(np.mean(list(by_seed(rows, key, value).values())))


def gap(rows: Sequence[Row], high: str, low: str, value: Measure = final, low_value: Measure | None = None) -> Floats:
    """Paired differences over the seeds both cases have; `low_value` where the second has another number."""
    left, right = by_seed(rows, high, value), by_seed(rows, low, low_value or value)
    return np.array([left[seed] - right[seed] for seed in sorted(left.keys() & right.keys())])


def beyond(differences: Floats, margin: float = 0.0) -> bool:
    """Whether the mean of paired differences is above the margin and above its standard error."""
    error = differences.std(ddof=1) / np.sqrt(len(differences)) if len(differences) > 1 else 0.0
    return bool(differences.mean() > max(margin, error))


def ahead(rows: Sequence[Row], high: str, low: str, value: Measure = final) -> bool:
    """Whether one case has the higher value by more than the standard error of the paired difference."""
    return beyond(gap(rows, high, low, value))


def margin(differences: Floats, printed: float) -> str:
    """Half of a printed margin at least; its sign beyond the standard error; or neither."""
    if differences.mean() >= printed / 2 and beyond(differences):
        return "reproduced"
    return "partly" if beyond(differences) else "not reproduced"


def verdict(holds: Sequence[bool]) -> str:
    """All orderings, some of them, or none; without any nothing is decided."""
    if not holds:
        return "not run"
    return "reproduced" if all(holds) else "partly" if any(holds) else "not reproduced"


def judged(claim: str, ours: str, held: Mapping[str, bool], rule: str) -> Finding:
    """A finding that names what failed."""
    if not held:
        return Finding(claim, "", "not run", UNDECIDED)
    failed = [name for name, holds in held.items() if not holds]
    reason = f"{rule}; {len(held) - len(failed)} of {len(held)} hold"
    reason += f", not: {', '.join(failed)}" if failed else ""
    return Finding(claim, ours, verdict(list(held.values())), reason)


def missing(rows: Sequence[Row], keys: Sequence[str]) -> bool:
    """Whether a case was not run."""
    return not set(keys) <= {row["case"] for row in rows}


def told(rows: Sequence[Row], key: str, value: Measure = final, digits: int = 3) -> str:
    """Mean and standard deviation over seeds; an infinite number stands for never."""
    values = np.array(list(by_seed(rows, key, value).values()))
    if np.isinf(values).any():
        return "never" if np.isinf(values).all() else "not on every seed"
    return spread(values, digits)


def spread(numbers: Floats, digits: int = 4) -> str:
    """Mean and standard deviation over seeds; one seed has no spread."""
    if not len(numbers):
        return "not run"
    return f"{numbers.mean():.{digits}f}" + (f"±{numbers.std(ddof=1):.{digits}f}" if len(numbers) > 1 else "")


def told_all(rows: Sequence[Row], keys: Mapping[str, str], value: Measure = final, digits: int = 3) -> str:
    """The same of several cases, by their names."""
    return ", ".join(f"{name} {told(rows, key, value, digits)}" for name, key in keys.items())


def curve(ax: Axes, rows: Sequence[Row], key: str, index: int, label: str, y: str = "accuracy") -> None:
    """Mean over seeds of a column against the round, where the case was run."""
    runs = [row for row in rows if row["case"] == key]
    if not runs:
        return
    x = runs[0]["rounds"] if len(runs[0][y]) == len(runs[0]["rounds"]) else np.arange(1, len(runs[0][y]) + 1)
    look = {"color": COLOURS[index % len(COLOURS)], "linestyle": LINES[index % len(LINES)]}
    ax.plot(x, np.mean([row[y] for row in runs], axis=0), label=label, **look)
