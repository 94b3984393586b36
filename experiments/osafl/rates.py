"""The rates that the paper does not give, or that do not fit its curves: M-FedNova's and the genie's.

The paper prints no rate for central SGD. M-FedNova steps by `tau * eta * sum_u p_u kappa_u d_u`; with its published
rates it hardly moves, while its published curve is second best. Both get the best of a small grid: K = 1, one seed,
30 rounds (60 for the LSTM, which starts late), highest mean accuracy over the last 10. M-FedNova keeps the published
local rate, so `tau` alone changes. The scenarios have the winners of an earlier try; the checks say where this grid has
a better one.
"""

import numpy as np
import osafl_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import Part
from fedcell.experiment.plots import dress, panels
from fedcell.report.figure import COLOURS

LAST, SEEDS = 10, (1,)
ROUNDS = {"lstm": 60}  # others: 30
NOVA = {  # tau * eta
    "fcn": (0.03, 0.06, 0.1, 0.2),
    "lstm": (0.3, 1.0, 3.0, 10.0),
    "cnn": (0.05, 0.15, 0.5, 1.5),
    "squeezenet": (0.015, 0.05, 0.15, 0.5),
}
CENTRAL = {
    "fcn": (0.03, 0.1, 0.2, 0.4),
    "lstm": (0.3, 1.0, 3.0, 10.0),
    "cnn": (0.05, 0.15, 0.5, 1.5),
    "squeezenet": (0.01, 0.03, 0.1, 0.3),
}
GRIDS = {"m_fednova": NOVA, "central": CENTRAL}
WORDS = {"m_fednova": "tau * eta", "central": "rate"}

CLAIMS = (
    Claim(
        "m_fednova",
        "M-FedNova's step in the scenarios is the best of the grid",
        "tau * eta: 0.001, 0.0015, 0.0525, 0.06",
        "check",
    ),
    Claim("central", "the genie's rate in the scenarios is the best of the grid", "not given", "check"),
)


def step(method: str, settings: dict[str, float]) -> float:
    """The number that is tuned."""
    return settings["lr"] * settings["server_lr"] if method == "m_fednova" else settings["lr"]


def changed(model: str, method: str, value: float) -> dict[str, float]:
    """The settings of the scenario with another step."""
    settings = setting.method_of(model, method)[1]
    return {**settings, **({"server_lr": value / settings["lr"]} if method == "m_fednova" else {"lr": value})}


def name(method: str, value: float) -> str:
    return f"{method} {WORDS[method]}={value:g}"


def cases(quick: bool) -> list[Case]:
    out = []
    for method, by_model in GRIDS.items():
        for model, values in by_model.items():
            if quick and not (model == "fcn" and setting.MODELS[model].quick):
                continue
            for value in values:
                found = changed(model, method, value)
                one = setting.case(model, 1, name(method, value), method, found, quick, rounds=ROUNDS.get(model, 30))
                out.append(one._replace(seeds=SEEDS))
    return out


def level(rows: list[Row], model: str, method: str, value: float) -> float:
    """Mean accuracy over the last rounds."""
    return float(setting.curve(rows, setting.key(model, 1, name(method, value)))[1][:, -LAST:].mean())


def ran(rows: list[Row], method: str) -> list[str]:
    """The models whose whole grid was run."""
    return [
        model
        for model, values in GRIDS[method].items()
        if setting.ran(rows, model, 1, [name(method, value) for value in values])
    ]


def check(rows: list[Row]) -> list[Finding]:
    found = []
    for method in GRIDS:
        parts, words = [], []
        for model in ran(rows, method):
            levels = {value: level(rows, model, method, value) for value in GRIDS[method][model]}
            winner = max(levels, key=lambda value: levels[value])
            chosen = step(method, setting.method_of(model, method)[1])
            word = "reproduced" if np.isclose(winner, chosen) else "not reproduced"
            parts.append(Part(setting.MODELS[model].title, word, len(SEEDS)))
            told = ", ".join(f"{value:g} {height:.3f}" for value, height in levels.items())
            words.append(f"{setting.MODELS[model].title}: {told} (scenario: {chosen:g}, best: {winner:g})")
        found.append(finding(method, parts, "; ".join(words), f"highest mean accuracy over the last {LAST} rounds"))
    return found


def plot(rows: list[Row]) -> Figure:
    shown = [(method, model) for method in GRIDS for model in ran(rows, method)]
    figure, places = panels(len(shown))
    for axes, (method, model) in zip(places, shown, strict=False):
        for index, value in enumerate(GRIDS[method][model]):
            at, mean = setting.mean_curve(rows, setting.key(model, 1, name(method, value)))
            axes.plot(at, mean, color=COLOURS[index], label=f"{WORDS[method]} = {value:g}")
        axes.axhline(setting.ceiling(1, 1).on_test, color="#888888", linestyle=":", label="data ceiling")
        dress(axes, "round", "test accuracy", f"{method}, {setting.MODELS[model].title}")
    return figure


EXPERIMENT = Experiment(title="OSAFL: rates the paper leaves open", claims=CLAIMS, cases=cases, plot=plot, check=check)

if __name__ == "__main__":
    main(EXPERIMENT)
