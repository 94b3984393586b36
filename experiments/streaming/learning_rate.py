"""Which local rate the figures use: chosen once with ideal caches, then shared by all rules."""

import streaming_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import not_behind
from fedcell.scenarios import get

RATES = (0.05, 0.1, 0.2, 0.4)
NEAR = 0.01  # of accuracy
GRID = {f"lr={rate}": {**setting.stream("full"), "train.lr": rate} for rate in RATES}

CLAIMS = (
    Claim("rate", "the local rate of the scenario is the best of 0.05, 0.1, 0.2, 0.4 for FULL", "not given", "check"),
)


def cases(quick: bool) -> list[Case]:
    return setting.cases(GRID, quick, seeds={})


def check(rows: list[Row]) -> list[Finding]:
    parts = []
    for data in setting.SCENARIOS:
        chosen = f"{data}/lr={get(setting.SCENARIOS[data]).config.train.lr}"
        others = [f"{data}/{name}" for name in GRID if f"{data}/{name}" != chosen]
        parts += [not_behind(rows, chosen, other, NEAR, setting.tail) for other in others]
    return [finding("rate", parts, setting.table(rows, list(GRID)), f"at most {NEAR} below any other rate")]


def plot(rows: list[Row]) -> Figure:
    return setting.plot(rows, {setting.TITLES[data]: {data: list(GRID)} for data in setting.ran(rows)})


EXPERIMENT = Experiment(
    title="Streaming caches: the local rate", claims=CLAIMS, cases=cases, plot=plot, check=check, store=setting.STORE
)

if __name__ == "__main__":
    main(EXPERIMENT)
