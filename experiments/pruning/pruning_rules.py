"""Figures 6.2 and 6.3: which units are dropped, with and without old gradients in their place; no radio.

`|S|` devices train in a round, drawn by lot and the same for all rules; all keep the share `1 - beta` of their units.
Rules without old gradients average over the devices heard; in a second reading, under keys that end in `all`, over all
devices, as the printed update does. Deviation: the source does not print the range of panel (c); here `beta` is 0.1 and
0.5, with 5 devices.
"""

from typing import Any

from matplotlib.figure import Figure
from pruning_setting import NO_RADIO, TITLES, best, case, curve, points

from fedcell.experiment import Case, Claim, Experiment, Finding, Row
from fedcell.experiment.judging import ahead, finding, gain, missing, told_all
from fedcell.experiment.plots import dress, panels, printed_lead

PROPOSED, OWN = "Proposed", "Proposed-wGC"
RULES: dict[str, dict[str, Any]] = {
    PROPOSED: {},
    OWN: {"cache": "off"},
    "Importance": {"mask_rule": "importance"},
    "Random": {"mask_rule": "random"},
}
COHORTS = (5, 10)
MEANS = ("heard", "all")
LEAST = 0.1  # beta of panels (a) and (b)
SETTINGS = {"mnist": ((5, 0.1), (5, 0.5), (10, 0.1)), "vgg": ((5, 0.1), (10, 0.1))}  # (|S|, beta)
ROUNDS = {"mnist": 300, "vgg": 1000}
THIN = {  # of VGG-11 these are run, with the mean over the devices heard and over all
    (5, "heard"): tuple(RULES),
    (5, "all"): (PROPOSED, OWN),
    (10, "heard"): (PROPOSED, OWN),
    (10, "all"): (PROPOSED,),
}


def name(data: str, rule: str, cohort: int, beta: float, over: str = "heard") -> str:
    return f"{data}/{rule} S={cohort} beta={beta:g}" + (" all" if over == "all" and rule != PROPOSED else "")


def rules(data: str, cohort: int, over: str = "heard") -> tuple[str, ...]:
    """The rules that are run."""
    return tuple(RULES) if data == "mnist" else THIN[cohort, over]


def keys_of(data: str, cohort: int, beta: float, over: str = "heard") -> dict[str, str]:
    return {rule: name(data, rule, cohort, beta, over) for rule in rules(data, cohort, over)}


def cases(data: str, quick: bool) -> list[Case]:
    """All settings with the mean over the devices heard; over all devices for the setting that prunes least."""
    if quick and data == "vgg":
        return []
    played = [(*one, over) for over in MEANS for one in SETTINGS[data] if over == "heard" or one[1] == LEAST]
    found = {}
    for cohort, beta, over in played[: 1 if quick else None]:
        for rule, key in keys_of(data, cohort, beta, over).items():
            own = {} if rule == PROPOSED else {"mean_over": over}
            kept = {"scheduler": "random", "deadline_s": None, "n_selected": cohort, "keep": 1 - beta}
            changes = {**NO_RADIO, "rounds": ROUNDS[data]}
            found[key] = case(key, quick, changes, **kept, **RULES[rule], **own)
    return list(found.values())


def check(rows: list[Row], data: str, printed: dict[int, float]) -> list[Finding]:
    found = [finding for over in MEANS for finding in _judge(rows, data, printed, over)]
    if data == "mnist":
        keys = {(rule, beta): name(data, rule, 5, beta) for rule in RULES for beta in (0.1, 0.5)}
        falls = [ahead(rows, keys[rule, 0.1], keys[rule, 0.5], name=rule) for rule in RULES]
        ours = "; ".join(f"beta={beta:g}: {told_all(rows, keys_of(data, 5, beta))}" for beta in (0.1, 0.5))
        found.append(finding("beta", falls, ours, "beta = 0.1 ends ahead of 0.5, |S| = 5"))
    return found


