"""Accuracy over simulated time of the three policies: the runs of Figures 3.5 and 3.6, judged alike.

The source tries ten numbers of devices for the policies that need one, and 10 x 10 pairs of weights; here are three
numbers and a coarser grid that has the marked pair (0.3, 1.0) of MNIST. Where the text compares with a policy, the
number of devices counts with which that policy is fastest.

On CIFAR-10 central training ends at 55 %: nobody can reach the 60 and 65 % of the text. Claims without numbers are
judged there at 30 % (m = 2) and 45 % (m = 3), chosen when the runs of ten and twenty devices were known. Runs
with 50 devices a round, or a ratio of weights that lets many train, have half the rounds there, which last longer.
Schedules depend on the ratio of the weights alone, so that each ratio is run once.

A run that never reaches a target ends the comparison: of another policy it counts as the seconds that it ran, so that a
saving is at least what is told; of the L&R-aware policy as never.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from representativity_policies import key as sized
from representativity_setting import CLASSES, TITLES, case, config, n_scheduled, name, seconds, seconds_to

from fedcell.experiment import Case, Finding, Row
from fedcell.experiment.judging import ahead, beyond, by_seed, mean, missing, told, verdict
from fedcell.experiment.plots import dress, panels
from fedcell.report.figure import COLOURS, LINES
from fedcell.scenarios import Config

SIZES = (10, 20, 50)  # N of the policies that are given one
MANY = 50
Pair = tuple[float, float]  # rho1, rho2


class Grid(NamedTuple):
    """The runs on one data set."""

    data: str
    pairs: Sequence[Pair]  # with H / K
    printed: Sequence[Pair]  # with H
    targets: Mapping[int, Sequence[float]]  # by m
    marked: Pair | None = None  # the pair that numbers of the text are for; None: the best
    rounds_of_many: int | None = None  # of runs with many devices a round


GRIDS = {
    "mnist": Grid(
        "mnist",
        [(a, b) for a in (0.1, 0.3, 1.0) for b in (0.1, 0.3, 1.0)],
        [(0.1, 1.0), (0.3, 1.0)],
        {2: (0.80, 0.85), 3: (0.80, 0.85)},
        (0.3, 1.0),
    ),
    "cifar": Grid(
        "cifar",
        [(0.01, 1.0), (0.03, 1.0), (0.1, 1.0), (0.03, 0.1), (0.1, 0.1)],
        [(0.1, 1.0)],
        {2: (0.30,), 3: (0.45,)},
        rounds_of_many=150,
    ),
}
SINGLE = {"Representativity": "representativity", "Latency": "latency"}


def both(data: str, m: int, pair: Pair, scale: str = "mean") -> str:
    """The name of an L&R-aware case."""
    return name(data, m, f"L&R{' sum' * (scale == 'sum')} {pair[0]:g},{pair[1]:g}")


def cases(data: str, quick: bool) -> list[Case]:
    """Policies of every number of devices and pairs; the reduced grid has one `m` and few of both."""
    grid, out = GRIDS[data], []
    for m in CLASSES[:1] if quick else CLASSES:
        settings = config(data, m, quick)
        many = settings if quick or grid.rounds_of_many is None else replace(settings, rounds=grid.rounds_of_many)
        for policy, own in SINGLE.items():
            out += [
                case(sized(data, m, policy, n), many if n >= MANY else settings, policy=own, n_selected=n)
                for n in (SIZES[:1] if quick else SIZES)
            ]
        for scale, pairs in (("mean", grid.pairs), ("sum", grid.printed)):
            chosen = pairs[:1] if quick else pairs
            if quick and grid.marked in pairs:
                chosen = [grid.marked]
            few = [scale == "mean" and pair[0] < 0.1 * pair[1] for pair in chosen]
            out += [
                _lr(data, m, pair, scale, settings if light else many) for pair, light in zip(chosen, few, strict=True)
            ]
    return out


def _lr(data: str, m: int, pair: Pair, scale: str, settings: Config) -> Case:
    weights = {"error_weight": pair[0], "latency_weight": pair[1], "error_scale": scale}
    return case(both(data, m, pair, scale), settings, policy="both", **weights)


def pairs_of(rows: list[Row], data: str, m: int, scale: str = "mean") -> list[Pair]:
    """The pairs that were run."""
    grid = GRIDS[data]
    pairs = grid.pairs if scale == "mean" else grid.printed
    return [pair for pair in pairs if not missing(rows, [both(data, m, pair, scale)])]


def ran(rows: list[Row], data: str, m: int, scale: str = "mean") -> bool:
    """Whether the policies and all pairs were run."""
    grid = GRIDS[data]
    single = [sized(data, m, policy, n) for policy in SINGLE for n in SIZES]
    pairs = grid.pairs if scale == "mean" else grid.printed
    return not missing(rows, single + [both(data, m, pair, scale) for pair in pairs])


# ---------------------------------------------------------------- measures


def needed(rows: list[Row], key: str, target: float) -> float:
    """Mean seconds to a target; infinite where a seed never reaches it."""
    return mean(rows, key, seconds_to(target))


def fastest(rows: list[Row], data: str, m: int, policy: str, target: float) -> str:
    """The case of a policy with the number of devices that reaches the target first, or ran longest without."""
    return min((sized(data, m, policy, n) for n in SIZES), key=lambda key: _order(rows, key, target))


def _order(rows: list[Row], key: str, target: float) -> tuple[float, float]:
    return needed(rows, key, target), -mean(rows, key, lambda row: max(row["accuracy"]))


def ordered(rows: list[Row], data: str, m: int, target: float, scale: str = "mean") -> list[Pair]:
    """The pairs that were run, the fastest first."""
    return sorted(pairs_of(rows, data, m, scale), key=lambda pair: _order(rows, both(data, m, pair, scale), target))


def saved(rows: list[Row], ours: str, other: str, target: float) -> np.ndarray:
    """Share of the other's time that is saved, seed by seed; -1 where ours never gets there."""
    mine, theirs = by_seed(rows, ours, seconds_to(target)), by_seed(rows, other, seconds_to(target))
    ran_s = by_seed(rows, other, seconds)
    out = []
    for seed in sorted(mine.keys() & theirs.keys()):
        against = theirs[seed] if np.isfinite(theirs[seed]) else ran_s[seed]
        out.append(1 - mine[seed] / against if np.isfinite(mine[seed]) else -1.0)
    return np.array(out)


