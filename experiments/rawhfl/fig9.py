"""Figure 9: accuracy and cumulative energy of all methods against the global round, upsilon in [0.1, 0.8], Z = 4.

The paper's numbers "at K = 50" are each 61 % of the final energy, which grows linearly, so they belong to round 61.
Energies need no training and come from ten drops.
"""

import numpy as np
import rawhfl_ledger as ledger
import rawhfl_setting as setting
from matplotlib.figure import Figure
from rawhfl_plots import band, curves

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import beyond, judged, spread
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
LINEAR, STRAIGHT = 0.02, 0.999
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
    Claim("linear", "energy grows linearly with the round", "printed energies are 61 % of the final ones (M1: 58 %)"),
    Claim("catch", "FedAvg-UB reaches the accuracy of H-FedAvg-UB late", "after about 60 rounds"),
    Claim("climb", "M1 and M2 reach no plateau in 100 rounds", "curves; no numbers"),
    Claim("nearly", "RawHFL is nearly as accurate as H-FedAvg-UB after 100 rounds", "0.4485 against 0.4468"),
    Claim(
        "backhaul", "base stations of FedAvg-UB send 12 times as much to the server per round", "s |U_b| against s bit"
    ),
)


def cases(quick: bool) -> list[Case]:
    return setting.cases([STAY], ENTRIES, quick)


def running_joule(entry: str) -> Floats:
    """Energy up to every global round, `[n_seeds, n_global_rounds]`."""
    spent = ledger.book(entry).joule.sum(axis=2)
    return np.asarray(spent.cumsum(axis=1)[:, ledger.EDGE_ROUNDS - 1 :: ledger.EDGE_ROUNDS])


def check(rows: list[Row]) -> list[Finding]:
    found = [_energy(), _linear()]
    if setting.ran(rows, STAY, ("h_fedavg ub", "h_fedavg relay")):
        found.append(_backhaul(rows))
    if setting.lasted(rows, STAY, ENTRIES):
        found += [_accuracy(rows), _lag(rows), _catch(rows), _climb(rows), _nearly(rows)]
    return found


def _at(rows: list[Row], entry: str, number: int) -> Floats:
    """Accuracy of every seed after a round."""
    at, every = setting.curve(rows, STAY, entry)
    return every[:, int(np.argmin(np.abs(at - number)))]


def _accuracy(rows: list[Row]) -> Finding:
    similar = {seed: setting.ceiling(STAY, seed).similar_on_test for seed in {row["seed"] for row in rows}}
    held, words = {}, []
    for entry, printed in ACCURACY.items():
        share = np.array(
            [
                value / similar[seed]
                for seed, value in zip(setting.of_case(rows, STAY, entry), _at(rows, entry, ROUND), strict=True)
            ]
        )
        held[setting.TITLES[entry]] = bool(abs(share.mean() - printed / MEAN_STAY) <= SHARE)
        words.append(
            f"{setting.TITLES[entry]} {spread(_at(rows, entry, ROUND))} (round {SAID}: "
            f"{_at(rows, entry, SAID).mean():.4f})"
        )
    rule = f"as a share of naming the most similar file, within {SHARE} of the printed share of {MEAN_STAY}"
    return judged("accuracy", f"{', '.join(words)}; {setting.told_ceiling(rows, STAY)}", held, rule)


def _lag(rows: list[Row]) -> Finding:
    at = {entry: _at(rows, entry, ROUND) for entry in ENTRIES}
    held = {"M1 < M2": beyond(at["h_fedavg m2"] - at["h_fedavg m1"])}
    for entry in (setting.OURS, "h_fedavg ub", "h_fedavg relay"):
        held[f"{setting.TITLES[entry]} >> M2"] = bool(at[entry].mean() >= setting.FAR * at["h_fedavg m2"].mean())
    ours = ", ".join(f"{setting.TITLES[entry]} {value.mean():.4f}" for entry, value in at.items())
    return judged("lag", ours, held, f">>: {setting.FAR} times")


