"""What a local step is: one update by the mean gradient of its 5 mini-batches, or one update by each of them in turn.

The paper's sentence allows both. Here every federated method has both, on the same footing: FCN, K = 1, published rates
(M-FedNova also retuned). The runs with the mean gradient are those of the tables.
"""

import osafl_setting as setting
from matplotlib.figure import Figure
from osafl_plots import curves

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import spread
from fedcell.experiment.plots import dress, panels

MODEL, K = "fcn", 1
METHODS = ("osafl", *setting.BASELINES)

CLAIMS = (
    Claim("mean", "every method does at least as well with the mean gradient as with a sequence", "not in the paper"),
    Claim("lead_mean", "with the mean gradient OSAFL is ahead of every baseline", "Table II"),
    Claim("lead_sequence", "with a sequence of updates OSAFL is ahead of every baseline", "Table II"),
)


def sequence(entry: str) -> str:
    return f"{entry} inner=sequential"


def cases(quick: bool) -> list[Case]:
    out = []
    for entry in METHODS:
        method, settings = setting.method_of(MODEL, entry)
        out.append(setting.case(MODEL, K, entry, method, settings, quick))
        out.append(setting.case(MODEL, K, sequence(entry), method, {**settings, "inner": "sequential"}, quick))
    return out


def check(rows: list[Row]) -> list[Finding]:
    pairs = setting.Pairs(rows, MODEL, K)
    better = [pairs.not_behind(entry, sequence(entry)) for entry in METHODS]
    mean = [pairs.ahead("osafl", entry) for entry in setting.BASELINES]
    turns = [pairs.ahead(sequence("osafl"), sequence(entry)) for entry in setting.BASELINES]
    words = "; ".join(
        f"{setting.TITLES[entry]} {spread(setting.values(rows, pairs.key(entry)))} and "
        f"{spread(setting.values(rows, pairs.key(sequence(entry))))}"
        for entry in METHODS
    )
    ours = f"mean gradient and sequence: {words}"
    return [
        finding("mean", better, ours, f"best accuracy at most {setting.TIE} behind"),
        finding("lead_mean", mean, ours, "best accuracy"),
        finding("lead_sequence", turns, ours, "best accuracy"),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, places = panels(2)
    for axes, name in zip(places, (str, sequence), strict=True):
        curves(axes, rows, MODEL, K, "accuracy", [name(entry) for entry in METHODS])
        dress(axes, "round", "test accuracy", "mean gradient" if name is str else "a sequence of updates")
    return figure


EXPERIMENT = Experiment(
    title="OSAFL: two readings of a local step",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