def times(rows: list[Row], data: str, m: int, target: float, pair: Pair, scale: str = "mean") -> str:
    """Seconds to a target of the pair and of the other policies at their best."""
    keys = {f"L&R {pair[0]:g},{pair[1]:g}": both(data, m, pair, scale)}
    keys |= {key.partition("/")[2]: key for key in (fastest(rows, data, m, policy, target) for policy in SINGLE)}
    return f"to {target:.0%}: " + ", ".join(f"{label} {_told(rows, key, target)}" for label, key in keys.items())


def _told(rows: list[Row], key: str, target: float) -> str:
    if np.isfinite(needed(rows, key, target)):
        return f"{told(rows, key, seconds_to(target), 0)} s"
    reached = sum(np.isfinite(value) for value in by_seed(rows, key, seconds_to(target)).values())
    ran_s, n = mean(rows, key, seconds), len(by_seed(rows, key))
    return f"in {reached} of {n} runs of {ran_s:.0f} s"


# ---------------------------------------------------------------- claims


def chosen(rows: list[Row], data: str, m: int, target: float) -> Pair:
    """The pair that numbers of the text are for."""
    return GRIDS[data].marked or ordered(rows, data, m, target)[0]


def first(rows: list[Row], data: str, m: int, claim: str, scale: str = "mean") -> Finding:
    """The L&R-aware policy with its best pair reaches every target before the other two."""
    holds, ours = [], []
    for target in GRIDS[data].targets[m]:
        pair = ordered(rows, data, m, target, scale)[0]
        others = [fastest(rows, data, m, policy, target) for policy in SINGLE]
        holds += [beyond(saved(rows, both(data, m, pair, scale), other, target)) for other in others]
        ours.append(times(rows, data, m, target, pair, scale))
    return Finding(claim, "; ".join(ours), verdict(holds), f"faster {sum(holds)} of {len(holds)} times")


def saving(
    rows: list[Row], data: str, m: int, target: float, printed: float, against: Sequence[str] = tuple(SINGLE)
) -> Finding:
    """Share of the time saved against the other policies at their best; the least of them counts."""
    pair = chosen(rows, data, m, target)
    found = {
        policy: saved(rows, both(data, m, pair), fastest(rows, data, m, policy, target), target) for policy in against
    }
    least = min(found.values(), key=lambda share: share.mean())
    holds = [bool(least.mean() >= printed / 2), beyond(least)]
    ours = (
        times(rows, data, m, target, pair)
        + "; saved "
        + ", ".join(f"{share.mean():.0%} against {policy.lower()}" for policy, share in found.items())
    )
    level = "reproduced" if all(holds) else "partly" if holds[1] else "not reproduced"
    why = f"at least half of the printed {printed:.1%}, beyond a standard error; in part: any saving"
    return Finding(f"m{m} to{100 * target:.0f}", ours, level, why)


def worst(rows: list[Row], data: str, claim: str, scale: str = "mean") -> Finding:
    """Even the worst pair beats the other two policies at their best."""
    holds, ours = [], []
    for m in CLASSES:
        target = GRIDS[data].targets[m][0]
        pair = ordered(rows, data, m, target, scale)[-1]
        others = [fastest(rows, data, m, policy, target) for policy in SINGLE]
        holds += [beyond(saved(rows, both(data, m, pair, scale), other, target)) for other in others]
        ours.append(f"m={m} {times(rows, data, m, target, pair, scale)}")
    return Finding(claim, "; ".join(ours), verdict(holds), f"faster {sum(holds)} of {len(holds)} times")


