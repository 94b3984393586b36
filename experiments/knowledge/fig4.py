"""KFL Figure 4.4: schedulers under energy budgets, networks of five widths; accuracy and the most used budget.

Budgets are hard: a device that cannot pay for the round is left out. Runs named soft have none but the queues, as the
source's problem is solved; what they use at the end is told beside.
"""

from functools import partial
from typing import Any

from knowledge_setting import DATA
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import Measure, ahead, curve, early, final, mean, missing, told_all, verdict
from fedcell.experiment.plots import dress, panels
from fedcell.options import override
from fedcell.scenarios import get

SCENARIOS = {"mnist": "knowledge", "cifar": "knowledge_cifar"}
RULES: dict[str, dict[str, Any]] = {
    "V=0.01": {"trade": 0.01},
    "V=0.1": {"trade": 0.1},
    "Round Robin": {"scheduler": "rotation", "n_selected": 5},
    "Myopic": {"scheduler": "myopic"},
    "Round Robin 10": {"scheduler": "rotation", "n_selected": 10},
    "V=0.01 soft": {"trade": 0.01, "hard_budget": False},
    "V=0.1 soft": {"trade": 0.1, "hard_budget": False},
}
PROPOSED, BASELINES = ("V=0.01", "V=0.1"), ("Round Robin", "Myopic")
SOFT = ("V=0.01 soft", "V=0.1 soft")
QUICK, QUICK_BUDGET = {"rounds": 6, "eval_every": 1, "train.steps": 1}, 3.0
EARLY, LONG = 30, 100  # rounds
NEAR = 0.1  # share of the budget by which two uses may differ
SPENT = 0.95  # share that counts as used up: another round is worth about 0.03 of a budget


def cases(quick: bool) -> list[Case]:
    rules = ("V=0.01", "Round Robin", "Myopic") if quick else tuple(RULES)
    return [_case(data, rule, quick) for data in DATA for rule in rules]


def _case(data: str, rule: str, quick: bool) -> Case:
    scenario = get(SCENARIOS[data])
    settings = {**scenario.methods["knowledge"], **RULES[rule]}
    if quick:  # so few rounds that without this nobody could pay for one
        settings["mean_energy_joule"] *= QUICK_BUDGET
    return Case(name(data, rule), override(scenario.config, QUICK if quick else {}), "knowledge", settings)


def name(data: str, rule: str) -> str:
    return f"{data}/{rule}"


def used(row: Row, share: float = 1.0, after: int | None = None) -> float:
    """The most used share of a budget after some rounds, or after a share of all."""
    values = row["used_max"]
    return float(values[(after or max(round(share * len(values)), 1)) - 1])


def at_round(number: int) -> Measure:
    return partial(used, after=number)


def check(rows: list[Row]) -> list[Finding]:
    judged = {"mnist": _mnist, "cifar": _cifar}
    ready = [data for data in DATA if not missing(rows, [name(data, rule) for rule in RULES])]
    long_ = [data for data in ready if min(len(row["used_max"]) for row in rows) >= EARLY]
    return [finding for data in long_ for finding in [_best(rows, data), *judged[data](rows)]]


def _keys(data: str, rules: tuple[str, ...] = (*PROPOSED, *BASELINES)) -> dict[str, str]:
    return {rule: name(data, rule) for rule in rules}


def _best(rows: list[Row], data: str) -> Finding:
    held = [
        ahead(rows, name(data, own), name(data, other), value)
        for value in (early, final)
        for own in PROPOSED
        for other in BASELINES
    ]
    if data == "cifar":
        held.append(ahead(rows, name(data, "V=0.1"), name(data, "V=0.01")))
    shown = {**_keys(data), "Round Robin 10": name(data, "Round Robin 10")}
    ours = f"final {told_all(rows, shown)}; first third {told_all(rows, shown, early)}"
    why = f"ahead in the first third and at the end, {sum(held)} of {len(held)} orderings"
    return Finding(f"{data} best", ours, verdict(held), why)


def _mnist(rows: list[Row]) -> list[Finding]:
    first, last = at_round(EARLY), used
    keys = _keys("mnist")
    more = [mean(rows, keys[own], first) > mean(rows, keys[other], first) for own in PROPOSED for other in BASELINES]
    own, its = mean(rows, keys["V=0.01"], last), mean(rows, keys["Myopic"], last)
    soft = told_all(rows, _keys("mnist", SOFT), last, 2)
    return [
        Finding(
            "mnist early",
            f"after {EARLY} rounds {told_all(rows, keys, first, 2)}",
            verdict(more),
            f"most used share of a budget above a baseline's {sum(more)} of {len(more)} times",
        ),
        Finding(
            "mnist end",
            f"{told_all(rows, keys, last, 2)}; without the hard budget {soft}",
            verdict([abs(own - its) <= NEAR, own <= 1 + 1e-9]),
            f"V = 0.01 within {NEAR} of Myopic, and within the budget, which is hard",
        ),
    ]


def _cifar(rows: list[Row]) -> list[Finding]:
    keys, half = _keys("cifar"), partial(used, share=0.5)
    spent = mean(rows, keys["V=0.1"], at_round(LONG))
    turns = mean(rows, keys["Round Robin"], half) / mean(rows, keys["Round Robin"], used)
    shapes = [bool(abs(turns - 0.5) <= NEAR), mean(rows, keys["Myopic"], half) == 0]
    soft = told_all(rows, _keys("cifar", SOFT), at_round(LONG), 2)
    return [
        Finding(
            "cifar spent",
            f"after {LONG} rounds {told_all(rows, keys, at_round(LONG), 2)}; without the hard budget {soft}",
            verdict([spent >= SPENT]),
            f"a device has used {SPENT} of its budget with V = 0.1",
        ),
        Finding(
            "cifar shapes",
            f"at half time {told_all(rows, keys, half, 2)}; at the end {told_all(rows, keys, used, 2)}",
            verdict(shapes),
            f"Round Robin at half time within {NEAR} of half its use; Myopic has used nothing by then",
        ),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(4)
    for line, (data, title) in enumerate(DATA.items()):
        for index, rule in enumerate(RULES):
            curve(axes[2 * line], rows, name(data, rule), index, rule)
            curve(axes[2 * line + 1], rows, name(data, rule), index, rule, "used_max")
        dress(axes[2 * line], "round", "test accuracy", title)
        dress(axes[2 * line + 1], "round", "most used share of a budget", title)
    return figure


EXPERIMENT = Experiment(
    title="Figure 4.4: scheduling under energy budgets",
    claims=(
        Claim(
            "mnist best",
            "MNIST: the proposed scheduler is faster and ends higher than Round Robin and Adaptive Myopic",
            "curves",
        ),
        Claim(
            "mnist early",
            "MNIST: with both V it spends more energy than the baselines in the first 30 rounds",
            "curves",
        ),
        Claim(
            "mnist end",
            "MNIST: with V = 0.01 it ends with the energy use of Myopic, within the budget",
            "curves; below 1",
        ),
        Claim("cifar best", "CIFAR-10: the proposed scheduler is best, with V = 0.1 above V = 0.01", "curves"),
        Claim("cifar spent", "CIFAR-10: with V = 0.1 the energy is used up early", "within the first 100 rounds"),
        Claim("cifar shapes", "CIFAR-10: Round Robin spends evenly, Myopic nothing early", "curves"),
    ),
    cases=cases,
    plot=plot,
    check=check,
    store="budgets",
)

if __name__ == "__main__":
    main(EXPERIMENT)
