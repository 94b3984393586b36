"""Comparisons: groups, seeds, targets, and what is refused or said."""

import math

import numpy as np
import pytest
from comparison_runs import a_run
from hypothesis import given
from hypothesis import strategies as st

from fedcell import methods, options
from fedcell.errors import BadInput
from fedcell.report import compare
from fedcell.scenarios import Config

SCORES = st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=8)


def said(found, text):
    return sum(text in note for note in found.notes)


# ---------------------------------------------------------------- groups and seeds


def test_seeds_are_repeats_and_methods_groups():
    found = compare([a_run(label, seed) for seed in (2, 1, 3) for label in ("fedavg", "fedprox")])
    assert [group.label for group in found.groups] == ["fedavg", "fedprox"]
    assert found.reference == "fedavg"
    assert found.seeds == (1, 2, 3)
    assert [record.config["seed"] for record in found.groups[1].records] == [1, 2, 3]
    assert found.notes == ()


def test_settings_of_world_and_method_make_groups_of_their_own():
    far = {"radius_m": 800.0}
    runs = [a_run(), a_run(world=far), a_run(settings={"steps": 9, "text": "fedavg"}, world=far)]
    found = compare(runs)
    assert [group.label for group in found.groups] == [
        "fedavg world.radius_m=400",
        "fedavg world.radius_m=800 (steps=5)",
        "fedavg world.radius_m=800 (steps=9)",
    ]
    assert found.groups[1].varied == {"world.radius_m": 800.0}


def test_labels_show_values_as_settings_are_written():
    worlds = [{"bandwidth_hz": 1234567.0}, {"bandwidth_hz": 1234568.0}]
    assert [group.label for group in compare([a_run(world=world) for world in worlds]).groups] == [
        "fedavg world.bandwidth_hz=1234567",
        "fedavg world.bandwidth_hz=1234568",
    ]
    runs = [a_run("central", settings={"lr_cuts": cuts}) for cuts in ([1, 2], [])]
    assert [group.label for group in compare(runs).groups] == ["central (lr_cuts=1,2)", "central (lr_cuts=)"]


def test_a_scenario_stands_for_all_that_follows_from_it():
    other = {"scenario": "blocks", "data": {"name": "digits", "alpha": 0.1}}
    found = compare([a_run(), a_run(config=other, world={"radius_m": 100.0, "n_devices": 9})])
    assert [group.label for group in found.groups] == ["fedavg scenario=cell", "fedavg scenario=blocks"]
    assert found.groups[1].varied["world.n_devices"] == 9


def test_own_methods_are_told_apart_by_label_and_files_by_content():
    own = [a_run(label, settings={}) for label in ("mine:a", "mine:b")]
    files = [a_run("m.py", sha256=digest * 8) for digest in "ab"]
    labels = [group.label for group in compare([*own, *files]).groups]
    assert labels == ["mine:a", "mine:b", "m.py (aaaaaaaa)", "m.py (bbbbbbbb)"]


def test_differences_are_taken_seed_by_seed():
    base, gaps = {1: 0.2, 2: 0.8, 3: 0.5}, {1: 0.01, 2: 0.03, 3: 0.02}
    runs = [a_run("a", seed, [base[seed]]) for seed in base]
    runs += [a_run("b", seed, [base[seed] + gaps[seed]]) for seed in (3, 1, 2)]
    gap = compare(runs).groups[1].measures["accuracy_final"].difference
    assert gap.mean == pytest.approx(0.02)
    assert gap.high - gap.mean == pytest.approx(4.302652729911275 * 0.01 / math.sqrt(3))
    assert gap.p == pytest.approx(0.0742, abs=1e-4)


def test_unequal_seeds_are_cut_to_the_common_ones():
    runs = [a_run("a", seed) for seed in (1, 2, 3)] + [a_run("b", seed) for seed in (2, 3, 4)]
    found = compare(runs)
    assert found.seeds == (2, 3)
    assert said(found, "common seeds 2-3 alone (a also has 1; b also has 4)")


def test_one_seed_is_said():
    found = compare([a_run("a"), a_run("b")])
    assert said(found, "one seed")
    assert np.isnan(found.groups[0].measures["accuracy_best"].estimate.low)


@given(
    st.permutations(
        [a_run(label, seed, [0.1 * seed, 0.2 * seed], cost=len(label)) for label in ("a", "bb") for seed in (1, 2, 3)]
    )
)
def test_the_order_of_runs_does_not_matter(runs):
    found = compare(runs, against="a")
    gap = {group.label: group for group in found.groups}["bb"].measures["energy_joule"]
    assert gap.values.tolist() == [12.0, 12.0, 12.0]
    assert gap.difference.mean == pytest.approx(6.0)
    assert found.seeds == (1, 2, 3)