def weights(rows: list[Row], data: str) -> Finding:
    """Pairs with rho1 < rho2 are faster than the others; on CIFAR-10 all printed pairs but one have it."""
    holds, ours = [], []
    for m in CLASSES:
        target = GRIDS[data].targets[m][0]
        order = ordered(rows, data, m, target)
        less = [place for place, (rho1, rho2) in enumerate(order) if rho1 < rho2]
        more = [place for place, (rho1, rho2) in enumerate(order) if rho1 >= rho2]
        holds += [bool(less and (not more or np.mean(less) < np.mean(more)))]
        ours.append(f"m={m}, fastest first: " + " ".join(f"({a:g},{b:g})" for a, b in order))
    return Finding(
        "weights", "; ".join(ours), verdict(holds), "mean rank of pairs with rho1 < rho2 before that of others"
    )


def size(rows: list[Row], data: str) -> Finding:
    """More devices are scheduled the larger rho1 / rho2 is: every pair of ratios in order, beyond a standard error."""
    holds, ours = [], []
    for m in CLASSES:
        pairs = sorted(pairs_of(rows, data, m), key=lambda pair: pair[0] / pair[1])
        keys = {pair: both(data, m, pair) for pair in pairs}
        for low, high in pairwise(pairs):
            if not np.isclose(low[0] / low[1], high[0] / high[1]):
                holds.append(ahead(rows, keys[high], keys[low], n_scheduled, None))
        told_ = " ".join(f"({a:g},{b:g}) {told(rows, keys[a, b], n_scheduled, 0)}" for a, b in pairs)
        ours.append(f"m={m}: {told_}")
    return Finding("size", "; ".join(ours), verdict(holds), f"{sum(holds)} of {len(holds)} steps of the ratio upwards")


def easier(rows: list[Row], data: str) -> Finding:
    """Every policy is faster with more classes per device."""
    target, holds, ours = GRIDS[data].targets[2][0], [], []
    for policy in (*SINGLE, "L&R"):
        pick = {m: _best(rows, data, m, policy, target) for m in CLASSES}
        two, three = (needed(rows, pick[m], target) for m in CLASSES)
        holds.append(bool(three < two))
        ours.append(f"{policy}: " + ", ".join(f"m={m} {_told(rows, pick[m], target)}" for m in CLASSES))
    return Finding("classes", "; ".join(ours), verdict(holds), f"mean seconds to {target:.0%} fall from m = 2 to m = 3")


def _best(rows: list[Row], data: str, m: int, policy: str, target: float) -> str:
    return both(data, m, chosen(rows, data, m, target)) if policy == "L&R" else fastest(rows, data, m, policy, target)


# ---------------------------------------------------------------- drawing


def plot(rows: list[Row], data: str) -> Figure:
    """Accuracy over time, best and worst pair; and what every pair costs and brings."""
    shown = [m for m in CLASSES if any(row["case"].startswith(f"{data} m={m}/L&R") for row in rows)]
    figure, axes = panels(2 * len(shown))
    for place, m in enumerate(shown):
        target = GRIDS[data].targets[m][0]
        order = ordered(rows, data, m, target)
        keys = {sized(data, m, policy, n): f"{policy}, N={n}" for policy in SINGLE for n in SIZES}
        picked = dict.fromkeys([*order[:1], *order[-1:]])
        keys |= {both(data, m, pair): f"L&R {pair[0]:g}, {pair[1]:g}" for pair in picked}
        for index, (key, label) in enumerate(keys.items()):
            _over_time(axes[2 * place], rows, key, index, label)
        dress(axes[2 * place], "simulated time (s)", "test accuracy", f"{TITLES[data]}, m={m}")
        _pareto(axes[2 * place + 1], rows, data, m)
    return figure


def _over_time(ax: Axes, rows: list[Row], key: str, index: int, label: str) -> None:
    for number, row in enumerate(row for row in rows if row["case"] == key):
        look = {"color": COLOURS[index % len(COLOURS)], "linestyle": LINES[index % len(LINES)]}
        ax.plot(row["seconds"], row["accuracy"], label=label if number == 0 else None, **look)


def _pareto(ax: Axes, rows: list[Row], data: str, m: int) -> None:
    """Mean seconds of a round against the error that its devices leave."""
    for index, (scale, mark) in enumerate((("mean", "o"), ("sum", "s"))):
        for pair in pairs_of(rows, data, m, scale):
            runs = [row for row in rows if row["case"] == both(data, m, pair, scale)]
            x = np.mean([row["seconds"][-1] / row["rounds"][-1] for row in runs])
            y = np.mean([np.mean(row["error_mean"]) for row in runs])
            ax.plot(x, y, mark, color=COLOURS[index])
            ax.annotate(f"{pair[0]:g}, {pair[1]:g}", (x, y), fontsize=7, xytext=(3, 3), textcoords="offset points")
    dress(ax, "seconds per round", "error of the devices scheduled, H / K", f"weights of the error and of time, m={m}")
