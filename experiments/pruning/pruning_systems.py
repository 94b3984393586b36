"""Figures 6.6 and 6.7: AMP-FL against systems that train the full model, over simulated time, with 2 and 3 shards each.

A round of the full model lasts as long as its slowest device: it cannot meet the deadline. Regularised FL has the best
`mu` of `MUS` (VGG-11: 0.01). APFL is charged two models, and judged by its global model; the accuracies of its mixtures
are in the findings; with VGG-11 it has a quarter of the rounds, which still end long after the time that is compared.
Fading has no floor, so now and then one device takes many seconds for the full model.
"""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pruning_schedulers import STORE, base
from pruning_setting import TITLES, at_seconds, case, curve, seconds_to

from fedcell.experiment import Case, Claim, Experiment, Finding, Row
from fedcell.experiment.judging import LEARNS, by_seed, gap, margin, mean, missing, told, told_all, verdict
from fedcell.experiment.plots import dress, panels

MUS = {"mnist": {2: (0.001, 0.01, 0.1, 1.0), 3: (0.01, 0.1)}, "vgg": {2: (0.01,), 3: (0.01,)}}
SHARDS = (2, 3)
ROUNDS = {"mnist": 150, "vgg": 400}  # of the systems that train the full model
PERSONAL_ROUNDS = ROUNDS | {"vgg": 100}  # of APFL
CLOCK_S = {"mnist": 50.0, "vgg": 8000.0}  # the time at which accuracies are compared: the end of AMP-FL's run


def names(data: str, shards: int) -> dict[str, str]:
    """Case of every system."""
    own = base(data, False).key if shards == 2 else f"{data}/AMP-FL s={shards}"
    systems = {"AMP-FL": own, "Sync": f"{data}/Sync s={shards}", "APFL": f"{data}/APFL s={shards}"}
    return systems | {f"Regularised {mu:g}": f"{data}/Regularised {mu:g} s={shards}" for mu in MUS[data][shards]}


def cases(data: str, quick: bool) -> list[Case]:
    found: list[Case] = []
    if quick and data == "vgg":
        return found
    for shards in SHARDS:
        changes: dict[str, Any] = {} if shards == 2 else {"data.shards_per_device": shards}
        full = changes | {"rounds": ROUNDS[data]}
        key = names(data, shards)
        found.append(base(data, quick) if shards == 2 else case(key["AMP-FL"], quick, changes))
        found.append(case(key["Sync"], quick, full, "fedavg"))
        found.append(case(key["APFL"], quick, full | {"rounds": PERSONAL_ROUNDS[data]}, "apfl"))
        mus = MUS[data][shards][: 1 if quick else None]
        found += [case(key[f"Regularised {mu:g}"], quick, full, "fedprox", mu=mu) for mu in mus]
    return found


def check(rows: list[Row], data: str, printed: dict[int, tuple[float, float]], target: float) -> list[Finding]:
    if missing(rows, [key for shards in SHARDS for key in names(data, shards).values()]):
        return []
    measure, found, best = at_seconds(CLOCK_S[data]), [], {}
    for shards in SHARDS:
        keys = names(data, shards)
        tuned = max((key for name, key in keys.items() if "Reg" in name), key=lambda key: mean(rows, key, measure))
        best[shards] = {"AMP-FL": keys["AMP-FL"], "Sync": keys["Sync"], "Regularised": tuned, "APFL": keys["APFL"]}
        found += _judge(rows, best[shards], shards, measure, printed[shards], target)
    better = [
        mean(rows, best[3][name], measure) > max(mean(rows, best[2][name], measure), LEARNS)
        for name in ("AMP-FL", "Sync", "APFL")
    ]
    both = "; ".join(f"s={shards}: {told_all(rows, best[shards], measure)}" for shards in SHARDS)
    why = f"better with 3 shards, and above {LEARNS:g}: {sum(better)} of {len(better)}"
    found.append(Finding("shards", both, verdict(better), why))
    return found


def _judge(
    rows: list[Row], keys: dict[str, str], shards: int, measure: Any, printed: tuple[float, float], target: float
) -> list[Finding]:
    gain, speed_up = printed
    full = [gap(rows, keys["AMP-FL"], keys[name], measure) for name in ("Sync", "Regularised")]
    nearest = min(full, key=lambda found: float(found.mean()))
    ratio = speed(rows, keys["AMP-FL"], keys["APFL"], target)
    both = [f"{told(rows, keys['APFL'], lambda row, c=column: row[c][-1])} {column}" for column in PERSONAL]
    slower = np.isfinite(ratio).all() and margin(np.asarray(ratio) - 1, speed_up - 1)
    return [
        Finding(
            f"gain {shards}",
            f"{told_all(rows, keys, measure)}: {100 * nearest.mean():+.1f} points",
            margin(nearest, gain),
            "over the better of Sync and Regularised: at least half the printed margin; partly: ahead",
        ),
        Finding(
            f"speed {shards}",
            f"to {target:g}, in seconds: {told_all(rows, keys, seconds_to(target), 1)}; ratio to APFL "
            f"{np.mean(ratio):.2f}; APFL ends with {', '.join(both)}",
            slower or "not reproduced",
            "global model of APFL, the length of its run where it never gets there: at least half the printed gain",
        ),
    ]


PERSONAL = ("personal_accuracy", "personal_overall_accuracy")


def speed(rows: list[Row], own: str, other: str, target: float) -> list[float]:
    """How many times longer the other takes to a target, per seed; 0 where the first never gets there."""
    mine, theirs = by_seed(rows, own, seconds_to(target)), by_seed(rows, other, seconds_to(target))
    ends = {row["seed"]: row["clock_s"] for row in rows if row["case"] == other}
    return [min(theirs[seed], ends[seed]) / mine[seed] for seed in sorted(mine.keys() & theirs.keys())]


def plot(rows: list[Row], data: str) -> Figure:
    figure, axes = panels(2)
    for ax, shards in zip(axes, SHARDS, strict=True):
        for index, (name, key) in enumerate(names(data, shards).items()):
            curve(ax, rows, key, index, name, "seconds")
        ax.set_xlim(0, 4 * CLOCK_S[data])
        dress(ax, "seconds", "test accuracy", f"{TITLES[data]}, s = {shards}")
    return figure


def experiment(
    data: str, title: str, printed: dict[int, tuple[float, float]], target: float, note: str = ""
) -> Experiment:
    """Figure 6.6 or its twin 6.7."""
    claims = []
    for shards in SHARDS:
        gain, times = printed[shards]
        claims += [
            Claim(
                f"gain {shards}",
                f"s = {shards}: AMP-FL ends above Sync and Regularised FL",
                f"about +{100 * gain:g} points" if gain else "curves",
            ),
            Claim(
                f"speed {shards}", f"s = {shards}: AMP-FL reaches {target:g} sooner than APFL", f"{times:g} times{note}"
            ),
        ]
    return Experiment(
        title=title,
        claims=(*claims, Claim("shards", "all methods are better with s = 3 than with s = 2", "curves")),
        cases=lambda quick: cases(data, quick),
        plot=lambda rows: plot(rows, data),
        check=lambda rows: check(rows, data, printed, target),
        store=STORE,
    )
