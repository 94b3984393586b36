"""LSTM and SqueezeNet1 at other rates than the published one; K = 1.

With the published rates most methods hardly learn with the LSTM, where every method has three rates. With SqueezeNet1
the baselines learn, and OSAFL is unstable: there OSAFL alone has three steps, and the baselines are those of the
tables, the retuned M-FedNova among them. The rate that is varied is the server's if a method has one, else the local
one; a method is judged at the rate with the highest mean of best accuracies over seeds.
"""

import numpy as np
import osafl_setting as setting
from matplotlib.figure import Figure
from osafl_plots import curves

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import spread
from fedcell.experiment.plots import dress, panels

K = 1
OURS = "osafl"
STEPS = (1 / 3, 1, 3)  # times OSAFL's published one
RATES = {"m_fednova_printed": (10, 30, 100)}  # times the published one, of baselines with the LSTM; others: 1, 3, 10
RIVALS = {
    "lstm": ("m_fedavg", "m_fedprox", "m_feddisco", "m_fednova_printed", "m_afa_cd"),
    "squeezenet": setting.BASELINES,
    "squeezenet_bn": setting.BASELINES,
}


def claim(model: str) -> Claim:
    title = setting.MODELS[model].title
    if model == "lstm":
        return Claim(f"ahead {model}", f"{title}: OSAFL is ahead of every baseline, each at its best rate", "-")
    return Claim(f"ahead {model}", f"{title}: OSAFL at its best step is ahead of every baseline of the tables", "-")


def entry(method: str, times: float) -> str:
    return method if times == 1 else f"{method} rate x{times:g}"


def grid(model: str, method: str) -> tuple[float, ...]:
    if method == OURS:
        return STEPS
    return RATES.get(method, (1, 3, 10)) if model == "lstm" else (1,)


def cases(quick: bool) -> list[Case]:
    out = []
    for model in ("lstm",) if quick else RIVALS:
        for method in (OURS, *RIVALS[model]):
            name, settings = setting.method_of(model, method)
            knob = "server_lr" if "server_lr" in settings else "lr"
            for times in grid(model, method):
                changed = {**settings, knob: times * settings[knob]} if times != 1 else settings
                out.append(setting.case(model, K, entry(method, times), name, changed, quick))
    return out


def best_rate(rows: list[Row], model: str, method: str) -> str:
    """The entry of a method with the highest mean; while rates are missing one of those, which decides nothing."""
    every = [entry(method, times) for times in grid(model, method)]
    missing = [one for one in every if not setting.ran(rows, model, K, [one])]
    return missing[0] if missing else max(every, key=lambda one: _mean(rows, model, one))


def _mean(rows: list[Row], model: str, one: str) -> float:
    return float(np.mean(setting.values(rows, setting.key(model, K, one))))


def check(rows: list[Row]) -> list[Finding]:
    found = []
    for model, rivals in RIVALS.items():
        pairs = setting.Pairs(rows, model, K)
        best = {method: best_rate(rows, model, method) for method in (OURS, *rivals)}
        parts = [pairs.ahead(best[OURS], best[method]) for method in rivals]
        ours = ", ".join(f"{one} {spread(setting.values(rows, pairs.key(one)))}" for one in best.values())
        found.append(finding(f"ahead {model}", parts, ours, "best accuracy"))
    return found


def plot(rows: list[Row]) -> Figure:
    figure, places = panels(len(RIVALS), columns=3)
    for axes, (model, rivals) in zip(places, RIVALS.items(), strict=True):
        best = [best_rate(rows, model, method) for method in (OURS, *rivals)]
        curves(axes, rows, model, K, "accuracy", [one for one in best if setting.ran(rows, model, K, [one])])
        dress(axes, "round", "test accuracy", setting.MODELS[model].title)
    return figure


EXPERIMENT = Experiment(
    title="OSAFL: other rates, LSTM and SqueezeNet1",
    claims=tuple(claim(model) for model in RIVALS),
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
