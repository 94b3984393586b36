"""Verdicts of the experiments on adaptive pruning on made-up runs."""

import numpy as np
import pytest
from judged import check_without_runs, experiment, opened, verdicts

NAMES = ("fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "fig8", "depth", "rates")
ROUNDS = list(range(10, 501, 10))
SEEDS = (1, 2, 3)

_opened = opened("pruning")


def row(case, seed, level, slow=5.0, age=1.0, round_s=0.1, **columns):
    """A run that closes in on a level."""
    accuracy = [0.1 + (level - 0.1) * (1 - np.exp(-t / slow)) + 0.0005 * seed for t in ROUNDS]
    seconds = [round_s * t for t in ROUNDS]
    return {
        "case": case,
        "seed": seed,
        "rounds": ROUNDS,
        "accuracy": accuracy,
        "seconds": seconds,
        "clock_s": seconds[-1],
        "age_mean": [None, *(age for _ in ROUNDS)],
        "personal_accuracy": [0.9],
        "personal_overall_accuracy": [0.5],
        **columns,
    }


def rows_of(name, made):
    """`made(label)` gives what a case looks like, by its name without the data set."""
    return [
        row(case.key, seed, **made(case.key.partition("/")[2]))
        for case in experiment(name).cases(False)
        for seed in SEEDS
    ]


@pytest.mark.parametrize("name", NAMES)
def test_cases_are_distinct_and_nothing_is_judged_without_runs(name):
    check_without_runs(name)


RULES = {"Proposed": 0.9, "Proposed-wGC": 0.78, "Importance": 0.7, "Random": 0.6}


def rule(sign):
    def made(label):
        rule, heard, beta = label.split()
        level = RULES[rule] if sign > 0 else 1.5 - RULES[rule]
        return {"level": level + sign * (0.02 * (heard == "S=10") - 0.05 * float(beta.removeprefix("beta=")))}

    return made


@pytest.mark.parametrize("name", ["fig2", "fig3"])
def test_rules_as_published_and_the_other_way_round(name):
    assert set(verdicts(name, rows_of(name, rule(1))).values()) == {"reproduced"}
    assert set(verdicts(name, rows_of(name, rule(-1))).values()) == {"not reproduced"}


def scheduler(levels, ages):
    order = ("Proposed", "PR", "C", "Random")

    def made(label):
        place = order.index(label.split()[1])
        return {"level": levels[place], "age": ages[place], "slow": 5.0 + 60 * place}

    return made


@pytest.mark.parametrize("name", ["fig4", "fig5"])
def test_schedulers(name):
    published = verdicts(name, rows_of(name, scheduler((0.95, 0.88, 0.86, 0.80), (1, 2, 3, 4))))
    assert set(published.values()) == {"reproduced"}, published
    turned = verdicts(name, rows_of(name, scheduler((0.60, 0.65, 0.70, 0.75), (4, 5, 6, 3))))
    assert {turned[f"{what} static"] for what in ("gain", "pr")} == {"not reproduced"}
    assert turned["age redrawn"] == "partly"  # lower than two of three


def test_where_nobody_learns_order_is_noise():
    found = verdicts("fig5", rows_of("fig5", scheduler((0.104, 0.103, 0.102, 0.101), (1, 2, 3, 4))))
    assert {found[f"{what} static"] for what in ("agree", "pr", "time")} == {"not reproduced"}
    assert found["age static"] == "reproduced"


def system(own, others):
    def made(label):
        name, more = label.split()[0], 0.02 * ("s=3" in label)
        if name in ("static", "AMP-FL"):
            return {"level": own + more, "round_s": 0.1}
        return {"level": others + more, "round_s": 0.3, "slow": 100.0}

    return made


def test_systems():
    published = verdicts("fig6", rows_of("fig6", system(0.95, 0.93)))
    assert set(published.values()) == {"reproduced"}, published
    turned = verdicts("fig6", rows_of("fig6", system(0.5, 0.95)))
    assert {turned[f"{what} {s}"] for what in ("gain", "speed") for s in (2, 3)} == {"not reproduced"}
    idle = verdicts("fig6", rows_of("fig6", system(0.1, 0.1)))
    assert idle["shards"] == "not reproduced"


def test_blocks():
    def made(label, sign=1):
        blocks = int(label.removeprefix("R=")) if label.startswith("R=") else 10
        return {"level": 0.6 + sign * 0.01 * blocks, "age": 20 - sign * 0.5 * blocks}

    assert set(verdicts("fig8", rows_of("fig8", made)).values()) == {"reproduced"}
    assert set(verdicts("fig8", rows_of("fig8", lambda label: made(label, -1))).values()) == {"not reproduced"}


def test_depth():
    def fading(label):
        layers, keep = int(label.split()[0]), float(label.split("keep=")[1].split()[0])
        return {"level": 0.9 - 0.13 * layers * (1 - keep), "loss": [9.0 if layers == 9 else 0.5] * len(ROUNDS)}

    found = verdicts("depth", rows_of("depth", fading))
    assert found == {"depth": "reproduced", "loss": "partly", "rate": "reproduced"}  # nine layers still learn
    dead = verdicts("depth", rows_of("depth", lambda label: {"level": 0.1, "loss": [2.0] * len(ROUNDS)}))
    assert dead == {"depth": "not reproduced", "loss": "partly", "rate": "not reproduced"}


@pytest.mark.parametrize(
    ("learning", "found"),
    [
        (("0.05",), {"long": "reproduced", "rate": "not reproduced"}),
        (("0.02",), {"long": "not reproduced", "rate": "partly"}),
        (("0.05", "0.02", "0.01", "0.005"), {"long": "reproduced", "rate": "reproduced"}),
    ],
)
def test_rates(learning, found):
    levels = {f"AMP-FL lr={rate}": 0.3 for rate in learning}
    assert verdicts("rates", rows_of("rates", lambda label: {"level": levels.get(label, 0.1)})) == found
