"""Sweeps of one setting with the proposed scheduler, CNN on CIFAR-10: how Figures 5.5 and 5.6 are judged and drawn."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from recycling_schedulers import CIFAR, base
from recycling_setting import case, config, points, staleness, where

from fedcell.experiment import Case, Claim, Finding, Row
from fedcell.experiment.judging import LEARNS, ahead, final, mean, missing, told
from fedcell.experiment.plots import dress

SEEDS = 2  # sweeps are wide

Sweep = Mapping[float, tuple[str, Mapping[str, Any]]]  # swept value -> case after its data set, changed settings


def sweep(label: str, values: Sequence[float], settings: Any, usual: float) -> Sweep:
    """The cases of a swept setting; `settings(value)` are its changes, and the usual value is the base."""
    return {value: ("Proposed", {}) if value == usual else (f"{label}={value:g}", settings(value)) for value in values}


def cases(sweeps: Sequence[Sweep], quick: bool) -> list[Case]:
    """Every case of some sweeps once; the reduced grid has the first of each sweep."""
    changed = [(key, changes) for one in sweeps for key, changes in list(one.values())[: 1 if quick else None]]
    found = []
    for data in CIFAR[: 1 if quick else None]:
        found.append(base(data, quick))
        found += [
            case(f"{data}/{key}", config(data, quick, **changes), SEEDS)
            for key, changes in changed
            if key != "Proposed"
        ]
    return found


def claims(found: Mapping[str, str]) -> tuple[Claim, ...]:
    """The claims of a figure, with momentum and without."""
    return tuple(
        Claim(f"{data} {key}", f"{where(data)}: {text}", "curves") for data in CIFAR for key, text in found.items()
    )


def judged(rows: list[Row], claim: str, one: Sweep, value: Any, rises: bool) -> list[Finding]:
    """Whether a number rises (or falls) from each swept value to the next, and from the first to the last."""
    found = []
    for data in CIFAR:
        keys = [f"{data}/{key}" for key, _ in one.values()]
        if missing(rows, keys):
            continue
        steps = [(b, a) if rises else (a, b) for a, b in [*pairwise(keys), (keys[0], keys[-1])]]
        held = [ahead(rows, high, low, value, None) for high, low in steps]
        ours = ", ".join(f"{x:g}: {told(rows, key, value)}" for x, key in zip(one, keys, strict=True))
        idle = value is not staleness and max(mean(rows, key, value) for key in keys) < LEARNS
        ends = "nobody learns" if idle else "ends ordered" if held[-1] else "ends not ordered"
        why = f"{sum(held[:-1])} of {len(held) - 1} steps beyond a standard error; {ends}"
        result = "not reproduced" if idle or not held[-1] else "reproduced" if all(held) else "partly"
        found.append(Finding(f"{data} {claim}", ours, result, why))
    return found


def drawn(axes: Sequence[Any], rows: list[Row], one: Sweep, what: str, measures: Mapping[str, Any]) -> None:
    """One panel for each measure, with a line for each data set."""
    for ax, (label, measure) in zip(axes, measures.items(), strict=True):
        for data in CIFAR:
            points(ax, rows, list(one), [f"{data}/{key}" for key, _ in one.values()], measure, where(data))
        dress(ax, what, label)


MEASURES = {"test accuracy": final, "mean staleness (rounds)": staleness}
