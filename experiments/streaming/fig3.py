"""Figure 3: test accuracy of the cache rules and their two references, B = 300, b = 150, theta = 2/3."""

import numpy as np
import streaming_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import Part, by_seed, inside

RULES = ("full", "drsr", "srsr", "fifo", "lazy")
GRID = setting.grid(*((rule, 300, 150) for rule in RULES))
NEAR = 0.25  # of the distance between FULL and LAZY

CLAIMS = (
    Claim("beat_lazy", "DRSR, SRSR and FIFO outperform LAZY, particularly late", "no numbers in the text"),
    Claim("beat_fifo", "DRSR and SRSR outperform FIFO in the entire learning process", "no numbers in the text"),
    Claim("near_full", "DRSR and SRSR achieve performance close to FULL on the traffic data", "no numbers in the text"),
    Claim("lazy_gap", "the gain over LAZY is large on the traffic data, less so on FMNIST", "no numbers in the text"),
)


def _case(data: str, rule: str) -> str:
    return f"{data}/{setting.name(rule)}"


def cases(quick: bool) -> list[Case]:
    return setting.cases(GRID, quick)


def check(rows: list[Row]) -> list[Finding]:
    ours = setting.table(rows, list(GRID))
    lazy = [
        setting.beats(rows, _case(data, rule), _case(data, "lazy"))
        for data in setting.SCENARIOS
        for rule in ("drsr", "srsr", "fifo")
    ]
    fifo = [
        setting.beats(
            rows, _case(data, rule), _case(data, "fifo"), setting.third(part), f"{data} {rule}, third {part + 1}"
        )
        for data in setting.SCENARIOS
        for rule in ("drsr", "srsr")
        for part in range(3)
    ]
    return [
        finding("beat_lazy", lazy, ours, f"last {setting.TAIL} rounds"),
        finding("beat_fifo", fifo, ours, "each third of the run"),
        finding("near_full", [_near(rows, rule) for rule in ("drsr", "srsr")], ours, _NEAR),
        finding("lazy_gap", _gap(rows), ours, "mean gain of the three rules over LAZY, traffic minus Fashion-MNIST"),
    ]


_NEAR = f"at most {NEAR} of the way from FULL down to LAZY, on the traffic data"


def _near(rows: list[Row], rule: str) -> Part:
    """Below FULL by less than a share of the distance to LAZY, seed by seed."""
    full, own, lazy = (by_seed(rows, _case("traffic", one), setting.tail) for one in ("full", rule, "lazy"))
    common = sorted(full.keys() & own.keys() & lazy.keys())
    room = np.array([NEAR * (full[seed] - lazy[seed]) - (full[seed] - own[seed]) for seed in common])
    return inside(f"{rule} near FULL", room, low=0.0, unit="points")


def _gap(rows: list[Row]) -> Part:
    gains = []
    for data in setting.SCENARIOS:
        every = [by_seed(rows, _case(data, rule), setting.tail) for rule in ("drsr", "srsr", "fifo", "lazy")]
        common = set.intersection(*(set(one) for one in every))
        gains.append({seed: np.mean([one[seed] for one in every[:3]]) - every[3][seed] for seed in common})
    both = sorted(gains[0].keys() & gains[1].keys())
    return inside(
        "traffic > Fashion-MNIST", np.array([gains[0][seed] - gains[1][seed] for seed in both]), low=0.0, unit="points"
    )


def plot(rows: list[Row]) -> Figure:
    return setting.plot(rows, {setting.TITLES[data]: {data: list(GRID)} for data in setting.ran(rows)})


EXPERIMENT = Experiment(
    title="Streaming caches, Figure 3: accuracy of the cache rules",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
