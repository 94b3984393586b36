"""Sweeps of one setting with the proposed scheduler, CNN on CIFAR-10: how Figures 5.5 and 5.6 are judged and drawn."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from recycling_schedulers import base
from recycling_setting import case, config, points, staleness

from fedcell.experiment import Case, Finding, Row
from fedcell.experiment.judging import ahead, final, missing, told

SEEDS = 2  # sweeps are wide

Sweep = Mapping[float, tuple[str, Mapping[str, Any]]]  # swept value -> case, changed settings; empty: the base


def sweep(label: str, values: Sequence[float], settings: Any, usual: float) -> Sweep:
    """The cases of a swept setting; `settings(value)` are its changes, and the usual value is the base."""
    return {
        value: ("cifar/Proposed", {}) if value == usual else (f"cifar/{label}={value:g}", settings(value))
        for value in values
    }


def cases(sweeps: Sequence[Sweep], quick: bool) -> list[Case]:
    """Every case of some sweeps once; the reduced grid has the first of each sweep."""
    changed = [(key, changes) for one in sweeps for key, changes in list(one.values())[: 1 if quick else None]]
    return [base(quick)] + [
        case(key, config("cifar", quick, **changes), SEEDS) for key, changes in changed if key != "cifar/Proposed"
    ]


def judged(rows: list[Row], claim: str, one: Sweep, value: Any, rises: bool) -> list[Finding]:
    """Whether a number rises (or falls) from each swept value to the next, and from the first to the last."""
    keys = [key for key, _ in one.values()]
    if missing(rows, keys):
        return []
    steps = [(a, b) if not rises else (b, a) for a, b in [*pairwise(keys), (keys[0], keys[-1])]]
    held = [ahead(rows, high, low, value) for high, low in steps]
    ours = ", ".join(f"{x:g}: {told(rows, key, value)}" for x, (key, _) in one.items())
    why = f"{sum(held[:-1])} of {len(held) - 1} steps beyond a standard error; ends {'' if held[-1] else 'not '}ordered"
    return [Finding(claim, ours, "reproduced" if all(held) else "partly" if held[-1] else "not reproduced", why)]


def drawn(axes: Sequence[Any], rows: list[Row], one: Sweep, what: str, measures: Mapping[str, Any]) -> None:
    """One panel for each measure."""
    for ax, (label, measure) in zip(axes, measures.items(), strict=True):
        points(ax, rows, list(one), [key for key, _ in one.values()], measure)
        ax.set(xlabel=what, ylabel=label)
        ax.grid(color="#dddddd", linewidth=0.7)
        ax.spines[["top", "right"]].set_visible(False)


MEASURES = {"test accuracy": final, "mean staleness (rounds)": staleness}
