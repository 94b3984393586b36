"""Figures 6.6 and 6.7: AMP-FL against systems that train the full model, over simulated time, with 2 and 3 shards each.

The full model cannot meet the deadline, so that a round lasts as long as its slowest device. Who trains is unstated:
here the devices with the strongest channels, on the blocks with the least sum of upload times, so that a round takes
about 2.5 deadlines (MNIST) or 4.4 (VGG-11). In a second reading, on MNIST with 2 shards, devices are drawn by lot;
fading has no floor, so a round then takes 20 deadlines in the mean of the runs, and 7 in the median.

Regularised FL has `mu` 0.01; the source gives none. APFL is charged two models, and judged by its global model; the
accuracies of its mixtures are in the findings.
"""

from typing import Any

from matplotlib.figure import Figure
from pruning_schedulers import STORE, base
from pruning_setting import TITLES, best, case, curve, fastest

from fedcell.experiment import Case, Claim, Experiment, Finding, Row
from fedcell.experiment.judging import ahead, finding, first_hit, gain, missing, sooner, told, told_all
from fedcell.experiment.measures import at_seconds
from fedcell.experiment.plots import dress, panels, printed_lead

SYSTEMS = {"Sync": "fedavg", "Regularised": "fedprox", "APFL": "apfl"}
SHARDS = (2, 3)
LOTS = {"scheduler": "random", "blocks": "first"}  # the second reading
ROUNDS = {  # until the clock is at CLOCK_S
    "mnist": {"Sync": 220, "Regularised": 220, "APFL": 180},
    "vgg": {"Sync": 360, "Regularised": 360, "APFL": 240},
}
LOT_ROUNDS = 100  # MNIST, by lot
CLOCK_S = {"mnist": 50.0, "vgg": 3e4}  # the time at which accuracies are compared: the end of AMP-FL's run
PERSONAL = ("personal_accuracy", "personal_overall_accuracy")
Printed = dict[int, tuple[float, dict[float, float]]]  # shards -> gain in accuracy, and times faster by target


def names(data: str, shards: int) -> dict[str, str]:
    """Case of every system; with VGG-11 and 3 shards there is no regularised FL."""
    own = base(data).key if shards == 2 else f"{data}/AMP-FL s={shards}"
    systems = [one for one in SYSTEMS if (data, shards, one) != ("vgg", 3, "Regularised")]
    return {"AMP-FL": own} | {one: f"{data}/{one} s={shards}" for one in systems}


def by_lot(data: str) -> dict[str, str]:
    """Case of every system whose devices are drawn by lot."""
    return {"AMP-FL": base(data).key} | {one: f"{data}/{one} s=2 by lot" for one in ("Sync", "APFL")}


def cases(data: str, quick: bool) -> list[Case]:
    if quick and data == "vgg":
        return []
    found = []
    for shards in SHARDS:
        changes: dict[str, Any] = {} if shards == 2 else {"data.shards_per_device": shards}
        for one, key in names(data, shards).items():
            if one == "AMP-FL":
                found.append(base(data, quick) if shards == 2 else case(key, quick, changes))
            else:
                found.append(case(key, quick, changes | {"rounds": ROUNDS[data][one]}, SYSTEMS[one]))
    if data == "mnist" and not quick:
        drawn = {one: key for one, key in by_lot(data).items() if one in SYSTEMS}
        found += [case(key, quick, {"rounds": LOT_ROUNDS}, SYSTEMS[one], **LOTS) for one, key in drawn.items()]
    return found


def check(rows: list[Row], data: str, printed: Printed) -> list[Finding]:
    at = at_seconds(CLOCK_S[data])
    found = [one for shards in SHARDS for one in _judge(rows, data, names(data, shards), str(shards), printed[shards])]
    if data == "mnist":
        found += _judge(rows, data, by_lot(data), "by lot", printed[2])
    common = [one for one in names(data, 2) if one in names(data, 3)]
    better = [ahead(rows, names(data, 3)[one], names(data, 2)[one], at, name=one) for one in common]
    both = "; ".join(f"s={shards}: {told_all(rows, names(data, shards), at)}" for shards in SHARDS)
    return [*found, finding("shards", better, both, "ahead with 3 shards")]


