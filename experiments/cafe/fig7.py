"""CAFe Figure 7: accuracy after 1000 rounds over the quorum M for i.i.d. data and T = 0.5."""

from itertools import pairwise

import numpy as np
from cafe_plots import accuracy_points
from cafe_setting import IID_STORE, N_CLIENTS, ahead, iid_case, told, values
from cafe_setting import iid_name as name
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.plots import dress, panels
from fedcell.methods.cafe import theory as cafe

QUORUMS = (1, 20, 30, 33, 36, 40, 45, 50)
PEAK = 33  # of g(M)


def cases(quick: bool) -> list[Case]:
    chosen = (1, 33, 45) if quick else QUORUMS
    return [iid_case(m, quick) for m in chosen]


def gains() -> np.ndarray:
    """g(M) of `QUORUMS`."""
    return cafe.noise_gain(N_CLIENTS, np.array(QUORUMS), cafe.answer_probability(0.5, 1.0))


def check(rows: list[Row]) -> list[Finding]:
    ran = [m for m in QUORUMS if len(values(rows, name(m)))]
    ours = ", ".join(f"M={m} {told(rows, name(m))}" for m in QUORUMS)
    best = max(ran, key=lambda m: values(rows, name(m)).mean(), default=PEAK)
    falls = [ahead(rows, name(a), name(b)) for a, b in pairwise(QUORUMS[3:])]
    peak = f"the M of the highest mean accuracy, {best}, against argmax g = {PEAK}"
    return [
        finding("peak", ahead(rows, name(best), name(PEAK)) if ran else (), ours, peak),
        finding("indicator", falls, ours, f"where g falls (M = {QUORUMS[3:]}), accuracy falls from one M to the next"),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, (ax,) = panels()
    accuracy_points(ax, rows, QUORUMS, [name(m) for m in QUORUMS], 0, "accuracy")
    dress(ax, "least number of responders M", "test accuracy", legend=False)
    other = ax.twinx()
    other.plot(QUORUMS, gains(), color="#888888", linestyle=":")
    other.set_ylabel("g(M), dotted")
    return figure


EXPERIMENT = Experiment(
    title="CAFe Figure 7: accuracy over M, i.i.d. data, T = 0.5",
    claims=(
        Claim("peak", "the M of the highest accuracy need not be that of the highest g(M)", "a curve; argmax g = 33"),
        Claim("indicator", "g(M) indicates where a larger M degrades accuracy significantly", "no numbers"),
    ),
    cases=cases,
    plot=plot,
    check=check,
    store=IID_STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
