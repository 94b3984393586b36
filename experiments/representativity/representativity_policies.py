"""Accuracy over rounds of the policies, 10 and 20 of 100 devices per round: Figures 3.3 and 3.4, judged alike.

A gain counts as found when it is at least half of the printed one and beyond its standard error, as found in part when
it is beyond its standard error.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from representativity_setting import CLASSES, TITLES, case, central, config, name

from fedcell.experiment import Case, Finding, Row
from fedcell.experiment.judging import ahead, curve, early, gap, margin, mean, missing, told, told_all, verdict
from fedcell.experiment.plots import dress, panels

SIZES = (10, 20)  # N
POLICIES = {
    "Representativity": "representativity",
    "RS": "random",
    "PC": "power_of_choice",
    "Max-GNS": "gradient_norm",
}
OTHERS = tuple(POLICIES)[1:]
SIMILAR = 0.02  # accuracies that differ by less are about equal


def key(data: str, m: int, policy: str, n: int) -> str:
    return name(data, m, f"{policy} N={n}")


def cases(data: str, quick: bool) -> list[Case]:
    """Every policy; the reduced grid has one `m`, and on CIFAR-10 the cheap policies alone."""
    policies = ("Representativity", "RS") if quick and data == "cifar" else tuple(POLICIES)
    out = [
        case(key(data, m, policy, n), config(data, m, quick), policy=POLICIES[policy], n_selected=n)
        for m in (CLASSES[:1] if quick else CLASSES)
        for n in SIZES
        for policy in policies
    ]
    return [*out, central(data, quick)]


def keys(data: str, m: int, n: int) -> dict[str, str]:
    return {policy: key(data, m, policy, n) for policy in POLICIES}


def ran(rows: list[Row], data: str, m: int) -> bool:
    return not missing(rows, [one for n in SIZES for one in keys(data, m, n).values()])


# ---------------------------------------------------------------- claims


def best(rows: list[Row], data: str, m: int) -> Finding:
    """At least as accurate as every baseline: none is ahead."""
    holds = [
        not ahead(rows, key(data, m, other, n), key(data, m, "Representativity", n)) for n in SIZES for other in OTHERS
    ]
    ours = "; ".join(f"N={n}: {told_all(rows, keys(data, m, n))}" for n in SIZES)
    return Finding(f"m{m} best", ours, verdict(holds), f"not behind a baseline {sum(holds)} of {len(holds)} times")


def lead(rows: list[Row], data: str, m: int, n: int) -> np.ndarray:
    return gap(rows, key(data, m, "Representativity", n), key(data, m, "RS", n))


def gain(rows: list[Row], data: str, m: int, n: int, printed: float, over: tuple[str, ...] = ("RS",)) -> Finding:
    """The lead over the best of some policies."""
    rival = max(over, key=lambda other: mean(rows, key(data, m, other, n)))
    found = gap(rows, key(data, m, "Representativity", n), key(data, m, rival, n))
    spread = f"±{100 * found.std(ddof=1):.2f}" if len(found) > 1 else ""
    ours = f"{100 * found.mean():+.2f}{spread} points over {rival}"
    return Finding(f"m{m} gain{n}", ours, margin(found, printed), f"half of the printed {100 * printed:g} points")


def classes(rows: list[Row], data: str) -> Finding:
    """Every policy is better with more classes per device."""
    holds = {(p, n): ahead(rows, key(data, 3, p, n), key(data, 2, p, n)) for p in POLICIES for n in SIZES}
    ours = "; ".join(f"m={m}, N={n}: {told_all(rows, keys(data, m, n))}" for m in CLASSES for n in SIZES)
    return Finding(
        "classes", ours, verdict(list(holds.values())), f"{sum(holds.values())} of {len(holds)} policies ahead"
    )


def fewer(rows: list[Row], data: str) -> Finding:
    """The lead is larger with fewer devices, and with fewer classes."""
    found = {(m, n): float(lead(rows, data, m, n).mean()) for m in CLASSES for n in SIZES}
    holds = [found[m, 10] > found[m, 20] for m in CLASSES] + [found[2, n] > found[3, n] for n in SIZES]
    ours = ", ".join(f"m={m}, N={n}: {100 * value:+.2f}" for (m, n), value in found.items())
    return Finding(
        "fewer", f"points over RS: {ours}", verdict(holds), f"{sum(holds)} of {len(holds)} orderings of means"
    )


def sooner(rows: list[Row], data: str, m: int, n: int) -> Finding:
    """About as accurate as random scheduling in the end, but sooner."""
    end = float(lead(rows, data, m, n).mean())
    first = ahead(rows, key(data, m, "Representativity", n), key(data, m, "RS", n), early)
    ours = f"end {100 * end:+.2f} points; first third of the rounds: " + told_all(rows, keys(data, m, n), early)
    holds = [abs(end) <= SIMILAR, first]
    return Finding(
        f"m{m} faster", ours, verdict(holds), f"ends within {SIMILAR} of RS, and is ahead in the first third"
    )


def below_central(rows: list[Row], data: str, m: int, n: int) -> float:
    """How far the policy stays below training on all data."""
    return mean(rows, f"{data}/Centralised") - mean(rows, key(data, m, "Representativity", n))


def to_central(rows: list[Row], data: str, m: int, printed: float) -> Finding:
    """The gap to centralised training; which number of devices is not said, so either may have it."""
    found = {n: below_central(rows, data, m, n) for n in SIZES}
    near = [printed / 2 <= value <= 2 * printed for value in found.values()]
    level = "reproduced" if any(near) else "partly" if min(found.values()) > 0 else "not reproduced"
    ours = ", ".join(f"N={n}: {100 * value:.2f} points" for n, value in found.items())
    ours += f" below {told(rows, f'{data}/Centralised')}"
    return Finding(f"m{m} central", ours, level, "between half and twice the printed gap; in part: a gap")


def closer(rows: list[Row], data: str) -> Finding:
    """The gap to centralised training shrinks with more classes per device."""
    found: Mapping[int, tuple[float, float]] = {
        n: (below_central(rows, data, 2, n), below_central(rows, data, 3, n)) for n in SIZES
    }
    ours = ", ".join(f"N={n}: {100 * two:.2f} to {100 * three:.2f} points" for n, (two, three) in found.items())
    return Finding("closer", ours, verdict([two > three for two, three in found.values()]), "smaller at both N")


# ---------------------------------------------------------------- drawing


def plot(rows: list[Row], data: str) -> Figure:
    shown = [m for m in CLASSES if any(row["case"].startswith(f"{data} m={m}/") for row in rows)]
    figure, axes = panels(len(shown))
    for ax, m in zip(axes, shown, strict=False):
        for index, (n, policy) in enumerate((n, policy) for n in SIZES for policy in POLICIES):
            curve(ax, rows, key(data, m, policy, n), index, f"{policy}, N={n}")
        curve(ax, rows, f"{data}/Centralised", len(SIZES) * len(POLICIES), "Centralised")
        dress(ax, "round", "test accuracy", f"{TITLES[data]}, m={m}")
    return figure
