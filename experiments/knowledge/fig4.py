"""KFL Figure 4.4: schedulers under energy budgets, networks of five widths; accuracy and the most used budget.

Budgets are hard: a device that cannot pay for the round is left out. The run named soft has none but the queues, as the
source's problem is solved: that a budget is kept is judged by it, as a hard one cannot be exceeded.
"""

from typing import Any

from knowledge_setting import DATA, FRESH, chance
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import (
    Measure,
    above,
    ahead,
    early,
    final,
    finding,
    inside,
    level,
    missing,
    more,
    told_all,
    under,
    values_of,
)
from fedcell.experiment.plots import curve, dress, panels
from fedcell.options import override
from fedcell.scenarios import get

SCENARIOS = {"mnist": "knowledge", "cifar": "knowledge_cifar"}
SOFT = "V=0.01 soft"
RULES: dict[str, dict[str, Any]] = {
    "V=0.01": {"trade": 0.01},
    "V=0.1": {"trade": 0.1},
    "Round Robin": {"scheduler": "rotation", "n_selected": 5},
    "Myopic": {"scheduler": "myopic"},
    SOFT: {"trade": 0.01, "hard_budget": False},
}
PROPOSED, BASELINES = ("V=0.01", "V=0.1"), ("Round Robin", "Myopic")
QUICK, QUICK_BUDGET = {"rounds": 6, "eval_every": 1, "train.steps": 1}, 3.0
EARLY, LONG = 30, 100  # rounds
NEAR = 0.1  # share of the budget by which two uses may differ
SPENT = 0.95  # share that counts as used up: another round is worth about 0.03 of a budget
NOTHING = 1e-9  # share of a budget


def cases(quick: bool) -> list[Case]:
    if quick:
        return [_case(data, rule, quick) for data in DATA for rule in ("V=0.01", *BASELINES)]
    every = [_case(data, rule, quick) for data in DATA for rule in (*PROPOSED, *BASELINES)]
    return [*every, _case("mnist", SOFT, quick)]


def _case(data: str, rule: str, quick: bool) -> Case:
    scenario = get(SCENARIOS[data])
    settings = {**scenario.methods["knowledge"], **RULES[rule]}
    if quick:  # so few rounds that without this nobody could pay for one
        settings["mean_energy_joule"] *= QUICK_BUDGET
    config = override(scenario.config, QUICK if quick else {})
    return Case(name(data, rule), config, "knowledge", settings, seeds=FRESH[data])


def name(data: str, rule: str) -> str:
    return f"{data}/{rule}"


def used(share: float = 1.0, after: int | None = None) -> Measure:
    """The most used share of a budget after some rounds, or after a share of all."""

    def measure(row: Row) -> float:
        values = row["used_max"]
        return float(values[min(after or max(round(share * len(values)), 1), len(values)) - 1])

    return measure


def check(rows: list[Row]) -> list[Finding]:
    return [_best(rows, "mnist"), _early(rows), _end(rows), _best(rows, "cifar"), _spent(rows), _shapes(rows)]


def _keys(rows: list[Row], data: str) -> dict[str, str]:
    every = {rule: name(data, rule) for rule in RULES}
    return {rule: key for rule, key in every.items() if not missing(rows, [key])}


def _best(rows: list[Row], data: str) -> Finding:
    parts = [
        ahead(rows, name(data, own), name(data, other), value, chance, f"{when}: {own} over {other}")
        for when, value in (("early", early), ("end", final))
        for own in PROPOSED
        for other in BASELINES
    ]
    if data == "cifar":
        parts.append(ahead(rows, name(data, "V=0.1"), name(data, "V=0.01"), chance=chance, name="V=0.1 over V=0.01"))
    ours = f"final {told_all(rows, _keys(rows, data))}; first third {told_all(rows, _keys(rows, data), early)}"
    return finding(f"{data} best", parts, ours, "ahead in the first third of the rounds and at the end")


def _early(rows: list[Row]) -> Finding:
    parts = [
        more(rows, name("mnist", own), name("mnist", other), used(after=EARLY), f"{own} over {other}")
        for own in PROPOSED
        for other in BASELINES
    ]
    ours = f"after {EARLY} rounds {told_all(rows, _keys(rows, 'mnist'), used(after=EARLY), 2)}"
    return finding("mnist early", parts, ours, "most used share of a budget")


def _end(rows: list[Row]) -> Finding:
    own, its, soft = (name("mnist", rule) for rule in ("V=0.01", "Myopic", SOFT))
    parts = [
        level(rows, own, its, NEAR, used(), None, "V=0.01 as Myopic"),
        under(rows, soft, 1.0, used(), "V=0.01 without a hard budget below 1"),
    ]
    ours = told_all(rows, _keys(rows, "mnist"), used(), 2)
    return finding("mnist end", parts, ours, f"uses within {NEAR}, and a budget that queues alone keep")


def _spent(rows: list[Row]) -> Finding:
    part = above(rows, name("cifar", "V=0.1"), SPENT, used(after=LONG), "V=0.1")
    ours = f"after {LONG} rounds {told_all(rows, _keys(rows, 'cifar'), used(after=LONG), 2)}"
    return finding("cifar spent", part, ours, f"a device has used {SPENT} of its budget with V = 0.1")


def _shapes(rows: list[Row]) -> Finding:
    turns, late = name("cifar", "Round Robin"), name("cifar", "Myopic")
    half = values_of(rows, turns, lambda row: used(0.5)(row) / max(used()(row), NOTHING))
    parts = [
        inside("Round Robin at half time", half, 0.5 - NEAR, 0.5 + NEAR),
        under(rows, late, NOTHING, used(0.5), "Myopic at half time"),
    ]
    keys = _keys(rows, "cifar")
    ours = f"at half time {told_all(rows, keys, used(0.5), 2)}; at the end {told_all(rows, keys, used(), 2)}"
    return finding("cifar shapes", parts, ours, f"half of its use within {NEAR}; nothing used by then")


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
