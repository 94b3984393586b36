"""Figure 7: the law of the energy of an edge round for Z = 2, 4, 6. No training."""

from itertools import pairwise

import numpy as np
import rawhfl_ledger as ledger
import rawhfl_setting as setting
from matplotlib.figure import Figure
from rawhfl_plots import distribution

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import judged, spread
from fedcell.experiment.plots import dress, panels
from fedcell.types import Floats

PRINTED = {2: 3.7, 4: 7.1, 6: 10.3}  # joules
CLOSE, WIDE = 0.2, 0.4  # relative

CLAIMS = (
    Claim("medians", "median energy of an edge round, all base stations together", "3.7, 7.1, 10.3 J for Z = 2, 4, 6"),
    Claim("order", "the larger Z, the more energy an edge round takes", "medians as above"),
    Claim(
        "reading",
        "the figure says per base station, but its numbers fit the sum over the four",
        "total of Table IV / 400 = 3.77, 7.12, 10.34 J",
    ),
)


def cases(quick: bool) -> list[Case]:
    return []


def per_round_joule(z: int, suffix: str = "") -> Floats:
    """Energy of all base stations in every edge round, `[n_seeds, n_rounds]`."""
    return np.asarray(ledger.book(f"rawhfl Z={z}{suffix}").joule.sum(axis=2))


def per_cell_joule(z: int) -> Floats:
    """Energy of every base station in every edge round, `[n_seeds, n_rounds, n_cells]`."""
    out = []
    for seed, joule in zip(ledger.SEEDS, ledger.book(f"rawhfl Z={z}").joule, strict=True):
        member = ledger.places(seed).world.topology.cell == np.arange(ledger.N_CELLS)[:, None]
        out.append(joule @ member.T)
    return np.array(out)


def check(rows: list[Row]) -> list[Finding]:
    medians = {z: np.median(per_round_joule(z), axis=1) for z in ledger.SIZES}
    free = {z: np.median(per_round_joule(z, " no limit"), axis=1) for z in ledger.SIZES}
    one = {z: float(np.median(per_cell_joule(z))) for z in ledger.SIZES}
    off = {z: abs(value.mean() / PRINTED[z] - 1) for z, value in medians.items()}
    grows = {f"Z={a} < Z={b}": bool((medians[a] < medians[b]).all()) for a, b in pairwise(ledger.SIZES)}
    nearer = {f"Z={z}": bool(abs(medians[z].mean() - PRINTED[z]) < abs(one[z] - PRINTED[z])) for z in ledger.SIZES}
    drops = f"{len(ledger.SEEDS)} drops, {ledger.ROUNDS} edge rounds each"
    return [
        setting.graded(
            "medians",
            f"{_told(medians)}; without an overlap limit (psi=z) {_told(free)}",
            max(off.values()) <= CLOSE,
            max(off.values()) <= WIDE,
            f"mean of the medians within {CLOSE:.0%} of the printed ones; partly: within {WIDE:.0%}; {drops}",
        ),
        judged("order", _told(medians), grows, "median of every drop"),
        judged(
            "reading",
            "per base station " + ", ".join(f"Z={z} {value:.2f}" for z, value in one.items()) + " J",
            nearer,
            "the median of the sum is nearer to the printed one than that of a base station",
        ),
    ]


def _told(medians: dict[int, Floats]) -> str:
    return ", ".join(f"Z={z} {spread(value, 2)}" for z, value in medians.items()) + " J"


def plot(rows: list[Row]) -> Figure:
    figure, (left, right) = panels(2)
    for index, z in enumerate(ledger.SIZES):
        distribution(left, per_round_joule(z), index, f"Z = {z}")
        distribution(right, per_round_joule(z, " no limit"), index, f"Z = {z}")
        for axes in (left, right):
            axes.plot(PRINTED[z], 0.5, "x", color="#888888", label="printed median" if not index else None)
    dress(left, "energy of an edge round (J)", "share of edge rounds", "at most half chosen twice in a row")
    dress(right, "energy of an edge round (J)", "share of edge rounds", "no overlap limit")
    return figure


EXPERIMENT = Experiment(
    title="RawHFL Figure 7: energy of an edge round", claims=CLAIMS, cases=cases, plot=plot, check=check
)

if __name__ == "__main__":
    main(EXPERIMENT)
