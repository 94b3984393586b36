"""FL-GR section 5.5.3: the same schedulers without recycling, where Random is said to be worse than STP and GI."""

from matplotlib.figure import Figure
from recycling_schedulers import SCHEDULERS, STORE
from recycling_setting import TITLES, case, curve

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import ahead, finding, told_all
from fedcell.experiment.plots import dress, panels

NAMES = ("Random", "STP", "GI cached")
KEYS = {name: f"tight/W/GR {name}" for name in NAMES}


def cases(quick: bool) -> list[Case]:
    return [case(KEYS[name], quick, rule="received", **SCHEDULERS[name]) for name in (NAMES[:2] if quick else NAMES)]


def check(rows: list[Row]) -> list[Finding]:
    parts = [ahead(rows, KEYS[name], KEYS["Random"], name=name) for name in NAMES if name != "Random"]
    return [finding("contrast", parts, told_all(rows, KEYS), "ahead of Random")]


def plot(rows: list[Row]) -> Figure:
    figure, (ax,) = panels(1)
    for index, name in enumerate(NAMES):
        curve(ax, rows, KEYS[name], index, "seconds")
    dress(ax, "seconds", "test accuracy", f"mean over the devices heard, {TITLES['tight']}")
    return figure


EXPERIMENT = Experiment(
    title="FL-GR section 5.5.3: schedulers without recycling",
    claims=(Claim("contrast", "without recycling, Random is worse than STP and GI", "stated, no numbers"),),
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
