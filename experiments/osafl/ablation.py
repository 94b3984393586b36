"""What OSAFL's gain comes from: its scores, or its long step along stale normalised gradients? Not in the paper.

`score=mean` gives every client the mean score of the round: a step as long as OSAFL's own, in which no client counts
more than another. Both runs of a pair see the same channels, requests and mini-batches. Beside it a literal reading of
the paper that fails with its own rates: `w / lr` in the slot of a client never heard.
"""

import numpy as np
import osafl_setting as setting
from matplotlib.figure import Figure
from osafl_plots import curves
from osafl_setting import key

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import Measure, inside, of_accuracy, ratio, spread
from fedcell.experiment.measures import window
from fedcell.experiment.plots import dress, panels

PAIRS = (("fcn", 1), ("fcn", 2), ("lstm", 1), ("cnn", 1), ("squeezenet", 1))
EARLY, MARGIN = 30, 0.005  # rounds; of accuracy
LOST = 0.5  # of the accuracy of the reading used here
MATCHED, START = "osafl score=mean", "osafl never_seen=paper"

CLAIMS = (
    Claim("early", "scores by similarity make OSAFL converge faster", "no such comparison in the paper"),
    Claim("best", "scores by similarity give a higher accuracy in the end", "no such comparison in the paper"),
    Claim("start", "with w / lr for clients never heard OSAFL runs as published", "Algorithm 2, lines 2 and 16"),
    Claim("afa", "M-AFA-CD fails by its design, not by the start of its buffer", "0.0566 (K = 1), 0.0447 (K = 2)"),
)


def cases(quick: bool) -> list[Case]:
    out = []
    for model, k in PAIRS:
        if quick and (setting.MODELS[model].quick is None or k == 2):
            continue
        settings = setting.method_of(model, "osafl")[1]
        out.append(setting.case(model, k, "osafl", "osafl", settings, quick))
        out.append(setting.case(model, k, MATCHED, "osafl", {**settings, "score": "mean"}, quick))
    settings = setting.method_of("fcn", "osafl")[1]
    out.append(setting.case("fcn", 1, START, "osafl", {**settings, "never_seen": "paper"}, quick))
    tables = {case.key: case for case in setting.table_cases(["fcn"], [1, 2], quick)}
    names = [setting.key("fcn", k, entry) for k in (1, 2) for entry in ("m_afa_cd", "m_afa_cd_zero")]
    return out + [tables[name] for name in names if name in tables]


@of_accuracy
def last(row: Row) -> float:
    """Accuracy after the last round, 0 if the run diverged."""
    return float(np.nan_to_num(row["final_accuracy"]))


def mean_score(row: Row) -> float:
    """The mean of a run's scores, over clients heard and rounds."""
    return float(np.nanmean([np.nan if score is None else score for score in row["score_mean"]]))


def check(rows: list[Row]) -> list[Finding]:
    return [
        _scores(rows, "early", window(1, EARLY), f"mean accuracy of the first {EARLY} rounds"),
        _scores(rows, "best", setting.best, "best accuracy"),
        _start(rows),
        _afa(rows),
    ]


def _scores(rows: list[Row], claim: str, value: Measure, what: str) -> Finding:
    parts = [setting.Pairs(rows, model, k).ahead("osafl", MATCHED, value, MARGIN) for model, k in PAIRS]
    words = []
    for model, k in PAIRS:
        if setting.ran(rows, model, k, ("osafl", MATCHED)):
            own, matched = key(model, k, "osafl"), key(model, k, MATCHED)
            words.append(
                f"{setting.MODELS[model].title} K={k}: scores {spread(setting.values(rows, own, value))}, mean score "
                f"for all {spread(setting.values(rows, matched, value))}, "
                f"mean score {spread(setting.values(rows, own, mean_score), 2)}"
            )
    return finding(
        claim, parts, "; ".join(words), f"{what}, ahead of the same step without scores by more than {MARGIN}"
    )


def _start(rows: list[Row]) -> Finding:
    """The literal start ends near the one used here, or it does not."""
    literal, used = (key("fcn", 1, entry) for entry in (START, "osafl"))
    how = [row["diverged"] for row in setting.of_case(rows, literal).values() if "diverged" in row]
    part = inside("literal / used", ratio(rows, literal, used, last), low=LOST)
    ends = [spread(setting.values(rows, name, last)) for name in (literal, used)]
    ours = f"last accuracy {ends[0]} against {ends[1]}"
    ours += f"; {len(how)} diverged, as in {how[0]!r}" if how else ""
    rule = f"published rates, FCN, K = 1: ends with at least {LOST} of the accuracy of the reading used here"
    return finding("start", part, ours, rule)


def _afa(rows: list[Row]) -> Finding:
    parts = [
        inside(
            f"K={k} zero / paper's start",
            ratio(rows, key("fcn", k, "m_afa_cd_zero"), key("fcn", k, "m_afa_cd"), setting.best),
            high=setting.FAR,
        )
        for k in (1, 2)
    ]
    rule = f"FCN: with a start at zero the best accuracy stays below {setting.FAR} times that with the paper's"
    return finding("afa", parts, "", rule)


def plot(rows: list[Row]) -> Figure:
    ran = [(model, k) for model, k in PAIRS if setting.ran(rows, model, k)]
    figure, places = panels(len(ran))
    for axes, (model, k) in zip(places, ran, strict=False):
        curves(axes, rows, model, k, "accuracy", ["osafl", MATCHED, START, "m_afa_cd", "m_afa_cd_zero"])
        dress(axes, "round", "test accuracy", f"{setting.MODELS[model].title}, K = {k}")
    return figure


EXPERIMENT = Experiment(
    title="OSAFL: scores against the same step without scores",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
