"""Beyond the source: the rates that the proposed scheduler bears, without momentum, on CIFAR-10.

Where nothing is lost the proposed scheduler lets devices take turns, and Random draws them. On a quadratic, recycled
gradients of devices that take turns bear far smaller steps than those of devices drawn anew, though they are fresher
(`theory.recycling.steps_in_turn`, `steps_at_random`). Here both run at the published rate and below.
"""

from matplotlib.figure import Figure
from recycling_schedulers import SCHEDULERS, STORE
from recycling_setting import case, config, curve, where

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import LEARNS, ahead, mean, missing, told, verdict
from fedcell.experiment.plots import dress, panels

DATA = "cifar0"
PUBLISHED = 0.05
RATES = (PUBLISHED, 0.02, 0.01)
NAMES = ("Proposed", "Random")


def key(name: str, rate: float) -> str:
    """The runs at the published rate are those of Figure 5.3."""
    return f"{DATA}/{name}" + ("" if rate == PUBLISHED else f" lr={rate:g}")


def cases(quick: bool) -> list[Case]:
    return [
        case(
            key(name, rate),
            config(DATA, quick, **({} if rate == PUBLISHED else {"train__lr": rate})),
            **SCHEDULERS[name],
        )
        for rate in (RATES[:2] if quick else RATES)
        for name in NAMES
    ]


def check(rows: list[Row]) -> list[Finding]:
    there = [rate for rate in RATES if not missing(rows, [key(name, rate) for name in NAMES])]
    if len(there) < len(RATES):
        return []
    ours = "; ".join(
        f"{rate:g}: " + ", ".join(f"{name} {told(rows, key(name, rate))}" for name in NAMES) for rate in RATES
    )
    learns = {(name, rate): mean(rows, key(name, rate)) >= LEARNS for name in NAMES for rate in RATES}
    smaller = [
        not learns["Proposed", PUBLISHED],
        learns["Random", PUBLISHED],
        any(learns["Proposed", rate] for rate in RATES[1:]),
    ]
    both = [rate for rate in RATES if learns["Proposed", rate] and learns["Random", rate]]
    lead = [ahead(rows, key("Proposed", rate), key("Random", rate)) for rate in both]
    says = f"learns: at least {LEARNS:g}"
    return [
        Finding("steps", ours, verdict(smaller), f"{says}; Random at the published rate, Proposed below it alone"),
        Finding(
            "lead", ours, verdict(lead or [False]), f"ahead at {sum(lead)} of the {len(both)} rates that both bear"
        ),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(len(RATES))
    for ax, rate in zip(axes, RATES, strict=False):
        for index, name in enumerate(NAMES):
            curve(ax, rows, key(name, rate), index)
        dress(ax, "round", "test accuracy", f"rate {rate:g}, {where(DATA)}")
    return figure


EXPERIMENT = Experiment(
    title="The rates that schedulers bear",
    claims=(
        Claim("steps", f"{where(DATA)}: taking turns bears smaller rates than lots", "no runs"),
        Claim("lead", f"{where(DATA)}: at rates that both bear the proposed scheduler is ahead of Random", "no runs"),
    ),
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
