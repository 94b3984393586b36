"""Verdicts of the experiments on representativity and latency on made-up runs."""

from dataclasses import replace
from importlib import import_module as module

import numpy as np
import pytest
from judged import EXPERIMENTS, opened, verdicts

from fedcell.data.settings import DataConfig
from fedcell.experiment import judge, run_case
from fedcell.experiment.ledger import ledger
from fedcell.learn.settings import ModelConfig

FILES = ("fig2", "fig3", "fig4", "fig5", "fig6")
SEEDS = (31, 32, 33)

_opened = opened("representativity")


def a_row(case, seed, level, round_s=1.0, half=20.0, rounds=200, **columns):
    """A run that rises to `level`, half of it in `half` rounds, with a little of its own on every seed."""
    every = 5 if case.startswith("cifar") else 2
    at = np.arange(every, rounds + 1, every)
    own = 0.0005 * np.random.default_rng([seed, len(case)]).standard_normal()
    return {
        "case": case,
        "seed": seed,
        "rounds": at.tolist(),
        "accuracy": ((level + own) * (1 - 0.5 ** (at / half))).tolist(),
        "seconds": (round_s * at).tolist(),
        "n_scheduled": [10.0] * rounds,
        "error_mean": [3.0] * rounds,
        **columns,
    }


def found(name, rows):
    return {one.claim: one for one in judge(module(name).EXPERIMENT, rows)}


# ---------------------------------------------------------------- Figures 3.3 and 3.4


def as_printed(data, leads, levels, gap, half=4.0):
    """Runs with the printed leads over random scheduling, and centralised training above."""
    policies, rows, rounds = module("representativity_policies"), [], 200 if data == "mnist" else 1000
    for case in policies.cases(data, quick=False):
        if case.key.endswith("Centralised"):
            rows += [a_row(case.key, seed, levels[2, 10] + gap, half=half, rounds=rounds) for seed in SEEDS]
            continue
        m, n = int(case.key.partition("m=")[2][0]), int(case.key.partition("N=")[2][:2])
        below = {"random": leads[m, n], "power_of_choice": leads[m, n] + 0.01, "gradient_norm": leads[m, n] + 0.02}
        level = levels[m, n] - below.get(case.settings.get("policy"), 0.0)
        speed = half * (1.05 if level < levels[m, n] else 1.0)
        rows += [a_row(case.key, seed, level, half=speed, rounds=rounds) for seed in SEEDS]
    return rows


def mnist(scale=1.0):
    leads = {(2, 10): 0.067 * scale, (2, 20): 0.008 * scale, (3, 10): 0.0473 * scale, (3, 20): 0.044 * scale}
    return as_printed("mnist", leads, {(2, 10): 0.90, (2, 20): 0.90, (3, 10): 0.915, (3, 20): 0.95}, 0.041)


def cifar(scale=1.0):
    leads = {(2, 10): 0.0402 * scale, (2, 20): 0.018 * scale, (3, 10): 0.0206 * scale, (3, 20): 0.0144 * scale}
    return as_printed("cifar", leads, {(2, 10): 0.55, (2, 20): 0.55, (3, 10): 0.65, (3, 20): 0.65}, 0.1, half=15.0)


def test_printed_accuracies_are_reproduced():
    have = verdicts("fig3", mnist())
    assert have.pop("fewer") == "partly", "the printed leads themselves do not fall with the classes at 20 devices"
    assert set(have.values()) == {"reproduced"}, have
    have = verdicts("fig4", cifar())
    assert set(have.values()) == {"reproduced"}, have


def test_leads_the_other_way_are_not():
    for name, rows in (("fig3", mnist(-1.0)), ("fig4", cifar(-1.0))):
        have = verdicts(name, rows)
        gains = {key: verdict for key, verdict in have.items() if "gain" in key}
        assert set(gains.values()) == {"not reproduced"}, have
        assert have["m2 best"] != "reproduced"
        assert have["fewer"] != "reproduced"
    assert verdicts("fig3", mnist(-1.0))["m2 early10"] == "not reproduced"