# ---------------------------------------------------------------- quantities and targets


def test_totals():
    (group,) = compare([a_run(seed=seed, accuracy=[0.3, 0.9, None, 0.6, None]) for seed in (1, 2)]).groups
    found = {key: one.estimate.mean for key, one in group.measures.items()}
    assert found["accuracy_best"] == 0.9
    assert found["accuracy_final"] == 0.6
    assert found["loss_final"] == 0.4
    assert (found["simulated_s"], found["energy_joule"], found["uplink_bit"]) == (10.0, 15.0, 50.0)
    assert found["delivered_share"] == 0.75


@given(SCORES, st.floats(0.01, 1), st.floats(0.1, 10))
def test_cost_of_a_target_by_brute_force(scores, target, cost):
    run = a_run(accuracy=[0.005, *scores], cost=cost)
    (group,) = compare([run], targets=[target]).groups
    clock = joule = bit = 0.0
    expected = None
    for number, score in enumerate([0.005, *scores], 1):
        clock, joule, bit = clock + 2 * cost, joule + 3 * cost, bit + 10 * cost
        if expected is None and score is not None and score >= target:
            expected = (float(number), clock, joule, bit)
    names = [f"{name}_to_{target}" for name in ("rounds", "s", "joule", "bit")]
    found = [group.measures[name] for name in names]
    if expected:
        assert [one.values[0] for one in found] == pytest.approx(expected)
    else:
        assert all(one.censored == 1 for one in found)
        assert np.isnan([one.estimate.mean for one in found]).all()
        assert [one.least[0] for one in found] == pytest.approx((len(scores) + 1.0, clock, joule, bit))


def test_a_target_that_some_runs_miss_has_a_bound_and_no_p_value():
    runs = [a_run("a", seed, [0.5, 0.9]) for seed in (1, 2, 3)]
    runs += [a_run("b", seed, [0.5, 0.6, 0.9 if seed < 3 else 0.7], config={"rounds": 2}) for seed in (1, 2, 3)]
    found = compare(runs, targets=[0.85])
    one = found.groups[1].measures["s_to_0.85"]
    assert one.values.tolist()[:2] == [6.0, 6.0]
    assert one.censored == 1
    assert one.least.tolist() == [6.0, 6.0, 6.0]
    assert math.isnan(one.estimate.mean)
    assert (one.estimate.n, one.difference.n, one.difference.mean) == (2, 2, 2.0)
    assert math.isnan(one.difference.p)


def test_every_run_reaches_the_default_target():
    found = compare([a_run("a", 1, [0.3, 0.9]), a_run("b", 1, [0.2, 0.777, 0.5], config={"rounds": 2})])
    assert found.targets == (0.738,)  # 95 % of 0.777, rounded down
    assert not any(one.censored for group in found.groups for one in group.measures.values())


def test_a_diverged_run_keeps_its_best_and_has_no_totals():
    runs = [
        a_run("a", 1),
        a_run("a", 2),
        a_run("b", 1),
        a_run("b", 2, [0.4, 0.6], config={"rounds": 3}, state="diverged"),
    ]
    found = compare(runs, targets=[0.55])
    measures = found.groups[1].measures
    assert measures["accuracy_best"].values.tolist() == [0.8, 0.6]
    assert np.isnan(measures["energy_joule"].values).tolist() == [False, True]
    assert (measures["energy_joule"].estimate.n, measures["energy_joule"].difference.n) == (1, 1)
    assert measures["rounds_to_0.55"].values.tolist() == [3.0, 2.0]
    assert said(found, "diverged, so without final values and totals: b on seed 2 after 2 of 2 rounds")


def test_runs_that_are_judged_by_loss_alone_have_no_targets():
    runs = [a_run(label, seed) for label in "ab" for seed in (1, 2)]
    for run in runs:
        del run.columns["accuracy"]
    found = compare(runs)
    assert found.targets == ()
    assert found.groups[1].measures["loss_final"].estimate.n == 2
    with pytest.raises(BadInput, match="'a' was not evaluated by accuracy: drop the target"):
        compare(runs, targets=[0.5])
    with pytest.raises(BadInput, match="'c' was evaluated by accuracy and 'a' was not"):
        compare([*runs, a_run("c", 1)])


# ---------------------------------------------------------------- what is refused, left out or said


