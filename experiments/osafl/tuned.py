"""LSTM and SqueezeNet1 with every method at the best of three rates, not the published one alone; K = 1.

With the published rates most methods hardly learn on these two networks. The rate that is varied is the server's if a
method has one, else the local one; a method is judged at the rate with the highest mean of best accuracies over seeds.
"""

import numpy as np
import osafl_setting as setting
from matplotlib.figure import Figure
from osafl_plots import curves

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import spread
from fedcell.experiment.plots import dress, panels

K = 1
MODELS = ("lstm", "squeezenet", "squeezenet_bn")
METHODS = ("osafl", "m_fedavg", "m_fedprox", "m_feddisco", "m_fednova_printed", "m_afa_cd")
TIMES = {"osafl": (1 / 3, 1, 3), "m_fednova_printed": (10, 30, 100)}  # times the published rate; others: 1, 3, 10
CLAIMS = tuple(
    Claim(
        f"ahead {model}", f"{setting.MODELS[model].title}: OSAFL is ahead of every baseline, each at its best rate", "-"
    )
    for model in MODELS
)


def entry(method: str, times: float) -> str:
    return method if times == 1 else f"{method} rate x{times:g}"


def grid(method: str) -> tuple[float, ...]:
    return TIMES.get(method, (1, 3, 10))


def cases(quick: bool) -> list[Case]:
    out = []
    for model in ("lstm",) if quick else MODELS:
        for method in METHODS:
            name, settings = setting.method_of(model, method)
            knob = "server_lr" if "server_lr" in settings else "lr"
            for times in grid(method):
                changed = {**settings, knob: times * settings[knob]} if times != 1 else settings
                out.append(setting.case(model, K, entry(method, times), name, changed, quick))
    return out


def best_rate(rows: list[Row], model: str, method: str) -> str:
    """The entry of a method with the highest mean; while rates are missing one of those, which decides nothing."""
    every = [entry(method, times) for times in grid(method)]
    missing = [one for one in every if not setting.ran(rows, model, K, [one])]
    return missing[0] if missing else max(every, key=lambda one: _mean(rows, model, one))


def _mean(rows: list[Row], model: str, one: str) -> float:
    return float(np.mean(setting.values(rows, setting.key(model, K, one))))


def check(rows: list[Row]) -> list[Finding]:
    found = []
    for model in MODELS:
        pairs = setting.Pairs(rows, model, K)
        best = {method: best_rate(rows, model, method) for method in METHODS}
        parts = [pairs.ahead(best["osafl"], best[method]) for method in METHODS[1:]]
        ours = ", ".join(f"{one} {spread(setting.values(rows, pairs.key(one)))}" for one in best.values())
        found.append(finding(f"ahead {model}", parts, ours, "best accuracy"))
    return found


def plot(rows: list[Row]) -> Figure:
    figure, places = panels(len(MODELS), columns=3)
    for axes, model in zip(places, MODELS, strict=True):
        best = [best_rate(rows, model, method) for method in METHODS]
        curves(axes, rows, model, K, "accuracy", [one for one in best if setting.ran(rows, model, K, [one])])
        dress(axes, "round", "test accuracy", setting.MODELS[model].title)
    return figure


EXPERIMENT = Experiment(
    title="OSAFL: every method at its best rate, LSTM and SqueezeNet1",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
