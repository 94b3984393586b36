"""Figures 6.2 and 6.3: which units are dropped, with and without old gradients in their place; no radio.

`|S|` devices train in a round, drawn by lot and the same for all rules; all keep the share `1 - beta` of their units.
Deviation: the source does not print the range of panel (c); here `beta` goes from 0.1 to 0.5.
"""

from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure
from pruning_setting import NO_RADIO, TITLES, case, curve, points

from fedcell.experiment import Case, Claim, Experiment, Finding, Row
from fedcell.experiment.judging import ahead, gap, margin, mean, missing, told_all, verdict
from fedcell.experiment.plots import dress, panels

RULES: dict[str, dict[str, Any]] = {
    "Proposed": {},
    "Proposed-wGC": {"cache": "off"},
    "Importance": {"mask_rule": "importance"},
    "Random": {"mask_rule": "random"},
}
COHORTS = (5, 10)
BETAS = {"mnist": {5: (0.1, 0.3, 0.5), 10: (0.1, 0.5)}, "vgg": {5: (0.1,), 10: (0.1, 0.5)}}
ROUNDS = {"mnist": 300, "vgg": 150}


def name(data: str, rule: str, cohort: int, beta: float) -> str:
    return f"{data}/{rule} S={cohort} beta={beta:g}"


def settings(data: str) -> list[tuple[int, float]]:
    """(|S|, beta) of every comparison of the rules."""
    return [(cohort, beta) for cohort, betas in BETAS[data].items() for beta in betas]


def cases(data: str, quick: bool) -> list[Case]:
    if quick and data == "vgg":
        return []
    changes = {**NO_RADIO, "rounds": ROUNDS[data]}
    return [
        case(
            name(data, rule, cohort, beta),
            quick,
            changes,
            scheduler="random",
            deadline_s=None,
            n_selected=cohort,
            keep=1 - beta,
            **rules,
        )
        for cohort, beta in settings(data)[: 1 if quick else None]
        for rule, rules in RULES.items()
    ]


def check(rows: list[Row], data: str, printed: dict[int, float]) -> list[Finding]:
    played = settings(data)
    keys = {(rule, *setting): name(data, rule, *setting) for rule in RULES for setting in played}
    if missing(rows, list(keys.values())):
        return []
    every = "; ".join(
        f"S={s} beta={b:g}: " + told_all(rows, {rule: keys[rule, s, b] for rule in RULES}) for s, b in played
    )
    found = [_gain(rows, data, cohort, printed[cohort]) for cohort in COHORTS]
    paid = [ahead(rows, keys["Proposed", s, b], keys["Proposed-wGC", s, b]) for s, b in played]
    age = [
        ahead(rows, keys["Proposed-wGC", s, b], keys[rule, s, b])
        for s, b in played
        for rule in ("Importance", "Random")
    ]
    more = [
        ahead(rows, keys[rule, 10, b], keys[rule, 5, b]) for rule in RULES for b in BETAS[data][10] if (5, b) in played
    ]
    falls = [
        mean(rows, keys[rule, s, less]) > mean(rows, keys[rule, s, much])
        for rule in RULES
        for s in COHORTS
        for less, much in pairwise(BETAS[data][s])
    ]
    return [
        *found,
        Finding(
            "cache", every, verdict(paid), f"Proposed ahead of Proposed-wGC in {sum(paid)} of {len(paid)} settings"
        ),
        Finding("age", every, verdict(age), f"wGC ahead of importance and random in {sum(age)} of {len(age)} pairs"),
        Finding("more", every, verdict(more), f"S=10 ahead of S=5 in {sum(more)} of {len(more)} pairs"),
        Finding("beta", every, verdict(falls), f"falls in {sum(falls)} of {len(falls)} steps of beta"),
    ]


def _gain(rows: list[Row], data: str, cohort: int, printed: float) -> Finding:
    """Against the best of the other rules at beta = 0.1."""
    keys = {rule: name(data, rule, cohort, 0.1) for rule in RULES}
    best = max((key for rule, key in keys.items() if rule != "Proposed"), key=lambda key: mean(rows, key))
    lead = gap(rows, keys["Proposed"], best)
    return Finding(
        f"gain{cohort}",
        f"{told_all(rows, keys)}: {100 * lead.mean():+.1f} points over the best",
        margin(lead, printed),
        "at least half the printed margin; partly: ahead by more than a standard error",
    )


def plot(rows: list[Row], data: str) -> Figure:
    figure, axes = panels(3)
    for index, rule in enumerate(RULES):
        for ax, cohort in zip(axes, COHORTS, strict=False):
            curve(ax, rows, name(data, rule, cohort, 0.1), index, rule)
        for place, cohort in enumerate(COHORTS):
            betas = BETAS[data][cohort]
            keys = [name(data, rule, cohort, beta) for beta in betas]
            points(axes[2], rows, [beta + 0.004 * index for beta in betas], keys, index, rule if place else "")
    for ax, cohort in zip(axes, COHORTS, strict=False):
        dress(ax, "round", "test accuracy", f"{TITLES[data]}, |S| = {cohort}, beta = 0.1")
    dress(axes[2], "pruning ratio beta", "final accuracy", "upper lines |S| = 10, lower |S| = 5")
    return figure


def experiment(data: str, title: str, printed: dict[int, float]) -> Experiment:
    """Figure 6.2 or its twin 6.3."""
    return Experiment(
        title=title,
        claims=(
            Claim(
                "gain5", "|S| = 5, beta = 0.1: Proposed beats every benchmark", f"by over {100 * printed[5]:g} points"
            ),
            Claim("gain10", "|S| = 10, beta = 0.1: Proposed beats every benchmark", f"by {100 * printed[10]:g} points"),
            Claim("cache", "old gradients in the place of what was pruned help", "curves"),
            Claim("age", "pruning the freshest units beats importance and random pruning", "curves"),
            Claim("more", "every rule is better with 10 devices than with 5", "curves"),
            Claim("beta", "accuracy falls as more is pruned", "curves"),
        ),
        cases=lambda quick: cases(data, quick),
        plot=lambda rows: plot(rows, data),
        check=lambda rows: check(rows, data, printed),
    )
