"""What a better allocation saves: RawHFL's own optimum and its published programs beside full clock and power.

The paper's factor of 4.85 over H-FedAvg-UB comes from choosing few and cheap clients (`allocation=max`). `exact` solves
the paper's problem to the optimum, an improvement that is not the paper's; `sca` is its Algorithm 2 with a limited
step. Energies need no training. Accuracies are of runs with upsilon in [0.1, 0.8] and Z = 4.
"""

import numpy as np
import rawhfl_ledger as ledger
import rawhfl_setting as setting
from matplotlib.figure import Figure
from rawhfl_plots import curves, look

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import inside, missing, spread, within
from fedcell.experiment.plots import dress, panels
from fedcell.types import Floats

STAY = "mixed"
RATIO, CHOICE = 4.86, 1.62  # H-FedAvg-UB over RawHFL Z = 4, and what is left of it per client
CLOSE = 0.2  # relative
FACTOR = 30
MODES = ("exact", "sca")
ENTRIES = (setting.OURS, *(f"{setting.OURS} {how}" for how in MODES), "h_fedavg ub")

CLAIMS = (
    Claim("saves", "H-FedAvg-UB spends 4.85 times the energy of RawHFL Z = 4", "13836.46 / 2848.16 = 4.86"),
    Claim("parts", "of this, 3 comes from 16 clients instead of 48, the rest from choosing cheap ones", "3 x 1.62"),
    Claim("exact", "the optimum of the paper's problem spends far less still", "not in the paper; expected: 30 times"),
    Claim("sca", "Algorithm 2 with a limited step comes between full power and the optimum", "not in the paper"),
    Claim("accuracy", "the optimum is as accurate as full clock and power", "not in the paper"),
    Claim("sca_accuracy", "Algorithm 2 with a limited step is as accurate as full clock and power", "not in the paper"),
)


def cases(quick: bool) -> list[Case]:
    drops = [f"{entry}{suffix}" for entry in ledger.RAWHFL for suffix in ("", " no limit", " exact")]
    return [*setting.cases([STAY], ENTRIES, quick), *ledger.cases([*drops, f"{setting.OURS} sca", "h_fedavg ub"])]


def per_round(rows: list[Row], entry: str, rounds: int = ledger.EARLY) -> Floats:
    """Mean energy of the first edge rounds of every drop, in joules."""
    found = ledger.column(rows, entry, "early_joule")
    return found[:, :rounds].mean(axis=1) if len(found) else np.empty(0)


def check(rows: list[Row]) -> list[Finding]:
    drops = [case.key for case in cases(quick=False) if case.measure]
    found = [] if missing(rows, drops) else [_saves(rows), _parts(rows), _exact(rows), _sca(rows)]
    return [*found, *_accuracy(rows)]


def _saves(rows: list[Row]) -> Finding:
    ub = ledger.total_joule(rows, "h_fedavg ub")
    times, free = (ub / ledger.total_joule(rows, setting.OURS + suffix) for suffix in ("", " no limit"))
    ours = f"{spread(times, 2)}; without an overlap limit (psi=z) {spread(free, 2)}"
    return finding(
        "saves", within("ratio", times, RATIO, CLOSE * RATIO), ours, f"within {CLOSE:.0%} of the printed ratio"
    )


def _parts(rows: list[Row]) -> Finding:
    ub, own = (ledger.column(rows, entry, "chosen").sum(axis=1) for entry in ("h_fedavg ub", setting.OURS))
    each = ledger.total_joule(rows, "h_fedavg ub") / ledger.total_joule(rows, setting.OURS) / (ub / own)
    parts = [within("3", ub / own, 3.0, 0.05), within(f"{CHOICE}", each, CHOICE, CLOSE * CHOICE)]
    return finding(
        "parts", parts, f"{spread(ub / own, 2)} x {spread(each, 2)}", f"3 within 0.05, {CHOICE} within {CLOSE:.0%}"
    )


def _exact(rows: list[Row]) -> Finding:
    parts, words = [], []
    for z in ledger.SIZES:
        best, full = (per_round(rows, f"rawhfl Z={z}{suffix}") for suffix in (" exact", ""))
        parts.append(inside(f"Z={z}", full / best, low=FACTOR))
        words.append(f"Z={z} {spread(1e3 * best, 1)} mJ, {np.median(full / best):.0f} times less")
    return finding(
        "exact", parts, f"an edge round: {'; '.join(words)}", f"at least {FACTOR} times less than full power"
    )


def _sca(rows: list[Row]) -> Finding:
    short = ledger.SHORT["sca"]
    sca = per_round(rows, f"{setting.OURS} sca", short)
    best, full = (per_round(rows, setting.OURS + suffix, short)[: len(sca)] for suffix in (" exact", ""))
    parts = [inside("below full", full - sca, low=0.0), inside("above exact", sca - best, low=-1e-9)]
    words = {"full": full, "sca": sca, "exact": best}
    ours = "J per edge round: " + ", ".join(f"{name} {spread(value, 3)}" for name, value in words.items())
    return finding("sca", parts, ours, f"{short} edge rounds, Z = 4")


def _accuracy(rows: list[Row]) -> list[Finding]:
    out = []
    for how, claim in (("exact", "accuracy"), ("sca", "sca_accuracy")):
        entry = f"{setting.OURS} {how}"
        part = setting.not_behind(rows, STAY, entry, setting.OURS)
        found = setting.values(rows, STAY, entry)
        out.append(finding(claim, part, f"{spread(found)}; {part}", f"not more than {setting.NEAR} below"))
    return out


def plot(rows: list[Row]) -> Figure:
    figure, (left, right) = panels(2)
    for index, (name, suffix) in enumerate(
        (("full speed", ""), ("no overlap limit", " no limit"), ("exact", " exact"))
    ):
        totals = [per_round(rows, f"rawhfl Z={z}{suffix}") for z in ledger.SIZES]
        if all(len(one) > 1 for one in totals):
            means, deviations = [one.mean() for one in totals], [one.std(ddof=1) for one in totals]
            left.errorbar(ledger.SIZES, means, deviations, capsize=3, label=name, **look(index))
    left.set_yscale("log")
    left.set_xticks(ledger.SIZES)
    dress(left, "Z", "energy of an edge round (J)", f"{len(ledger.SEEDS)} drops")
    curves(right, rows, STAY, "accuracy", ENTRIES)
    dress(right, "global round", "test accuracy", "upsilon in [0.1, 0.8], Z = 4")
    return figure


EXPERIMENT = Experiment(
    title="RawHFL: what the allocation saves",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
