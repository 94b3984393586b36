"""FL-GR section 5.5.3: the same schedulers without recycling, where Random is said to be worse than STP and GI."""

from matplotlib.figure import Figure
from recycling_schedulers import SCHEDULERS, STORE
from recycling_setting import case, config, curve

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import ahead, missing, told, verdict
from fedcell.experiment.plots import dress, panels

NAMES = ("Random", "STP", "GI", "GI cached")


def key(name: str) -> str:
    return f"cifar/W/GR {name}"


def cases(quick: bool) -> list[Case]:
    names = NAMES[:2] if quick else NAMES
    return [case(key(name), config("cifar", quick), None, rule="received", **SCHEDULERS[name]) for name in names]


def check(rows: list[Row]) -> list[Finding]:
    if missing(rows, [key(name) for name in NAMES]):
        return []
    held = [ahead(rows, key(name), key("Random")) for name in NAMES[1:]]
    ours = ", ".join(f"{name} {told(rows, key(name))}" for name in NAMES)
    return [Finding("worse", ours, verdict(held), f"ahead of Random: {sum(held)} of {len(held)}")]


def plot(rows: list[Row]) -> Figure:
    figure, (ax,) = panels(1)
    for index, name in enumerate(NAMES):
        curve(ax, rows, key(name), index, "seconds")
    dress(ax, "seconds", "test accuracy", "mean over the devices heard, CIFAR-10")
    return figure


EXPERIMENT = Experiment(
    title="FL-GR section 5.5.3: schedulers without recycling",
    claims=(Claim("worse", "without recycling, Random is worse than STP and GI", "stated, no numbers"),),
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
