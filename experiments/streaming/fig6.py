"""Figure 6: SRSR and DRSR with caches of 100 and 300 samples, a tenth of it arriving a round."""

import numpy as np
import streaming_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import verdict

RULES = ("srsr", "drsr")
GRID = setting.grid(*((rule, capacity, capacity // 10) for rule in RULES for capacity in (100, 300)))
AT = 200  # round
PRINTED = {100: 0.72, 300: 0.83}  # the rule is not said
NEAR = 0.05

CLAIMS = (
    Claim("better", "a larger cache gives higher accuracy", "no numbers but those of the next claim"),
    Claim("at_200", "accuracy at round 200 on the traffic data", "0.72 for B = 100, 0.83 for B = 300"),
    Claim("faster", "a larger cache trains faster", "no numbers in the text"),
)


def _case(data: str, rule: str, capacity: int) -> str:
    return f"{data}/{setting.name(rule, capacity, capacity // 10)}"


def cases(quick: bool) -> list[Case]:
    return setting.cases(GRID, quick)


def check(rows: list[Row]) -> list[Finding]:
    here = setting.ran(rows)
    pairs = [(_case(data, rule, 300), _case(data, rule, 100)) for data in here for rule in RULES]
    better = [setting.beats(setting.tail(rows, large), setting.tail(rows, small)) for large, small in pairs]
    needed = [(large, _reach(rows, large, small), _reach(rows, small, small)) for large, small in pairs]
    faster = [setting.beats(few_samples, many_samples) for _, many_samples, few_samples in needed]
    ours = "; ".join(setting.table(rows, data, list(GRID)) for data in here)
    reach = "; ".join(
        f"{name}: {setting.spread(many, 0)} against {setting.spread(few, 0)}" for name, many, few in needed
    )
    ahead = f"last rounds, larger above smaller: {sum(better)} of {len(better)} hold"
    sooner = f"fewer rounds to 90 % of the smaller cache's last accuracy: {sum(faster)} of {len(faster)} hold"
    return [
        Finding("better", ours, verdict(better), ahead),
        _at_200(rows) if "traffic" in here else Finding("at_200", "", "not run", setting.ABSENT),
        Finding("faster", reach, verdict(faster), sooner),
    ]


def _at_200(rows: list[Row]) -> Finding:
    at = setting.rounds(rows, _case("traffic", "drsr", 300))
    if AT not in at:
        return Finding("at_200", "", "not run", f"round {AT} was not evaluated")
    values = {
        (rule, capacity): setting.curves(rows, _case("traffic", rule, capacity))[:, at == AT][:, 0]
        for rule in RULES
        for capacity in PRINTED
    }
    near = [
        all(abs(values[rule, capacity].mean() - PRINTED[capacity]) <= NEAR for capacity in PRINTED) for rule in RULES
    ]
    order = [setting.beats(values[rule, 300], values[rule, 100]) for rule in RULES]
    found = "reproduced" if any(near) else "partly" if all(order) else "not reproduced"
    ours = ", ".join(f"{rule} B={capacity} {setting.spread(value)}" for (rule, capacity), value in values.items())
    return Finding("at_200", ours, found, f"both numbers within {NEAR} for one rule; partly: the larger cache is ahead")


def _reach(rows: list[Row], case: str, reference: str) -> np.ndarray:
    """The first round at which each seed has 90 % of the reference's last accuracy; the end of the run if never."""
    at, level = setting.rounds(rows, case), 0.9 * setting.tail(rows, reference)
    there = setting.curves(rows, case) >= level[:, None]
    return np.where(there.any(axis=1), at[there.argmax(axis=1)], at[-1]).astype(float)


def plot(rows: list[Row]) -> Figure:
    return setting.plot(rows, {setting.TITLES[data]: {data: list(GRID)} for data in setting.ran(rows)})


EXPERIMENT = Experiment(
    title="Streaming caches, Figure 6: size of the cache", claims=CLAIMS, cases=cases, plot=plot, check=check
)

if __name__ == "__main__":
    main(EXPERIMENT)
