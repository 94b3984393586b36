"""Figure 5: SRSR and DRSR with batches of 30 and 150 samples a round, B = 300."""

import numpy as np
import streaming_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import verdict

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
    here = setting.ran(rows)
    ours = "; ".join(setting.table(rows, data, list(GRID)) for data in here)
    near = []
    for data in here:
        mean = {name: setting.tail(rows, f"{data}/{name}").mean() for name in GRID}
        near += [max(mean.values()) - value <= NEAR for value in mean.values()]
    return [
        Finding("reach", ours, verdict(near), f"{sum(near)} of {len(near)} within {NEAR} of the best of their data"),
        _variance(rows, here),
    ]


def _variance(rows: list[Row], here: list[str]) -> Finding:
    """Variance between runs at each evaluation, averaged over the first and the last third of the run."""
    held, words = [], []
    for data in here:
        for batch in BATCHES:
            early, late, other = (
                _between(rows, _case(data, rule, batch), part) for rule, part in (("drsr", 0), ("drsr", 2), ("srsr", 2))
            )
            held += [late < early, late < other]
            words.append(
                f"{setting.TITLES[data]} b={batch}: DRSR {early:.2e} then {late:.2e}, SRSR {other:.2e} (wobble "
                f"{setting.wobble(rows, _case(data, 'drsr', batch)).mean():.4f}, "
                f"{setting.wobble(rows, _case(data, 'srsr', batch)).mean():.4f})"
            )
    reason = f"variance between runs falls, and ends below SRSR's: {sum(held)} of {len(held)} hold"
    return Finding("variance", "; ".join(words), verdict(held), reason)


def _between(rows: list[Row], case: str, part: int) -> float:
    values = np.array_split(setting.curves(rows, case), 3, axis=1)[part]
    return float(values.var(axis=0, ddof=1).mean()) if len(values) > 1 else float("nan")


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
    title="Streaming caches, Figure 5: size of the batch", claims=CLAIMS, cases=cases, plot=plot, check=check
)

if __name__ == "__main__":
    main(EXPERIMENT)
