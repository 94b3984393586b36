"""Figure 6: accuracy and loss of RawHFL against the global round, for each law of upsilon and Z = 2, 4, 6."""

from itertools import pairwise

import numpy as np
import rawhfl_setting as setting
from matplotlib.figure import Figure
from rawhfl_plots import curves

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import beyond, judged, spread
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


def reaches(at: Floats, accuracy: Floats, share: float) -> float:
    """The first round with this share of the end.

    >>> reaches(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.96, 1.0]), 0.9)
    2.0
    """
    return float(at[np.argmax(accuracy >= share * end(accuracy))])


def roughness(rows: list[Row], stay: str, entry: str) -> Floats:
    """Mean change between evaluations after round `LATE`, in accuracy, of every seed."""
    at, every = setting.curve(rows, stay, entry)
    return np.asarray(np.abs(np.diff(every[:, at >= LATE], axis=1)).mean(axis=1))


def check(rows: list[Row]) -> list[Finding]:
    stays = [stay for stay in STAYS if setting.lasted(rows, stay, setting.SIZES)]
    return [
        *([_mixed(rows)] if "mixed" in stays else []),
        *([_faster(rows)] if {"0.3", "0.7"} <= set(stays) else []),
        _better(rows, stays),
        _smoother(rows, stays),
        *([_shaky(rows), _plateau(rows)] if "0.7" in stays else []),
    ]


def _mixed(rows: list[Row]) -> Finding:
    found = {entry: setting.values(rows, "mixed", entry) for entry in setting.SIZES}
    off = {e: setting.values(rows, "mixed", e, setting.over("similar_on_test", "mixed")).mean() for e in setting.SIZES}
    ours = ", ".join(f"{setting.TITLES[entry]} {spread(value)}" for entry, value in found.items())
    held = {setting.TITLES[entry]: bool(abs(value) <= RULE_NEAR) for entry, value in off.items()}
    rule = f"within {RULE_NEAR} of always naming the most similar file on the same test sets"
    return judged("mixed", f"{ours}; {setting.told_ceiling(rows, 'mixed')}", held, rule)


def _faster(rows: list[Row]) -> Finding:
    rounds = {
        (stay, entry): reaches(*setting.mean_curve(rows, stay, entry), THERE)
        for stay in ("0.3", "0.7")
        for entry in setting.SIZES
    }
    held = {setting.TITLES[e]: rounds["0.7", e] < rounds["0.3", e] for e in setting.SIZES}
    ours = ", ".join(
        f"{setting.TITLES[e]} {rounds['0.7', e]:.0f} (0.7) against {rounds['0.3', e]:.0f} (0.3)" for e in setting.SIZES
    )
    return judged("faster", ours, held, f"first round with {THERE:.0%} of its own end, mean of the seeds")


def _better(rows: list[Row], stays: list[str]) -> Finding:
    held, words = {}, []
    for stay in stays:
        for what, sign in (("accuracy", 1), ("loss", -1)):
            means = {e: setting.curve(rows, stay, e, what)[1].mean(axis=1) for e in setting.SIZES}
            for low, high in pairwise(setting.SIZES):
                held[f"upsilon {stay} {what} {high[-3:]} > {low[-3:]}"] = beyond(sign * (means[high] - means[low]))
            words.append(f"upsilon {stay} {what} " + " / ".join(f"{value.mean():.3f}" for value in means.values()))
    ours = f"mean over all rounds, Z = 2 / 4 / 6: {', '.join(words)}"
    return judged("better", ours, held, "better by more than a standard error over seeds")


def _smoother(rows: list[Row], stays: list[str]) -> Finding:
    held, words = {}, []
    for stay in stays:
        rough = {entry: roughness(rows, stay, entry).mean() for entry in setting.SIZES}
        for low, high in pairwise(setting.SIZES):
            held[f"upsilon {stay} {high[-3:]} < {low[-3:]}"] = bool(rough[high] < rough[low])
        words.append(f"upsilon {stay} " + " / ".join(f"{value:.4f}" for value in rough.values()))
    ours = f"Z = 2 / 4 / 6: {', '.join(words)}"
    return judged("smoother", ours, held, f"mean change from round to round after round {LATE} falls with Z")


def _shaky(rows: list[Row]) -> Finding:
    rough = {entry: roughness(rows, "0.7", entry) for entry in setting.SIZES}
    ratio = rough["rawhfl Z=2"].mean() / rough["rawhfl Z=6"].mean()
    ours = f"mean change from round to round after round {LATE}: " + ", ".join(
        f"{setting.TITLES[entry]} {spread(value)}" for entry, value in rough.items()
    )
    return setting.graded("shaky", ours, ratio >= 2, ratio > 1, "Z = 2 at least twice that of Z = 6; partly: more")


def _plateau(rows: list[Row]) -> Finding:
    rounds = {entry: reaches(*setting.mean_curve(rows, "0.7", entry), PLATEAU) for entry in setting.SIZES}
    held = {setting.TITLES[entry]: abs(rounds[entry] - PLATEAU_ROUND) <= MARGIN for entry in setting.SIZES[1:]}
    ours = ", ".join(f"{setting.TITLES[entry]} {value:.0f}" for entry, value in rounds.items())
    rule = f"Z = 4, 6: first round with {PLATEAU:.0%} of its end within {MARGIN} of {PLATEAU_ROUND}"
    return judged("plateau", f"{ours}; {setting.told_ceiling(rows, '0.7')}", held, rule)


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
