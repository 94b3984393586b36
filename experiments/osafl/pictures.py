"""The pictures of CIFAR-100 as content, which the paper has, instead of synthetic ones: FCN, K = 1, [-1, 1].

Needs `cifar100_one_per_class.npz`, images `x` and labels `y` with the first training image of each class, in the
working directory or in the data folder (`FEDCELL_DATA`).
"""

import osafl_setting as setting
from content_scaling import LOST, QUICK, fallen
from matplotlib.figure import Figure
from osafl_plots import curves

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import on_every_seed, spread, under
from fedcell.experiment.measures import at_round, final
from fedcell.experiment.plots import dress, panels

CONTENT = "cifar100_one_per_class.npz"
MODEL, K = "fcn", 1
ENTRIES = ("osafl", *setting.BASELINES)

CLAIMS = (
    Claim("quick", "OSAFL has .42 after 5 and .58 after 10 rounds, on every seed", "curves"),
    Claim("stable", "OSAFL keeps its accuracy over 100 rounds", "curves"),
    Claim("ahead", "OSAFL is ahead of every baseline", "Table II"),
)


def named(entry: str) -> str:
    return f"{entry} pictures"


def cases(quick: bool) -> list[Case]:
    changes = {"video.content": CONTENT}
    return [
        setting.case(MODEL, K, named(entry), *setting.method_of(MODEL, entry), quick, **changes)._replace(
            seeds=setting.FRESH[:3]
        )
        for entry in ENTRIES
    ]


def check(rows: list[Row]) -> list[Finding]:
    pairs = setting.Pairs(rows, MODEL, K)
    osafl = pairs.key(named("osafl"))
    ours = ", ".join(
        f"{setting.TITLES[entry]} {spread(setting.values(rows, pairs.key(named(entry)), final), 3)}"
        for entry in ENTRIES
    )
    early = [
        on_every_seed(f"round {number} > {least}", setting.values(rows, osafl, at_round(number)), low=least)
        for number, least in QUICK.items()
    ]
    leads = [pairs.ahead(named("osafl"), named(entry)) for entry in setting.BASELINES]
    return [
        finding("quick", early, "", "every seed above"),
        finding("stable", under(rows, osafl, LOST, fallen, "best minus end"), "", f"loses less than {LOST}"),
        finding("ahead", leads, ours, "best accuracy"),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, (axes,) = panels()
    curves(axes, rows, MODEL, K, "accuracy", [named(entry) for entry in ENTRIES])
    dress(axes, "round", "test accuracy", "FCN, K = 1, pictures of CIFAR-100")
    return figure


EXPERIMENT = Experiment(title="OSAFL: pictures of CIFAR-100", claims=CLAIMS, cases=cases, plot=plot, check=check)

if __name__ == "__main__":
    main(EXPERIMENT)