def _energy() -> Finding:
    held, words = {}, []
    for entry, printed in JOULE.items():
        value = running_joule(entry)[:, ROUND - 1]
        margin = M1_SPREAD if entry == "h_fedavg m1" else CLOSE * printed
        held[setting.TITLES[entry]] = bool(abs(value.mean() - printed) <= margin)
        words.append(f"{setting.TITLES[entry]} {spread(value, 0)}")
    rule = f"within {CLOSE:.0%}, M1 within its printed spread over trials ({M1_SPREAD:.0f} J)"
    return judged("energy", f"{', '.join(words)} J", held, f"{rule}; {len(ledger.SEEDS)} drops")


def _linear() -> Finding:
    held, words = {}, []
    rounds = np.arange(1, setting.GLOBAL_ROUNDS + 1)
    for entry in JOULE:
        total = running_joule(entry).mean(axis=0)
        share = total[ROUND - 1] / max(total[-1], 1e-9)
        words.append(f"{setting.TITLES[entry]} {share:.3f}")
        if entry != "h_fedavg m1":
            straight = np.corrcoef(rounds, total)[0, 1]
            held[setting.TITLES[entry]] = bool(abs(share - 0.61) <= LINEAR and straight >= STRAIGHT)
    ours = f"share of the final energy at round {ROUND}: {', '.join(words)}"
    rule = f"0.61 within {LINEAR}, correlation with the round above {STRAIGHT}; M1 trains too seldom to be judged"
    return judged("linear", ours, held, rule)


def _catch(rows: list[Row]) -> Finding:
    at, ub = setting.mean_curve(rows, STAY, "h_fedavg ub")
    relay = setting.mean_curve(rows, STAY, "h_fedavg relay")[1]
    behind = np.flatnonzero(relay < ub - setting.NEAR)
    when = at[behind[-1] + 1] if len(behind) and behind[-1] + 1 < len(at) else (np.inf if len(behind) else at[0])
    ours = f"within {setting.NEAR} for good from round {when:.0f}; last: {relay[-1]:.4f} against {ub[-1]:.4f}"
    rule = f"round {CATCH} within {MARGIN}; partly: caught up within 100 rounds"
    return setting.graded("catch", ours, bool(abs(when - CATCH) <= MARGIN), bool(np.isfinite(when)), rule)


def _climb(rows: list[Row]) -> Finding:
    held, words = {}, []
    for entry in ("h_fedavg m1", "h_fedavg m2"):
        gain = _at(rows, entry, setting.GLOBAL_ROUNDS) - _at(rows, entry, SINCE)
        held[setting.TITLES[entry]] = bool(gain.mean() > RISES)
        words.append(f"{setting.TITLES[entry]} {spread(gain)}")
    ours = f"gain from round {SINCE} to 100: {', '.join(words)}"
    return judged("climb", ours, held, f"more than {RISES}")


def _nearly(rows: list[Row]) -> Finding:
    gap = setting.gaps(rows, STAY, setting.OURS, "h_fedavg ub")
    held = {"near": bool(abs(gap.mean()) <= setting.NEAR)}
    return judged("nearly", f"RawHFL minus H-FedAvg-UB {spread(gap)}", held, f"within {setting.NEAR}")


def _backhaul(rows: list[Row]) -> Finding:
    bit = {
        entry: setting.values(rows, STAY, entry, lambda row: float(sum(row["backhaul_bit"]) / row["rounds"][-1]))
        for entry in ("h_fedavg ub", "h_fedavg relay")
    }
    ratio = bit["h_fedavg relay"].mean() / bit["h_fedavg ub"].mean()
    per_round = {entry: value.mean() * ledger.EDGE_ROUNDS / ledger.N_CELLS / 1e6 for entry, value in bit.items()}
    ours = f"{per_round['h_fedavg relay']:.1f} against {per_round['h_fedavg ub']:.2f} Mbit, {ratio:.2f} times"
    return judged("backhaul", ours, {"12": bool(abs(ratio - 12) < 0.01)}, "12 times")


def plot(rows: list[Row]) -> Figure:
    figure, (left, right) = panels(2)
    entries = list(setting.TITLES)
    curves(left, rows, STAY, "accuracy", [entry for entry in entries if entry in ENTRIES])
    for index, entry in enumerate(entry for entry in entries if entry in ENTRIES):
        rounds = np.arange(1.0, setting.GLOBAL_ROUNDS + 1)
        band(right, rounds, running_joule(entry) / 1e3, index, setting.TITLES[entry])
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