def test_a_lead_of_the_wrong_size_says_so():
    assert verdicts("fig3", mnist(0.3))["m2 gain10"] == "partly"
    assert verdicts("fig3", mnist(4.0))["m2 gain10"] == "far larger"


def test_an_early_lead_is_not_the_printed_one():
    """Soon ahead and level at the end: the curve tells it, one end window would not."""
    rows = [
        row if "m=2/Rep" not in row["case"] else a_row(row["case"], row["seed"], 0.893, half=6.0)
        for row in mnist()
        if row["case"].startswith("mnist m=2/") and "N=10" in row["case"]
    ]
    rows = [a_row(row["case"], row["seed"], 0.893, half=14.0) if "RS" in row["case"] else row for row in rows]
    have = found("fig3", rows)
    assert have["m2 early10"].verdict == "reproduced"
    assert have["m2 gain10"].verdict == "partly"
    parts = {part.name: part for part in have["m2 gain10"].parts}
    assert parts["rounds 20 to 30"].verdict == "far larger"
    assert parts["mean over all rounds"].verdict == "reproduced"
    assert parts["rounds 180 to 200"].verdict == "not reproduced"


def test_one_run_that_collapses_is_named():
    rows = mnist()
    row = next(row for row in rows if row["case"] == "mnist m=3/Representativity N=10")
    row["accuracy"] = [*row["accuracy"][:80], *[0.75] * 20]
    have = found("fig3", rows)
    (bad,) = [part for part in have["steady"].parts if not part]
    assert bad.name == f"m=3/Representativity N=10, worst {max(row['accuracy']) - 0.75:.3f}"
    assert bad.mean < 0.1, "one seed of three: the mean would not tell"
    assert have["steady gamma"].verdict == "reproduced"


def test_a_run_dead_at_chance_is_not_steady():
    rows = [row | {"accuracy": [0.12] * 100} if "gamma" in row["case"] else row for row in mnist()]
    assert verdicts("fig3", rows)["steady gamma"] == "not reproduced"


def test_runs_at_chance_decide_nothing():
    dead = [row | {"accuracy": [0.1] * len(row["accuracy"])} for row in cifar()]
    have = verdicts("fig4", dead)
    assert {have[key] for key in have if "gain" in key or "best" in key or key == "classes"} == {"cannot decide"}


def test_a_centre_that_is_far_away_or_below():
    def moved(rows, by):
        return [row | {"accuracy": [v + by for v in row["accuracy"]]} if "Cent" in row["case"] else row for row in rows]

    assert verdicts("fig3", moved(mnist(), 0.2))["m2 central"] == "far larger"
    assert verdicts("fig3", moved(mnist(), -0.2))["m2 central"] == "not reproduced"


# ---------------------------------------------------------------- Figures 3.5 and 3.6


def timed(data, faster, level=0.95, ratio=True):
    """L&R-aware runs that take `1 - faster` of the time of the others per round, ratio by ratio a little more."""
    times, rows = module("representativity_times"), []
    for case in times.cases(data, quick=False):
        m = int(case.key.partition("m=")[2][0])
        rho = case.settings.get("error_weight", 0.0)
        base, columns = 2.0 / m, {}
        if rho:
            base *= 1.01 * (1 - faster) * (1 + 0.01 * rho)
            columns["n_scheduled"] = [(10 * rho * (1 if ratio else -1) + 100.0)] * case.config.rounds
        for seed in SEEDS:
            own = base * (1 + 0.001 * np.random.default_rng([seed, len(case.key)]).standard_normal())
            rows.append(a_row(case.key, seed, level, own, half=10.0, rounds=case.config.rounds, **columns))
    return rows


def test_faster_runs_are_reproduced():
    have = verdicts("fig5", timed("mnist", 0.3))
    assert set(have.values()) == {"reproduced"}, have
    have = verdicts("fig6", timed("cifar", 0.2))
    assert set(have.values()) == {"reproduced"}, have


