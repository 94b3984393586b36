"""How content is scaled, which the paper does not say: pixels in [-1, 1] (half), in [0, 1] (unit), or standardised.

The tables use [-1, 1], where OSAFL with its published rates was quick and stable on the seeds that were tried first.
Similarities of files are those of the scaled content, so that requests differ between scalings. FCN and CNN, K = 1.
"""

import osafl_setting as setting
from matplotlib.figure import Figure
from osafl_plots import curves

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import on_every_seed, spread, under
from fedcell.experiment.measures import at_round, final, window
from fedcell.experiment.plots import dress, panels

K, EARLY = 1, 20
MODELS = ("fcn", "cnn")
METHODS = ("osafl", "m_fedavg", "m_fednova")
OTHERS = ("unit", "standard")
QUICK = {5: 0.42, 10: 0.58}  # accuracy that OSAFL with the FCN has after so many rounds, at least
LOST = 0.05  # accuracy that a stable run may lose from its best to its end

CLAIMS = (
    Claim("quick", "FCN, [-1, 1]: OSAFL has .42 after 5 and .58 after 10 rounds, on every seed", "63 % after 5 (CNN)"),
    Claim("stable", "FCN, [-1, 1]: OSAFL keeps its accuracy over 100 rounds", "curves"),
    Claim("ahead", "FCN, [-1, 1]: OSAFL is ahead of every baseline", "Table II"),
    Claim("unit", "in [0, 1] OSAFL starts more slowly than in [-1, 1]", "not in the paper"),
    Claim("standard", "standardised, OSAFL ends below what it has in [-1, 1]", "not in the paper"),
)


def entry(method: str, scaling: str) -> str:
    return method if scaling == "half" else f"{method} {scaling}"


def cases(quick: bool) -> list[Case]:
    out = [case for case in setting.table_cases(["fcn"], [K], quick) if not case.key.endswith("zero")]
    for model in MODELS[:1] if quick else MODELS:
        for scaling in ("half", *OTHERS):
            for method in METHODS:
                name, settings = setting.method_of(model, method)
                changes = {} if scaling == "half" else {"video.scaling": scaling}
                one = setting.case(model, K, entry(method, scaling), name, settings, quick, **changes)
                out.append(one if scaling == "half" else one._replace(seeds=setting.FRESH[:3]))
    return list({case.key: case for case in out}.values())


def fallen(row: Row) -> float:
    """What a run has lost from its best to its end."""
    return setting.best(row) - final(row)


def check(rows: list[Row]) -> list[Finding]:
    pairs = setting.Pairs(rows, "fcn", K)
    osafl = pairs.key("osafl")
    early = [
        on_every_seed(f"round {number} > {least}", setting.values(rows, osafl, at_round(number)), low=least)
        for number, least in QUICK.items()
    ]
    slow = [setting.Pairs(rows, model, K).ahead("osafl", "osafl unit", window(1, EARLY)) for model in MODELS]
    worse = [setting.Pairs(rows, model, K).ahead("osafl", "osafl standard", final) for model in MODELS]
    ours = "; ".join(_told(rows, model) for model in MODELS)
    leads = [pairs.ahead("osafl", baseline) for baseline in setting.BASELINES]
    return [
        finding("quick", early, ours, "every seed above"),
        finding("stable", under(rows, osafl, LOST, fallen, "best minus end"), ours, f"loses less than {LOST}"),
        finding("ahead", leads, "", "best accuracy"),
        finding("unit", slow, ours, f"mean accuracy of the first {EARLY} rounds"),
        finding("standard", worse, ours, "mean accuracy of the last tenth of the rounds"),
    ]


def _told(rows: list[Row], model: str) -> str:
    parts = []
    for scaling in ("half", *OTHERS):
        for method in METHODS:
            key = setting.key(model, K, entry(method, scaling))
            if setting.of_case(rows, key):
                at = "/".join(spread(setting.values(rows, key, at_round(number)), 3) for number in QUICK)
                end = spread(setting.values(rows, key, final), 3)
                parts.append(f"{setting.TITLES[method]} {scaling} {at}, end {end}")
    return f"{setting.MODELS[model].title}: {', '.join(parts)}"


def plot(rows: list[Row]) -> Figure:
    figure, places = panels(len(MODELS) * 3, columns=3)
    for place, (model, scaling) in enumerate((model, scaling) for model in MODELS for scaling in ("half", *OTHERS)):
        curves(places[place], rows, model, K, "accuracy", [entry(method, scaling) for method in METHODS])
        dress(places[place], "round", "test accuracy", f"{setting.MODELS[model].title}, {scaling}")
    return figure


EXPERIMENT = Experiment(
    title="OSAFL: how content is scaled",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
