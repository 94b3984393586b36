"""Accuracy with the optimal assignment of users and blocks against random ones, on MNIST with 6 and 9 blocks."""

from functools import partial

import joint_setting as setting
import numpy as np
from matplotlib.figure import Figure

from fedcell import methods
from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import ahead, below, final, told_all
from fedcell.experiment.measures import column
from fedcell.experiment.plots import curve, dress, panels
from fedcell.experiment.runs import data_of
from fedcell.scenarios import Config, build_problem
from fedcell.simulate import simulate

SEEDS = (1, 2, 3, 4, 5)
ROUNDS, QUICK_ROUNDS = 60, 5

CLAIMS = (
    Claim(
        "blocks",
        "the optimal assignment learns more than the same users on random blocks",
        "preprint: up to 10 % less loss",
    ),
    Claim(
        "users",
        "the optimal assignment learns more than random users on random blocks",
        "preprint: up to 16 % less loss",
    ),
    Claim("expected", "more samples are expected to arrive in every round of training", "not printed"),
)


def key(n_blocks: int, order: str) -> str:
    return f"{n_blocks} blocks, {setting.ORDERS[order]}"


def cases(quick: bool) -> list[Case]:
    config, seeds = setting.base(QUICK_ROUNDS if quick else ROUNDS), SEEDS[:1] if quick else SEEDS
    return [
        Case(key(n, order), config, "fedavg", seeds=seeds, measure=partial(trained, n, order))
        for n in setting.LISTED_WATT
        for order in setting.ORDERS
    ]


def trained(n_blocks: int, order: str, config: Config) -> dict[str, object]:
    """The curves of one run; its world is listed in files that last as long as it does."""
    method = methods.parse("fedavg").build()._replace(decide=partial(setting.decide, order))
    with setting.listed(config, n_blocks) as whole:
        rows = [row for row, _ in simulate(build_problem(whole, data_of(whole)), method)]
    judged = [row for row in rows if "accuracy" in row.metrics]
    return {
        "rounds": [row.round + 1 for row in judged],
        "accuracy": [row.metrics["accuracy"] for row in judged],
        "loss": [row.metrics["loss"] for row in judged],
        "final_accuracy": judged[-1].metrics["accuracy"],
        "expected": [row.metrics["expected"] for row in rows],
        "delivered": [row.n_delivered for row in rows],
    }


def last_loss(row: Row) -> float:
    return float(np.mean(row["loss"][-2:]))


def check(rows: list[Row]) -> list[Finding]:
    found = []
    for claim, order in (("blocks", "blocks"), ("users", "random")):
        parts = []
        for n in setting.LISTED_WATT:
            ours, theirs = key(n, "optimal"), key(n, order)
            parts += [ahead(rows, ours, theirs, final), below(rows, ours, theirs, last_loss, f"{n} blocks: less loss")]
        told = told_all(rows, {f"{n} {one}": key(n, one) for n in setting.LISTED_WATT for one in ("optimal", order)})
        found.append(finding(claim, parts, told, "accuracy and loss in the last tenth of the rounds"))
    samples = [
        ahead(rows, key(n, "optimal"), key(n, order), column("expected"), None, f"{n} blocks, {order}")
        for n in setting.LISTED_WATT
        for order in ("blocks", "random")
    ]
    return [*found, finding("expected", samples, "", "samples a round")]


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(2)
    for ax, n in zip(axes, setting.LISTED_WATT, strict=True):
        for index, (order, label) in enumerate(setting.ORDERS.items()):
            curve(ax, rows, key(n, order), index, label)
        dress(ax, "round", "accuracy", f"{n} blocks")
    return figure


EXPERIMENT = Experiment("Joint assignment: accuracy", CLAIMS, cases, plot, check)

if __name__ == "__main__":
    main(EXPERIMENT)
