"""Figure 7: the law of the energy of an edge round for Z = 2, 4, 6. No training."""

from itertools import pairwise

import numpy as np
import rawhfl_ledger as ledger
import rawhfl_setting as setting
from matplotlib.figure import Figure
from rawhfl_plots import distribution

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import inside, missing, spread, within
from fedcell.experiment.plots import dress, panels
from fedcell.types import Floats

PRINTED = {2: 3.7, 4: 7.1, 6: 10.3}  # joules
CLOSE = 0.2  # relative

CLAIMS = (
    Claim("medians", "median energy of an edge round, all base stations together", "3.7, 7.1, 10.3 J for Z = 2, 4, 6"),
    Claim("order", "the larger Z, the more energy an edge round takes", "medians as above"),
    Claim(
        "reading",
        "the figure says per base station, but its numbers fit the sum over the four",
        "total of Table IV / 400 = 3.77, 7.12, 10.34 J",
        "check",
    ),
)


def cases(quick: bool) -> list[Case]:
    return ledger.cases([f"{entry}{suffix}" for suffix in ("", " no limit") for entry in ledger.RAWHFL])


def medians(rows: list[Row], z: int, suffix: str = "") -> Floats:
    """Median energy of an edge round, all base stations together, of every drop."""
    return ledger.column(rows, f"rawhfl Z={z}{suffix}", "round_percentiles").reshape(-1, 101)[:, 50]


def check(rows: list[Row]) -> list[Finding]:
    if missing(rows, [case.key for case in cases(quick=False)]):
        return []
    found = {z: medians(rows, z) for z in ledger.SIZES}
    free = {z: medians(rows, z, " no limit") for z in ledger.SIZES}
    one = {z: ledger.column(rows, f"rawhfl Z={z}", "cell_median_joule") for z in ledger.SIZES}
    near = [within(f"Z={z}", value, PRINTED[z], CLOSE * PRINTED[z]) for z, value in found.items()]
    grows = [inside(f"Z={a} < Z={b}", found[b] - found[a], low=0.0) for a, b in pairwise(ledger.SIZES)]
    nearer = [
        inside(f"Z={z}", np.abs(one[z] - PRINTED[z]) - np.abs(found[z] - PRINTED[z]), low=0.0) for z in ledger.SIZES
    ]
    return [
        finding(
            "medians",
            near,
            f"{_told(found)}; without an overlap limit (psi=z) {_told(free)}",
            f"mean of the medians within {CLOSE:.0%} of the printed ones",
        ),
        finding("order", grows, _told(found), "median of a drop"),
        finding("reading", nearer, f"per base station {_told(one)}", "the sum is nearer to the printed median"),
    ]


def _told(numbers: dict[int, Floats]) -> str:
    return ", ".join(f"Z={z} {spread(value, 2)}" for z, value in numbers.items()) + " J"


def plot(rows: list[Row]) -> Figure:
    figure, (left, right) = panels(2)
    for index, z in enumerate(ledger.SIZES):
        for axes, suffix in ((left, ""), (right, " no limit")):
            distribution(axes, ledger.column(rows, f"rawhfl Z={z}{suffix}", "round_percentiles"), index, f"Z = {z}")
        for axes in (left, right):
            axes.plot(PRINTED[z], 0.5, "x", color="#888888", label="printed median" if not index else None)
    dress(left, "energy of an edge round (J)", "share of edge rounds", "at most half chosen twice in a row")
    dress(right, "energy of an edge round (J)", "share of edge rounds", "no overlap limit")
    return figure


EXPERIMENT = Experiment(
    title="RawHFL Figure 7: energy of an edge round",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
