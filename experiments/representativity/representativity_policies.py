"""Accuracy over rounds of the policies, 10 and 20 of 100 devices per round: Figures 3.3 and 3.4, judged alike.

A lead is an early one, so it is judged as a curve: in every window of rounds against the printed margin, and by the
area under it. PC and Max-GNS, which were far behind on other seeds, are run with 10 devices alone; on CIFAR-10 Max-GNS
alone, with m = 3, for which the text compares with it.
"""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from representativity_setting import CLASSES, COLLAPSE, PLAIN, TITLES, WINDOWS, case, central, config, fall, name

from fedcell.experiment import Case, Finding, Row
from fedcell.experiment.judging import (
    LEARNS,
    Part,
    ahead,
    area,
    early,
    final,
    finding,
    gain,
    inside,
    level,
    mean,
    missing,
    not_behind,
    told,
    told_all,
    values_of,
    wider,
)
from fedcell.experiment.measures import window
from fedcell.experiment.plots import PRINTED, curve, dress, panels
from fedcell.experiment.plots import lead as draw_lead
from fedcell.experiment.verdicts import VERDICTS

SIZES = (10, 20)  # N
POLICIES = {
    "Representativity": "representativity",
    "RS": "random",
    "PC": "power_of_choice",
    "Max-GNS": "gradient_norm",
}
OURS, GAMMA = "Representativity", "Representativity gamma"
OTHERS = tuple(POLICIES)[1:]
EVERYWHERE = (OURS, "RS")  # with both numbers of devices
FAR = {("mnist", 2): OTHERS[1:], ("mnist", 3): OTHERS[1:], ("cifar", 2): (), ("cifar", 3): OTHERS[2:]}  # with 10 alone
SLACK = 0.01  # accuracy by which a policy may be behind and count as as accurate
SIMILAR = 0.02  # accuracies that differ by less are about equal


def key(data: str, m: int, policy: str, n: int, plain: bool = False) -> str:
    """The name of a case; `plain` runs have no momentum."""
    return name(data, m, f"{policy} N={n}{PLAIN * plain}")


def cases(data: str, quick: bool) -> list[Case]:
    """Every policy; the reduced grid has one `m`, and on CIFAR-10 the cheap policies alone."""
    out = []
    for m in CLASSES[:1] if quick else CLASSES:
        settings = config(data, m, quick)
        grid = [(policy, n) for n in SIZES for policy in EVERYWHERE] + [(other, 10) for other in FAR[data, m]]
        out += [case(key(data, m, one, n), settings, policy=POLICIES[one], n_selected=n) for one, n in grid]
        if data == "mnist":
            out.append(case(key(data, m, GAMMA, 10), settings, weights="gamma", n_selected=10))
        elif m == 2:
            plain = [(key(data, m, one, 10, plain=True), POLICIES[one]) for one in EVERYWHERE]
            out += [case(one, settings, policy=policy, n_selected=10) for one, policy in plain]
    return [*out, central(data, quick)]


def keys(rows: list[Row], data: str, m: int, n: int) -> dict[str, str]:
    """The cases that were run, by their policies."""
    found = {policy: key(data, m, policy, n) for policy in POLICIES}
    return {policy: one for policy, one in found.items() if not missing(rows, [one])}


# ---------------------------------------------------------------- claims


def best(rows: list[Row], data: str, m: int) -> Finding:
    """At least as accurate as every baseline."""
    parts = [
        not_behind(rows, key(data, m, OURS, n), one, SLACK, name=f"N={n} {other}")
        for n in SIZES
        for other, one in keys(rows, data, m, n).items()
        if other != OURS
    ]
    ours = "; ".join(f"N={n}: {told_all(rows, keys(rows, data, m, n))}" for n in SIZES)
    return finding(f"m{m} best", parts, ours, f"final accuracy at most {SLACK} below that of the baselines run")


def lead(rows: list[Row], claim: str, data: str, ours: str, rivals: Sequence[str], printed: float) -> Finding:
    """The lead over the best of some cases, as a curve: the printed margin in every window, and the area under it."""
    there = [rival for rival in rivals if not missing(rows, [rival])]
    if missing(rows, [ours]) or not there:
        return finding(claim, ())
    rival = max(there, key=lambda one: mean(rows, one))
    parts = [
        gain(rows, ours, rival, printed, window(first, last), name=f"rounds {first} to {last}")
        for first, last in WINDOWS[data]
    ]
    parts.append(ahead(rows, ours, rival, area, name="mean over all rounds"))
    told_ = "; ".join(map(str, parts))
    why = f"half to twice the printed {100 * printed:g} points in every window of rounds, and an area above 0"
    return finding(claim, parts, f"lead over {rival.partition('/')[2]}: {told_}", why)


def gains(rows: list[Row], data: str, m: int, n: int, printed: float, over: Sequence[str] = ("RS",)) -> Finding:
    """The printed lead of scheduling by representativity."""
    return lead(rows, f"m{m} gain{n}", data, key(data, m, OURS, n), [key(data, m, other, n) for other in over], printed)


def sooner(rows: list[Row], data: str, m: int, n: int) -> Finding:
    """Ahead of random scheduling at first: in the first window and over the first third of the rounds."""
    ours, random = key(data, m, OURS, n), key(data, m, "RS", n)
    first, last = WINDOWS[data][0]
    parts = [
        ahead(rows, ours, random, window(first, last), name=f"rounds {first} to {last}"),
        ahead(rows, ours, random, early, name="first third of the rounds"),
    ]
    return finding(f"m{m} early{n}", parts, why="ahead of RS early")


