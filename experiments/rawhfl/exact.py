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

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import judged, spread
from fedcell.experiment.plots import dress, panels
from fedcell.types import Floats

STAY = "mixed"
RATIO, CHOICE = 4.86, 1.62  # H-FedAvg-UB over RawHFL Z = 4, and what is left of it per client
CLOSE = 0.2  # relative
FACTOR = 30
EXACT_ROUNDS = 100  # edge rounds of every drop
SCA_ROUNDS, SCA_SEEDS = 12, ledger.SEEDS[:5]  # a program takes long
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
    return setting.cases([STAY], ENTRIES, quick)


def per_round(entry: str, seeds: tuple[int, ...] = ledger.SEEDS, rounds: int = EXACT_ROUNDS) -> Floats:
    """Mean energy of the first edge rounds of every drop, in joules."""
    return ledger.book(entry, seeds, rounds).total_joule() / rounds


def check(rows: list[Row]) -> list[Finding]:
    return [_saves(), _parts(), _exact(), _sca(), *_accuracy(rows)]


def _saves() -> Finding:
    ub = setting.total_joule("h_fedavg ub")
    ratio, free = (ub / setting.total_joule(setting.OURS + suffix) for suffix in ("", " no limit"))
    ours = f"{spread(ratio, 2)}; without an overlap limit (psi=z) {spread(free, 2)}"
    held = {"ratio": bool(abs(ratio.mean() / RATIO - 1) <= CLOSE)}
    return judged("saves", ours, held, f"within {CLOSE:.0%} of the printed ratio; {len(ledger.SEEDS)} drops")


def _parts() -> Finding:
    ub, ours = ledger.book("h_fedavg ub"), ledger.book(setting.OURS)
    clients = ub.chosen.sum(axis=(1, 2)) / ours.chosen.sum(axis=(1, 2))
    each = ub.total_joule() / ours.total_joule() / clients
    held = {"3": bool(abs(clients.mean() - 3) <= 0.05), "1.62": bool(abs(each.mean() / CHOICE - 1) <= CLOSE)}
    words = f"{spread(clients, 2)} x {spread(each, 2)}"
    return judged("parts", words, held, f"3 within 0.05, {CHOICE} within {CLOSE:.0%}")


def _exact() -> Finding:
    held, words = {}, []
    for z in ledger.SIZES:
        best, full = (per_round(f"rawhfl Z={z}{suffix}") for suffix in (" exact", ""))
        held[f"Z={z}"] = bool((full / best >= FACTOR).all())
        words.append(f"Z={z} {spread(1e3 * best, 1)} mJ, {np.median(full / best):.0f} times less")
    ours = f"an edge round: {'; '.join(words)}"
    rule = f"at least {FACTOR} times less than full clock and power on every drop; {EXACT_ROUNDS} edge rounds each"
    return judged("exact", ours, held, rule)


def _sca() -> Finding:
    sca, best, full = (per_round(setting.OURS + suffix, SCA_SEEDS, SCA_ROUNDS) for suffix in (" sca", " exact", ""))
    held = {"below full": bool((sca < full).all()), "above exact": bool((sca >= best).all())}
    words = {"full": full, "sca": sca, "exact": best}
    ours = "J per edge round: " + ", ".join(f"{name} {spread(value, 3)}" for name, value in words.items())
    rule = f"every drop; {len(SCA_SEEDS)} drops, {SCA_ROUNDS} edge rounds, Z = 4"
    return judged("sca", ours, held, rule)


def _accuracy(rows: list[Row]) -> list[Finding]:
    out = []
    for how, claim in (("exact", "accuracy"), ("sca", "sca_accuracy")):
        entry = f"{setting.OURS} {how}"
        if setting.lasted(rows, STAY, [setting.OURS, entry]):
            gap = setting.gaps(rows, STAY, entry, setting.OURS)
            early = setting.curve(rows, STAY, entry)[1].mean(), setting.curve(rows, STAY, setting.OURS)[1].mean()
            ours = (
                f"{spread(setting.values(rows, STAY, entry))}, minus full speed {spread(gap)}; mean "
                f"over all rounds {early[0]:.4f} against {early[1]:.4f}; {setting.told_ceiling(rows, STAY)}"
            )
            held = {"near": bool(gap.mean() >= -setting.NEAR)}
            out.append(judged(claim, ours, held, f"not more than {setting.NEAR} below"))
    return out


def plot(rows: list[Row]) -> Figure:
    figure, (left, right) = panels(2)
    for index, (name, suffix) in enumerate(
        (("full speed", ""), ("no overlap limit", " no limit"), ("exact", " exact"))
    ):
        totals = [per_round(f"rawhfl Z={z}{suffix}") for z in ledger.SIZES]
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
