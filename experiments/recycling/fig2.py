"""FL-GR Figure 5.2: accuracy over rounds of the learning rules, 5 or 10 of 100 devices heard in every round."""

import numpy as np
from matplotlib.figure import Figure
from recycling_rules import DATA, HEARD, RULES, STORE, baselines, cases, drawn, name, ran
from recycling_setting import base_of, curve, where, wobble

from fedcell.experiment import Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import ahead, beyond, gap, told, verdict
from fedcell.experiment.plots import dress, panels

GAINS = {"mnist": "1.37 (S = 5), 0.89 (S = 10)", "cifar": "3.41, 2.83", "vgg": "4.08, 2.87"}  # points over W/GR
HARDER = (("mnist", "cifar"), ("mnist0", "cifar0"))


def check(rows: list[Row]) -> list[Finding]:
    there = [data for data in DATA if ran(rows, data)]
    found = [finding for data in there for finding in _of(rows, data)]
    for easy, hard in HARDER:
        if {easy, hard} <= set(there):
            mean = {data: np.mean([_gain(rows, data, heard).mean() for heard in HEARD]) for data in (easy, hard)}
            ours = ", ".join(f"{where(data)} {100 * value:+.2f} points" for data, value in mean.items())
            why = "mean gain over W/GR at S = 5 and 10 is larger on CIFAR-10"
            found.append(Finding(f"harder {hard}", ours, verdict([bool(mean[hard] > mean[easy])]), why))
    return found


def _gain(rows: list[Row], data: str, heard: int) -> np.ndarray:
    return gap(rows, name(data, "FL-GR", heard), name(data, "W/GR", heard))


def _of(rows: list[Row], data: str) -> list[Finding]:
    """The claims about one data set."""
    accuracy = "; ".join(
        f"S={heard}: " + ", ".join(f"{rule} {told(rows, key)}" for rule, key in _keys(rows, data, heard).items())
        for heard in HEARD
    )
    best = [
        ahead(rows, name(data, "FL-GR", heard), key) for heard in HEARD for key in baselines(rows, data, heard).values()
    ]
    gains = [100 * _gain(rows, data, heard) for heard in HEARD]
    more = [ahead(rows, name(data, rule, 10), name(data, rule, 5)) for rule in RULES]
    calm = [ahead(rows, name(data, "W/GR", heard), name(data, "FL-GR", heard), wobble) for heard in HEARD]
    worse = [not ahead(rows, name(data, "MC", heard), name(data, "W/GR", heard)) for heard in HEARD]
    steps = "; ".join(
        f"S={heard}: "
        + ", ".join(f"{rule} {told(rows, name(data, rule, heard), wobble)}" for rule in ("FL-GR", "W/GR"))
        for heard in HEARD
    )
    findings = [
        Finding(f"{data} best", accuracy, verdict(best), f"FL-GR ends ahead in {sum(best)} of {len(best)} comparisons"),
        Finding(
            f"{data} gain",
            ", ".join(f"S={heard}: {value.mean():+.2f} points" for heard, value in zip(HEARD, gains, strict=True)),
            _gained(gains),
            "gain over W/GR beyond its standard error at both S, and larger at S = 5; partly: a gain at one S",
        ),
        Finding(f"{data} more", accuracy, verdict(more), f"S = 10 ahead of S = 5 for {sum(more)} of {len(more)} rules"),
        Finding(
            f"{data} calm",
            steps,
            verdict(calm),
            "change between evaluations in the last third spreads less than W/GR's",
        ),
    ]
    if base_of(data) != "mnist":
        findings.append(
            Finding(f"{data} mc", accuracy, verdict(worse), f"MC not ahead of W/GR at {sum(worse)} of {len(worse)} S")
        )
    return findings


def _gained(gains: list[np.ndarray]) -> str:
    held = [beyond(value) for value in gains]
    if all(held) and gains[0].mean() > gains[1].mean():
        return "reproduced"
    return "partly" if any(held) else "not reproduced"


def _keys(rows: list[Row], data: str, heard: int) -> dict[str, str]:
    return {"FL-GR": name(data, "FL-GR", heard), **baselines(rows, data, heard)}


def plot(rows: list[Row]) -> Figure:
    shown = drawn(rows)
    figure, axes = panels(len(shown))
    for ax, (data, title) in zip(axes, shown.items(), strict=False):
        for index, (rule, heard) in enumerate((rule, heard) for heard in HEARD for rule in RULES):
            curve(ax, rows, name(data, rule, heard), index)
        dress(ax, "round", "test accuracy", title)
    return figure


def _claims(data: str) -> list[Claim]:
    """The claims about one data set; those on VGG-11 stand for CIFAR-100."""
    out = [
        Claim(f"{data} best", f"{where(data)}: FL-GR is best at S = 5 and 10", "curves"),
        Claim(
            f"{data} gain",
            f"{where(data)}: final gain over no recycling, more at S = 5",
            f"{GAINS[base_of(data)]} points",
        ),
        Claim(f"{data} more", f"{where(data)}: S = 10 beats S = 5 for every rule", "curves"),
        Claim(f"{data} calm", f"{where(data)}: curves of FL-GR are steadier", "curves"),
    ]
    if base_of(data) != "mnist":
        out.append(Claim(f"{data} mc", f"{where(data)}: MC is not better than W/GR", "curves"))
    return out


EXPERIMENT = Experiment(
    title="FL-GR Figure 5.2: learning rules",
    claims=[
        *(claim for data in DATA for claim in _claims(data)),
        *(
            Claim(
                f"harder {hard}",
                f"the gain is larger on harder data ({where(hard)})",
                "MNIST 1.37 and 0.89, CIFAR-10 3.41 and 2.83 points",
            )
            for _, hard in HARDER
        ),
    ],
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
