"""Figure 5: SRSR and DRSR with batches of 30 and 150 samples a round, B = 300."""

import numpy as np
import streaming_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import Part, inside, mean, missing, not_behind
from fedcell.types import Floats

BATCHES = (30, 150)
GRID = setting.grid(*((rule, 300, batch) for batch in BATCHES for rule in ("srsr", "drsr")))
NEAR = 0.03  # of accuracy

CLAIMS = (
    Claim("reach", "both rules achieve the desired accuracy with small and large batches", "no numbers in the text"),
    Claim("variance", "the variance of DRSR decreases and ends well below that of SRSR", "no numbers in the text"),
)


def _case(data: str, rule: str, batch: int) -> str:
    return f"{data}/{setting.name(rule, 300, batch)}"


def cases(quick: bool) -> list[Case]:
    return setting.cases(GRID, quick)


def check(rows: list[Row]) -> list[Finding]:
    ours = setting.table(rows, list(GRID))
    near = [part for data in setting.SCENARIOS for part in _near_best(rows, data)]
    varied = [part for data in setting.SCENARIOS for batch in BATCHES for part in _variance(rows, data, batch)]
    return [
        finding("reach", near, ours, f"at most {NEAR} below the best of the data set"),
        finding(
            "variance",
            varied,
            "",
            "distance of runs from their mean: of DRSR late against early, and late against SRSR's",
        ),
    ]


def _near_best(rows: list[Row], data: str) -> list[Part]:
    keys = [f"{data}/{name}" for name in GRID]
    ran = [key for key in keys if not missing(rows, [key])]
    best = max(ran, key=lambda key: mean(rows, key, setting.tail), default=keys[0])
    return [not_behind(rows, key, best, NEAR, setting.tail) for key in keys if key != best]


def _variance(rows: list[Row], data: str, batch: int) -> list[Part]:
    """The spread between runs, in the first and the last third."""
    drsr, srsr = (_case(data, rule, batch) for rule in ("drsr", "srsr"))
    early, late, other = (_between(rows, case, part) for case, part in ((drsr, 0), (drsr, 2), (srsr, 2)))
    place = f"{setting.TITLES[data]} b={batch}"
    n = min(len(late), len(other))
    return [
        inside(f"{place} DRSR falls", early - late, low=0.0),
        inside(f"{place} DRSR below SRSR", other[:n] - late[:n], low=0.0),
    ]


def _between(rows: list[Row], case: str, part: int) -> Floats:
    """Mean distance of every run from the mean of the runs over a third of the run, `[n_seeds]`."""
    every = setting.curves(rows, case)
    if len(every) < 2:
        return np.empty(0)
    values = np.array_split(every, 3, axis=1)[part]
    return np.asarray(np.abs(values - values.mean(axis=0)).mean(axis=1))


def plot(rows: list[Row]) -> Figure:
    panels = {
        f"{setting.TITLES[data]}, {batch} a round": {
            data: [setting.name(rule, 300, batch) for rule in ("srsr", "drsr")]
        }
        for data in setting.ran(rows)
        for batch in BATCHES
    }
    return setting.plot(rows, panels)


EXPERIMENT = Experiment(
    title="Streaming caches, Figure 5: size of the batch",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
