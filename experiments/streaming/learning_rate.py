"""Which local rate the figures use: chosen once with ideal caches, then shared by all rules."""

import streaming_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import verdict
from fedcell.scenarios import get

RATES = (0.05, 0.1, 0.2, 0.4)
GRID = {f"lr={rate}": {**setting.stream("full"), "train.lr": rate} for rate in RATES}

CLAIMS = (Claim("rate", "the local rate of the scenario is the best of 0.05, 0.1, 0.2, 0.4 for FULL", "not given"),)


def cases(quick: bool) -> list[Case]:
    return setting.cases(GRID, quick)


def check(rows: list[Row]) -> list[Finding]:
    here = setting.ran(rows)
    held = []
    for data in here:
        best = max(GRID, key=lambda name: setting.tail(rows, f"{data}/{name}").mean())
        held.append(best == f"lr={get(setting.SCENARIOS[data]).config.train.lr}")
    ours = "; ".join(setting.table(rows, data, list(GRID)) for data in here)
    return [Finding("rate", ours, verdict(held), "highest mean accuracy over the last rounds, per data set")]


def plot(rows: list[Row]) -> Figure:
    return setting.plot(rows, {setting.TITLES[data]: {data: list(GRID)} for data in setting.ran(rows)})


EXPERIMENT = Experiment(title="Streaming caches: the local rate", claims=CLAIMS, cases=cases, plot=plot, check=check)

if __name__ == "__main__":
    main(EXPERIMENT)
