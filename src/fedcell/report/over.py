"""Which knob helps: what an accuracy costs over the values of one setting, the ranking of all groups, and the front.

A group is on the Pareto front if no other is as good in best accuracy, seconds and joules to the target, and better in
one of them. A group that does not reach the target on every seed has no such cost and ranks last.
"""

from collections.abc import Mapping, Sequence
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import BadInput, did_you_mean
from ..options import flat, from_dict, written
from ..record.files import nulled
from ..scenarios import Config, without_effect
from ..types import Bools, Floats
from .comparison import Comparison, Group, Measure
from .costs import COSTS
from .figure import FEW
from .knobs import SHARE, KnobPanel, KnobPoint, ends_of, save_knobs
from .quantities import PERCENT, PLAIN, REACH, goal_text
from .table import Units, aligned, human

RANKED = ("time", "energy", "uplink", "round")
TITLES = {cost.name: ("rounds" if cost.name == "round" else cost.name, cost.units) for cost in COSTS}


class KnobGroup(NamedTuple):
    """A group at one value of a knob."""

    line: str  # method and other settings that differ: groups of one line differ in the knob alone
    knob: Any
    group: Group


class Ranked(NamedTuple):
    """A group, what the target costs it, and whether it is on the front."""

    label: str
    cost: Mapping[str, float]  # by `RANKED`; inf if a run does not reach the target
    best: float  # of the metric that leads
    front: bool


def over(comparison: Comparison, key: str) -> list[KnobGroup]:
    """The groups of a comparison by the values of a setting, line by line and in the order of the values."""
    known = [_settings(group) for group in comparison.groups]
    if not any(key in one for one in known):
        varied = ", ".join(sorted({name for group in comparison.groups for name in group.varied})) or "methods alone"
        near = did_you_mean(key, sorted({name for one in known for name in one}))
        raise BadInput(f"no run has a setting {key!r}{near or f': name one in which they differ ({varied})'}")
    differ = [name for name in known[0] if len({repr(one.get(name)) for one in known if name in one}) > 1]
    differ += dict.fromkeys(name for one in known for name in one if name not in known[0])
    found = [
        KnobGroup(_line(group, one, key, [name for name in differ if name != key], known), one[key], group)
        for group, one in zip(comparison.groups, known, strict=True)
        if key in one
    ]
    values = list(dict.fromkeys(map(repr, (one.knob for one in found))))
    if len(values) < 2:
        raise BadInput(f"{key} is {written(found[0].knob)} in all runs: name a setting that differs, or sweep over it")
    lines = list(dict.fromkeys(one.line for one in found))
    return sorted(found, key=lambda one: (lines.index(one.line), *_order(one.knob)))


def _settings(group: Group) -> dict[str, Any]:
    """Every setting of the runs of a group by dotted key, those of the method under its name."""
    one = group.records[0]
    name = one.method.partition(":")[0]
    own = {f"{Path(name).stem}.{key}": value for key, value in flat(one.settings).items()}
    return {key: value for key, value in flat(one.config).items() if key not in ("seed", "until")} | own


def _line(
    group: Group, one: Mapping[str, Any], key: str, differ: Sequence[str], every: Sequence[Mapping[str, Any]]
) -> str:
    """The label of a group without the knob; or, if the knob is not a word of it, its method and what else differs."""
    words, knob = group.label.split(" "), f"{key}={written(one[key])}"
    if knob in words:
        named = [word.partition("=")[0] for word in words]
        unused = _without_effect(group, named)
        return " ".join(word for word, name in zip(words, named, strict=True) if word != knob and name not in unused)
    name = Path(group.records[0].method.partition(":")[0]).stem
    alike = [other for other in every if any(key.startswith(f"{name}.") for key in other)]
    shown = [key for key in differ if key in one and len({repr(other.get(key)) for other in alike}) > 1]
    unused = _without_effect(group, shown)
    shown = [key for key in shown if key not in unused]
    return " ".join([name, *(f"{key.removeprefix(name + '.')}={written(one[key])}" for key in shown)])


def _without_effect(group: Group, keys: Sequence[str]) -> set[str]:
    """Which settings of the world and the data change nothing in a group."""
    config = group.records[0].config
    known = flat(config)
    return {
        key for key, why in without_effect(from_dict(Config(), config), [k for k in keys if k in known]).items() if why
    }


def _order(knob: Any) -> tuple[int, float, str]:
    """Numbers first, then ranges by how wide they are, then words."""
    try:
        return 0, float(knob), ""
    except (TypeError, ValueError):
        ends = ends_of(knob)
        return (1, ends[1] - ends[0], written(knob)) if ends else (2, 0.0, written(knob))


# ---------------------------------------------------------------- ranking and front


def ranking(comparison: Comparison, by: str = "time") -> list[Ranked]:
    """Rank all groups by what the first target costs them, the cheapest first; without a target, by the best score."""
    if by not in RANKED:
        raise BadInput(f"cannot rank by {by!r}: choose one of {', '.join(RANKED)}")
    found = []
    for group in comparison.groups:
        cost = {name: _mean(group, name, comparison.targets) for name in RANKED}
        found.append(Ranked(group.label, cost, _best(comparison, group).estimate.mean, False))
    sign = -1 if comparison.metric.rises else 1
    points = np.array([[sign * one.best, one.cost["time"], one.cost["energy"]] for one in found])
    on_front = front(points)
    found = [one._replace(front=bool(here)) for one, here in zip(found, on_front, strict=True)]
    return sorted(found, key=lambda one: (one.cost[by], sign * one.best if isfinite(one.best) else inf))


