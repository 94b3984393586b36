"""Sweeps of one setting with the proposed scheduler, CNN on CIFAR-10: how Figures 5.5 and 5.6 are judged and drawn."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from recycling_setting import TITLES, case, points, staleness

from fedcell.experiment import Case, Finding, Row
from fedcell.experiment.judging import Measure, ahead, final, finding, rising, told_all
from fedcell.experiment.plots import dress

BASE, SLACK = "tight/Proposed", "slack/Proposed"  # shared with Figure 5.3
Sweep = Mapping[float, Case]


def sweep(
    label: str, values: Sequence[float], settings: Callable[[float], dict[str, Any]], usual: float, quick: bool
) -> Sweep:
    """The case of every swept value; `settings(value)` are its changes, the usual value is the run of Figure 5.3."""
    return {
        value: case(BASE, quick) if value == usual else case(f"tight/{label}={value:g}", quick, settings(value))
        for value in values
    }


def distinct(sweeps: Sequence[Sweep], quick: bool) -> list[Case]:
    """Every case of some sweeps once; the reduced grid has the first of each sweep."""
    every = [one for each in sweeps for one in list(each.values())[: 1 if quick else None]]
    return list({one.key: one for one in every}.values())


def judged(rows: list[Row], claim: str, one: Sweep, value: Measure = final, rises: bool = True) -> Finding:
    """Whether a number rises (or falls) from each swept value to the next, and from the first to the last."""
    keys = [found.key for found in one.values()]
    ordered, chance = keys if rises else keys[::-1], None if value is staleness else 0.1
    parts = rising(rows, ordered, value, chance)
    parts.append(ahead(rows, ordered[-1], ordered[0], value, chance, "from end to end"))
    ours = told_all(rows, {f"{x:g}:": key for x, key in zip(one, keys, strict=True)}, value)
    return finding(claim, parts, ours, "each step and both ends")


def drawn(axes: Sequence[Axes], rows: list[Row], one: Sweep, what: str, measures: Mapping[str, Measure]) -> None:
    """One panel for each measure."""
    for ax, (label, measure) in zip(axes, measures.items(), strict=True):
        points(ax, rows, list(one), [found.key for found in one.values()], measure, "Proposed")
        dress(ax, what, label, TITLES["tight"])


MEASURES = {"test accuracy": final, "mean staleness (rounds)": staleness}
