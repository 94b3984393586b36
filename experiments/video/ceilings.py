"""Ceilings of the video requests beside the accuracies that the papers of OSAFL and RawHFL print. Needs no training.

Every draw of users has ceilings of its own, and those of the papers are unknown. A printed number is met when it lies
within three standard deviations over draws, or within `NEAR`, of the mean of the draws.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from fedcell.data.video import (
    OSAFL,
    RAWHFL,
    bayes_accuracy,
    build_catalogue,
    draw_profiles,
    loss_floor,
    most_requested_share,
    most_similar_accuracy,
)
from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import Part, spread, values_of, within
from fedcell.options import Law
from fedcell.scenarios import Config, get
from fedcell.types import Floats

SEEDS = tuple(range(1, 11))
NEAR, SPREADS = 0.01, 3
TWO = {f"K={k}": (replace(OSAFL, similar=k), 100) for k in (1, 2)}
THREE = {f"stay {law}": (replace(RAWHFL, stay=Law.parse(law)), 48) for law in ("0.3", "0.7", "0.1..0.8")}
WORLDS = TWO | THREE  # settings, number of users

PRINTED = {
    "osafl best": (0.6630, 0.3435),
    "osafl loss": (1.9497, 2.4209),
    "osafl one": (0.0566, 0.0447),
    "rawhfl best": (0.3947, 0.7013, 0.5180),
    "rawhfl similar": (0.2994, 0.7013, 0.4485),
    "rawhfl users": (0.0856, 0.0141, 0.1558),
    "rawhfl one": (0.0978, 0.0591, 0.0916),
}
MEANINGS = {
    "osafl best": "Central SGD of OSAFL ends at the best accuracy that the requests allow",
    "osafl loss": "the loss of Central SGD of OSAFL is not below that of knowing the law of the requests",
    "osafl one": "M-AFA-CD of OSAFL has the share of the commonest file",
    "rawhfl best": "Central-SGD of RawHFL ends at the best accuracy that the requests allow",
    "rawhfl similar": "RawHFL has the accuracy of always naming the most similar file",
    "rawhfl users": "the accuracy of Central-SGD spreads over users as the best one does",
    "rawhfl one": "Top-Popular of RawHFL has the share of the commonest file",
}


def mean_of(what: Callable[..., Floats]) -> Callable[..., float]:
    return lambda *world: float(np.mean(what(*world)))


def over_users(*world: object) -> float:
    """Standard deviation of the best accuracy over users."""
    return float(np.std(bayes_accuracy(*world)))


MEASURES = {
    "osafl best": mean_of(bayes_accuracy),
    "osafl loss": mean_of(loss_floor),
    "osafl one": mean_of(most_requested_share),
    "rawhfl best": mean_of(bayes_accuracy),
    "rawhfl similar": mean_of(most_similar_accuracy),
    "rawhfl users": over_users,
    "rawhfl one": mean_of(most_requested_share),
}


def cases(quick: bool) -> list[Case]:
    """Draws of users; the scenarios stand for what is drawn, nothing is trained."""
    out = []
    for name, (settings, n_users) in WORLDS.items():
        preset = get("osafl" if name in TWO else "rawhfl").config
        config = replace(preset, video=settings, world=replace(preset.world, n_devices=n_users))
        out.append(Case(name, config, "fedavg", seeds=SEEDS, measure=partial(draw, name)))
    return out


def draw(name: str, config: Config) -> dict[str, float]:
    """The numbers of one draw of users, by claim."""
    world = build_catalogue(config.video, config.seed), draw_profiles(config.video, config.world.n_devices, config.seed)
    paper = "osafl" if name in TWO else "rawhfl"
    return {claim: measure(*world) for claim, measure in MEASURES.items() if claim.startswith(paper)}


def values(rows: list[Row], claim: str) -> list[Floats]:
    """What is computed for a claim, `[n_draws]` for each of its worlds."""
    names = TWO if claim.startswith("osafl") else THREE
    return [values_of(rows, name, lambda row: float(row[claim])) for name in names]


def check(rows: list[Row]) -> list[Finding]:
    found = []
    for claim, printed in PRINTED.items():
        names = TWO if claim.startswith("osafl") else THREE
        own = values(rows, claim)
        parts = [_met(claim, name, *pair) for name, pair in zip(names, zip(own, printed, strict=True), strict=True)]
        rule = f"within {SPREADS} standard deviations over draws, or {NEAR}, of the mean of the draws"
        found.append(finding(claim, parts, ", ".join(spread(one) for one in own), rule))
    return found


def _met(claim: str, name: str, found: Floats, printed: float) -> Part:
    """A draw of the paper's own users could have the printed number; a loss may be larger than its floor."""
    reach = max(NEAR, SPREADS * float(found.std(ddof=1))) if len(found) > 1 else NEAR
    part = within(name, found, printed, reach)
    above_floor = claim == "osafl loss" and len(found) > 0 and printed >= found.mean()
    return part._replace(verdict="reproduced") if above_floor else part


def plot(rows: list[Row]) -> Figure:
    figure = Figure(figsize=(6.4, 6.4), layout="constrained")
    ax = figure.subplots()
    for claim, printed in PRINTED.items():
        own = values(rows, claim)
        if all(len(one) for one in own):
            ax.errorbar([one.mean() for one in own], printed, xerr=[one.std() for one in own], fmt="o", label=claim)
    ax.axline((0.1, 0.1), slope=1, color="#999999", linewidth=1)
    ax.set(xscale="log", yscale="log", xlim=(0.01, 3), ylim=(0.01, 3), xlabel="computed", ylabel="printed")
    if rows:
        ax.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    title="Video requests: ceilings",
    claims=tuple(
        Claim(key, MEANINGS[key], ", ".join(f"{number:.4f}" for number in printed)) for key, printed in PRINTED.items()
    ),
    cases=cases,
    plot=plot,
    check=check,
)

if __name__ == "__main__":
    main(EXPERIMENT)
