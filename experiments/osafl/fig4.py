"""Figure 4: test accuracy against the round, Dataset-1, three models, K = 1 and 2."""

import numpy as np
import osafl_curves as curves
import osafl_setting as setting
from matplotlib.figure import Figure
from osafl_plots import grid
from osafl_tables import IMAGES

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import judged, spread

ROUNDS = 100
MARGIN = 10  # rounds
AFA_ROUNDS, AFA_MOVES = 4, 0.02
CNN_REACH = 80
OSAFL_FCN, NOVA_FCN = {"K=1": 32, "K=2": 46}, {"K=1": 85, "K=2": 82}
CONVERGE, CATCH_UP = {"fcn": 21, "squeezenet": 52, "cnn": 32}, {"fcn": 85, "squeezenet": 69, "cnn": 26}
SQUEEZE_30 = {
    "osafl": 0.63,
    "m_fedavg": 0.45,
    "m_fedprox": 0.43,
    "m_fednova": 0.57,
    "m_afa_cd": 0.06,
    "m_feddisco": 0.47,
}
CNN_5 = {"osafl": 0.63, "m_fedavg": 0.53, "m_fedprox": 0.39, "m_fednova": 0.53, "m_afa_cd": 0.08, "m_feddisco": 0.52}

CLAIMS = (
    Claim("early", "OSAFL leads in the early rounds, with every model and K", "curves"),
    Claim("osafl_fcn", "round at which OSAFL saturates with the FCN", "about 32 (K = 1), 46 (K = 2)"),
    Claim("nova_fcn", "round at which M-FedNova saturates with the FCN", "about 85 (K = 1), 82 (K = 2)"),
    Claim(
        "converge",
        "round at which OSAFL converges, K = 1",
        "21 (FCN; 32 elsewhere in the text), 52 (SqueezeNet1), 32 (CNN)",
    ),
    Claim("catch_up", "round at which M-FedNova catches up with OSAFL, K = 1", "85 (FCN), 69 (SqueezeNet1), 26 (CNN)"),
    Claim("afa_flat", "M-AFA-CD is flat after 4 rounds with the FCN", "4 rounds"),
    Claim(
        "squeeze_30",
        "accuracy at round 30, SqueezeNet1, K = 1",
        "63, 45, 43, 57, 6, 47 % (OSAFL, Avg, Prox, Nova, AFA, Disco)",
    ),
    Claim("cnn_5", "accuracy at round 5, CNN, K = 1", "63, 53, 39, 53, 8, 52 % (OSAFL, Avg, Prox, Nova, AFA, Disco)"),
    Claim("cnn_80", "M-FedAvg and M-FedDisco reach OSAFL with the CNN", "after about 80 rounds"),
)


def cases(quick: bool) -> list[Case]:
    return setting.table_cases(IMAGES, [1, 2], quick)


def check(rows: list[Row]) -> list[Finding]:
    return [
        curves.early_lead(rows, IMAGES, "early"),
        _fcn(rows, "osafl_fcn", "osafl", OSAFL_FCN),
        _fcn(rows, "nova_fcn", setting.RETUNED, NOVA_FCN),
        _converge(rows),
        _catch_up(rows),
        _afa_flat(rows),
        curves.points(rows, "squeeze_30", "squeezenet", 1, 30, SQUEEZE_30, setting.RETUNED),
        curves.points(rows, "cnn_5", "cnn", 1, 5, CNN_5, setting.RETUNED),
        _cnn_80(rows),
    ]


def _whole(rows: list[Row], model: str, k: int, *entries: str) -> bool:
    return all(curves.long_enough(rows, setting.key(model, k, entry), ROUNDS) for entry in entries)


def _fcn(rows: list[Row], claim: str, entry: str, printed: dict[str, int]) -> Finding:
    found = {
        f"K={k}": curves.saturation(*setting.mean_curve(rows, setting.key("fcn", k, entry)))
        for k in (1, 2)
        if _whole(rows, "fcn", k, entry)
    }
    return curves.when(claim, found, printed, MARGIN, f"98 % of its best ({setting.TITLES[entry]})")


def _converge(rows: list[Row]) -> Finding:
    found = {
        model: curves.saturation(*setting.mean_curve(rows, setting.key(model, 1, "osafl")))
        for model in IMAGES
        if _whole(rows, model, 1, "osafl")
    }
    return curves.when("converge", found, CONVERGE, MARGIN, "98 % of its best")


def _catch_up(rows: list[Row]) -> Finding:
    found = {}
    for model in IMAGES:
        if _whole(rows, model, 1, "osafl", setting.RETUNED):
            level = setting.mean_curve(rows, setting.key(model, 1, "osafl"))[1].max()
            found[model] = curves.saturation(*setting.mean_curve(rows, setting.key(model, 1, setting.RETUNED)), level)
    return curves.when("catch_up", found, CATCH_UP, MARGIN, "98 % of OSAFL's best, retuned M-FedNova (inf: never)")


def _afa_flat(rows: list[Row]) -> Finding:
    held, words = {}, []
    for k in (1, 2):
        if _whole(rows, "fcn", k, "m_afa_cd"):
            at, every = setting.curve(rows, setting.key("fcn", k, "m_afa_cd"))
            late = every[:, at >= AFA_ROUNDS]
            moves = late.max(axis=1) - late.min(axis=1)
            held[f"K={k}"] = bool(moves.mean() <= AFA_MOVES)
            words.append(f"K={k} moves by {spread(moves)} around {late.mean():.4f}")
    rule = f"range of the accuracy from round {AFA_ROUNDS} on at most {AFA_MOVES}, the paper's start of the buffer"
    return judged("afa_flat", ", ".join(words), held, rule)


def _cnn_80(rows: list[Row]) -> Finding:
    entries = ("m_fedavg", "m_feddisco")
    if not _whole(rows, "cnn", 1, "osafl", *entries):
        return setting.not_run("cnn_80")[0]
    level = setting.mean_curve(rows, setting.key("cnn", 1, "osafl"))[1].max()
    found = {
        setting.TITLES[entry]: curves.saturation(*setting.mean_curve(rows, setting.key("cnn", 1, entry)), level)
        for entry in entries
    }
    return curves.when(
        "cnn_80", found, dict.fromkeys(found, CNN_REACH), 2 * MARGIN, "98 % of OSAFL's best (inf: never)"
    )


def plot(rows: list[Row]) -> Figure:
    figure = grid(rows, IMAGES, "accuracy")
    for axes in figure.axes:
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, np.ceil(axes.get_xlim()[1]))
    return figure


EXPERIMENT = Experiment(
    title="OSAFL Figure 4: accuracy on Dataset-1",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