def test_slower_runs_are_not():
    for name, data in (("fig5", "mnist"), ("fig6", "cifar")):
        have = verdicts(name, timed(data, -0.3, ratio=False))
        of_time = [key for key in have if "fastest" in key or " to" in key or key == "worst"]
        assert {have[key] for key in of_time} == {"not reproduced"}, have
    assert verdicts("fig5", timed("mnist", 0.4, ratio=False))["size"] == "not reproduced"


def test_a_saving_of_the_wrong_size_says_so():
    assert verdicts("fig5", timed("mnist", 0.08))["m2 to80"] == "partly"
    assert verdicts("fig5", timed("mnist", 0.9))["m3 to80"] == "far larger"


def test_the_worst_ratio_alone_can_fail():
    rows = [
        row | {"seconds": [3 * t for t in row["seconds"]]} if row["case"].endswith("L&R 10") else row
        for row in timed("mnist", 0.3)
    ]
    have = verdicts("fig5", rows)
    assert (have["worst"], have["m2 fastest sum"]) == ("not reproduced", "not reproduced")
    assert (have["m2 fastest"], have["weights"]) == ("reproduced", "reproduced")


def test_targets_that_are_never_reached():
    never = timed("mnist", 0.4, level=0.6)
    assert verdicts("fig5", never)["m2 to80"] == "cannot decide"
    own_never = [row | {"accuracy": [0.1] * 100} if "L&R" in row["case"] else row for row in timed("mnist", 0.4)]
    own_never = [row | {"accuracy": row["accuracy"][: len(row["rounds"])]} for row in own_never]
    assert verdicts("fig5", own_never)["m2 to80"] == "not reproduced"
    others_never = [row if "L&R" in row["case"] else row | {"accuracy": [0.1] * 100} for row in timed("mnist", 0.4)]
    assert verdicts("fig5", others_never)["m2 fastest"] == "reproduced"
    for rows in (never, own_never, others_never):
        module("fig5").EXPERIMENT.plot(rows)


def test_a_level_that_all_reach_is_the_target_without_numbers():
    times = module("representativity_times")
    assert times.targets(timed("cifar", 0.2, level=0.95), "cifar", 2) == [0.6]
    assert times.targets(timed("cifar", 0.2, level=0.47), "cifar", 2) == [0.45]
    assert times.targets(timed("cifar", 0.2, level=0.2), "cifar", 2) == [0.3], "nobody reaches the least"
    assert verdicts("fig6", timed("cifar", 0.2, level=0.47))["m2 fastest"] == "reproduced"
    assert verdicts("fig6", timed("cifar", 0.2, level=0.47))["m2 to60"] == "cannot decide"


def test_a_ratio_with_the_sum_is_a_larger_one_with_the_mean():
    """Why the sum as printed needs no runs: the schedule is that of K times the ratio."""
    from fedcell.methods.representativity.schedule import Candidates, by_both, error_scale

    rng = np.random.default_rng(4)
    rows = rng.standard_normal((12, 5))
    distance = np.linalg.norm(rows[:, None] - rows, axis=2)
    compute_s, upload_s = rng.uniform(0.1, 1, 12), rng.uniform(0.1, 1, 12)

    def chosen(weight, scale, time=1.0):
        rho = weight * error_scale(scale, distance)
        return by_both(Candidates(3, compute_s, upload_s, None, distance, np.zeros(12), rho, time, 7, 2)).tolist()

    assert chosen(0.05, "sum") == chosen(0.6, "mean")
    assert chosen(0.3, "mean") == chosen(0.06, "mean", time=0.2), "the ratio alone counts"
    assert chosen(0.05, "sum") != chosen(0.05, "mean")


# ---------------------------------------------------------------- Figure 3.2


def estimates(data, previous, batches, plain=False):
    figure, rng, rows = module("fig2"), np.random.default_rng(1), []
    for schedule in figure.SHOWN[data]:
        for seed in SEEDS:
            columns = {"estimate_previous": (previous + 0.01 * rng.random(60)).tolist()}
            for batch, value in zip(figure.BATCHES, batches, strict=True):
                columns[f"estimate_batch{batch}"] = (value * (1 + 0.2 * rng.random(60))).tolist()
            rows.append(a_row(figure.key(data, schedule, plain), seed, 0.9, rounds=60, **columns))
    return rows


