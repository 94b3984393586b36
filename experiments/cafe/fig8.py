"""CAFe Figure 8: wastage, communication, age and accuracy over the deadline T with M = 1, one class per client."""

from itertools import pairwise

import numpy as np
from cafe_plots import accuracy_points
from cafe_setting import N_CLIENTS, ahead, case, lead, single_class, told, values
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import missing, verdict
from fedcell.experiment.plots import dress, panels
from fedcell.theory import cafe

DEADLINES = (0.1, 0.2, 0.5, 0.75, 1.0, 1.5, 2.0)
CLOSE = 0.02  # accuracy


def name(deadline_s: float) -> str:
    return f"T={deadline_s:g}"


def cases(quick: bool) -> list[Case]:
    return [case(name(t), t, single_class, quick) for t in ((0.1, 0.5, 2.0) if quick else DEADLINES)]


def wastage_s(row: Row) -> float:
    return sum(row["waste_s"]) / max(sum(row["success"]), 1)


def communication(row: Row) -> float:
    return len(row["success"]) / max(sum(row["success"]), 1)


def age(row: Row) -> float:
    """E[age] / T, with T the length of a round."""
    return float(np.mean(row["mean_age_s"])) * len(row["success"]) / row["clock_s"]


MEASURED = {"wastage (client-seconds per update)": wastage_s, "broadcasts per update": communication, "age / T": age}


def expected(deadline_s: np.ndarray) -> list[np.ndarray]:
    """The three measures by Theorems 1 and 2."""
    cost = cafe.metrics(N_CLIENTS, 1, deadline_s, cafe.answer_probability(deadline_s, 1.0))
    return [cost.wastage_s, cost.communication, cost.age_s / deadline_s]


def check(rows: list[Row]) -> list[Finding]:
    keys = [name(t) for t in DEADLINES]
    if missing(rows, keys):
        return []
    waste, comm, old = ([float(values(rows, key, measure).mean()) for key in keys] for measure in MEASURED.values())
    peak = DEADLINES[int(np.argmax(waste))]
    numbers = [
        "; ".join(f"{key} {value:.4g}" for key, value in zip(keys, series, strict=True))
        for series in (waste, comm, old)
    ]
    hump = waste[0] < max(waste) > waste[-1] and peak not in (DEADLINES[0], DEADLINES[-1])
    rises = [ahead(rows, later, earlier) for earlier, later in pairwise(keys)]
    ends = ahead(rows, keys[-1], keys[0])
    return [
        Finding("a", numbers[0], "reproduced" if hump else "not reproduced", f"rises to T = {peak:g}, then falls"),
        Finding("b", numbers[1], "reproduced" if max(comm) < 1.01 else "not reproduced", "never above 1.01"),
        Finding("c", numbers[2], verdict([b < a for a, b in pairwise(old)]), "falls at every step of T"),
        Finding(
            "d",
            "; ".join(f"{key} {told(rows, key)}" for key in keys),
            "reproduced" if all(rises) else "partly" if ends else "not reproduced",
            f"rises by more than a standard error in {sum(rises)} of {len(rises)} steps of T; "
            f"T = 2 {'beats' if ends else 'does not beat'} T = 0.1",
        ),
        _enough(rows, waste),
    ]


def _enough(rows: list[Row], waste: list[float]) -> Finding:
    """T = 0.5 against T = 2, in accuracy and in wastage."""
    gap = lead(rows, name(2.0), name(0.5))
    short, long = waste[DEADLINES.index(0.5)], waste[DEADLINES.index(2.0)]
    holds = [abs(gap.mean()) < CLOSE, short / long < 1.25]
    ours = f"accuracy T=2 minus T=0.5: {gap.mean():+.3f}±{gap.std():.3f}; wastage {short:.1f} against {long:.1f}"
    return Finding("half", ours, verdict(holds), f"accuracy within {CLOSE}, wastage within 25 %; a quarter of the time")


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(4, height=3.6)
    fine = np.linspace(0.05, 2.1, 200)
    for ax, (title, measure), curve in zip(axes, MEASURED.items(), expected(fine), strict=False):
        ax.plot(fine, curve, label="formula")
        run = [(t, values(rows, name(t), measure)) for t in DEADLINES]
        ax.plot(*zip(*[(t, values.mean()) for t, values in run if len(values)], strict=True), "o", label="simulated")
        dress(ax, "deadline T", title)
    accuracy_points(axes[3], rows, DEADLINES, [name(t) for t in DEADLINES], 0, "")
    dress(axes[3], "deadline T", "test accuracy", legend=False)
    return figure


EXPERIMENT = Experiment(
    title="CAFe Figure 8: wastage, communication, age and accuracy over T, M = 1",
    claims=(
        Claim("a", "wastage first increases and then decreases with T", "curve; exact peak 36.79 at T = 1"),
        Claim("b", "the communication cost remains almost at 1", "1"),
        Claim("c", "the normalised age decreases with T", "curve; exact 11.0 at .1, 3.04 at .5, 1.66 at 2"),
        Claim("d", "accuracy increases with T", "curve; no numbers"),
        Claim("half", "T = 0.5 is about as accurate and frugal as T = 2 in a quarter of the time", "no numbers"),
    ),
    cases=cases,
    plot=plot,
    check=check,
)

if __name__ == "__main__":
    main(EXPERIMENT)
