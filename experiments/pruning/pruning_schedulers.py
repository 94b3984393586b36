"""Figures 6.4 and 6.5: who trains on which resource block, all with old gradients and the oldest units.

Every scheduler runs in two worlds: devices that stay where they are, as the text reads, and places and clocks drawn
anew in every round, the variant in which the source's order of the benchmarks appears. VGG-11 runs in the first, and
without C-scheduling.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from matplotlib.figure import Figure
from pruning_setting import TITLES, age, best, case, curve, fastest

from fedcell.experiment import Case, Claim, Experiment, Finding, Row
from fedcell.experiment.judging import ahead, below, finding, first_hit, gain, mean, missing, sooner, told_all
from fedcell.experiment.plots import PRINTED, dress, panels, printed_lead, printed_point

STORE = "runs"  # of all figures from 6.4 on
SCHEDULERS = {"Proposed": "omega", "PR": "pr", "Random": "random", "C": "channel"}
WORLDS = {"static": "static", "redrawn": "redraw_hardware"}
Reached = Sequence[tuple[float, float, str]]  # printed: seconds, the accuracy that is reached then, and by whom
OF_DATA = {"mnist": (tuple(WORLDS), tuple(SCHEDULERS)), "vgg": (("static",), ("Proposed", "PR", "Random"))}


def name(data: str, world: str, scheduler: str) -> str:
    return f"{data}/{world} {scheduler}"


def base(data: str, quick: bool = False) -> Case:
    """The proposed scheduler if devices stay: the run that other figures share."""
    return case(name(data, "static", "Proposed"), quick, {})


def cases(data: str, quick: bool) -> list[Case]:
    if quick and data == "vgg":
        return []
    found, (worlds, schedulers) = [base(data, quick)], OF_DATA[data]
    for world in worlds[: 1 if quick else None]:
        changes: dict[str, Any] = {} if world == "static" else {"world.geometry": WORLDS[world]}
        found += [
            case(name(data, world, scheduler), quick, changes, scheduler=SCHEDULERS[scheduler])
            for scheduler in schedulers
            if (world, scheduler) != ("static", "Proposed")
        ]
    return found


def check(rows: list[Row], data: str, targets: dict[float, float], printed_gain: float) -> list[Finding]:
    worlds, schedulers = OF_DATA[data]
    found = []
    for world in worlds:
        keys = {scheduler: name(data, world, scheduler) for scheduler in schedulers}
        keys = {scheduler: key for scheduler, key in keys.items() if not missing(rows, [key])}
        if {"Proposed", "Random"} <= set(keys):
            found += _judge(rows, keys, world, targets, printed_gain)
    return found


def _judge(
    rows: list[Row], keys: dict[str, str], world: str, targets: dict[float, float], printed_gain: float
) -> list[Finding]:
    own, others = keys["Proposed"], {name: key for name, key in keys.items() if name != "Proposed"}
    accuracy, ages = told_all(rows, keys), told_all(rows, keys, age, 1)
    first = best(rows, others)
    lead = gain(rows, own, others[first], printed_gain, name=f"over {first}")
    agree = []
    for pair in combinations(keys, 2):
        fresh, old = sorted(pair, key=lambda one: mean(rows, keys[one], age))
        agree.append(ahead(rows, keys[fresh], keys[old], name=f"{fresh} > {old}"))
    found = [
        finding(f"gain {world}", lead, f"{accuracy}; {lead}", "half to twice the printed lead over the best benchmark"),
        *(_saving(rows, keys, world, target, share) for target, share in targets.items()),
        finding(f"age {world}", [below(rows, own, key, age, name) for name, key in others.items()], ages),
        finding(f"agree {world}", agree, f"accuracy {accuracy}; age {ages}", "the lower age is the more accurate one"),
    ]
    if "PR" in others:
        parts = [ahead(rows, others["PR"], key, name=name) for name, key in others.items() if name != "PR"]
        found.append(finding(f"pr {world}", parts, accuracy, "PR-scheduling is ahead of"))
    return found


def _saving(rows: list[Row], keys: dict[str, str], world: str, target: float, printed: float) -> Finding:
    """Time to a target against the fastest benchmark."""
    when = first_hit(target, "seconds")
    first = fastest(rows, {name: key for name, key in keys.items() if name != "Proposed"}, when)
    part = sooner(rows, keys["Proposed"], keys[first], when, "seconds", printed, f"saved against {first}")
    ours = f"to {target:g}, in seconds: {told_all(rows, keys, when, 1)}; {part}"
    return finding(f"time {target:g} {world}", part, ours, "half to twice the printed saving")


def plot(rows: list[Row], data: str, printed_gain: float, reached: Reached) -> Figure:
    worlds, schedulers = OF_DATA[data]
    figure, axes = panels(2 * len(worlds))
    for number, world in enumerate(worlds):
        for index, scheduler in enumerate(schedulers):
            key = name(data, world, scheduler)
            curve(axes[2 * number], rows, key, index, scheduler, "seconds")
            curve(axes[2 * number + 1], rows, key, index, scheduler, "seconds", "age_mean")
        others = {one: name(data, world, one) for one in schedulers if one != "Proposed"}
        printed_lead(axes[2 * number], rows, others[best(rows, others)], printed_gain, "seconds")
        for seconds, accuracy, scheduler in reached:
            printed_point(axes[2 * number], seconds, accuracy)
            axes[2 * number].annotate(f" {scheduler}", (seconds, accuracy), fontsize=7, color=PRINTED)
        dress(axes[2 * number], "seconds", "test accuracy", f"{TITLES[data]}, {world}")
        dress(axes[2 * number + 1], "seconds", "mean age of a unit (rounds)", f"{TITLES[data]}, {world}")
        axes[2 * number + 1].set_yscale("log")
    return figure


def experiment(
    data: str, title: str, targets: dict[float, float], printed_gain: float, times: str, reached: Reached = ()
) -> Experiment:
    """Figure 6.4 or its twin 6.5; `targets` are accuracies with the share of time that is saved at each."""
    claims = []
    for world in OF_DATA[data][0]:
        claims += [
            Claim(f"gain {world}", f"{world}: the proposed scheduler ends best", f"+{100 * printed_gain:g} points"),
            *(Claim(f"time {target:g} {world}", f"{world}: it reaches {target:g} first", times) for target in targets),
            Claim(f"age {world}", f"{world}: it has the lowest age", "curves"),
            Claim(f"agree {world}", f"{world}: lower age goes with higher accuracy", "curves"),
            Claim(f"pr {world}", f"{world}: PR-scheduling is the best benchmark", "curves"),
        ]
    return Experiment(
        title=title,
        claims=tuple(claims),
        cases=lambda quick: cases(data, quick),
        plot=lambda rows: plot(rows, data, printed_gain, reached),
        check=lambda rows: check(rows, data, targets, printed_gain),
        store=STORE,
    )