def as_good_but_sooner(rows: list[Row], data: str, m: int, n: int) -> Finding:
    """About as accurate as random scheduling in the end, but sooner."""
    ours, random = key(data, m, OURS, n), key(data, m, "RS", n)
    parts = [
        level(rows, ours, random, SIMILAR, name="end"),
        ahead(rows, ours, random, early, name="first third of the rounds"),
    ]
    return finding(f"m{m} faster", parts, why=f"ends within {SIMILAR} of RS, and is ahead in the first third")


def classes(rows: list[Row], data: str) -> Finding:
    """Every policy is better with more classes per device."""
    parts = [
        ahead(rows, key(data, 3, policy, n), key(data, 2, policy, n), name=f"N={n} {policy}")
        for n in SIZES
        for policy in sorted(keys(rows, data, 2, n).keys() & keys(rows, data, 3, n).keys())
    ]
    ours = "; ".join(f"m={m}, N={n}: {told_all(rows, keys(rows, data, m, n))}" for m in CLASSES for n in SIZES)
    return finding("classes", parts, ours, "final accuracy with m = 3 above that with m = 2")


def fewer(rows: list[Row], data: str) -> Finding:
    """The lead is larger with fewer devices, and with fewer classes."""
    pair = {(m, n): (key(data, m, OURS, n), key(data, m, "RS", n)) for m in CLASSES for n in SIZES}
    parts = [wider(rows, pair[m, 10], pair[m, 20], area, name=f"m={m}: N=10 over N=20") for m in CLASSES]
    parts += [wider(rows, pair[2, n], pair[3, n], area, name=f"N={n}: m=2 over m=3") for n in SIZES]
    return finding("fewer", parts, why="area under the lead over RS")


def to_central(rows: list[Row], data: str, m: int, printed: float) -> Finding:
    """The gap to centralised training; which number of devices is not said, so that the better one counts."""
    parts = [gain(rows, f"{data}/Centralised", key(data, m, OURS, n), printed, name=f"N={n}") for n in SIZES]
    told_ = "; ".join(map(str, parts)) + f"; centralised {told(rows, f'{data}/Centralised')}"
    chosen = min(parts, key=lambda part: VERDICTS.index(part.verdict))
    return finding(f"m{m} central", chosen, told_, f"half to twice the printed gap, with {chosen.name}")


def closer(rows: list[Row], data: str) -> Finding:
    """The gap to centralised training shrinks with more classes per device."""
    centre = f"{data}/Centralised"
    gaps = {(m, n): (centre, key(data, m, OURS, n)) for m in CLASSES for n in SIZES}
    parts = [wider(rows, gaps[2, n], gaps[3, n], name=f"N={n}: m=2 over m=3") for n in SIZES]
    return finding("closer", parts, why="a larger gap with m = 2 at both N")


def steady(rows: list[Row], data: str, claim: str = "steady", policy: str = OURS) -> Finding:
    """No run collapses: on no seed does the accuracy end far below the best that it had reached."""
    every = [key(data, m, policy, n) for m in CLASSES for n in SIZES]
    parts = [_kept(rows, one) for one in every if not missing(rows, [one])]
    return finding(claim, parts, why=f"on every seed above {LEARNS} and at most {COLLAPSE} below its best")


def _kept(rows: list[Row], one: str) -> Part:
    falls = values_of(rows, one, fall)
    holds = falls.max() <= COLLAPSE and values_of(rows, one, final).min() > LEARNS
    part = inside(f"{one.partition(' ')[2]}, worst {falls.max():.3f}", falls)
    return part._replace(verdict="reproduced" if holds else "not reproduced")


# ---------------------------------------------------------------- drawing


def plot(rows: list[Row], data: str, printed: Mapping[tuple[int, int], float]) -> Figure:
    """Accuracy over rounds, and the lead over random scheduling with its interval and the printed ones, by m and N."""
    shown = [m for m in CLASSES if any(row["case"].startswith(f"{data} m={m}/") for row in rows)]
    figure, axes = panels(2 * len(shown))
    for place, m in enumerate(shown):
        _curves(axes[2 * place], rows, data, m)
        pairs = [(OURS, n, False) for n in SIZES] + [(GAMMA, 10, False), (OURS, 10, True)]
        for index, (policy, n, plain) in enumerate(pairs):
            ours, random = key(data, m, policy, n, plain), key(data, m, "RS", n, plain)
            draw_lead(axes[2 * place + 1], rows, ours, random, index, ours.partition("/")[2])
        for (classes, n), margin in printed.items():
            if classes == m:
                look = {"color": PRINTED, "linestyle": ":" if n == SIZES[0] else "-."}
                axes[2 * place + 1].axhline(100 * margin, label=f"printed, N={n}", linewidth=1.0, **look)
        dress(axes[2 * place + 1], "round", "points over RS", f"{TITLES[data]}, m={m}")
    return figure


def _curves(ax: Axes, rows: list[Row], data: str, m: int) -> None:
    labels = [(policy, n, False) for n in SIZES for policy in POLICIES] + [(GAMMA, 10, False)]
    labels += [(policy, 10, True) for policy in EVERYWHERE]
    every = [key(data, m, *label) for label in labels] + [f"{data}/Centralised"]
    for index, one in enumerate(every):
        curve(ax, rows, one, index, one.partition("/")[2])
    dress(ax, "round", "test accuracy", f"{TITLES[data]}, m={m}")
