"""Figure 7: the weight theta of SRSR with 30 and with 150 samples a round, B = 300; DRSR beside it."""

import numpy as np
import streaming_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import verdict

BATCHES = (30, 150)
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
)


def cases(quick: bool) -> list[Case]:
    return setting.cases(GRID, quick)


def check(rows: list[Row]) -> list[Finding]:
    here = setting.ran(rows)
    return [_large(rows, here), _variation(rows, here), _small(rows, here), _drsr(rows, here)]


def _names(batch: int) -> list[str]:
    return [setting.name("srsr", 300, batch, theta) for theta in setting.THETAS]


def _table(rows: list[Row], here: list[str], batch: int) -> str:
    return "; ".join(setting.table(rows, data, [*_names(batch), setting.name("drsr", 300, batch)]) for data in here)


def _large(rows: list[Row], here: list[str]) -> Finding:
    held = []
    for data in here:
        tails = [setting.tail(rows, f"{data}/{name}") for name in _names(150)]
        means = [values.mean() for values in tails]
        held += [setting.beats(tails[0], tails[-1]), means == sorted(means, reverse=True)]
    reason = f"theta 0.1 above 1, and all four in order, on each data set: {sum(held)} of {len(held)} hold"
    return Finding("large_batch", _table(rows, here, 150), verdict(held), reason)


def _variation(rows: list[Row], here: list[str]) -> Finding:
    held, words = [], []
    for data in here:
        swing = [setting.wobble(rows, f"{data}/{name}") for name in _names(150)]
        held.append(setting.beats(swing[-1], swing[0]))
        words.append(f"{setting.TITLES[data]} " + ", ".join(f"{value.mean():.4f}" for value in swing))
    ours = f"change between evaluations, theta {', '.join(setting.THETAS)}: {'; '.join(words)}"
    return Finding("variation", ours, verdict(held), "that of theta 1 above that of theta 0.1")


def _small(rows: list[Row], here: list[str]) -> Finding:
    held, words = [], []
    for data in here:
        early = [setting.third(rows, f"{data}/{name}", 0) for name in _names(30)]
        best = int(np.argmax([values.mean() for values in early]))
        held.append(best != 0 and setting.beats(early[best], early[0]))
        words.append(f"{setting.TITLES[data]} " + ", ".join(setting.spread(values) for values in early))
    ours = f"first third, theta {', '.join(setting.THETAS)}: {'; '.join(words)}; last rounds: {_table(rows, here, 30)}"
    return Finding("small_batch", ours, verdict(held), "theta 0.1 below the best theta in the first third")


def _drsr(rows: list[Row], here: list[str]) -> Finding:
    held = []
    for data in here:
        for batch in BATCHES:
            best = max(setting.tail(rows, f"{data}/{name}").mean() for name in _names(batch))
            held.append(bool(setting.tail(rows, f"{data}/{setting.name('drsr', 300, batch)}").mean() >= best - NEAR))
    ours = "; ".join(_table(rows, here, batch) for batch in BATCHES)
    reason = f"within {NEAR} of the best theta: {sum(held)} of {len(held)} hold"
    return Finding("drsr", ours, verdict(held), reason)


def plot(rows: list[Row]) -> Figure:
    panels = {
        f"{setting.TITLES[data]}, {batch} a round": {data: [*_names(batch), setting.name("drsr", 300, batch)]}
        for data in setting.ran(rows)
        for batch in BATCHES
    }
    return setting.plot(rows, panels)


EXPERIMENT = Experiment(
    title="Streaming caches, Figure 7: the weight theta", claims=CLAIMS, cases=cases, plot=plot, check=check
)

if __name__ == "__main__":
    main(EXPERIMENT)
