"""Figure 6: SRSR and DRSR with caches of 100 and 300 samples, a tenth of it arriving a round."""

import numpy as np
import streaming_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import Part, below, by_seed, near, of_accuracy

RULES = ("srsr", "drsr")
GRID = setting.grid(*((rule, capacity, capacity // 10) for rule in RULES for capacity in (100, 300)))
AT = 200  # round
PRINTED = {100: 0.72, 300: 0.83}  # the rule is not said
NEAR = 0.05
SHARE = 0.9
SEEDS = {**setting.FRESH, "fashion": (1, 2, 3, 4, 5)}  # one of the first three diverged with a small cache

CLAIMS = (
    Claim("better", "a larger cache gives higher accuracy", "no numbers but those of the next claim"),
    Claim("at_200", "accuracy at round 200 on the traffic data", "0.72 for B = 100, 0.83 for B = 300"),
    Claim("faster", "a larger cache trains faster", "no numbers in the text"),
)


def _case(data: str, rule: str, capacity: int) -> str:
    return f"{data}/{setting.name(rule, capacity, capacity // 10)}"


def cases(quick: bool) -> list[Case]:
    return setting.cases(GRID, quick, SEEDS)


def check(rows: list[Row]) -> list[Finding]:
    pairs = [(_case(data, rule, 300), _case(data, rule, 100)) for data in setting.SCENARIOS for rule in RULES]
    ours = setting.table(rows, list(GRID))
    sooner = f"fewer rounds to {SHARE:.0%} of the smaller cache's last accuracy"
    return [
        finding("better", [setting.beats(rows, large, small) for large, small in pairs], ours, "last rounds"),
        _at_200(rows),
        finding("faster", [_faster(rows, large, small) for large, small in pairs], "", sooner),
    ]


def _at_200(rows: list[Row]) -> Finding:
    """Of the rule that comes nearer, since the paper does not say which one it is."""
    parts = {
        rule: [near(rows, _case("traffic", rule, size), PRINTED[size], NEAR, at_200) for size in PRINTED]
        for rule in RULES
    }
    rule = min(
        RULES,
        key=lambda one: sum(abs(part.mean - paper) for part, paper in zip(parts[one], PRINTED.values(), strict=True)),
    )
    return finding("at_200", parts[rule], "", f"within {NEAR}; of {rule.upper()}, which comes nearer")


@of_accuracy
def at_200(row: Row) -> float:
    """Accuracy after round 200; NaN if it was not evaluated."""
    found = setting.accuracies(row)[np.array(row["rounds"]) == AT]
    return float(found[0]) if len(found) else np.nan


def _faster(rows: list[Row], large: str, small: str) -> Part:
    """Rounds saved until each seed has a share of what the smaller cache has on it in the end."""
    level = {seed: SHARE * value for seed, value in by_seed(rows, small, setting.tail).items()}

    def needed(row: Row) -> float:
        there = np.flatnonzero(setting.accuracies(row) >= level.get(row["seed"], np.inf))
        return float(row["rounds"][there[0] if len(there) else -1])

    return below(rows, large, small, needed, f"{large} sooner")


def plot(rows: list[Row]) -> Figure:
    return setting.plot(rows, {setting.TITLES[data]: {data: list(GRID)} for data in setting.ran(rows)})


EXPERIMENT = Experiment(
    title="Streaming caches, Figure 6: size of the cache",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
