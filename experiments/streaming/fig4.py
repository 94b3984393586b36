"""Figure 4: how far cached label shares are from the long-term ones, per round and accumulated. No training."""

import numpy as np
import streaming_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import inside, spread
from fedcell.types import Floats

RULES = ("fifo", "srsr", "drsr")
GRID = setting.grid(*((rule,) for rule in RULES))
SETTLED = 10  # rounds after which an ordering must hold without a break

CLAIMS = (
    Claim("calmer", "DRSR and SRSR have lower discrepancy and fewer fluctuations than FIFO", "no numbers in the text"),
    Claim("falling", "the discrepancy of DRSR decreases over time", "no numbers in the text"),
    Claim("accumulated", "DRSR has the lowest accumulated discrepancy throughout, before SRSR and FIFO", "no numbers"),
)


def cases(quick: bool) -> list[Case]:
    return setting.label_cases(GRID)


def check(rows: list[Row]) -> list[Finding]:
    psi = {rule: setting.discrepancy(rows, setting.name(rule)) for rule in RULES}
    if not all(len(values) for values in psi.values()):
        return []
    level = {rule: values.mean(axis=1) for rule, values in psi.items()}
    swing = {rule: values[:, SETTLED:].std(axis=1) for rule, values in psi.items()}
    calmer = [
        inside(f"{rule} {what} below FIFO", part["fifo"] - part[rule], low=0.0)
        for what, part in (("level", level), ("swing", swing))
        for rule in ("srsr", "drsr")
    ]
    words = ", ".join(f"{rule} {spread(level[rule], 3)} (swing {swing[rule].mean():.3f})" for rule in RULES)
    thirds = [part.mean(axis=1) for part in np.array_split(psi["drsr"], 3, axis=1)]
    falls = [inside(f"third {k + 2} below third {k + 1}", thirds[k] - thirds[k + 1], low=0.0) for k in range(2)]
    late = "DRSR in the thirds of the run: " + ", ".join(spread(part) for part in thirds)
    return [
        finding("calmer", calmer, f"mean psi_t: {words}", "level and swing, against FIFO"),
        finding("falling", falls, late, "each third below the one before"),
        _accumulated(psi),
    ]


def _accumulated(psi: dict[str, Floats]) -> Finding:
    total = {rule: np.cumsum(values, axis=1) for rule, values in psi.items()}
    n_rounds = total["drsr"].shape[1]
    held = [
        inside(f"{low} below {high} at round {at}", (total[high] - total[low])[:, at - 1], low=0.0)
        for low, high in (("drsr", "srsr"), ("srsr", "fifo"))
        for at in (SETTLED + 1, n_rounds // 3, 2 * n_rounds // 3, n_rounds)
    ]
    final = ", ".join(f"{rule} {spread(total[rule][:, -1], 1)}" for rule in RULES)
    ours = f"psi after {n_rounds} rounds: {final}"
    return finding("accumulated", held, ours, f"DRSR < SRSR < FIFO at four rounds from {SETTLED + 1} on")


def plot(rows: list[Row]) -> Figure:
    psi = {rule: setting.discrepancy(rows, setting.name(rule)) for rule in RULES}
    figure = Figure(figsize=(11, 4), layout="constrained")
    per_slot, accumulated = figure.subplots(1, 2)
    for rule in (one for one in RULES if len(psi[one])):
        at = np.arange(1, psi[rule].shape[1] + 1)
        per_slot.plot(at, psi[rule][0], label=rule)
        accumulated.plot(at, np.cumsum(psi[rule], axis=1).mean(axis=0), label=rule)
    per_slot.set(title="per slot, one seed", xlabel="round", ylabel="discrepancy", yscale="log")
    accumulated.set(title="accumulated, mean of seeds", xlabel="round", ylabel="discrepancy")
    for axes in (per_slot, accumulated):
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
    return figure


EXPERIMENT = Experiment(
    title="Streaming caches, Figure 4: label discrepancy",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
