"""FL-GR section 5.5.3: the same schedulers without recycling, where Random is said to be worse than STP and GI."""

from matplotlib.figure import Figure
from recycling_schedulers import CIFAR, SCHEDULERS, STORE
from recycling_setting import case, config, curve, where

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import ahead, missing, told, verdict
from fedcell.experiment.plots import dress, panels

NAMES = ("Random", "STP", "GI", "GI cached")


def key(data: str, name: str) -> str:
    return f"{data}/W/GR {name}"


def cases(quick: bool) -> list[Case]:
    return [
        case(key(data, name), config(data, quick), None, rule="received", **SCHEDULERS[name])
        for data in CIFAR[: 1 if quick else None]
        for name in NAMES[: 2 if quick else None]
    ]


def check(rows: list[Row]) -> list[Finding]:
    found = []
    for data in CIFAR:
        keys = {name: key(data, name) for name in NAMES}
        if not missing(rows, list(keys.values())):
            held = [ahead(rows, other, keys["Random"]) for name, other in keys.items() if name != "Random"]
            ours = ", ".join(f"{name} {told(rows, other)}" for name, other in keys.items())
            found.append(Finding(data, ours, verdict(held), f"ahead of Random: {sum(held)} of {len(held)}"))
    return found


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(len(CIFAR))
    for ax, data in zip(axes, CIFAR, strict=True):
        for index, name in enumerate(NAMES):
            curve(ax, rows, key(data, name), index, "seconds")
        dress(ax, "seconds", "test accuracy", f"mean over the devices heard, {where(data)}")
    return figure


EXPERIMENT = Experiment(
    title="FL-GR section 5.5.3: schedulers without recycling",
    claims=tuple(
        Claim(data, f"{where(data)}: without recycling, Random is worse than STP and GI", "stated, no numbers")
        for data in CIFAR
    ),
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
