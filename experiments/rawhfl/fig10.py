"""Figure 10: how often the next file is among the M first of the prediction, upsilon in [0.1, 0.8], Z = 4.

Runs record the spread over users of the accuracy (M = 1) alone.
"""

from functools import cache

import numpy as np
import rawhfl_setting as setting
from matplotlib.figure import Figure
from rawhfl_ledger import N_DEVICES
from rawhfl_plots import look

from fedcell.data.video import RAWHFL, build_catalogue, draw_profiles, top_accuracy
from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import Measure, above, of_accuracy
from fedcell.experiment.plots import dress, panels
from fedcell.types import Floats

STAY = "mixed"
SIZES = (1, *setting.TOP)
GOOD = (setting.OURS, "h_fedavg ub", "h_fedavg relay")
WEAK = ("h_fedavg m1", "h_fedavg m2", "top_popular")
ENTRIES = (*GOOD, "central", *WEAK)
MEETS = 8
SURE = 0.98
POINTS = {"h_fedavg m1": 36.94, "h_fedavg m2": 25.67, "top_popular": 35.69, "central": -6.95}  # RawHFL minus each

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


def top_of(m: int) -> Measure:
    """Top-M accuracy at the end of a run."""
    return of_accuracy(lambda row: float(top(row)[m - 1]))


@cache
def best_top(seed: int) -> Floats:
    """What the best predictor has on the users of a seed."""
    catalogue, users = build_catalogue(RAWHFL, seed), draw_profiles(RAWHFL, N_DEVICES, seed)
    return np.array([top_accuracy(catalogue, users, m).mean() for m in SIZES])


def check(rows: list[Row]) -> list[Finding]:
    if not setting.lasted(rows, STAY, ENTRIES):
        return []
    return [_central(rows), _meet(rows), _top8(rows), _identical(rows), _below(rows), _points(rows)]


def _told(rows: list[Row], entries: tuple[str, ...], sizes: tuple[int, ...]) -> str:
    return "; ".join(
        f"{setting.TITLES[e]} " + ", ".join(f"{setting.values(rows, STAY, e, top_of(m)).mean():.3f}" for m in sizes)
        for e in entries
    )


def _central(rows: list[Row]) -> Finding:
    parts = [
        setting.ahead(rows, STAY, "central", entry, top_of(m))._replace(name=f"{setting.TITLES[entry]}, M = {m}")
        for entry in GOOD
        for m in SIZES[: MEETS - 1]
    ]
    return finding(
        "central", parts, f"M = 1 to 7: {_told(rows, ('central', *GOOD), SIZES[: MEETS - 1])}", "every M <= 7"
    )


def _meet(rows: list[Row]) -> Finding:
    parts = [
        setting.level(rows, STAY, entry, "central", value=top_of(m))._replace(name=f"{setting.TITLES[entry]}, M = {m}")
        for entry in GOOD
        for m in SIZES[MEETS - 1 :]
    ]
    ours = f"M = 8 to 10: {_told(rows, ('central', *GOOD), SIZES[MEETS - 1 :])}"
    return finding("meet", parts, ours, f"within {setting.NEAR} for every M >= 8")


def _top8(rows: list[Row]) -> Finding:
    parts = [
        above(rows, setting.key(STAY, entry), SURE, setting.at_end("top8"), setting.TITLES[entry])
        for entry in (*GOOD, "central")
    ]
    return finding("top8", parts, "", f"each above {SURE}; the best predictor has 1")


def _identical(rows: list[Row]) -> Finding:
    parts = [
        setting.level(rows, STAY, entry, setting.OURS, value=top_of(m))._replace(
            name=f"{setting.TITLES[entry]}, M = {m}"
        )
        for entry in GOOD[1:]
        for m in SIZES
    ]
    return finding("identical", parts, _told(rows, GOOD, SIZES), f"within {setting.NEAR} of RawHFL for every M")


def _below(rows: list[Row]) -> Finding:
    parts = [
        setting.ahead(rows, STAY, setting.OURS, entry, top_of(m))._replace(name=f"{setting.TITLES[entry]}, M = {m}")
        for entry in WEAK
        for m in SIZES[:MEETS]
    ]
    ours = f"M = 1 to 8: {_told(rows, (setting.OURS, *WEAK), SIZES[:MEETS])}"
    return finding("below", parts, ours, "RawHFL above, for every M <= 8")


def _points(rows: list[Row]) -> Finding:
    parts = [
        setting.gain(rows, STAY, *((setting.OURS, entry) if points > 0 else (entry, setting.OURS)), abs(points) / 100)
        for entry, points in POINTS.items()
    ]
    users = setting.values(rows, STAY, setting.OURS, setting.at_end("accuracy_std"))
    ours = "; ".join(map(str, parts))
    return finding("points", parts, f"{ours}; RawHFL over users ±{users.mean():.4f}", "the printed differences")


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
