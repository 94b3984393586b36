"""The runs of Figures 5.3 to 5.6: schedulers, budgets, thresholds and blocks, all with recycled gradients in one cell.

Figure 5.3 has two cells: `tight`, whose deadline binds, in which the claims are judged, and `slack`, the budgets that
every device can meet, in which the proposed scheduler lets all take turns (see `reach.py`).
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from matplotlib.figure import Figure
from recycling_setting import TITLES, case, curve, staleness

from fedcell.experiment import Case, Claim, Experiment, Finding, Row
from fedcell.experiment.judging import ahead, area, below, finding, gain, mean, missing, told_all
from fedcell.experiment.plots import dress, panels, printed_lead

STORE = "schedulers"
SCHEDULERS: dict[str, dict[str, Any]] = {
    "Proposed": {},
    "Random": {"scheduler": "random"},
    "STP": {"scheduler": "success"},
    "GI cached": {"scheduler": "gradient", "norms": "cached"},
    "GI": {"scheduler": "gradient"},
}
OF_WORLD = {
    "tight": tuple(SCHEDULERS),
    "slack": ("Proposed", "Random", "STP"),
    "vgg tight": ("Proposed", "Random", "STP"),
}


def cases(world: str, quick: bool) -> list[Case]:
    """The schedulers in a world; the reduced grid has three of them, and none for VGG-11."""
    if quick and world == "vgg tight":
        return []
    names = ("Proposed", "Random", "GI") if quick and world == "tight" else OF_WORLD[world]
    return [case(f"{world}/{name}", quick, **SCHEDULERS[name]) for name in names]


def keys_of(rows: list[Row], world: str) -> dict[str, str]:
    """The case of every scheduler, without gradient norms of everyone as long as they were not run."""
    keys = {name: f"{world}/{name}" for name in OF_WORLD[world]}
    return {name: key for name, key in keys.items() if name != "GI" or not missing(rows, [key])}


def check(rows: list[Row], world: str, margin: float) -> list[Finding]:
    keys = keys_of(rows, world)
    own, random = keys["Proposed"], keys["Random"]
    rest = {name: key for name, key in keys.items() if name not in ("Proposed", "Random")}
    accuracy, stale = told_all(rows, keys), told_all(rows, keys, staleness, 1)
    against = {"Random": random} | rest
    best = [ahead(rows, own, key, name=name) for name, key in against.items()]
    soon = [ahead(rows, own, key, area, name=f"{name} over the run") for name, key in against.items()]
    fresh = [below(rows, own, random, staleness, "Proposed < Random")]
    fresh += [below(rows, random, key, staleness, f"Random < {name}") for name, key in rest.items()]
    found = [
        finding(f"{world} best", [*best, *soon], accuracy, "ahead of all at the end and in the mean over the run"),
        finding(f"{world} margin", gain(rows, own, random, margin), why="half to twice the printed margin over Random"),
        finding(f"{world} random", [ahead(rows, random, key, name=name) for name, key in rest.items()], accuracy),
        finding(f"{world} stale", fresh, stale),
    ]
    if len(rest) > 1:
        found.append(_agree(rows, world, against, f"{accuracy}; staleness {stale}"))
    return found


def _agree(rows: list[Row], world: str, keys: dict[str, str], ours: str) -> Finding:
    """Whether of two baselines the one with the lower staleness is the more accurate one."""
    parts = []
    for pair in combinations(keys, 2) if not missing(rows, list(keys.values())) else ():
        fresh, stale = sorted(pair, key=lambda name: mean(rows, keys[name], staleness))
        parts.append(ahead(rows, keys[fresh], keys[stale], name=f"{fresh} > {stale}"))
    return finding(f"{world} agree", parts, ours, "the baseline with the lower staleness is ahead")


def plot(rows: list[Row], worlds: Sequence[str], margin: float) -> Figure:
    figure, axes = panels(2 * len(worlds))
    for place, world in enumerate(worlds):
        left, right = axes[2 * place : 2 * place + 2]
        for index, name in enumerate(OF_WORLD[world]):
            curve(left, rows, f"{world}/{name}", index, "seconds")
            curve(right, rows, f"{world}/{name}", index, "seconds", "stale_mean")
        printed_lead(left, rows, f"{world}/Random", margin, "seconds")
        dress(left, "seconds", "test accuracy", TITLES[world])
        dress(right, "seconds", "mean staleness (rounds)", TITLES[world])
        right.set_yscale("log")
    return figure


def claims(world: str, margin: float) -> list[Claim]:
    """What is claimed of the schedulers, in a world."""
    title, gi = TITLES[world], " and GI" if "GI cached" in OF_WORLD[world] else ""
    out = [
        Claim(f"{world} best", f"{title}: the proposed scheduler is best in speed and final accuracy", "curves"),
        Claim(f"{world} margin", f"{title}: it ends well above Random", f"about {100 * margin:g} points"),
        Claim(f"{world} random", f"{title}: Random beats STP{gi}", "curves"),
        Claim(f"{world} stale", f"{title}: staleness is lowest with the proposed, then Random", "curves"),
    ]
    if gi:
        agree = f"{title}: among the baselines lower staleness goes with higher accuracy"
        out.append(Claim(f"{world} agree", agree, "curves"))
    return out


def experiment(worlds: Sequence[str], title: str, margin: float) -> Experiment:
    """Figure 5.3 or its twin 5.4."""
    return Experiment(
        title=title,
        claims=tuple(claim for world in worlds for claim in claims(world, margin)),
        cases=lambda quick: [case for world in worlds for case in cases(world, quick)],
        plot=lambda rows: plot(rows, worlds, margin),
        check=lambda rows: [finding for world in worlds for finding in check(rows, world, margin)],
        store=STORE,
    )
