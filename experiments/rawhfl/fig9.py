"""Figure 9: accuracy and cumulative energy of all methods against the global round, upsilon in [0.1, 0.8], Z = 4.

The paper's numbers "at K = 50" are each 61 % of the final energy, which grows linearly, so they belong to round 61.
Energies need no training and come from ten drops.
"""

import numpy as np
import rawhfl_ledger as ledger
import rawhfl_setting as setting
from matplotlib.figure import Figure
from rawhfl_plots import band, curves

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import Measure, accuracies, inside, missing, near, ratio, spread, within
from fedcell.experiment.measures import at_round
from fedcell.experiment.plots import dress, panels
from fedcell.types import Floats

STAY, ROUND, SAID = "mixed", 61, 50
ACCURACY = {
    "h_fedavg m1": 0.073,
    "h_fedavg m2": 0.173,
    "h_fedavg ub": 0.4455,
    "h_fedavg relay": 0.4455,
    setting.OURS: 0.443,
}
JOULE = {"h_fedavg m1": 283, "h_fedavg m2": 6845, "h_fedavg ub": 8439, "h_fedavg relay": 2109, setting.OURS: 1741}
ENTRIES = tuple(ACCURACY)
MEAN_STAY = 0.45
SHARE = 0.1  # of "most similar"
CLOSE = 0.2  # relative
M1_SPREAD = 1391.7 * ROUND / setting.GLOBAL_ROUNDS  # the printed spread over trials, at this round
LINEAR = 0.02
CATCH, MARGIN = 60, 15
RISES, SINCE = 0.005, 80

CLAIMS = (
    Claim(
        "accuracy",
        "accuracy at round 61 (printed as 50) of M1, M2, H-FedAvg-UB, FedAvg-UB, RawHFL Z = 4",
        "7.3, 17.3, 44.55, 44.55, 44.30 %",
    ),
    Claim("lag", "in accuracy M1 < M2, and both lag far behind the others, at round 61", "as above"),
    Claim("energy", "energy at round 61 of the same methods", "283, 6845, 8439, 2109, 1741 J"),
    Claim(
        "linear",
        "energy grows linearly with the round",
        "printed energies are 61 % of the final ones (M1: 58 %)",
        "check",
    ),
    Claim("catch", "FedAvg-UB reaches the accuracy of H-FedAvg-UB late", "after about 60 rounds"),
    Claim("climb", "M1 and M2 reach no plateau in 100 rounds", "curves; no numbers"),
    Claim("nearly", "RawHFL is nearly as accurate as H-FedAvg-UB after 100 rounds", "0.4485 against 0.4468"),
    Claim(
        "backhaul",
        "base stations of FedAvg-UB send 12 times as much to the server per round",
        "s |U_b| against s bit",
        "check",
    ),
)


def cases(quick: bool) -> list[Case]:
    return [*setting.cases([STAY], ENTRIES, quick), *ledger.cases(list(JOULE))]


def running_joule(rows: list[Row], entry: str) -> Floats:
    """Energy up to every global round, `[n_seeds, n_global_rounds]`."""
    return ledger.column(rows, entry, "running_joule").reshape(-1, setting.GLOBAL_ROUNDS)


def check(rows: list[Row]) -> list[Finding]:
    found = [] if missing(rows, [ledger.name(entry) for entry in JOULE]) else [_energy(rows), _linear(rows)]
    if setting.ran(rows, STAY, ("h_fedavg ub", "h_fedavg relay")):
        found.append(_backhaul(rows))
    if setting.lasted(rows, STAY, ENTRIES):
        found += [_accuracy(rows), _lag(rows), _catch(rows), _climb(rows), _nearly(rows)]
    return found


def at_global(number: int) -> Measure:
    """Accuracy after a global round."""
    return at_round(number * ledger.EDGE_ROUNDS)


def _accuracy(rows: list[Row]) -> Finding:
    def share(row: Row) -> float:
        return at_global(ROUND)(row) / setting.ceiling(STAY, row["seed"]).similar_on_test

    parts = [
        near(rows, setting.key(STAY, entry), printed / MEAN_STAY, SHARE, share, setting.TITLES[entry])
        for entry, printed in ACCURACY.items()
    ]
    words = [
        f"{setting.TITLES[entry]} {spread(setting.values(rows, STAY, entry, at_global(ROUND)))} (round {SAID}: "
        f"{setting.values(rows, STAY, entry, at_global(SAID)).mean():.4f})"
        for entry in ACCURACY
    ]
    rule = f"as a share of naming the most similar file, within {SHARE} of the printed share of {MEAN_STAY}"
    return finding("accuracy", parts, f"{', '.join(words)}; {setting.told_ceiling(rows, STAY)}", rule)


def _lag(rows: list[Row]) -> Finding:
    then = at_global(ROUND)
    parts = [setting.ahead(rows, STAY, "h_fedavg m2", "h_fedavg m1", then)]
    parts += [
        setting.far(rows, STAY, entry, "h_fedavg m2", then) for entry in (setting.OURS, "h_fedavg ub", "h_fedavg relay")
    ]
    return finding("lag", parts, "", f">>: {setting.FAR} times")