def _judge(rows: list[Row], data: str, printed: dict[int, float], over: str) -> list[Finding]:
    """The claims with one of the two means."""
    played = [(cohort, beta) for cohort, beta in SETTINGS[data] if over == "heard" or beta == LEAST]
    label = "" if over == "heard" else " all"
    every = "; ".join(f"S={s} beta={b:g}: {told_all(rows, keys_of(data, s, b, over))}" for s, b in played)
    found = [
        _gain(rows, data, cohort, printed[cohort], over) for cohort in COHORTS if len(rules(data, cohort, over)) > 1
    ]
    paid, older = [], []
    for s, b in played:
        keys = keys_of(data, s, b, over)
        if OWN in keys:
            paid.append(ahead(rows, keys[PROPOSED], keys[OWN], name=f"S={s} beta={b:g}"))
        older += [
            ahead(rows, keys[OWN], key, name=f"{rule} S={s} beta={b:g}")
            for rule, key in keys.items()
            if rule in ("Importance", "Random")
        ]
    found.append(finding(f"cache{label}", paid, every, "Proposed ends ahead of Proposed-wGC"))
    if older:
        found.append(finding(f"age{label}", older, every, "Proposed-wGC ends ahead"))
    if over == "heard":
        both = [rule for rule in rules(data, 10) if rule in rules(data, 5)]
        more = [ahead(rows, name(data, rule, 10, LEAST), name(data, rule, 5, LEAST), name=rule) for rule in both]
        found.append(finding("more", more, every, "S = 10 ends ahead of S = 5, beta = 0.1"))
    return found


def _gain(rows: list[Row], data: str, cohort: int, printed: float, over: str) -> Finding:
    """Against the best of the other rules at the least beta."""
    keys = keys_of(data, cohort, LEAST, over)
    others = {rule: key for rule, key in keys.items() if rule != PROPOSED}
    first = best(rows, others)
    part = gain(rows, keys[PROPOSED], others[first], printed, name=f"over {first}")
    claim = f"gain{cohort}" + (" all" if over == "all" else "")
    if missing(rows, list(keys.values())):
        return finding(claim, ())
    return finding(claim, part, f"{told_all(rows, keys)}; {part}", "half to twice the printed lead over the best")


def plot(rows: list[Row], data: str, printed: dict[int, float]) -> Figure:
    figure, axes = panels(3)
    for index, rule in enumerate(RULES):
        for ax, cohort in zip(axes, COHORTS, strict=False):
            curve(ax, rows, name(data, rule, cohort, LEAST), index, rule)
            if rule != PROPOSED:
                curve(ax, rows, name(data, rule, cohort, LEAST, "all"), index + len(RULES), f"{rule}, over all")
        betas = [beta for cohort, beta in SETTINGS[data] if cohort == 5]
        points(axes[2], rows, betas, [name(data, rule, 5, beta) for beta in betas], index, rule)
    for ax, cohort in zip(axes, COHORTS, strict=False):
        others = {rule: key for rule, key in keys_of(data, cohort, LEAST).items() if rule != PROPOSED}
        printed_lead(ax, rows, others[best(rows, others)], printed[cohort])
        dress(ax, "round", "test accuracy", f"{TITLES[data]}, |S| = {cohort}, beta = 0.1")
    dress(axes[2], "pruning ratio beta", "final accuracy", f"{TITLES[data]}, |S| = 5")
    return figure


def experiment(data: str, title: str, printed: dict[int, float]) -> Experiment:
    """Figure 6.2 or its twin 6.3."""
    claims = []
    for over in MEANS:
        label, how = ("", "") if over == "heard" else (" all", " (mean over all devices)")
        claims += [
            Claim(
                f"gain{cohort}{label}",
                f"|S| = {cohort}, beta = 0.1: Proposed beats every benchmark{how}",
                f"by {'over ' if cohort == 5 else ''}{100 * printed[cohort]:g} points",
            )
            for cohort in COHORTS
            if len(rules(data, cohort, over)) > 1
        ]
        claims.append(Claim(f"cache{label}", f"old gradients in the place of what was pruned help{how}", "curves"))
        if len(rules(data, 5, over)) > 2:
            text = f"pruning the freshest units beats importance and random pruning{how}"
            claims.append(Claim(f"age{label}", text, "curves"))
    claims.append(Claim("more", "every rule is better with 10 devices than with 5", "curves"))
    if data == "mnist":
        claims.append(Claim("beta", "accuracy falls as more is pruned", "curves"))
    return Experiment(
        title=title,
        claims=tuple(claims),
        cases=lambda quick: cases(data, quick),
        plot=lambda rows: plot(rows, data, printed),
        check=lambda rows: check(rows, data, printed),
    )
