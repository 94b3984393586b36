"""Beyond the source: when serving the stalest device helps, and when it hurts.

Without a radio 10 devices a round are picked from those that can be reached, with a probability that is the same for
all, or unequal (`UNEQUAL`, of the mean 0.2). The proposed scheduler takes the stalest of them, `Uniform` any. The
likelier all are reached, the more the stalest come in turns, and recycled gradients of devices that take turns bear far
smaller steps than those of devices drawn anew (`methods.recycling.theory.steps_in_turn`, `steps_of`). In the cell whose
deadline binds, who can use which block is another matter in every round: turns break up, and the stalest are those whom
lots forget. Those are the runs of Figure 5.3.
"""

from matplotlib.figure import Figure
from recycling_schedulers import SCHEDULERS, STORE
from recycling_setting import TITLES, case, curve, staleness

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import ahead, below, finding, rising, told_all
from fedcell.experiment.plots import dress, panels

EQUAL = (0.12, 0.2, 0.5)
UNEQUAL = "0.02|0.05|0.2|0.53"
UNIFORM = "reach/Uniform p=0.2"
ALONE = {"Proposed": "reach/Proposed unequal", "Uniform": "reach/Uniform unequal"}
CELL = {name: f"tight/{name}" for name in ("Proposed", "Random")}


def equal(probability: float) -> str:
    return f"reach/Proposed p={probability:g}"


def cases(quick: bool) -> list[Case]:
    lots = SCHEDULERS["Random"]
    found = [case(key, quick, **SCHEDULERS[name]) for name, key in CELL.items()]
    found.append(case(ALONE["Proposed"], quick, {"world__availability": UNEQUAL}))
    found.append(case(ALONE["Uniform"], quick, {"world__availability": UNEQUAL}, **lots))
    if not quick:
        found += [case(equal(p), quick, {"world__availability": p}) for p in EQUAL]
        found.append(case(UNIFORM, quick, {"world__availability": 0.2}, **lots))
    return found


def check(rows: list[Row]) -> list[Finding]:
    hurts = [ahead(rows, UNIFORM, equal(p), name=f"p={p:g}") for p in EQUAL]
    levels = told_all(rows, {**{f"p={p:g}": equal(p) for p in EQUAL}, "Uniform": UNIFORM})
    return [
        finding("hurts", hurts, levels, "Uniform is ahead of Proposed"),
        finding("turns", rising(rows, [equal(p) for p in EQUAL[::-1]]), levels, "Proposed falls with the probability"),
        _better(rows, "helps", CELL),
        _better(rows, "alone", ALONE),
    ]


def _better(rows: list[Row], claim: str, keys: dict[str, str]) -> Finding:
    """Whether the first case is both more accurate and fresher than the second."""
    own, other = keys.values()
    parts = [ahead(rows, own, other, name="accuracy"), below(rows, own, other, staleness, "staleness")]
    ours = f"{told_all(rows, keys)}; staleness {told_all(rows, keys, staleness, 1)}"
    return finding(claim, parts, ours, "Proposed is more accurate and fresher")


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(3)
    shown = {
        "reached equally often": [*(equal(p) for p in EQUAL), UNIFORM],
        f"reached with probability {UNEQUAL.replace('|', ', ')}": list(ALONE.values()),
        TITLES["tight"]: list(CELL.values()),
    }
    for ax, (title, keys) in zip(axes, shown.items(), strict=False):
        for index, key in enumerate(keys):
            curve(ax, rows, key, index)
        dress(ax, "round", "test accuracy", title)
    return figure


EXPERIMENT = Experiment(
    title="When serving the stalest helps",
    claims=(
        Claim("hurts", "all equally reachable: uniform draws beat serving the stalest", "no runs"),
        Claim("turns", "all equally reachable: serving the stalest gets worse the more can be reached", "no runs"),
        Claim("helps", "blocks and a deadline that binds: serving the stalest beats lots", "no runs"),
        Claim("alone", "unequally reachable, no blocks: serving the stalest beats uniform draws", "no runs"),
    ),
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
