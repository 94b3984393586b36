"""Figure 6: test accuracy and loss against the round, Dataset-2, LSTM, K = 1 and 2."""

import osafl_curves as curves
import osafl_setting as setting
from matplotlib.figure import Figure
from osafl_plots import curves as draw

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.plots import dress, panels

ROUND = 40
ORDER = ("osafl", "m_fedavg", "m_fedprox", "m_fednova", "m_afa_cd", "m_feddisco")
AT_40 = {
    1: dict(zip(ORDER, (0.27, 0.10, 0.075, 0.065, 0.05, 0.11), strict=True)),
    2: dict(zip(ORDER, (0.11, 0.07, 0.05, 0.045, 0.045, 0.07), strict=True)),
}
WORDS = "(OSAFL, Avg, Prox, Nova, AFA, Disco)"

CLAIMS = (
    Claim("early", "OSAFL leads in the early rounds", "curves"),
    Claim("early_loss", "OSAFL has the lowest loss in the early rounds", "curves"),
    Claim("k1_40", "accuracy at round 40, K = 1", f"27, 10, 7.5, 6.5, 5, 11 % {WORDS}"),
    Claim("k2_40", "accuracy at round 40, K = 2", f"11, 7, 5, 4.5, 4.5, 7 % {WORDS}"),
)


def cases(quick: bool) -> list[Case]:
    return setting.table_cases(["lstm"], [1, 2], quick)


def check(rows: list[Row]) -> list[Finding]:
    return [
        curves.early_lead(rows, ["lstm"], "early"),
        curves.early_lead(rows, ["lstm"], "early_loss", "loss"),
        *(curves.points(rows, f"k{k}_40", "lstm", k, ROUND, AT_40[k], setting.PUBLISHED) for k in (1, 2)),
    ]


def plot(rows: list[Row]) -> Figure:
    ran = [(k, what) for k in (1, 2) for what in ("accuracy", "loss") if setting.ran(rows, "lstm", k)]
    figure, places = panels(len(ran))
    for axes, (k, what) in zip(places, ran, strict=False):
        draw(axes, rows, "lstm", k, what, list(setting.TITLES))
        if what == "accuracy":
            axes.plot([ROUND] * len(ORDER), list(AT_40[k].values()), "x", color="#888888", label="printed")
        dress(axes, "round", f"test {what}", f"LSTM, K = {k}")
    return figure


EXPERIMENT = Experiment(
    title="OSAFL Figure 6: accuracy and loss on Dataset-2",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
