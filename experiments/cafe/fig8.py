"""CAFe Figure 8: wastage, communication, age and accuracy over the deadline T with M = 1, one class per client."""

from itertools import pairwise

import numpy as np
from cafe_plots import accuracy_points
from cafe_setting import N_CLIENTS, accuracy, case, single_class, told, values
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import below, inside, level, missing, more, ratio, rising, told_all, under
from fedcell.experiment.plots import dress, panels
from fedcell.methods.cafe import theory as cafe

DEADLINES = (0.1, 0.2, 0.5, 0.75, 1.0, 1.5, 2.0)
CLOSE = 0.02  # accuracy
FRUGAL = 1.25  # times the wastage


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
    peak = max(keys[1:-1], key=lambda key: values(rows, key, wastage_s).mean())
    hump = [more(rows, peak, end, wastage_s) for end in (keys[0], keys[-1])]
    frugal = ratio(rows, name(0.5), name(2.0), wastage_s)
    half = [
        level(rows, name(2.0), name(0.5), CLOSE, accuracy),
        inside("wastage T=0.5 / T=2", frugal, high=FRUGAL),
    ]
    words = {what: told_all(rows, dict(zip(keys, keys, strict=True)), what, 2) for what in MEASURED.values()}
    return [
        finding("a", hump, words[wastage_s], f"the largest, {peak}, above both ends"),
        finding("b", [under(rows, key, 1.01, communication) for key in keys], words[communication], "below 1.01"),
        finding("c", [below(rows, b, a, age) for a, b in pairwise(keys)], words[age], "from each T to the next"),
        finding("d", rising(rows, keys, accuracy), "; ".join(f"{key} {told(rows, key)}" for key in keys)),
        finding("half", half, "", f"accuracy within {CLOSE}, wastage at most {FRUGAL} times; a quarter of the time"),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(4, height=3.6)
    fine = np.linspace(0.05, 2.1, 200)
    for ax, (title, measure), curve in zip(axes, MEASURED.items(), expected(fine), strict=False):
        ax.plot(fine, curve, label="formula")
        run = [(t, values(rows, name(t), measure)) for t in DEADLINES]
        ran = [(t, found.mean()) for t, found in run if len(found)]
        ax.plot([t for t, _ in ran], [mean for _, mean in ran], "o", label="simulated")
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
