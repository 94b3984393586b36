"""Verdicts of the experiments on gradient recycling on made-up runs."""

import numpy as np
import pytest
from judged import check_without_runs, experiment, opened, verdicts

NAMES = ("fig2", "fig3", "fig4", "fig5", "fig6", "contrast", "reach", "table5c")
ROUNDS = list(range(5, 501, 5))

_opened = opened("recycling")


def row(case, seed, level, slow=30.0, noise=0.001, stale=1.0):
    """A run that closes in on a level, with swings, and an offset of its seed."""
    swing = noise * np.random.default_rng(seed).standard_normal(len(ROUNDS))
    accuracy = 0.1 + (level - 0.1) * (1 - np.exp(-np.array(ROUNDS) / slow)) + 0.0005 * (seed - 30) + swing
    return {
        "case": case,
        "seed": seed,
        "rounds": ROUNDS,
        "accuracy": list(accuracy),
        "seconds": [0.3 * t for t in ROUNDS],
        "stale_mean": [None, *(stale for _ in ROUNDS)],
    }


def rows_of(name, made, seeds=None):
    """`made(world, label)` gives what a case looks like; as many seeds as the case has, or the first so many."""
    return [
        row(case.key, seed, **made(*case.key.split("/", 1)))
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
        assert len(case.seeds) == {"mnist": 5, "tight": 6}.get(case.key.partition("/")[0].rstrip("0"), 3)


def test_worlds_of_the_cases():
    worlds = {case.key: case.config.world for case in experiment("fig5").cases(False)}
    assert worlds["tight/Proposed"].deadline_s == 0.25
    assert worlds["slack/Proposed"].deadline_s == 0.3
    rounds = {case.key: case.config for case in experiment("fig5").cases(False)}
    for key, config in rounds.items():
        assert config.rounds * config.world.deadline_s == pytest.approx(150, abs=0.2), f"{key}: 150 s as published"
    assert all(case.config.world.deadline_s == 0.25 for case in experiment("fig6").cases(False))
    rules = {case.key: case.config for case in experiment("fig2").cases(False)}
    assert {config.train.momentum for key, config in rules.items() if key.split("/")[0].endswith("0")} == {0.0}
    assert {config.train.momentum for key, config in rules.items() if not key.split("/")[0].endswith("0")} == {0.9}


def test_reachability_has_one_mean():
    reach = {case.key: case.config.world.availability for case in experiment("reach").cases(False)}
    assert np.mean(reach["reach/Proposed unequal"].values) == pytest.approx(0.2)
    assert reach["reach/Uniform p=0.2"].values == (0.2,)


def published(data, label):
    """FL-GR first, as far ahead as printed; then W/GR, the models' mean, FedProx."""
    rule, heard = label.split(" S=")
    lead = {"mnist": (0.0137, 0.0089), "cifar": (0.0341, 0.0283), "vgg": (0.0408, 0.0287)}
    behind = lead[data.removesuffix("0")][heard == "10"]
    slow = {"FL-GR": 20.0, "W/GR": 60.0, "MC": 70.0, "FedProx": 80.0}
    if data.startswith("mnist"):
        slow |= {"MC": 40.0}
    extra = {"FL-GR": 0.0, "W/GR": 1.0, "MC": 1.3, "FedProx": 1.6}[rule]
    return {
        "level": 0.97 - extra * behind - 0.02 * (heard == "5"),
        "slow": slow[rule],
        "noise": 0.0002 if rule == "FL-GR" else 0.002,
    }


def test_rules_as_published():
    found = verdicts("fig2", rows_of("fig2", published))
    assert set(found.values()) == {"reproduced"}, found
    found = verdicts("table5c", rows_of("table5c", published))
    assert set(found.values()) == {"reproduced"}, found


def test_rules_the_other_way_round():
    def turned(data, label):
        made = published(data, label)
        return made | {"level": 1.6 - made["level"], "slow": 100 - made["slow"], "noise": 0.005 - made["noise"]}

    found = verdicts("fig2", rows_of("fig2", turned))
    assert {found[f"{data} {what}"] for data in ("mnist", "cifar0") for what in ("best", "gain", "calm", "more")} == {
        "not reproduced"
    }
    slowly = verdicts("table5c", rows_of("table5c", lambda *of: turned(*of) | {"level": published(*of)["level"]}))
    assert {slowly[f"{data} {what}"] for data in ("mnist", "cifar") for what in ("fewest", "first", "saved")} == {
        "not reproduced"
    }
    assert verdicts("table5c", rows_of("table5c", turned))["mnist fewest"] == "cannot decide", "nobody gets there"


def test_two_seeds_indicate_at_most():
    assert set(verdicts("fig2", rows_of("fig2", published, 2)).values()) == {"indicated"}


def test_a_dead_run_is_not_steady_and_a_lead_of_fifty_points_is_far_larger():
    def dead(data, label):
        return published(data, label) | ({} if label.startswith("FL-GR") else {"level": 0.1})

    found = verdicts("fig2", rows_of("fig2", dead))
    assert found["cifar calm"] == "cannot decide"
    assert found["cifar best"] == "reproduced"
    assert found["cifar gain"] == "partly", "far larger at both S, and not more at S = 5"


def swinging(first, stays):
    """A made-up run that is above 0.5 in round `first` for once, and from round `stays` on."""
    accuracy = [0.9 if t == first or t >= stays else 0.2 for t in ROUNDS]
    return {"rounds": ROUNDS, "accuracy": accuracy, "seconds": ROUNDS}


def test_the_table_goes_by_the_round_from_which_on_a_rule_stays_above():
    """A rule that swings hits the target first, and stays above it last."""

    def made(key, seed):
        rule = key.partition("/")[2].split(" S=")[0]
        first, stays = {"FL-GR": (50, 60), "W/GR": (10, 400)}.get(rule, (300, 450))
        return {"case": key, "seed": seed, **swinging(first, stays + seed - 30)}

    rows = [made(case.key, seed) for case in experiment("table5c").cases(False) for seed in case.seeds]
    found = verdicts("table5c", rows)
    assert found["mnist0 fewest"] == "reproduced"
    assert found["mnist0 first"] == "not reproduced"
    assert found["cifar baseline"] == "reproduced"


ORDER = ("Proposed", "Random", "STP", "GI cached", "GI")


def scheduler(levels, stale=(1, 2, 30, 40, 50)):
    def made(world, label):
        place = ORDER.index(label)
        return {"level": levels[place], "stale": stale[place], "slow": 30.0 + 5 * place}

    return made


@pytest.mark.parametrize(("name", "world"), [("fig3", "tight"), ("fig3", "slack"), ("fig4", "vgg tight")])
def test_schedulers(name, world):
    found = verdicts(name, rows_of(name, scheduler((0.5, 0.465, 0.40, 0.35, 0.30))))
    assert set(found.values()) == {"reproduced"}, found
    dead = verdicts(name, rows_of(name, scheduler((0.1, 0.5, 0.4, 0.35, 0.3))))
    assert (dead[f"{world} best"], dead[f"{world} margin"]) == ("not reproduced", "not reproduced")
    assert dead[f"{world} stale"] == "reproduced"
    noise = verdicts(name, rows_of(name, scheduler((0.104, 0.103, 0.102, 0.101, 0.1))))
    assert noise[f"{world} best"] == noise[f"{world} margin"] == "cannot decide"


def test_schedulers_without_the_norms_of_everyone():
    rows = [one for one in rows_of("fig3", scheduler((0.5, 0.465, 0.4, 0.35, 0.3))) if one["case"] != "tight/GI"]
    assert set(verdicts("fig3", rows).values()) == {"reproduced"}


def swept(sign, level=0.4):
    def made(world, label):
        name, _, value = label.partition("=")
        usual = {"E": 1.1, "T": 0.25, "gamma": 0, "R": 10}
        rank = 0.0 if name == "Proposed" else (float(value) - usual[name]) / {"gamma": -35, "R": 20}.get(name, 1)
        rank = 0.05 if world == "slack" else rank
        return {"level": level + 0.15 * sign * rank, "stale": 10 - sign * rank, "slow": 5.0}

    return made


@pytest.mark.parametrize("name", ["fig5", "fig6"])
def test_sweeps(name):
    assert set(verdicts(name, rows_of(name, swept(1))).values()) == {"reproduced"}
    assert set(verdicts(name, rows_of(name, swept(-1))).values()) == {"not reproduced"}


def test_a_sweep_that_falls_beyond_the_deadlines_that_bind():
    def made(world, label):
        loose = {"slack Proposed": 0.3, "tight T=0.28": 0.15}.get(f"{world} {label}", 0.0)
        found = swept(1)(world, label)
        return found | {"level": found["level"] - loose}

    found = verdicts("fig5", rows_of("fig5", made))
    assert (found["deadline accuracy"], found["slack accuracy"]) == ("reproduced", "not reproduced")


def test_a_sweep_in_which_nobody_learns_decides_nothing():
    def idle(world, label):
        made = swept(1)(world, label)
        return made | {"level": 0.1 + 0.01 * (made["level"] - 0.4)}

    found = verdicts("fig5", rows_of("fig5", idle))
    assert found["energy accuracy"] == "cannot decide"
    assert found["energy staleness"] == "reproduced"


def test_contrast():
    def made(world, label):
        return {"level": 0.3 if "Random" in label else 0.4}

    assert verdicts("contrast", rows_of("contrast", made)) == {"contrast": "reproduced"}
    assert verdicts("contrast", rows_of("contrast", lambda *_: {"level": 0.3})) == {"contrast": "not reproduced"}


def test_reach():
    levels = {"Uniform p=0.2": 0.6, "Proposed p=0.12": 0.55, "Proposed p=0.2": 0.5, "Proposed p=0.5": 0.3}
    levels |= {"Proposed unequal": 0.55, "Uniform unequal": 0.5, "Proposed": 0.55, "Random": 0.5}

    def made(world, label):
        return {"level": levels[label], "stale": 5.0 if label.startswith("Proposed") else 9.0}

    assert set(verdicts("reach", rows_of("reach", made)).values()) == {"reproduced"}
    turned = verdicts("reach", rows_of("reach", lambda *of: {"level": 0.9 - made(*of)["level"]}))
    assert set(turned.values()) == {"not reproduced"}
