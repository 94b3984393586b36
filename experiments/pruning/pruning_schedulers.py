"""Figures 6.4 and 6.5: who trains on which resource block, all with old gradients and the oldest units.

Every scheduler runs in two worlds: devices that stay where they are, as the text reads, and places and clocks drawn
anew in every round, the variant in which the source's order of the benchmarks appears.
"""

from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pruning_setting import TITLES, age, case, curve, seconds_to

from fedcell.experiment import Case, Claim, Experiment, Finding, Row
from fedcell.experiment.judging import LEARNS, ahead, by_seed, gap, margin, mean, missing, told_all, verdict
from fedcell.experiment.plots import dress, panels

STORE = "runs"  # of all figures from 6.4 on
SCHEDULERS = {"Proposed": "omega", "PR": "pr", "C": "channel", "Random": "random"}
WORLDS = {"static": "static", "redrawn": "redraw_hardware"}
NOBODY = f"nobody learns: all stay below {LEARNS:g}"


def name(data: str, world: str, scheduler: str) -> str:
    return f"{data}/{world} {scheduler}"


def base(data: str, quick: bool) -> Case:
    """The proposed scheduler where devices stay: the run that other figures share."""
    return case(name(data, "static", "Proposed"), quick, {})


def cases(data: str, quick: bool) -> list[Case]:
    if quick and data == "vgg":
        return []
    found = [base(data, quick)]
    for world, geometry in list(WORLDS.items())[: 1 if quick else 2]:
        changes: dict[str, Any] = {} if world == "static" else {"world.geometry": geometry}
        found += [
            case(name(data, world, scheduler), quick, changes, scheduler=rule)
            for scheduler, rule in SCHEDULERS.items()
            if (world, scheduler) != ("static", "Proposed")
        ]
    return found


def check(rows: list[Row], data: str, target: float, printed_gain: float, printed_saving: float) -> list[Finding]:
    found = []
    for world in WORLDS:
        keys = {scheduler: name(data, world, scheduler) for scheduler in SCHEDULERS}
        if not missing(rows, list(keys.values())):
            found += _judge(rows, keys, world, target, printed_gain, printed_saving)
    return found


def _judge(
    rows: list[Row], keys: dict[str, str], world: str, target: float, printed_gain: float, printed_saving: float
) -> list[Finding]:
    own, others = keys["Proposed"], {name: key for name, key in keys.items() if name != "Proposed"}
    accuracy, ages = told_all(rows, keys), told_all(rows, keys, age, 1)
    best = max(others, key=lambda name: mean(rows, others[name]))
    lead = gap(rows, own, others[best])
    fresh = [ahead(rows, key, own, age, None) for key in others.values()]
    pairs = list(combinations(keys.values(), 2))
    learned = max(mean(rows, key) for key in keys.values()) >= LEARNS
    agree = [learned and (mean(rows, a) > mean(rows, b)) == (mean(rows, a, age) < mean(rows, b, age)) for a, b in pairs]
    return [
        Finding(
            f"gain {world}",
            f"{accuracy}: {100 * lead.mean():+.1f} points over {best}",
            margin(lead, printed_gain),
            "over the best benchmark: at least half the printed margin; partly: ahead by more than a standard error",
        ),
        _saving(rows, keys, world, target, printed_saving),
        Finding(f"age {world}", ages, verdict(fresh), f"Proposed has the lower age in {sum(fresh)} of {len(fresh)}"),
        Finding(
            f"agree {world}",
            f"accuracy {accuracy}; age {ages}",
            verdict(agree),
            f"the lower age is the more accurate one in {sum(agree)} of {len(agree)} pairs" if learned else NOBODY,
        ),
        Finding(
            f"pr {world}",
            accuracy,
            "reproduced" if learned and best == "PR" else "not reproduced",
            f"the best benchmark here is {best}" if learned else NOBODY,
        ),
    ]


def _saving(rows: list[Row], keys: dict[str, str], world: str, target: float, printed: float) -> Finding:
    """Time to a target against the fastest benchmark; one that never gets there takes as long as its run."""
    measure = seconds_to(target)
    own = by_seed(rows, keys["Proposed"], measure)
    saved = []
    for seed, seconds in own.items():
        rest = [by_seed(rows, key, measure).get(seed, np.inf) for name, key in keys.items() if name != "Proposed"]
        ends = [row["clock_s"] for row in rows if row["case"] == keys["PR"] and row["seed"] == seed]
        saved.append(1 - seconds / min(*rest, *ends) if np.isfinite(seconds) else -1.0)
    return Finding(
        f"time {world}",
        f"to {target:g}, in seconds: {told_all(rows, keys, measure, 1)}; {100 * np.mean(saved):.0f} % saved at least",
        margin(np.array(saved), printed),
        "against the fastest benchmark (the whole run where none gets there): at least half the printed saving",
    )


def plot(rows: list[Row], data: str) -> Figure:
    figure, axes = panels(4)
    for number, world in enumerate(WORLDS):
        for index, scheduler in enumerate(SCHEDULERS):
            key = name(data, world, scheduler)
            curve(axes[2 * number], rows, key, index, scheduler, "seconds")
            curve(axes[2 * number + 1], rows, key, index, scheduler, "seconds", "age_mean")
        dress(axes[2 * number], "seconds", "test accuracy", f"{TITLES[data]}, {world}")
        dress(axes[2 * number + 1], "seconds", "mean age of a unit (rounds)", f"{TITLES[data]}, {world}")
        axes[2 * number + 1].set_yscale("log")
    return figure


def experiment(
    data: str, title: str, target: float, printed_gain: float, printed_saving: float, times: str
) -> Experiment:
    """Figure 6.4 or its twin 6.5."""
    claims = []
    for world in WORLDS:
        claims += [
            Claim(f"gain {world}", f"{world}: the proposed scheduler ends best", f"+{100 * printed_gain:g} points"),
            Claim(f"time {world}", f"{world}: it reaches {target:g} first", times),
            Claim(f"age {world}", f"{world}: it has the lowest age", "curves"),
            Claim(f"agree {world}", f"{world}: lower age goes with higher accuracy", "curves"),
            Claim(f"pr {world}", f"{world}: PR-scheduling is the best benchmark", "curves"),
        ]
    return Experiment(
        title=title,
        claims=tuple(claims),
        cases=lambda quick: cases(data, quick),
        plot=lambda rows: plot(rows, data),
        check=lambda rows: check(rows, data, target, printed_gain, printed_saving),
        store=STORE,
    )
