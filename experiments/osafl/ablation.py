"""What OSAFL's gain comes from: its scores, or its long step along stale normalised gradients? Not in the paper.

`score=mean` gives every client the mean score of the round: a step as long as OSAFL's own, in which no client counts
more than another. Both runs of a pair see the same channels, requests and mini-batches. Beside it the two literal
readings of the paper that fail with its own rates: `w / lr` in the slot of a client never heard, and a local step
that is a sequence of updates instead of their mean.
"""

import numpy as np
import osafl_setting as setting
from matplotlib.figure import Figure
from osafl_plots import curves

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import beyond, judged, spread, verdict
from fedcell.experiment.plots import dress, panels

PAIRS = (("fcn", 1), ("fcn", 2), ("lstm", 1), ("cnn", 1), ("squeezenet", 1))
EARLY, MARGIN = 30, 0.005  # rounds; of accuracy
LOST = 0.5  # of the accuracy of the reading used here
MATCHED, START, SEQUENCE = "osafl score=mean", "osafl never_seen=paper", "osafl inner=sequential"

CLAIMS = (
    Claim("early", "scores by similarity make OSAFL converge faster", "no such comparison in the paper"),
    Claim("best", "scores by similarity give a higher accuracy in the end", "no such comparison in the paper"),
    Claim("start", "with w / lr for clients never heard OSAFL runs as published", "Algorithm 2, lines 2 and 16"),
    Claim("sequence", "with a sequence of updates as local step OSAFL runs as published", "32 mini-batches of 5"),
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
    out.append(setting.case("fcn", 1, SEQUENCE, "osafl", {**settings, "inner": "sequential"}, quick))
    tables = {case.key: case for case in setting.table_cases(["fcn"], [1, 2], quick)}
    names = [setting.key("fcn", k, entry) for k in (1, 2) for entry in ("m_afa_cd", "m_afa_cd_zero")]
    return out + [tables[name] for name in names if name in tables]


def early(row: Row) -> float:
    """Mean accuracy over the first rounds."""
    at = np.array(row["rounds"])
    return float(np.nan_to_num(np.array(row["accuracy"]))[at <= EARLY].mean())


def final(row: Row) -> float:
    """Accuracy after the last round, 0 where the run diverged."""
    return float(np.nan_to_num(row["final_accuracy"]))


def mean_score(row: Row) -> float:
    """The mean of a run's scores, over clients heard and rounds."""
    return float(np.nanmean([np.nan if score is None else score for score in row["score_mean"]]))


def check(rows: list[Row]) -> list[Finding]:
    return [
        _scores(rows, "early", early, f"mean accuracy of the first {EARLY} rounds"),
        _scores(rows, "best", setting.best, "best accuracy"),
        _literal(rows, "start", START),
        _literal(rows, "sequence", SEQUENCE),
        _afa(rows),
    ]


def _scores(rows: list[Row], claim: str, value: object, what: str) -> Finding:
    held, words = {}, []
    for model, k in PAIRS:
        own, matched = setting.key(model, k, "osafl"), setting.key(model, k, MATCHED)
        gap = setting.gaps(rows, own, matched, value)
        if not len(gap):
            continue
        place = f"{setting.MODELS[model].title} K={k}"
        held[place] = beyond(gap, MARGIN)
        words.append(
            f"{place}: scores {spread(setting.values(rows, own, value))}, mean score for all "
            f"{spread(setting.values(rows, matched, value))}, difference {spread(gap)}, "
            f"mean score {spread(setting.values(rows, own, mean_score), 2)}"
        )
    rule = f"{what}, ahead of the same step without scores by more than {MARGIN} and its standard error"
    return judged(claim, "; ".join(words), held, rule)


def _literal(rows: list[Row], claim: str, entry: str) -> Finding:
    """The literal reading ends near the reading used here, or it does not."""
    used, literal = (setting.of_case(rows, setting.key("fcn", 1, name)) for name in ("osafl", entry))
    if not used or not literal:
        return setting.not_run(claim)[0]
    ends = np.array([final(row) for row in literal.values()])
    usual = np.array([final(row) for row in used.values()])
    how = [row["diverged"] for row in literal.values() if "diverged" in row]
    fine = [end >= LOST * usual.mean() for end in ends]
    ours = f"last accuracy {spread(ends)} against {spread(usual)}"
    ours += f"; {len(how)} of {len(ends)} diverged" + (f", as in {how[0]!r}" if how else "")
    rule = f"published rates, FCN, K = 1: ends with at least {LOST} of the accuracy of the reading used here"
    return Finding(claim, ours, verdict(fine), f"{rule}; {sum(fine)} of {len(fine)} seeds")


def _afa(rows: list[Row]) -> Finding:
    held, words = {}, []
    for k in (1, 2):
        paper, zero = (setting.key("fcn", k, entry) for entry in ("m_afa_cd", "m_afa_cd_zero"))
        if setting.of_case(rows, paper) and setting.of_case(rows, zero):
            held[f"K={k}"] = not setting.far(rows, zero, paper)
            words.append(
                f"K={k}: paper's start {spread(setting.values(rows, paper))}, zero {spread(setting.values(rows, zero))}"
            )
    rule = f"FCN: with a start at zero the best accuracy stays below {setting.FAR} times that with the paper's"
    return judged("afa", "; ".join(words), held, rule)


def plot(rows: list[Row]) -> Figure:
    ran = [(model, k) for model, k in PAIRS if setting.ran(rows, model, k)]
    figure, places = panels(len(ran))
    for axes, (model, k) in zip(places, ran, strict=False):
        curves(axes, rows, model, k, "accuracy", ["osafl", MATCHED, START, SEQUENCE, "m_afa_cd", "m_afa_cd_zero"])
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
