"""Beyond the source, which names no lambda: how the pull to the shared class means is scaled, 10 random devices.

A mean over features, as in `nn.MSELoss`, with lambda of 1, on MNIST also of 0.1, and the sum as printed with lambda of
1, which is the mean with 32.
"""

from knowledge_setting import DATA, STORE, case, chance, config, name
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import ahead, finding, missing, told_all
from fedcell.experiment.plots import curve, dress, panels

WEAK = "KFL pull 0.1"
PULLS = {  # the runs without a pull and of the default are those of Figure 4.2
    "KFL alone": {"pull": 0.0},
    WEAK: {"pull": 0.1},
    "KFL": {},
    "KFL sum": {"pull_scale": "sum"},
}


def cases(quick: bool) -> list[Case]:
    every = [(data, rule) for data in DATA for rule in PULLS if rule != WEAK or (data == "mnist" and not quick)]
    return [case(name(data, rule, 10), config(data, quick), "KFL", 10, **PULLS[rule]) for data, rule in every]


def keys(rows: list[Row], data: str) -> dict[str, str]:
    every = {rule: name(data, rule, 10) for rule in PULLS}
    return {rule: key for rule, key in every.items() if not missing(rows, [key])}


def check(rows: list[Row]) -> list[Finding]:
    return [one(rows, data) for data in DATA for one in (_some, _mean)]


def _some(rows: list[Row], data: str) -> Finding:
    parts = [
        ahead(rows, name(data, rule, 10), name(data, "KFL alone", 10), chance=chance, name=f"{rule} over alone")
        for rule in ("KFL", WEAK)[: 1 + (data == "mnist")]
    ]
    return finding(data, parts, f"final accuracy {told_all(rows, keys(rows, data))}", "above no pull")


def _mean(rows: list[Row], data: str) -> Finding:
    part = ahead(rows, name(data, "KFL", 10), name(data, "KFL sum", 10), chance=chance, name="mean over sum")
    return finding(f"{data} mean", part, why="lambda = 1 as nn.MSELoss takes it against the printed sum")


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(len(DATA))
    for ax, (data, title) in zip(axes, DATA.items(), strict=True):
        for index, (rule, key) in enumerate(keys(rows, data).items()):
            curve(ax, rows, key, index, rule)
        dress(ax, "round", "test accuracy", title)
    return figure


EXPERIMENT = Experiment(
    title="The scale of the pull",
    claims=[
        claim
        for data, title in DATA.items()
        for claim in (
            Claim(data, f"{title}: some pull is better than none", "no runs"),
            Claim(f"{data} mean", f"{title}: a pull averaged over features is better than its sum", "no runs"),
        )
    ],
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
