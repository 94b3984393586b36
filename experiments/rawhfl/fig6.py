"""Figure 6: accuracy and loss of RawHFL against the global round, for each law of upsilon and Z = 2, 4, 6."""

from itertools import pairwise

import numpy as np
import rawhfl_setting as setting
from matplotlib.figure import Figure
from rawhfl_ledger import EDGE_ROUNDS
from rawhfl_plots import curves

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import Measure, accuracies, area, below, inside, more, near, spread, times
from fedcell.experiment.plots import dress, panels
from fedcell.types import Floats

RULE_NEAR = 0.02  # of "most similar" on the test set
LAST = 10  # evaluations whose mean is where a curve ends
THERE, PLATEAU = 0.95, 0.98  # of its end
LATE = 20  # global round from which fluctuations count
PLATEAU_ROUND, MARGIN = 14, 7
STAYS = ("mixed", "0.3", "0.7")

CLAIMS = (
    Claim("mixed", "accuracy after 100 global rounds with upsilon in [0.1, 0.8]", "about 45 %, the mean of upsilon"),
    Claim("faster", "the larger upsilon, the faster the convergence", "curves; no numbers"),
    Claim("better", "accuracy and loss improve with Z, whatever upsilon is", "curves; no numbers"),
    Claim("smoother", "the larger Z, the smoother the accuracy", "curves; no numbers"),
    Claim("shaky", "with Z = 2 the accuracy fluctuates even for upsilon = 0.7", "curve; no numbers"),
    Claim("plateau", "with Z >= 4 and upsilon = 0.7 the accuracy reaches a plateau early", "after about 14 rounds"),
)


def cases(quick: bool) -> list[Case]:
    return setting.cases(STAYS, setting.SIZES, quick)


def end(accuracy: Floats) -> float:
    """Where a curve ends."""
    return float(accuracy[-LAST:].mean())


def reaches(share: float) -> Measure:
    """The first global round with this share of the run's own end.

    >>> reaches(0.9)({"rounds": [4, 8, 12], "accuracy": [0.1, 0.96, 1.0]})
    2.0
    """

    def measure(row: Row) -> float:
        accuracy = accuracies(row)
        return float(row["rounds"][int(np.argmax(accuracy >= share * end(accuracy)))]) / EDGE_ROUNDS

    return measure


def roughness(row: Row) -> float:
    """Mean change between evaluations after round `LATE`, in accuracy."""
    late = accuracies(row)[np.array(row["rounds"]) >= LATE * EDGE_ROUNDS]
    return float(np.abs(np.diff(late)).mean())


def mean_loss(row: Row) -> float:
    """Mean loss over all evaluations."""
    return float(np.mean(row["loss"]))


def check(rows: list[Row]) -> list[Finding]:
    stays = [stay for stay in STAYS if setting.lasted(rows, stay, setting.SIZES)]
    return [
        *([_mixed(rows)] if "mixed" in stays else []),
        *([_faster(rows)] if {"0.3", "0.7"} <= set(stays) else []),
        _better(rows, stays),
        _smoother(rows, stays),
        *([_shaky(rows), _plateau(rows)] if "0.7" in stays else []),
    ]


def _told(rows: list[Row], stay: str, value: Measure, digits: int = 4) -> str:
    cells = (f"{setting.TITLES[e]} {spread(setting.values(rows, stay, e, value), digits)}" for e in setting.SIZES)
    return ", ".join(cells)


def _mixed(rows: list[Row]) -> Finding:
    over = setting.over("similar_on_test", "mixed")
    parts = [
        inside(setting.TITLES[entry], setting.values(rows, "mixed", entry, over), -RULE_NEAR, RULE_NEAR, "points")
        for entry in setting.SIZES
    ]
    ours = f"{_told(rows, 'mixed', setting.final)}; {setting.told_ceiling(rows, 'mixed')}"
    rule = f"within {RULE_NEAR} of always naming the most similar file on the same test sets"
    return finding("mixed", parts, ours, rule)


def _faster(rows: list[Row]) -> Finding:
    when = reaches(THERE)
    parts = [
        below(
            rows, setting.key("0.7", entry), setting.key("0.3", entry), when, f"{setting.TITLES[entry]}, 0.7 before 0.3"
        )
        for entry in setting.SIZES
    ]
    ours = "; ".join(f"upsilon {stay}: {_told(rows, stay, when, 0)}" for stay in ("0.7", "0.3"))
    return finding("faster", parts, ours, f"first round with {THERE:.0%} of its own end")


def _better(rows: list[Row], stays: list[str]) -> Finding:
    parts, words = [], []
    for stay in stays:
        for low, high in pairwise(setting.SIZES):
            place = f"upsilon {stay} {high[-3:]} over {low[-3:]}"
            parts.append(setting.ahead(rows, stay, high, low, area)._replace(name=f"{place} accuracy"))
            keys = setting.key(stay, high), setting.key(stay, low)
            parts.append(below(rows, *keys, mean_loss, f"{place} loss"))
        words += [f"upsilon {stay} accuracy {_told(rows, stay, area, 3)}, loss {_told(rows, stay, mean_loss, 3)}"]
    return finding("better", parts, f"mean over all rounds: {'; '.join(words)}")


def _smoother(rows: list[Row], stays: list[str]) -> Finding:
    parts = [
        below(
            rows, setting.key(stay, high), setting.key(stay, low), roughness, f"upsilon {stay} {high[-3:]} < {low[-3:]}"
        )
        for stay in stays
        for low, high in pairwise(setting.SIZES)
    ]
    ours = "; ".join(f"upsilon {stay}: {_told(rows, stay, roughness)}" for stay in stays)
    return finding("smoother", parts, ours, f"mean change from round to round after round {LATE}")


def _shaky(rows: list[Row]) -> Finding:
    keys = [setting.key("0.7", f"rawhfl Z={z}") for z in (2, 6)]
    parts = [more(rows, *keys, roughness, "more than Z = 6"), times(rows, *keys, 2.0, roughness, "twice Z = 6")]
    return finding("shaky", parts, _told(rows, "0.7", roughness), f"mean change after round {LATE}, Z = 2 over Z = 6")


def _plateau(rows: list[Row]) -> Finding:
    when = reaches(PLATEAU)
    parts = [
        near(rows, setting.key("0.7", entry), PLATEAU_ROUND, MARGIN, when, setting.TITLES[entry])
        for entry in setting.SIZES[1:]
    ]
    ours = f"{_told(rows, '0.7', when, 0)}; {setting.told_ceiling(rows, '0.7')}"
    rule = f"Z = 4, 6: first round with {PLATEAU:.0%} of its end within {MARGIN} of {PLATEAU_ROUND}"
    return finding("plateau", parts, ours, rule)


def plot(rows: list[Row]) -> Figure:
    stays = [stay for stay in STAYS if setting.ran(rows, stay, setting.SIZES[:1])]
    figure, places = panels(2 * len(stays))
    for line, stay in enumerate(stays):
        for axes, what in zip(places[2 * line :], ("accuracy", "loss"), strict=False):
            curves(axes, rows, stay, what, setting.SIZES)
            dress(axes, "global round", f"test {what}", f"upsilon {setting.STAY[stay]}")
    return figure


EXPERIMENT = Experiment(
    title="RawHFL Figure 6: accuracy and loss of RawHFL",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
