"""Verdicts of the experiments on adaptive pruning on made-up runs."""

import numpy as np
import pytest
from judged import check_without_runs, experiment, opened, verdicts

NAMES = ("fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "fig8", "levels")
ROUNDS = list(range(20, 1501, 20))

_opened = opened("pruning")


def row(case, seed, level, slow=5.0, age=1.0, round_s=0.1, **columns):
    """A run that closes in on a level."""
    accuracy = [0.1 + (level - 0.1) * (1 - np.exp(-t / slow)) + 0.0005 * (seed - 30) for t in ROUNDS]
    return {
        "case": case,
        "seed": seed,
        "rounds": ROUNDS,
        "accuracy": accuracy,
        "seconds": [round_s * t for t in ROUNDS],
        "age_mean": [None, *(age for _ in ROUNDS)],
        "personal_accuracy": [0.9],
        "personal_overall_accuracy": [0.5],
        **columns,
    }


def rows_of(name, made, seeds=None):
    """`made(label)` gives what a case looks like, by its name without the data set."""
    return [
        row(case.key, seed, **made(case.key.partition("/")[2]))
        for case in experiment(name).cases(False)
        for seed in case.seeds[:seeds]
    ]


@pytest.mark.parametrize("name", NAMES)
def test_cases_are_distinct_and_nothing_is_judged_without_runs(name):
    check_without_runs(name)


@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_fresh_and_enough(name):
    """Readings were chosen on seeds 0 to 3, 11 to 15 and 21 to 23."""
    for case in experiment(name).cases(False):
        assert min(case.seeds) > 30
        assert len(case.seeds) == (5 if case.key.startswith("mnist") else 3)


def test_rounds_are_those_published():
    rounds = {case.key: case.config.rounds for name in NAMES for case in experiment(name).cases(False)}
    assert rounds["vgg/Proposed S=5 beta=0.1"] == 1000
    assert {rounds[key] for key in ("vgg/static Proposed", "vgg/static Random", "vgg/R=5", "vgg/AMP-FL s=3")} == {1500}


def test_full_models_are_trained_by_the_strongest_channels_or_by_lot():
    settings = {case.key: case.settings for name in ("fig6", "fig7") for case in experiment(name).cases(False)}
    for system in ("Sync", "Regularised", "APFL"):
        found = settings[f"mnist/{system} s=2"]
        assert (found["scheduler"], found["blocks"], found["n_selected"]) == ("best-channel", "time", 10)
    assert settings["vgg/APFL s=3"]["scheduler"] == "best-channel"
    assert settings["mnist/Sync s=2 by lot"]["scheduler"] == "random"


def test_rules_without_cache_are_run_with_both_means():
    settings = {case.key: case.settings for case in experiment("fig2").cases(False)}
    assert settings["mnist/Random S=5 beta=0.1"]["mean_over"] == "heard"
    assert settings["mnist/Random S=5 beta=0.1 all"]["mean_over"] == "all"
    assert "mean_over" not in settings["mnist/Proposed S=5 beta=0.1"]


LEADS = {"fig2": {"S=5": 0.109, "S=10": 0.033}, "fig3": {"S=5": 0.0513, "S=10": 0.0356}}


def rule(name, sign):
    """As far ahead as printed, the others in the order of the source."""

    def made(label):
        rule, heard, beta = label.split()[:3]
        behind = {"Proposed": 0, "Proposed-wGC": 1.0, "Importance": 1.2, "Random": 1.4}[rule]
        level = sign * (-behind * LEADS[name][heard] + 0.02 * (heard == "S=10") - 0.05 * float(beta[5:]))
        return {"level": (0.9 if sign > 0 else 0.6) + level}

    return made


@pytest.mark.parametrize("name", ["fig2", "fig3"])
def test_rules_as_published_and_the_other_way_round(name):
    assert set(verdicts(name, rows_of(name, rule(name, 1))).values()) == {"reproduced"}
    assert set(verdicts(name, rows_of(name, rule(name, -1))).values()) == {"not reproduced"}
    assert set(verdicts(name, rows_of(name, rule(name, 1), 2)).values()) == {"indicated"}


def test_the_two_means_are_judged_apart():
    def made(label):
        found = rule("fig2", 1)(label)
        return {"level": 0.3} if label.endswith("all") else found

    found = verdicts("fig2", rows_of("fig2", made))
    assert (found["gain5"], found["gain5 all"]) == ("reproduced", "far larger")


def scheduler(levels, ages):
    order = ("Proposed", "PR", "C", "Random")

    def made(label):
        place = order.index(label.split()[1])
        return {"level": levels[place], "age": ages[place], "slow": 100.0 + 30 * place}

    return made


@pytest.mark.parametrize(("name", "lead"), [("fig4", 0.04), ("fig5", 0.021)])
def test_schedulers(name, lead):
    levels = (0.95, 0.95 - lead, 0.95 - 1.5 * lead, 0.95 - 2 * lead)
    published = verdicts(name, rows_of(name, scheduler(levels, (1, 2, 3, 4))))
    assert set(published.values()) == {"reproduced"}, published
    turned = verdicts(name, rows_of(name, scheduler((0.60, 0.65, 0.70, 0.75), (4, 5, 6, 3))))
    assert {turned[f"{what} static"] for what in ("gain", "pr")} == {"not reproduced"}
    assert turned["age static"] == "partly"  # lower than two of three, one of two


def test_where_nobody_learns_nothing_is_decided():
    found = verdicts("fig5", rows_of("fig5", scheduler((0.104, 0.103, 0.102, 0.101), (1, 2, 3, 4))))
    assert {found[f"{what} static"] for what in ("gain", "agree", "pr", "time 0.7")} == {"cannot decide"}
    assert found["age static"] == "reproduced"


def system(own, others, slow):
    def made(label):
        name, more = label.split()[0], 0.01 * ("s=3" in label)
        if name in ("static", "AMP-FL"):
            return {"level": own + more, "slow": 60.0}
        return {"level": others + more, "slow": slow}

    return made


def test_systems():
    """At 50 s everyone has settled; AMP-FL gets to 90 % in 17 s, the others in 30 s."""
    published = verdicts("fig6", rows_of("fig6", system(0.95, 0.91, 68.0)))
    assert set(published.values()) == {"reproduced"}, published
    turned = verdicts("fig6", rows_of("fig6", system(0.5, 0.95, 68.0)))
    assert {turned[f"{what} {s}"] for what in ("gain", "speed 0.9") for s in (2, 3)} == {"not reproduced"}
    idle = verdicts("fig6", rows_of("fig6", system(0.1, 0.1, 68.0)))
    assert idle["shards"] == idle["gain 2"] == idle["speed 0.9 2"] == "cannot decide"


def test_systems_with_vgg():
    found = verdicts("fig7", rows_of("fig7", system(0.9, 0.85, 100.0)))
    assert {found[key] for key in ("gain 2", "speed 0.7 2", "speed 0.75 3", "speed 0.5 3", "shards")} == {"reproduced"}


def test_blocks():
    def made(label, sign=1):
        blocks = int(label.removeprefix("R=")) if label.startswith("R=") else 10
        return {"level": 0.6 + sign * 0.01 * blocks, "age": 20 - sign * 0.5 * blocks}

    assert set(verdicts("fig8", rows_of("fig8", made)).values()) == {"reproduced"}
    assert set(verdicts("fig8", rows_of("fig8", lambda label: made(label, -1))).values()) == {"not reproduced"}


def test_levels():
    lots = ("static Random 720", "Random s=3 720", "Random-wGC 560")
    high = {"static Proposed": 0.75, "Proposed-wGC": 0.4, "Proposed no norm": 0.12}
    high |= {"static Proposed 400": 0.6, "AMP-FL s=3 400": 0.7, "AMP-FL s=3": 0.75}
    high |= dict(zip(lots, (0.6, 0.7, 0.4), strict=True))
    assert set(verdicts("levels", rows_of("levels", lambda label: {"level": high[label]})).values()) == {"reproduced"}
    low = {"static Proposed": 0.45, "Proposed-wGC": 0.4, "Proposed no norm": 0.5}
    low |= {"static Proposed 400": 0.35, "AMP-FL s=3 400": 0.3, "AMP-FL s=3": 0.5}
    low |= dict(zip(lots, (0.4, 0.5, 0.35), strict=True))
    assert set(verdicts("levels", rows_of("levels", lambda label: {"level": low[label]})).values()) == {
        "not reproduced"
    }