def test_unfinished_runs_are_left_out_and_said():
    found = compare([a_run(), a_run("b"), a_run("b", 2, state="interrupted"), a_run(seed=2)])
    assert found.seeds == (1,)
    assert said(found, "b-2 is interrupted after 3 of 3 rounds")
    with pytest.raises(BadInput, match="nothing to compare: left out, because without an end: fedavg-1 is running"):
        compare([a_run(state="running")])


def test_no_common_seed_is_refused():
    with pytest.raises(BadInput, match=r"'a' \(seeds 1-2\) and 'b' \(seeds 5\) have no seed in common"):
        compare([a_run("a", 1), a_run("a", 2), a_run("b", 5)])


def test_groups_that_overlap_only_in_pairs_are_all_named():
    runs = [a_run(label, seed) for label, seeds in (("a", (1, 2)), ("b", (2, 3)), ("c", (1, 3))) for seed in seeds]
    words = (
        r"'a' \(seeds 1-2\), 'b' \(seeds 2-3\) and 'c' \(seeds 1, 3\) have no seed in common .* all of them on the same"
    )
    with pytest.raises(BadInput, match=words):
        compare(runs)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"data": {"name": "mnist"}}, "'a data.name=digits' has data set digits and 'b data.name=mnist' has mnist"),
        ({"rounds": 9}, "'a rounds=3' has rounds 3 and 'b rounds=9' has 9"),
        ({"eval_every": 5}, "rounds between evaluations"),
    ],
)
def test_what_is_less_comparable_is_said(config, text):
    assert said(compare([a_run("a"), a_run("b", config=config)]), text) == 1


def test_versions_and_own_objects_are_said():
    runs = [a_run("a", made_by={"fedcell": "0.1"}), a_run("b", made_by={"fedcell": "0.2"}, own=("dataset", "method"))]
    found = compare(runs)
    assert said(found, "different versions of fedcell (0.1, 0.2)")
    assert said(found, "an own dataset, which")


def test_the_same_run_twice_counts_once_and_another_is_refused():
    found = compare([a_run(), a_run(folder="copy")])
    assert len(found.groups[0].records) == 1
    assert said(found, "copy is the same run as fedavg-1")
    with pytest.raises(BadInput, match="fedavg-1 and other hold the same method, settings and seed but other numbers"):
        compare([a_run(), a_run(accuracy=[0.1, 0.2, 0.3], folder="other")])


def test_the_reference_is_named_by_label_or_its_only_beginning():
    runs = [a_run("fedavg"), a_run("fedprox:mu=1"), a_run("fedprox:mu=2")]
    assert compare(runs, against="fedprox:mu=2").reference == "fedprox:mu=2"
    assert compare(runs, against="feda").reference == "fedavg"
    with pytest.raises(BadInput, match="several groups begin so"):
        compare(runs, against="fedprox")
    with pytest.raises(BadInput, match=r"no such group: did you mean 'fedavg'\?"):
        compare(runs, against="fedawg")


def test_only_keeps_groups_by_text():
    runs = [a_run("fedavg"), a_run("fedprox:mu=1"), a_run("fedprox:mu=2")]
    assert [group.label for group in compare(runs, only=["mu=2", "avg"]).groups] == ["fedavg", "fedprox:mu=2"]
    with pytest.raises(BadInput, match="no group holds 'osafl'"):
        compare(runs, only=["osafl"])


@pytest.mark.parametrize("arguments", [{"targets": [90.0]}, {"targets": [0.0]}, {"confidence": 95.0}])
def test_shares_out_of_range_are_refused(arguments):
    with pytest.raises(BadInput, match="give a share"):
        compare([a_run()], **arguments)


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(BadInput, match="there is no recorded run"):
        compare(tmp_path)


def test_a_setting_that_came_later_counts_as_its_default():
    """Runs of an older fedcell lack settings: they are repeats of those that have the default, and of no others."""
    whole = options.to_dict(Config())
    older = {**whole, "model": {key: value for key, value in whole["model"].items() if key != "norm"}}
    other = {**whole, "model": {**whole["model"], "norm": "batch"}}
    mine = options.to_dict(methods.load("fedavg").Config())
    runs = [
        a_run("fedavg", seed, config={**config, "seed": seed, "rounds": 3}, settings=settings)
        for seed, config, settings in (
            (1, older, {key: value for key, value in mine.items() if key != "effort"}),
            (2, whole, mine),
            (1, other, mine),
            (2, other, mine),
        )
    ]
    found = compare(runs)
    assert [group.label for group in found.groups] == ["fedavg model.norm=none", "fedavg model.norm=batch"]
    assert found.seeds == (1, 2)
