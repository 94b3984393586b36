"""Accuracy over simulated time of the three policies: the runs of Figures 3.5 and 3.6, judged alike.

The source tries ten numbers of devices for the policies that need one, and 10 x 10 pairs of weights. A schedule depends
on the ratio of the weights alone, so that each ratio is run once, with a weight of time of 1. A policy that needs a
number of devices counts with the number that is fastest.

Deviation: `H` is a sum over 100 devices in the source, beside seconds. With gradients of the published training (8
steps with momentum 0.9) that sum outweighs the seconds, and all devices are scheduled. Ratios here are of `H / K`,
which is also what the bound behind it has. The least ratio of the source with `H` as printed, 0.1, is a ratio of 10
here: claims that end in `sum` are judged with it.

Numbers of the text are for the pair (0.3, 1), whose meaning depends on that scale. They are judged with the ratio that
was best on other seeds (`chosen`), and as a second reading with 0.3 (claims that end in `marked`).

A target is reached when the mean of three evaluations in a row reaches it: with two classes per device single
evaluations swing. Claims without numbers are judged on CIFAR-10 at the highest level that all three policies reach on
every seed, by steps of five points.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from representativity_policies import key as sized
from representativity_setting import CLASSES, TITLES, case, config, name

from fedcell.experiment import Case, Finding, Row
from fedcell.experiment.judging import Measure, Part, by_seed, finding, first_hit, mean, missing, rising, sooner, told
from fedcell.experiment.measures import best, column
from fedcell.experiment.plots import PRINTED, dress, panels, printed_point
from fedcell.report.figure import COLOURS, LINES

SINGLE = {"Representativity": "representativity", "Latency": "latency"}
SIZES = (10, 20)  # N of the policies that are given one
SMOOTH = 3  # evaluations that make one
N_SCHEDULED = column("n_scheduled")


class Grid(NamedTuple):
    """The runs on one data set."""

    ratios: Mapping[int, Sequence[float]]  # by m, ascending: weight of H / K over that of time
    levels: Sequence[float]  # targets, the highest first
    every: bool  # whether claims without numbers are judged at every level, or at the highest that all reach
    chosen: float  # the ratio that numbers are judged with
    printed: float  # the ratio that is the least of the source with H as a sum
    sizes: Mapping[str, Sequence[int]]  # of the policies that are given one
    rounds: Mapping[float, int]  # of ratios with which so many devices train that a shorter run takes as long


GRIDS = {
    "mnist": Grid(
        ratios={2: (0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 10.0), 3: (0.1, 0.15, 0.2, 0.3, 10.0)},
        levels=(0.85, 0.80),
        every=True,
        chosen=0.15,
        printed=10.0,
        sizes={"Representativity": SIZES, "Latency": SIZES},
        rounds={0.25: 100, 0.3: 100, 10.0: 60},
    ),
    "cifar": Grid(
        ratios={2: (0.01, 0.03, 1.0), 3: (0.03,)},
        levels=(0.60, 0.55, 0.50, 0.45, 0.40, 0.35, 0.30),
        every=False,
        chosen=0.03,
        printed=1.0,
        sizes={"Representativity": SIZES, "Latency": (20,)},
        rounds={0.03: 600, 1.0: 200},
    ),
}


def both(data: str, m: int, ratio: float) -> str:
    """The name of an L&R-aware case."""
    return name(data, m, f"L&R {ratio:g}")


def cases(data: str, quick: bool) -> list[Case]:
    """Policies of every number of devices, and ratios; the reduced grid has one `m` and one of both."""
    grid, out = GRIDS[data], []
    for m in CLASSES[:1] if quick else CLASSES:
        settings = config(data, m, quick)
        for policy, own in SINGLE.items():
            some = grid.sizes[policy][:1] if quick else grid.sizes[policy]
            out += [case(sized(data, m, policy, n), settings, policy=own, n_selected=n) for n in some]
        for ratio in (grid.chosen,) if quick else grid.ratios[m]:
            weights = {"error_weight": ratio, "error_scale": "mean"}
            rounds = settings.rounds if quick else grid.rounds.get(ratio, settings.rounds)
            out.append(case(both(data, m, ratio), replace(settings, rounds=rounds), policy="both", **weights))
    return out


def ratios_of(rows: list[Row], data: str, m: int) -> list[float]:
    """The ratios that were run."""
    return [ratio for ratio in GRIDS[data].ratios[m] if not missing(rows, [both(data, m, ratio)])]


def single(rows: list[Row], data: str, m: int, policy: str) -> list[str]:
    """The cases of a policy that were run."""
    every = [sized(data, m, policy, n) for n in GRIDS[data].sizes[policy]]
    return [one for one in every if not missing(rows, [one])]


def ran(rows: list[Row], data: str, m: int) -> bool:
    """Whether every policy was run."""
    return bool(ratios_of(rows, data, m)) and all(single(rows, data, m, policy) for policy in SINGLE)


# ---------------------------------------------------------------- measures


def to(target: float) -> Measure:
    """Simulated seconds to an accuracy; infinite if it is never reached."""
    return first_hit(target, "seconds", SMOOTH)


def order(rows: list[Row], one: str, target: float) -> tuple[float, float]:
    """Mean seconds to a target, then accuracy, of cases that never get there."""
    return mean(rows, one, to(target)), -mean(rows, one, best)


def fastest(rows: list[Row], data: str, m: int, policy: str, target: float) -> str:
    """The case of a policy with the number of devices that is fastest; of `L&R` with the ratio that is."""
    every = _of(rows, data, m, policy)
    return min(every, key=lambda one: order(rows, one, target))


def _of(rows: list[Row], data: str, m: int, policy: str) -> list[str]:
    if policy == "L&R":
        return [both(data, m, ratio) for ratio in ratios_of(rows, data, m)]
    return single(rows, data, m, policy)


def targets(rows: list[Row], data: str, m: int) -> list[float]:
    """The levels at which claims without numbers are judged."""
    grid = GRIDS[data]
    if grid.every:
        return list(grid.levels)
    common = [level for level in grid.levels if all(_reached(rows, data, m, p, level) for p in (*SINGLE, "L&R"))]
    return [*common, grid.levels[-1]][:1]


def _reached(rows: list[Row], data: str, m: int, policy: str, target: float) -> bool:
    return any(np.isfinite(mean(rows, one, to(target))) for one in _of(rows, data, m, policy))


def before(rows: list[Row], ours: str, other: str, target: float, printed: float | None = None) -> Part:
    """One case reaches a target before another does, or saves a printed share of its time."""
    label = f"{ours.partition(' ')[2]} before {other.partition('/')[2]} at {target:.0%}"
    return sooner(rows, ours, other, to(target), "seconds", printed, label)


def times(rows: list[Row], data: str, m: int, target: float, ours: str) -> str:
    """Seconds to a target of a case and of the other policies at their best."""
    every = [ours, *(fastest(rows, data, m, policy, target) for policy in SINGLE)]
    return f"to {target:.0%}: " + ", ".join(f"{one.partition('/')[2]} {_told(rows, one, target)}" for one in every)


def _told(rows: list[Row], one: str, target: float) -> str:
    if np.isfinite(mean(rows, one, to(target))):
        return f"{told(rows, one, to(target), 0)} s"
    reached = np.isfinite(list(by_seed(rows, one, to(target)).values()))
    ran_s = mean(rows, one, lambda row: float(row["seconds"][-1]))
    return f"on {reached.sum()} of {len(reached)} seeds in {ran_s:.0f} s"


# ---------------------------------------------------------------- claims


def ahead_of_both(rows: list[Row], data: str, m: int, claim: str, ratio: float | None = None) -> Finding:
    """The L&R-aware policy reaches every target before the other two, with a ratio or with its best one."""
    if not ran(rows, data, m) or (ratio and missing(rows, [both(data, m, ratio)])):
        return finding(claim, ())
    parts, ours = [], []
    for target in targets(rows, data, m):
        own = both(data, m, ratio) if ratio else fastest(rows, data, m, "L&R", target)
        parts += [before(rows, own, fastest(rows, data, m, policy, target), target) for policy in SINGLE]
        ours.append(times(rows, data, m, target, own))
    return finding(claim, parts, "; ".join(ours), f"with {f'the ratio {ratio:g}' if ratio else 'its best ratio'}")


def saving(
    rows: list[Row],
    data: str,
    m: int,
    target: float,
    printed: float,
    against: Sequence[str] = tuple(SINGLE),
    marked: float | None = None,
) -> Finding:
    """Share of the time to a target that is saved against the other policies at their best."""
    ratio = marked or GRIDS[data].chosen
    claim, own = f"m{m} to{100 * target:.0f}{' marked' * bool(marked)}", both(data, m, ratio)
    if not ran(rows, data, m) or missing(rows, [own]):
        return finding(claim, ())
    parts = [before(rows, own, fastest(rows, data, m, policy, target), target, printed) for policy in against]
    saved_ = ", ".join(f"{part.mean:.0%} against {policy.lower()}" for policy, part in zip(against, parts, strict=True))
    why = f"half to twice the printed {printed:.1%}, with the ratio {ratio:g}"
    return finding(claim, parts, f"{times(rows, data, m, target, own)}; saved {saved_}", why)


def worst(rows: list[Row], data: str) -> Finding:
    """Even the worst ratio beats the other two policies at their best."""
    parts, ours = [], []
    for m in CLASSES:
        if ran(rows, data, m):
            target = targets(rows, data, m)[-1]
            own = max(_of(rows, data, m, "L&R"), key=lambda one: order(rows, one, target))
            parts += [before(rows, own, fastest(rows, data, m, policy, target), target) for policy in SINGLE]
            ours.append(f"m={m} {times(rows, data, m, target, own)}")
    return finding("worst", parts, "; ".join(ours), "the slowest ratio against the best number of devices")


def weights(rows: list[Row], data: str) -> Finding:
    """Ratios below 1 are faster than those from 1 on."""
    parts, ours = [], []
    for m in CLASSES:
        there = ratios_of(rows, data, m)
        if ran(rows, data, m):
            target = targets(rows, data, m)[-1]
            pairs = [(low, high) for low in there for high in there if low < 1 <= high]
            parts += [before(rows, both(data, m, low), both(data, m, high), target) for low, high in pairs]
            by_speed = sorted(there, key=lambda ratio: order(rows, both(data, m, ratio), target))
            ours.append(f"m={m}, fastest to {target:.0%} first: " + " ".join(f"{ratio:g}" for ratio in by_speed))
    return finding("weights", parts, "; ".join(ours), "every ratio below 1 before every other one")


def size(rows: list[Row], data: str) -> Finding:
    """More devices are scheduled the larger the ratio is."""
    parts, ours = [], []
    for m in CLASSES:
        every = {ratio: both(data, m, ratio) for ratio in ratios_of(rows, data, m)}
        parts += rising(rows, list(every.values()), N_SCHEDULED, None)
        told_ = " ".join(f"{ratio:g}: {told(rows, one, N_SCHEDULED, 0)}" for ratio, one in every.items())
        ours.append(f"m={m}, devices by ratio: {told_}")
    return finding("size", parts, "; ".join(ours), "every step of the ratio upwards")


def easier(rows: list[Row], data: str) -> Finding:
    """Every policy is faster with more classes per device."""
    if not all(ran(rows, data, m) for m in CLASSES):
        return finding("classes", ())
    target, parts = GRIDS[data].levels[-1], []
    for policy in (*SINGLE, "L&R"):
        two, three = (fastest(rows, data, m, policy, target) for m in CLASSES)
        parts.append(before(rows, three, two, target))
    return finding("classes", parts, why=f"each at its best, to {target:.0%}")


# ---------------------------------------------------------------- drawing


def plot(rows: list[Row], data: str, printed: Sequence[tuple[int, float, float, str]] = ()) -> Figure:
    """Accuracy over time, best, chosen and worst ratio; and what every ratio costs and brings.

    Args:
        printed: times of the source: m, seconds, the accuracy that is reached, and by whom.
    """
    shown = [m for m in CLASSES if ratios_of(rows, data, m)]
    figure, axes = panels(2 * len(shown))
    for place, m in enumerate(shown):
        target = GRIDS[data].levels[-1]
        by_speed = sorted(_of(rows, data, m, "L&R"), key=lambda one: order(rows, one, target))
        every = [one for policy in SINGLE for one in single(rows, data, m, policy)]
        every += dict.fromkeys([by_speed[0], both(data, m, GRIDS[data].chosen), by_speed[-1]])
        for index, one in enumerate(every):
            _over_time(axes[2 * place], rows, one, index)
        for _, seconds, accuracy, policy in (one for one in printed if one[0] == m):
            printed_point(axes[2 * place], seconds, accuracy)
            axes[2 * place].annotate(f" {policy}", (seconds, accuracy), fontsize=7, color=PRINTED, zorder=6)
        dress(axes[2 * place], "simulated time (s)", "test accuracy", f"{TITLES[data]}, m={m}")
        _pareto(axes[2 * place + 1], rows, data, m)
    return figure


def _over_time(ax: Axes, rows: list[Row], one: str, index: int) -> None:
    look = {"color": COLOURS[index % len(COLOURS)], "linestyle": LINES[index % len(LINES)]}
    for number, row in enumerate(row for row in rows if row["case"] == one):
        ax.plot(row["seconds"], row["accuracy"], label=one.partition("/")[2] if number == 0 else None, **look)


def _pareto(ax: Axes, rows: list[Row], data: str, m: int) -> None:
    """Mean seconds of a round against the error that its devices leave."""
    for ratio in ratios_of(rows, data, m):
        runs = [row for row in rows if row["case"] == both(data, m, ratio)]
        x = np.mean([row["seconds"][-1] / row["rounds"][-1] for row in runs])
        y = np.mean([column("error_mean")(row) for row in runs])
        ax.plot(x, y, "o", color=COLOURS[0])
        ax.annotate(f"{ratio:g}", (x, y), fontsize=7, xytext=(3, 3), textcoords="offset points")
    dress(ax, "seconds per round", "error of the devices scheduled, H / K", f"ratio of the weights, m={m}")
