"""CAFe Figure 5: accuracy over rounds for several quorums, i.i.d. data and T = 0.5. Its runs are some of Figure 7's."""

import numpy as np
from cafe_plots import look
from cafe_setting import IID_STORE, accuracy, ahead, iid_case, told
from cafe_setting import iid_name as name
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import level
from fedcell.experiment.plots import dress, panels

QUORUMS = (1, 30, 36, 40, 45)
SMALL = 0.01  # accuracy


def cases(quick: bool) -> list[Case]:
    return [iid_case(m, quick) for m in ((1, 40) if quick else QUORUMS)]


def check(rows: list[Row]) -> list[Finding]:
    ours = ", ".join(f"M={m} {told(rows, name(m))}" for m in QUORUMS)
    rise = ahead(rows, name(30), name(1))
    fall = [ahead(rows, name(30), name(m)) for m in QUORUMS[2:]]
    why = "M = 30 against M = 1; at M = 30 only 2 % of the rounds fail, so both take nearly the same steps"
    return [
        finding("rise", rise, ours, why),
        finding("fall", fall, ours, f"M = 30 against M = {QUORUMS[2:]}"),
        finding(
            "small", [rise, level(rows, name(30), name(1), SMALL, accuracy)], ours, f"ahead, and by less than {SMALL}"
        ),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, (ax,) = panels()
    for index, key in enumerate(dict.fromkeys(row["case"] for row in rows)):
        runs = [row for row in rows if row["case"] == key]
        curve = np.mean([row["accuracy"] for row in runs], axis=0)
        ax.plot(runs[0]["rounds"], curve, label=key.removeprefix("iid "), markevery=0.1, **look(index))
    dress(ax, "round", "test accuracy")
    return figure


EXPERIMENT = Experiment(
    title="CAFe Figure 5: accuracy over rounds, i.i.d. data, T = 0.5",
    claims=(
        Claim("rise", "accuracy rises from M = 1 to M = 30", "curves; no numbers"),
        Claim("fall", "accuracy falls as M increases further", "curves; no numbers"),
        Claim("small", "the improvement over M = 1 is very small", "no numbers"),
    ),
    cases=cases,
    plot=plot,
    check=check,
    store=IID_STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
