"""Figure 8: the law of the energy of a chosen client in an edge round for Z = 2, 4, 6. No training."""

import numpy as np
import rawhfl_ledger as ledger
import rawhfl_setting as setting
from matplotlib.figure import Figure
from rawhfl_plots import distribution

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import judged, spread
from fedcell.experiment.plots import dress, panels
from fedcell.types import Floats

PRINTED = {2: 0.47, 4: 0.445, 6: 0.43}  # joules, total of the tables / (400 edge rounds, 4 Z clients)
CLOSE, WIDE = 0.2, 0.4  # relative
ALIKE, SIMILAR = 1.2, 1.5  # largest mean over the smallest

CLAIMS = (
    Claim("means", "mean energy of a chosen client in an edge round", "0.47, 0.445, 0.43 J for Z = 2, 4, 6 (Table IV)"),
    Claim("alike", "the energy of a client is quite similar for all Z", "largest mean / smallest: 1.09"),
    Claim("falls", "it falls a little as Z grows", "0.47, 0.445, 0.43 J"),
)


def cases(quick: bool) -> list[Case]:
    return []


def of_clients_joule(z: int, suffix: str = "") -> list[Floats]:
    """Energies of the clients chosen, one array per seed."""
    book = ledger.book(f"rawhfl Z={z}{suffix}")
    return [joule[chosen] for joule, chosen in zip(book.joule, book.chosen, strict=True)]


def means(suffix: str = "") -> dict[int, Floats]:
    """Mean over clients and rounds of every drop."""
    return {z: np.array([part.mean() for part in of_clients_joule(z, suffix)]) for z in ledger.SIZES}


def check(rows: list[Row]) -> list[Finding]:
    found, free = means(), means(" no limit")
    off = max(abs(value.mean() / PRINTED[z] - 1) for z, value in found.items())
    ratio, ratio_free = (_ratio(one) for one in (found, free))
    falls = [bool((found[b] < found[a]).all()) for a, b in ((2, 4), (4, 6))]
    limit = f"without an overlap limit (psi=z) {_told(free)}"
    return [
        setting.graded(
            "means",
            f"{_told(found)}; {limit}",
            off <= CLOSE,
            off <= WIDE,
            f"mean within {CLOSE:.0%} of the printed ones for every Z; partly: within {WIDE:.0%}; largest deviation "
            f"{off:.0%}; {len(ledger.SEEDS)} drops",
        ),
        setting.graded(
            "alike",
            f"{ratio:.2f}; without an overlap limit {ratio_free:.2f}",
            ratio <= ALIKE,
            ratio <= SIMILAR,
            f"largest mean / smallest at most {ALIKE}; partly: {SIMILAR}",
        ),
        judged(
            "falls",
            f"{_told(found)}: the best clients are the cheap ones, so more of them cost more each",
            {"Z=2 to 4": falls[0], "Z=4 to 6": falls[1]},
            "mean of every drop",
        ),
    ]


def _ratio(found: dict[int, Floats]) -> float:
    every = [value.mean() for value in found.values()]
    return float(max(every) / min(every))


def _told(found: dict[int, Floats]) -> str:
    return ", ".join(f"Z={z} {spread(value, 3)}" for z, value in found.items()) + " J"


def plot(rows: list[Row]) -> Figure:
    figure, places = panels(2)
    for axes, suffix, title in zip(
        places, ("", " no limit"), ("at most half chosen twice in a row", "no overlap limit"), strict=True
    ):
        for index, z in enumerate(ledger.SIZES):
            distribution(axes, np.concatenate(of_clients_joule(z, suffix)), index, f"Z = {z}")
            mean = PRINTED[z]
            axes.axvline(mean, color="#888888", linewidth=0.7, label="printed means" if not index else None)
        dress(axes, "energy of a client in an edge round (J)", "share of clients chosen", title)
    return figure


EXPERIMENT = Experiment(title="RawHFL Figure 8: energy of a client", claims=CLAIMS, cases=cases, plot=plot, check=check)

if __name__ == "__main__":
    main(EXPERIMENT)
