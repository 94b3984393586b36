"""The runs of Figures 5.3 to 5.6: schedulers, budgets, thresholds and blocks, all with recycled gradients in one cell.

Deviation: budgets are those that every device can meet. Figure 5.5 sweeps them for the CNN on CIFAR-10, where the
source has VGG-11 on CIFAR-100.

With the momentum of the source most runs on CIFAR-10 fall to chance, whatever the scheduler. All of them are also run
without momentum, as (5.3) is written, and judged apart.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from matplotlib.figure import Figure
from recycling_setting import case, config, curve, staleness, where

from fedcell.experiment import Case, Claim, Experiment, Finding, Row
from fedcell.experiment.judging import LEARNS, accuracies, ahead, final, gap, mean, missing, told, verdict
from fedcell.experiment.plots import dress, panels

STORE = "schedulers"
SCHEDULERS: dict[str, dict[str, Any]] = {
    "Proposed": {},
    "Random": {"scheduler": "random"},
    "STP": {"scheduler": "success"},
    "GI": {"scheduler": "gradient"},
    "GI cached": {"scheduler": "gradient", "norms": "cached"},
}
CIFAR = ("cifar", "cifar0")  # with and without momentum
OF_DATA = {**dict.fromkeys(CIFAR, tuple(SCHEDULERS)), "vgg": ("Proposed", "Random", "STP", "GI cached")}
SLACK = 0.02  # accuracy by which a printed margin may be missed


def base(data: str, quick: bool) -> Case:
    """The setting that every sweep shares: the proposed scheduler on CIFAR-10."""
    return case(f"{data}/Proposed", config(data, quick))


def cases(data: str, quick: bool) -> list[Case]:
    """The schedulers on a data set; the reduced grid has three of them, and none for VGG-11."""
    if quick and data == "vgg":
        return []
    names = ("Proposed", "Random", "GI") if quick else OF_DATA[data]
    few = 1 if data == "vgg" else None
    return [case(f"{data}/{name}", config(data, quick), few, **SCHEDULERS[name]) for name in names]


def area(row: Row) -> float:
    """Mean accuracy over the whole run: how soon it is learned."""
    return float(accuracies(row).mean())


def check(rows: list[Row], data: str, margin: float) -> list[Finding]:
    keys = {name: f"{data}/{name}" for name in OF_DATA[data]}
    if missing(rows, list(keys.values())):
        return []
    own, random, others = keys["Proposed"], keys["Random"], [keys[n] for n in keys if n not in ("Proposed", "Random")]
    accuracy = ", ".join(f"{name} {told(rows, key)}" for name, key in keys.items())
    stale = ", ".join(f"{name} {told(rows, key, staleness, 1)}" for name, key in keys.items())
    learns = mean(rows, own) >= LEARNS
    best = [learns and ahead(rows, own, key) for key in (random, *others)]
    soon = [learns and ahead(rows, own, key, area) for key in (random, *others)]
    behind = [ahead(rows, random, key) for key in others]
    fresh = [ahead(rows, random, own, staleness, None), *(ahead(rows, key, random, staleness, None) for key in others)]
    lead = gap(rows, own, random)
    close = abs(lead.mean() - margin) <= SLACK
    first = f"ahead in final accuracy {sum(best)}, in the mean over the run {sum(soon)}, of {len(best)} times"
    first += "" if learns else "; it learns nothing"
    order = f"Proposed below Random, Random below the others: {sum(fresh)} of {len(fresh)}"
    return [
        Finding(f"{data} best", accuracy, verdict([*best, *soon]), first),
        Finding(
            f"{data} margin",
            f"{100 * lead.mean():+.2f} points over Random",
            "reproduced" if close else "partly" if best[0] else "not reproduced",
            f"within {100 * SLACK:g} points of the printed margin; partly: beyond its standard error",
        ),
        Finding(f"{data} random", accuracy, verdict(behind), f"Random ahead of {sum(behind)} of {len(behind)}"),
        Finding(f"{data} stale", stale, verdict(fresh), order),
        _agree(rows, data, [random, *others], f"{accuracy}; staleness {stale}"),
    ]


def _agree(rows: list[Row], data: str, keys: Sequence[str], ours: str) -> Finding:
    """Whether of two baselines the one with the lower staleness is the more accurate one."""
    level = {key: [mean(rows, key, what) for what in (final, staleness)] for key in keys}
    held = [(level[a][0] > level[b][0]) == (level[a][1] < level[b][1]) for a, b in combinations(keys, 2)]
    return Finding(f"{data} agree", ours, verdict(held), f"{sum(held)} of {len(held)} pairs of baselines")


def plot(rows: list[Row], datas: Sequence[str]) -> Figure:
    figure, axes = panels(2 * len(datas))
    for place, data in enumerate(datas):
        left, right = axes[2 * place : 2 * place + 2]
        for index, name in enumerate(OF_DATA[data]):
            curve(left, rows, f"{data}/{name}", index, "seconds")
            curve(right, rows, f"{data}/{name}", index, "seconds", "stale_mean")
        dress(left, "seconds", "test accuracy", where(data))
        dress(right, "seconds", "mean staleness (rounds)", where(data))
        right.set_yscale("log")
    return figure


def claims(data: str, margin: float) -> list[Claim]:
    """What is claimed of the schedulers on a data set."""
    return [
        Claim(f"{data} best", f"{where(data)}: the proposed scheduler is best in speed and final accuracy", "curves"),
        Claim(f"{data} margin", f"{where(data)}: it ends well above Random", f"about {100 * margin:g} points"),
        Claim(f"{data} random", f"{where(data)}: Random beats STP and GI", "curves"),
        Claim(f"{data} stale", f"{where(data)}: staleness is lowest with the proposed, then Random", "curves"),
        Claim(
            f"{data} agree", f"{where(data)}: among the baselines lower staleness goes with higher accuracy", "curves"
        ),
    ]


def experiment(datas: Sequence[str], title: str, margin: float) -> Experiment:
    """Figure 5.3 or its twin 5.4."""
    return Experiment(
        title=title,
        claims=tuple(claim for data in datas for claim in claims(data, margin)),
        cases=lambda quick: [case for data in datas for case in cases(data, quick)],
        plot=lambda rows: plot(rows, datas),
        check=lambda rows: [finding for data in datas for finding in check(rows, data, margin)],
        store=STORE,
    )
