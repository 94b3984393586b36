"""Figure 4: test accuracy against the round, Dataset-1, three models, K = 1 and 2."""

import numpy as np
import osafl_curves as curves
import osafl_setting as setting
from matplotlib.figure import Figure
from osafl_plots import grid
from osafl_tables import IMAGES

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import Part, accuracies, by_seed, under

ROUNDS = 100
MARGIN = 10  # rounds
AFA_ROUNDS, AFA_MOVES = 4, 0.02
CNN_REACH = 80
OSAFL_FCN, NOVA_FCN = {1: 32, 2: 46}, {1: 85, 2: 82}
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


def _fcn(rows: list[Row], claim: str, entry: str, printed: dict[int, int]) -> Finding:
    parts = [
        curves.when(rows, setting.key("fcn", k, entry), number, MARGIN, curves.saturation(), f"K={k}", ROUNDS)
        for k, number in printed.items()
    ]
    return finding(claim, parts, "", f"round with 98 % of its best within {MARGIN} ({setting.TITLES[entry]})")


def _converge(rows: list[Row]) -> Finding:
    parts = [
        curves.when(rows, setting.key(model, 1, "osafl"), number, MARGIN, curves.saturation(), model, ROUNDS)
        for model, number in CONVERGE.items()
    ]
    return finding("converge", parts, "", f"round with 98 % of its best within {MARGIN}")


def _reach(rows: list[Row], model: str, entry: str, printed: int, margin: int) -> Part:
    """When an entry has 98 % of OSAFL's best on the same seed."""
    levels = by_seed(rows, setting.key(model, 1, "osafl"), setting.best)
    name = setting.key(model, 1, entry)
    label = f"{setting.MODELS[model].title} {setting.TITLES[entry]}"
    return curves.when(rows, name, printed, margin, curves.saturation(levels), label, ROUNDS)


def _catch_up(rows: list[Row]) -> Finding:
    parts = [_reach(rows, model, setting.RETUNED, number, MARGIN) for model, number in CATCH_UP.items()]
    return finding("catch_up", parts, "", f"round with 98 % of OSAFL's best within {MARGIN} (101: never)")


def _afa_flat(rows: list[Row]) -> Finding:
    def moves(row: Row) -> float:
        late = accuracies(row)[np.array(row["rounds"]) >= AFA_ROUNDS]
        return float(late.max() - late.min())

    parts = [under(rows, setting.key("fcn", k, "m_afa_cd"), AFA_MOVES, moves, f"K={k}") for k in (1, 2)]
    rule = f"range of the accuracy from round {AFA_ROUNDS} on below {AFA_MOVES}, the paper's start of the buffer"
    return finding("afa_flat", parts, "", rule)


def _cnn_80(rows: list[Row]) -> Finding:
    parts = [_reach(rows, "cnn", entry, CNN_REACH, 2 * MARGIN) for entry in ("m_fedavg", "m_feddisco")]
    return finding("cnn_80", parts, "", f"round with 98 % of OSAFL's best within {2 * MARGIN} (101: never)")


def plot(rows: list[Row]) -> Figure:
    figure = grid(rows, IMAGES, "accuracy")
    for axes in figure.axes:
        for title, number, printed in (("SqueezeNet1, K = 1", 30, SQUEEZE_30), ("CNN, K = 1", 5, CNN_5)):
            if axes.get_title() == title:
                axes.plot([number] * len(printed), list(printed.values()), "x", color="#888888", label="printed")
                axes.legend(frameon=False, fontsize="small")
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