def front(points: Floats) -> Bools:
    """Which points no other beats, `[n]`, if less is better in every column; one with NaN is never among them.

    >>> front(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 3.0], [np.nan, 0.0]])).tolist()
    [True, True, False, False]
    """
    as_good = np.all(points[None] <= points[:, None], axis=2)  # [i, j]: j is as good as i everywhere
    better = np.any(points[None] < points[:, None], axis=2)
    return np.asarray(~np.any(as_good & better, axis=1) & ~np.any(np.isnan(points), axis=1))


def _mean(group: Group, cost: str, targets: Sequence[float]) -> float:
    if not targets:
        return inf
    found = group.measures[f"{REACH[cost][0]}_to_{targets[0]}"]
    return inf if found.censored or not isfinite(found.estimate.mean) else found.estimate.mean


# ---------------------------------------------------------------- for people and programs


def over_text(comparison: Comparison, key: str, by: str = "time") -> str:
    """Tables of the costs of every target over a knob, then the ranking."""
    parts, found, units = [], over(comparison, key), _units(comparison)
    for target in comparison.targets or (None,):
        title = "no run was evaluated" if target is None else f"to reach {goal_text(comparison.metric, target)}"
        costs = () if target is None else RANKED
        header = ["method", key, "best", *(TITLES[name][0] for name in costs)]
        rows = [
            [one.line, written(one.knob), _cell(_best(comparison, one.group), units)]
            + [_cell(one.group.measures[f"{REACH[name][0]}_to_{target}"], TITLES[name][1]) for name in costs]
            for one in found
        ]
        parts += [f"{title}, over {key}", *aligned([header, *rows]), ""]
    return "\n".join([*parts, ranking_text(comparison, by)])


def ranking_text(comparison: Comparison, by: str = "time") -> str:
    """The groups by what the target costs, with a star for those on the front."""
    header = ["rank", "", "group", "best", *(TITLES[name][0] for name in RANKED)]
    rows = [
        [str(n + 1), "*" if one.front else "", one.label, comparison.metric.shown(one.best)]
        + ["never" if one.cost[name] == inf else human(one.cost[name], TITLES[name][1]) for name in RANKED]
        for n, one in enumerate(ranking(comparison, by))
    ]
    goal = f" to reach {goal_text(comparison.metric, comparison.targets[0])}" if comparison.targets else ""
    best = f"best {comparison.metric.title}, seconds and joules"
    meaning = f"*: on the Pareto front of {best}: no other is as good in all three"
    return "\n".join([f"ranking by {TITLES[by][0]}{goal}", *aligned([header, *rows]), "", meaning])


def _best(comparison: Comparison, group: Group) -> Measure:
    return group.measures[f"{comparison.metric.name}_best"]


def _units(comparison: Comparison) -> Units:
    return PERCENT if comparison.metric.share else PLAIN


def _cell(found: Measure, units: Units) -> str:
    """Mean and half of the interval; only a lower bound if some run never reached the target."""
    if found.censored:
        return f"> {_human(found.bound, units)}"
    mean, half = found.estimate.mean, found.estimate.high - found.estimate.mean
    return _human(mean, units) + (f" \N{PLUS-MINUS SIGN} {_human(half, units)}" if isfinite(half) else "")


def _human(value: float, units: Units) -> str:
    if units is PERCENT:
        return f"{100 * value:.1f}" if isfinite(value) else "-"
    return human(value, units)


def over_json(comparison: Comparison, key: str | None, by: str = "time") -> dict[str, Any]:
    """The knob and the ranking as plain values."""
    knobs = [] if key is None else over(comparison, key)
    values: dict[str, Any] = {
        "ranking": [one._asdict() for one in ranking(comparison, by)],
        "over": {
            "key": key,
            "points": [{"line": one.line, "value": one.knob, "group": one.group.label} for one in knobs],
        },
    }
    found: dict[str, Any] = nulled(values)
    return found


def save_over(comparison: Comparison, key: str, path: str | Path, width_inch: float) -> Path:
    """Draw the best score and the costs of the first target over a knob; runs that never get there leave gaps."""
    found = over(comparison, key)
    metric = comparison.metric
    title, units = (f"best {metric.title} (%)", SHARE) if metric.share else (f"best {metric.title}", PLAIN)
    panels = [KnobPanel(title, units, [_point(one, f"{metric.name}_best") for one in found])]
    for name in RANKED[:3] if comparison.targets else ():
        target = comparison.targets[0]
        title, units = TITLES[name]
        points = [_point(one, f"{REACH[name][0]}_to_{target}") for one in found]
        panels.append(KnobPanel(f"{title} to {goal_text(metric, target)}", units, points))
    return save_knobs(key, panels, path, width_inch)


def _point(one: KnobGroup, quantity: str) -> KnobPoint:
    found = one.group.measures[quantity]
    if found.censored:
        return KnobPoint(one.line, one.knob, nan, nan, nan)
    mean, low, high, n = found.estimate
    if n < FEW:  # a Student interval of two values covers the panel
        return KnobPoint(one.line, one.knob, mean, nan, nan, found.values[np.isfinite(found.values)].tolist())
    return KnobPoint(one.line, one.knob, mean, low, high)
