"""Figure 10: how often the next file is among the M first of the prediction, upsilon in [0.1, 0.8], Z = 4.

Runs record the spread over users of the accuracy (M = 1) alone.
"""

import numpy as np
import rawhfl_setting as setting
from matplotlib.figure import Figure
from rawhfl_ledger import N_DEVICES
from rawhfl_plots import look

from fedcell.data.video import RAWHFL, build_catalogue, draw_profiles, top_accuracy
from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import judged, spread
from fedcell.experiment.plots import dress, panels
from fedcell.types import Floats

STAY = "mixed"
SIZES = (1, *setting.TOP)
GOOD = (setting.OURS, "h_fedavg ub", "h_fedavg relay")
WEAK = ("h_fedavg m1", "h_fedavg m2", "top_popular")
ENTRIES = (*GOOD, "central", *WEAK)
MEETS = 8
SURE, NEARLY = 0.98, 0.95
POINTS = {"h_fedavg m1": 36.94, "h_fedavg m2": 25.67, "top_popular": 35.69, "central": -6.95}  # RawHFL minus each
POINTS_NEAR = 5.0

CLAIMS = (
    Claim("central", "Central-SGD leads for M <= 7", "curves; no numbers"),
    Claim("meet", "RawHFL, H-FedAvg-UB and FedAvg-UB meet Central-SGD for M >= 8", "curves; no numbers"),
    Claim("top8", "the requested file is almost surely among the Top-8 of these four", "near 1"),
    Claim("identical", "RawHFL, H-FedAvg-UB and FedAvg-UB are nearly identical for all M", "curves; no numbers"),
    Claim("below", "M1, M2 and Top-Popular stay below RawHFL for all M <= 8", "curves; no numbers"),
    Claim(
        "points",
        "Top-1 accuracy of RawHFL minus that of M1, M2, Top-Popular and Central-SGD",
        "36.94, 25.67, 35.69, -6.95 points",
    ),
)


def cases(quick: bool) -> list[Case]:
    return setting.cases([STAY], ENTRIES, quick)


def top(row: Row) -> Floats:
    """Top-M accuracy at the end of a run, M = 1 to 10."""
    return np.array([setting.final(row), *(setting.at_end(f"top{m}")(row) for m in setting.TOP)])


def mean_top(rows: list[Row], entry: str) -> Floats:
    """Mean over seeds."""
    return np.asarray(np.mean([top(row) for row in setting.of_case(rows, STAY, entry).values()], axis=0))


def best_top(seed: int) -> Floats:
    """What the best predictor has on the users of a seed."""
    catalogue, users = build_catalogue(RAWHFL, seed), draw_profiles(RAWHFL, N_DEVICES, seed)
    return np.array([top_accuracy(catalogue, users, m).mean() for m in SIZES])


def check(rows: list[Row]) -> list[Finding]:
    if not setting.lasted(rows, STAY, ENTRIES):
        return []
    tops = {entry: mean_top(rows, entry) for entry in ENTRIES}
    return [_central(tops), _meet(tops), _top8(rows), _identical(tops), _below(tops), _points(rows)]


def _central(tops: dict[str, Floats]) -> Finding:
    lead = {entry: (tops["central"] - tops[entry])[: MEETS - 1] for entry in GOOD}
    held = {setting.TITLES[entry]: bool((gap > 0).all()) for entry, gap in lead.items()}
    ours = "lead for M = 1 to 7: " + "; ".join(
        f"over {setting.TITLES[entry]} " + ", ".join(f"{value:+.3f}" for value in gap) for entry, gap in lead.items()
    )
    return judged("central", ours, held, "ahead for every M <= 7, mean of the seeds")


def _meet(tops: dict[str, Floats]) -> Finding:
    off = {entry: np.abs(tops["central"] - tops[entry])[MEETS - 1 :].max() for entry in GOOD}
    held = {setting.TITLES[entry]: bool(value <= setting.NEAR) for entry, value in off.items()}
    ours = ", ".join(f"{setting.TITLES[entry]} {value:.4f}" for entry, value in off.items())
    return judged("meet", f"largest difference for M = 8 to 10: {ours}", held, f"at most {setting.NEAR}")


def _top8(rows: list[Row]) -> Finding:
    found = {e: setting.values(rows, STAY, e, setting.at_end("top8")) for e in (*GOOD, "central")}
    least = min(value.mean() for value in found.values())
    ours = ", ".join(f"{setting.TITLES[entry]} {spread(value)}" for entry, value in found.items())
    rule = f"each at least {SURE}; partly: {NEARLY}"
    return setting.graded("top8", f"{ours}; the best predictor has 1", least >= SURE, least >= NEARLY, rule)


def _identical(tops: dict[str, Floats]) -> Finding:
    off = {entry: np.abs(tops[setting.OURS] - tops[entry]).max() for entry in GOOD[1:]}
    held = {setting.TITLES[entry]: bool(value <= setting.NEAR) for entry, value in off.items()}
    ours = ", ".join(f"{setting.TITLES[entry]} {value:.4f}" for entry, value in off.items())
    return judged("identical", f"largest difference to RawHFL: {ours}", held, f"at most {setting.NEAR}")


def _below(tops: dict[str, Floats]) -> Finding:
    held = {setting.TITLES[entry]: bool((tops[entry] < tops[setting.OURS])[:MEETS].all()) for entry in WEAK}
    ours = "; ".join(
        f"{setting.TITLES[entry]} " + ", ".join(f"{value:.3f}" for value in tops[entry][:MEETS])
        for entry in (setting.OURS, *WEAK)
    )
    return judged("below", f"M = 1 to 8: {ours}", held, "below for every M <= 8, mean of the seeds")


def _points(rows: list[Row]) -> Finding:
    gap = {entry: 100 * setting.gaps(rows, STAY, setting.OURS, entry) for entry in POINTS}
    held = {
        setting.TITLES[entry]: bool(abs(gap[entry].mean() - value) <= POINTS_NEAR) for entry, value in POINTS.items()
    }
    ours = ", ".join(f"{setting.TITLES[entry]} {spread(value, 2)}" for entry, value in gap.items())
    users = setting.values(rows, STAY, setting.OURS, setting.at_end("accuracy_std"))
    ours += f"; RawHFL over users ±{users.mean():.4f}; {setting.told_ceiling(rows, STAY)}"
    return judged("points", ours, held, f"within {POINTS_NEAR:g} points")


def plot(rows: list[Row]) -> Figure:
    figure, (axes,) = panels(1, height=4.2)
    for index, entry in enumerate(ENTRIES):
        if setting.ran(rows, STAY, [entry]):
            every = np.array([top(row) for row in setting.of_case(rows, STAY, entry).values()])
            axes.errorbar(
                SIZES, every.mean(axis=0), every.std(axis=0), capsize=2, label=setting.TITLES[entry], **look(index)
            )
    seeds = sorted({row["seed"] for row in rows})
    if seeds:
        best = np.mean([best_top(seed) for seed in seeds], axis=0)
        axes.plot(SIZES, best, color="#888888", linestyle=":", label="best predictor")
    dress(axes, "M", "Top-M accuracy", "upsilon in [0.1, 0.8], Z = 4; spread over seeds")
    return figure


EXPERIMENT = Experiment(
    title="RawHFL Figure 10: Top-M accuracy",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
