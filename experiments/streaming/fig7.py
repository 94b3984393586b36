"""Figure 7: the weight theta of SRSR with 30 and with 150 samples a round, B = 300; DRSR beside it."""

from itertools import pairwise

import numpy as np
import streaming_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import Part, inside, mean, missing, more, not_behind, spread
from fedcell.types import Floats

BATCHES = (30, 150)
THETAS = tuple(setting.THETAS)
GRID = setting.grid(
    *(("srsr", 300, batch, theta) for batch in BATCHES for theta in setting.THETAS),
    *(("drsr", 300, batch) for batch in BATCHES),
)
NEAR = 0.01  # of accuracy

CLAIMS = (
    Claim("large_batch", "with large batches (150) a smaller theta learns better", "no numbers in the text"),
    Claim("variation", "with large batches a larger theta raises the variation", "no numbers in the text"),
    Claim("small_batch", "with small batches (30) a small theta hurts, by a slow start", "no numbers in the text"),
    Claim("drsr", "DRSR removes the need to choose theta", "no numbers in the text"),
    Claim(
        "labels_large", "with large batches a smaller theta keeps labels nearer to their long-term law", "no numbers"
    ),
    Claim(
        "labels_small", "with small batches a small theta starts far from the long-term law", "no numbers in the text"
    ),
)


def cases(quick: bool) -> list[Case]:
    return [
        *setting.cases(GRID, quick),
        *setting.label_cases({name: GRID[name] for b in BATCHES for name in _names(b)}),
    ]


def check(rows: list[Row]) -> list[Finding]:
    large, small = (_table(rows, batch) for batch in BATCHES[::-1])
    first, last = THETAS[0], THETAS[-1]
    variation = [
        more(rows, _case(data, 150, last), _case(data, 150, first), setting.wobble) for data in setting.SCENARIOS
    ]
    return [
        finding("large_batch", _falling(rows), large, "from each theta to the next, in the last rounds"),
        finding("variation", variation, "", "change between evaluations in the last third, theta 1 against 0.1"),
        finding(
            "small_batch", [_slow_start(rows, data) for data in setting.SCENARIOS], small, "first third of the run"
        ),
        finding("drsr", _free(rows), f"{small}; {large}", f"at most {NEAR} below the best theta in the last rounds"),
        *_labels(rows),
    ]


def _case(data: str, batch: int, theta: str) -> str:
    return f"{data}/{setting.name('srsr', 300, batch, theta)}"


def _falling(rows: list[Row]) -> list[Part]:
    return [
        setting.beats(rows, _case(data, 150, less), _case(data, 150, more_), name=f"{data} theta {less} > {more_}")
        for data in setting.SCENARIOS
        for less, more_ in pairwise(setting.THETAS)
    ]


def _slow_start(rows: list[Row], data: str) -> Part:
    """The smallest theta against the best of the others, early."""
    first, others = THETAS[0], THETAS[1:]
    ran = [theta for theta in others if not missing(rows, [_case(data, 30, theta)])]
    best = max(ran, key=lambda theta: mean(rows, _case(data, 30, theta), setting.third(0)), default=others[0])
    return setting.beats(
        rows, _case(data, 30, best), _case(data, 30, first), setting.third(0), f"{data} theta {best} > {first}"
    )


def _free(rows: list[Row]) -> list[Part]:
    out = []
    for data in setting.SCENARIOS:
        for batch in BATCHES:
            keys = [_case(data, batch, theta) for theta in setting.THETAS]
            ran = [key for key in keys if not missing(rows, [key])]
            best = max(ran, key=lambda key: mean(rows, key, setting.tail), default=keys[0])
            out.append(not_behind(rows, f"{data}/{setting.name('drsr', 300, batch)}", best, NEAR, setting.tail))
    return out


def _labels(rows: list[Row]) -> list[Finding]:
    """The same by what theta does to the cached labels, which needs no training."""
    late, early = ({theta: _third(rows, batch, theta, part) for theta in THETAS} for batch, part in ((150, 2), (30, 0)))
    rises = [inside(f"theta {a} < {b}", late[b] - late[a], low=0.0) for a, b in pairwise(THETAS)]
    first, others = THETAS[0], THETAS[1:]
    slow = [inside(f"theta {first} above {theta}", early[first] - early[theta], low=0.0) for theta in others]
    rising, high = "psi_t rises from each theta to the next, b = 150", "psi_t of theta 0.1 above every other, b = 30"
    return [
        finding("labels_large", rises, f"last third: {_told(late)}", rising),
        finding("labels_small", slow, f"first third: {_told(early)}", high),
    ]


def _third(rows: list[Row], batch: int, theta: str, part: int) -> Floats:
    """Mean discrepancy over a third of the run, `[n_seeds]`."""
    psi = setting.discrepancy(rows, setting.name("srsr", 300, batch, theta))
    return np.array_split(psi, 3, axis=1)[part].mean(axis=1)


def _told(values: dict[str, Floats]) -> str:
    return ", ".join(f"theta {theta} {spread(value, 3)}" for theta, value in values.items())


def _table(rows: list[Row], batch: int) -> str:
    return setting.table(rows, [*_names(batch), setting.name("drsr", 300, batch)])


def _names(batch: int) -> list[str]:
    return [setting.name("srsr", 300, batch, theta) for theta in setting.THETAS]


def plot(rows: list[Row]) -> Figure:
    panels = {
        f"{setting.TITLES[data]}, {batch} a round": {data: [*_names(batch), setting.name("drsr", 300, batch)]}
        for data in setting.ran(rows)
        for batch in BATCHES
    }
    figure = setting.plot(rows, panels, extra=2)
    for axes, batch in zip(figure.axes[-2:], BATCHES, strict=True):
        for theta in setting.THETAS:
            psi = setting.discrepancy(rows, setting.name("srsr", 300, batch, theta))
            if len(psi):
                axes.plot(np.arange(1, psi.shape[1] + 1), psi.mean(axis=0), label=f"theta {theta}")
        axes.set(title=f"labels, {batch} a round", xlabel="round", ylabel="discrepancy of the labels", yscale="log")
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
    return figure


EXPERIMENT = Experiment(
    title="Streaming caches, Figure 7: the weight theta",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