def test_estimates_in_the_printed_order_and_in_another():
    rows = [*estimates("mnist", 1.0, (9.0, 6.0, 4.0), plain=True), *estimates("mnist", 5.0, (1.0, 2.0, 3.0))]
    have = verdicts("fig2", [*rows, *estimates("cifar", 5.0, (9.0, 6.0, 4.0))])
    assert {have[f"mnist {one} no momentum"] for one in ("lowest", "batch", "swing")} == {"reproduced"}
    assert {have["mnist lowest"], have["mnist batch"]} == {"not reproduced"}
    assert (have["cifar lowest"], have["cifar batch"]) == ("partly", "reproduced"), "lower than two of three"
    assert have["cifar lowest no momentum"] == "not run"
    module("fig2").EXPERIMENT.plot(rows)


# ---------------------------------------------------------------- all of them


@pytest.mark.parametrize("name", FILES)
def test_nothing_run_is_not_judged_but_drawn(name):
    assert set(verdicts(name, []).values()) == {"not run"}
    module(name).EXPERIMENT.plot([])


@pytest.mark.parametrize("name", FILES)
def test_cases_have_settings_that_exist_names_of_their_own_and_fresh_seeds(name):
    for quick in (True, False):
        cases = module(name).EXPERIMENT.cases(quick)
        assert len({case.key for case in cases}) == len(cases)
        for case in cases:
            method = module(f"fedcell.methods.{case.method}")
            assert set(case.settings) <= set(method.Config.__dataclass_fields__)
            assert quick or case.config.rounds >= 60
            assert case.seeds == ((31, 32, 33, 34, 35) if case.key.startswith("mnist") else (31, 32, 33))
            assert (case.settings.get("momentum") == 0) == case.key.endswith("no momentum")


def test_figures_share_the_runs_that_they_have_in_common():
    for names in (("fig3", "fig5"), ("fig4", "fig6")):
        one, other = ({case.key: case for case in module(name).EXPERIMENT.cases(False)} for name in names)
        common = one.keys() & other.keys()
        assert len(common) == 4, "by representativity, 10 and 20 devices, m = 2 and 3"
        assert all(one[key] == other[key] for key in common)


def test_drawn_as_printed():
    for name, rows in (
        ("fig3", mnist()),
        ("fig4", cifar()),
        ("fig5", timed("mnist", 0.4)),
        ("fig6", timed("cifar", 0.2)),
    ):
        assert len(module(name).EXPERIMENT.plot(rows).axes) >= 2


def test_a_case_runs_on_small_data():
    """The columns that the judges read are those that a run has."""
    times = module("representativity_times")
    case = next(one for one in times.cases("mnist", True) if "L&R" in one.key)
    config = replace(
        case.config,
        rounds=2,
        data=DataConfig(name="digits", partition="shards"),
        model=ModelConfig(name="logistic"),
        world=replace(case.config.world, n_devices=12),
        train=replace(case.config.train, device="cpu"),
    )
    row = run_case(case._replace(config=config), 1)
    assert times.N_SCHEDULED(row) >= 1
    assert len(row["error_mean"]) == 2
    watched = run_case(case._replace(config=config, settings={"diagnose": "estimates", "n_selected": 3}), 1)
    assert set(module("fig2").COLUMNS.values()) <= set(watched)


def test_the_ledger_has_every_claim():
    rows = [row for row in ledger(EXPERIMENTS) if row.paper == "representativity"]
    assert {row.experiment for row in rows} == set(FILES)
    counted = [row for row in rows if row.counted]
    assert not [row.key for row in counted if row.key.endswith((" sum", " gamma", " marked", " no momentum"))]
    assert len(counted) == 44, "claims of the chapter; second readings and checks are not counted"
