"""Figure 8: the law of the energy of a chosen client in an edge round for Z = 2, 4, 6. No training."""

import numpy as np
import rawhfl_ledger as ledger
import rawhfl_setting as setting
from matplotlib.figure import Figure
from rawhfl_plots import distribution

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import inside, missing, spread, within
from fedcell.experiment.plots import dress, panels
from fedcell.types import Floats

PRINTED = {2: 0.47, 4: 0.445, 6: 0.43}  # joules, total of the tables / (400 edge rounds, 4 Z clients)
CLOSE = 0.2  # relative
ALIKE = 1.2  # largest mean over the smallest

CLAIMS = (
    Claim("means", "mean energy of a chosen client in an edge round", "0.47, 0.445, 0.43 J for Z = 2, 4, 6 (Table IV)"),
    Claim("alike", "the energy of a client is quite similar for all Z", "largest mean / smallest: 1.09"),
    Claim("falls", "it falls a little as Z grows", "0.47, 0.445, 0.43 J"),
)


def cases(quick: bool) -> list[Case]:
    return ledger.cases([f"{entry}{suffix}" for suffix in ("", " no limit") for entry in ledger.RAWHFL])


def means(rows: list[Row], suffix: str = "") -> dict[int, Floats]:
    """Mean over clients and rounds of every drop."""
    return {z: ledger.column(rows, f"rawhfl Z={z}{suffix}", "client_mean_joule") for z in ledger.SIZES}


def check(rows: list[Row]) -> list[Finding]:
    if missing(rows, [case.key for case in cases(quick=False)]):
        return []
    found, free = means(rows), means(rows, " no limit")
    close = [within(f"Z={z}", value, PRINTED[z], CLOSE * PRINTED[z]) for z, value in found.items()]
    times, times_free = (np.max(list(of.values()), axis=0) / np.min(list(of.values()), axis=0) for of in (found, free))
    falls = [inside(f"Z={a} to {b}", found[a] - found[b], low=0.0) for a, b in ((2, 4), (4, 6))]
    return [
        finding(
            "means",
            close,
            f"{_told(found)}; without an overlap limit (psi=z) {_told(free)}",
            f"mean within {CLOSE:.0%} of the printed one",
        ),
        finding(
            "alike",
            inside("largest / smallest", times, high=ALIKE),
            f"{spread(times, 2)}; without an overlap limit {spread(times_free, 2)}",
            f"largest mean / smallest at most {ALIKE}",
        ),
        finding("falls", falls, f"{_told(found)}: the best clients are the cheap ones, so more of them cost more each"),
    ]


def _told(found: dict[int, Floats]) -> str:
    return ", ".join(f"Z={z} {spread(value, 3)}" for z, value in found.items()) + " J"


def plot(rows: list[Row]) -> Figure:
    figure, places = panels(2)
    for axes, suffix, title in zip(
        places, ("", " no limit"), ("at most half chosen twice in a row", "no overlap limit"), strict=True
    ):
        for index, z in enumerate(ledger.SIZES):
            distribution(axes, ledger.column(rows, f"rawhfl Z={z}{suffix}", "client_percentiles"), index, f"Z = {z}")
            mean = PRINTED[z]
            axes.axvline(mean, color="#888888", linewidth=0.7, label="printed means" if not index else None)
        dress(axes, "energy of a client in an edge round (J)", "share of clients chosen", title)
    return figure


EXPERIMENT = Experiment(
    title="RawHFL Figure 8: energy of a client",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