def _judge(
    rows: list[Row], data: str, keys: dict[str, str], label: str, printed: tuple[float, dict[float, float]]
) -> list[Finding]:
    """One panel of the figure, or the second reading of it."""
    at, (margin, faster) = at_seconds(CLOCK_S[data]), printed
    own, keys = keys["AMP-FL"], {one: key for one, key in keys.items() if not missing(rows, [key])}
    if own not in keys.values() or len(keys) < 2:
        return []
    full = {one: key for one, key in keys.items() if one in ("Sync", "Regularised")}
    levels, found = told_all(rows, keys, at), []
    if full:
        first = best(rows, full, at)
        why = "half to twice the printed lead over the better of both" if margin else "ahead of both"
        part = (
            gain(rows, own, full[first], margin, at, name=f"over {first}")
            if margin
            else ahead(rows, own, full[first], at, name=f"over {first}")
        )
        found.append(finding(f"gain {label}", part, f"{levels}; {part}", why))
    if "APFL" in keys and _names_apfl(data, label):
        personal = [f"{told(rows, keys['APFL'], lambda row, c=column: row[c][-1])} {column}" for column in PERSONAL]
        part = ahead(rows, own, keys["APFL"], at, name="over APFL")
        found.append(finding(f"apfl {label}", part, f"{levels}; APFL ends with {', '.join(personal)}"))
    found += [_speed(rows, data, keys, label, target, times) for target, times in faster.items()]
    return found


def _names_apfl(data: str, label: str) -> bool:
    """Whether the source compares the last accuracies of AMP-FL and APFL."""
    return data == "mnist" and label != "3"


def _speed(rows: list[Row], data: str, keys: dict[str, str], label: str, target: float, times: float) -> Finding:
    """Time to a target against APFL (MNIST), or against the fastest of the systems (VGG-11)."""
    when = first_hit(target, "seconds")
    rivals = {one: key for one, key in keys.items() if one == "APFL" or (data == "vgg" and one != "AMP-FL")}
    if not rivals:
        return finding(f"speed {target:g} {label}", ())
    first = fastest(rows, rivals, when)
    part = sooner(rows, keys["AMP-FL"], rivals[first], when, "seconds", 1 - 1 / times, f"saved against {first}")
    ours = f"to {target:g}, in seconds: {told_all(rows, keys, when, 1)}; {part}"
    return finding(
        f"speed {target:g} {label}", part, ours, f"half to twice the printed {1 - 1 / times:.0%} of the time"
    )


def plot(rows: list[Row], data: str, printed: Printed) -> Figure:
    shown = {f"{TITLES[data]}, s = {shards}": names(data, shards) for shards in SHARDS}
    if data == "mnist":
        shown |= {f"{TITLES[data]}, s = 2, devices by lot": by_lot(data)}
    figure, axes = panels(len(shown))
    for ax, (title, keys) in zip(axes, shown.items(), strict=False):
        for index, (one, key) in enumerate(keys.items()):
            curve(ax, rows, key, index, one, "seconds")
        others = {one: keys[one] for one in ("Sync", "Regularised") if one in keys}
        if (margin := printed[3 if "s = 3" in title else 2][0]) and "by lot" not in title:  # those runs last far longer
            printed_lead(ax, rows, others[best(rows, others)], margin, "seconds")
        ax.set_xlim(0, 1.2 * CLOCK_S[data])
        dress(ax, "seconds", "test accuracy", title)
    return figure


def experiment(data: str, title: str, printed: Printed) -> Experiment:
    """Figure 6.6 or its twin 6.7."""
    panels_of = {str(shards): (f"s = {shards}", printed[shards]) for shards in SHARDS}
    if data == "mnist":
        panels_of["by lot"] = ("s = 2, devices by lot", printed[2])
    rival, claims = "APFL" if data == "mnist" else "the benchmarks", []
    for label, (panel, (margin, faster)) in panels_of.items():
        claims += [
            Claim(
                f"gain {label}",
                f"{panel}: AMP-FL ends above Sync and Regularised FL",
                f"about +{100 * margin:g} points" if margin else "curves",
            ),
            *(
                [Claim(f"apfl {label}", f"{panel}: AMP-FL ends slightly above APFL", "a slight gain; no numbers")]
                if _names_apfl(data, label)
                else []
            ),
            *(
                Claim(
                    f"speed {target:g} {label}",
                    f"{panel}: AMP-FL reaches {target:g} sooner than {rival}",
                    f"{times:g} times",
                )
                for target, times in faster.items()
            ),
        ]
    return Experiment(
        title=title,
        claims=(*claims, Claim("shards", "all methods are better with s = 3 than with s = 2", "curves")),
        cases=lambda quick: cases(data, quick),
        plot=lambda rows: plot(rows, data, printed),
        check=lambda rows: check(rows, data, printed),
        store=STORE,
    )