def _energy(rows: list[Row]) -> Finding:
    at = {entry: running_joule(rows, entry)[:, ROUND - 1] for entry in JOULE}
    parts = [
        within(setting.TITLES[entry], at[entry], printed, M1_SPREAD if entry == "h_fedavg m1" else CLOSE * printed)
        for entry, printed in JOULE.items()
    ]
    ours = ", ".join(f"{setting.TITLES[entry]} {spread(value, 0)}" for entry, value in at.items()) + " J"
    return finding("energy", parts, ours, f"within {CLOSE:.0%}, M1 within its printed spread ({M1_SPREAD:.0f} J)")


def _linear(rows: list[Row]) -> Finding:
    share = {
        e: (every[:, ROUND - 1] / np.maximum(every[:, -1], 1e-9)) for e in JOULE for every in [running_joule(rows, e)]
    }
    parts = [within(setting.TITLES[e], value, 0.61, LINEAR) for e, value in share.items() if e != "h_fedavg m1"]
    ours = ", ".join(f"{setting.TITLES[entry]} {spread(value, 3)}" for entry, value in share.items())
    rule = f"share of the final energy at round {ROUND}: 0.61 within {LINEAR}; M1 trains too seldom to be judged"
    return finding("linear", parts, ours, rule)


def _catch(rows: list[Row]) -> Finding:
    ub = {row["seed"]: accuracies(row) for row in rows if row["case"] == setting.key(STAY, "h_fedavg ub")}

    def when(row: Row) -> float:
        """The global round from which on it is not behind H-FedAvg-UB; one more than there are if never."""
        behind = np.flatnonzero(accuracies(row) < ub[row["seed"]] - setting.NEAR)
        since = int(behind[-1]) + 1 if len(behind) else 0
        return row["rounds"][since] / ledger.EDGE_ROUNDS if since < len(row["rounds"]) else setting.GLOBAL_ROUNDS + 1

    found = setting.values(rows, STAY, "h_fedavg relay", when)
    parts = [
        within(f"about {CATCH}", found, CATCH, MARGIN),
        inside("within 100 rounds", found, high=setting.GLOBAL_ROUNDS + 0.5),
    ]
    ours = f"within {setting.NEAR} for good from round {spread(found, 0)}"
    return finding("catch", parts, ours, f"round {CATCH} within {MARGIN}; and caught up at all")


def _climb(rows: list[Row]) -> Finding:
    def gain(row: Row) -> float:
        return at_global(setting.GLOBAL_ROUNDS)(row) - at_global(SINCE)(row)

    parts = [
        inside(setting.TITLES[entry], setting.values(rows, STAY, entry, gain), low=RISES, unit="points")
        for entry in ("h_fedavg m1", "h_fedavg m2")
    ]
    return finding("climb", parts, "", f"gain from round {SINCE} to 100 above {RISES}")


def _nearly(rows: list[Row]) -> Finding:
    return finding("nearly", setting.level(rows, STAY, setting.OURS, "h_fedavg ub"), "", f"within {setting.NEAR}")


def _backhaul(rows: list[Row]) -> Finding:
    def bit(row: Row) -> float:
        return float(sum(row["backhaul_bit"]) / row["rounds"][-1])

    times = ratio(rows, *(setting.key(STAY, entry) for entry in ("h_fedavg relay", "h_fedavg ub")), bit)
    mbit = [
        setting.values(rows, STAY, entry, bit).mean() * ledger.EDGE_ROUNDS / ledger.N_CELLS / 1e6
        for entry in ("h_fedavg relay", "h_fedavg ub")
    ]
    ours = f"{mbit[0]:.1f} against {mbit[1]:.2f} Mbit, {times.mean():.2f} times"
    return finding("backhaul", within("12", times, 12.0, 0.01), ours, "12 times")


def plot(rows: list[Row]) -> Figure:
    figure, (left, right) = panels(2)
    entries = list(setting.TITLES)
    curves(left, rows, STAY, "accuracy", [entry for entry in entries if entry in ENTRIES])
    for index, entry in enumerate(entry for entry in entries if entry in ENTRIES):
        rounds = np.arange(1.0, setting.GLOBAL_ROUNDS + 1)
        if len(running_joule(rows, entry)):
            band(right, rounds, running_joule(rows, entry) / 1e3, index, setting.TITLES[entry])
        right.plot(ROUND, JOULE[entry] / 1e3, "x", color="#888888", label=None if index else "printed, at round 61")
        left.plot(ROUND, ACCURACY[entry], "x", color="#888888", label=None if index else "printed, at round 61")
    dress(left, "global round", "test accuracy", "upsilon in [0.1, 0.8], Z = 4")
    dress(right, "global round", "energy so far (kJ)", f"{len(ledger.SEEDS)} drops")
    return figure


EXPERIMENT = Experiment(
    title="RawHFL Figure 9: accuracy and energy of all methods",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
