"""Beyond the source, which names no lambda: how strong a pull to the shared class means helps, 10 random devices."""

from knowledge_setting import DATA, STORE, case, config, name
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import ahead, curve, gap, mean, missing, told_all, verdict
from fedcell.experiment.plots import dress, panels

PULLS = (0.0, 0.01, 0.1, 1.0, 10.0)
DEFAULT = 1.0


def key(data: str, pull: float) -> str:
    """The runs of lambda = 0 and 1 are those of Figure 4.2."""
    return name(data, {0.0: "KFL alone", DEFAULT: "KFL"}.get(pull, f"KFL pull {pull:g}"), 10)


def cases(quick: bool) -> list[Case]:
    some = (0.0, DEFAULT) if quick else PULLS
    return [case(key(data, pull), config(data, quick), "KFL", 10, **_setting(pull)) for data in DATA for pull in some]


def _setting(pull: float) -> dict[str, float]:
    return {} if pull == DEFAULT else {"pull": pull}


def check(rows: list[Row]) -> list[Finding]:
    return [_of(rows, data) for data in DATA if not missing(rows, [key(data, pull) for pull in PULLS])]


def _of(rows: list[Row], data: str) -> Finding:
    keys = {f"{pull:g}": key(data, pull) for pull in PULLS}
    best = max(PULLS[1:], key=lambda pull: mean(rows, key(data, pull)))
    lead = 100 * gap(rows, key(data, best), key(data, 0.0)).mean()
    held = [ahead(rows, key(data, best), key(data, 0.0))]
    why = f"the best lambda is {best:g}, {lead:+.2f} points over none; reproduced: beyond its standard error"
    return Finding(data, f"final accuracy by lambda: {told_all(rows, keys)}", verdict(held), why)


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(len(DATA))
    for ax, (data, title) in zip(axes, DATA.items(), strict=True):
        for index, pull in enumerate(PULLS):
            curve(ax, rows, key(data, pull), index, f"lambda {pull:g}")
        dress(ax, "round", "test accuracy", title)
    return figure


EXPERIMENT = Experiment(
    title="The strength of the pull",
    claims=[Claim(data, f"{title}: some pull is better than none", "no runs") for data, title in DATA.items()],
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
