"""Beyond the source: when serving the stalest device helps, and when it hurts.

No radio, 10 devices a round, CIFAR-10. A device can be reached in a round with a probability, the same for all, or
unequal, as budgets make it; `UNEQUAL` has the same mean as the middle one of `EQUAL`. The proposed scheduler takes the
stalest of those that can be reached, `Uniform` any of them. The likelier all are reached, the more the stalest come in
turns, and recycled gradients of devices that take turns bear far smaller steps than those of devices drawn anew
(`theory.recycling.steps_in_turn`, `steps_at_random`).
"""

from matplotlib.figure import Figure
from recycling_setting import case, curve, staleness

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import ahead, below, finding, rising, told_all
from fedcell.experiment.plots import dress, panels

EQUAL = (0.12, 0.2, 0.5)
UNEQUAL = "0.02|0.05|0.2|0.53"
UNIFORM = {"scheduler": "random"}


def equal(probability: float, uniform: bool = False) -> str:
    return f"reach/{'Uniform' if uniform else 'Proposed'} p={probability:g}"


def unequal(uniform: bool = False) -> str:
    return f"reach/{'Uniform' if uniform else 'Proposed'} unequal"


def cases(quick: bool) -> list[Case]:
    found = [case(equal(p), quick, {"world__availability": p}) for p in EQUAL]
    found.append(case(equal(0.2, True), quick, {"world__availability": 0.2}, **UNIFORM))
    found.append(case(unequal(), quick, {"world__availability": UNEQUAL}))
    found.append(case(unequal(True), quick, {"world__availability": UNEQUAL}, **UNIFORM))
    return found[3:] if quick else found


def check(rows: list[Row]) -> list[Finding]:
    uniform = equal(0.2, True)
    hurts = [ahead(rows, uniform, equal(p), name=f"p={p:g}") for p in EQUAL]
    levels = told_all(rows, {**{f"p={p:g}": equal(p) for p in EQUAL}, "Uniform": uniform})
    both = {"Proposed": unequal(), "Uniform": unequal(True)}
    ages = told_all(rows, both, staleness, 1)
    return [
        finding("hurts", hurts, levels, "Uniform is ahead of Proposed"),
        finding("turns", rising(rows, [equal(p) for p in EQUAL[::-1]]), levels, "Proposed falls with the probability"),
        finding(
            "helps",
            [ahead(rows, *both.values(), name="accuracy"), below(rows, *both.values(), staleness, "staleness")],
            f"{told_all(rows, both)}; staleness {ages}",
            "Proposed is more accurate than Uniform, and fresher",
        ),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(2)
    for index, key in enumerate([*(equal(p) for p in EQUAL), equal(0.2, True)]):
        curve(axes[0], rows, key, index)
    for index, key in enumerate([unequal(), unequal(True)]):
        curve(axes[1], rows, key, index)
    dress(axes[0], "round", "test accuracy", "reached equally often")
    dress(axes[1], "round", "test accuracy", f"reached with probability {UNEQUAL.replace('|', ', ')}")
    return figure


EXPERIMENT = Experiment(
    title="When serving the stalest helps",
    claims=(
        Claim("hurts", "all equally reachable: uniform draws beat serving the stalest", "no runs"),
        Claim("turns", "all equally reachable: serving the stalest gets worse the more can be reached", "no runs"),
        Claim("helps", "unequally reachable: serving the stalest beats uniform draws", "no runs"),
    ),
    cases=cases,
    plot=plot,
    check=check,
)

if __name__ == "__main__":
    main(EXPERIMENT)
