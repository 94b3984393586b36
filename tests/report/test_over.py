"""Costs to a target over a knob, the ranking and the front."""

import json
from math import inf

import numpy as np
import pytest
from comparison_runs import a_run
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedcell.cli import main
from fedcell.errors import BadInput
from fedcell.report import compare, comparison_csv, comparison_text
from fedcell.report.knobs import KnobPanel, KnobPoint, draw_knobs
from fedcell.report.over import front, over, over_json, over_text, ranking, save_over

pytestmark = pytest.mark.rendered

SLOW, FAST = (0.2, 0.5, 0.8), (0.2, 0.8, 0.9)


def runs(radius_m, accuracy, cost=1.0, label="fedavg", **changes):
    return [a_run(label, seed, accuracy, cost=cost * seed, world={"radius_m": radius_m}, **changes) for seed in (1, 2)]


@pytest.fixture
def comparison():
    found = [*runs(1000.0, SLOW), *runs(200.0, FAST), *runs(400.0, (0.1, 0.2, 0.3))]
    return compare([*found, *runs(200.0, FAST, cost=3.0, label="fedprox")], targets=[0.8])


def test_values_are_in_their_order_line_by_line(comparison):
    found = over(comparison, "world.radius_m")
    assert [(one.line, one.knob) for one in found] == [
        *[("fedavg", 200.0), ("fedavg", 400.0), ("fedavg", 1000.0)],
        ("fedprox", 200.0),
    ]
    text = over_text(comparison, "world.radius_m")
    assert "to reach 80 % accuracy, over world.radius_m" in text
    assert "> 9.00 s" in text  # 400 m never gets there: at least the mean of 6 s and 12 s
    assert "6.00 s" in text  # 200 m: 2 rounds of 2 s and of 4 s


def test_lines_have_the_labels_of_their_groups_without_the_knob():
    found = [*runs(1000.0, SLOW), *runs(200.0, FAST), *runs(200.0, FAST, label="fedavg:lr=1", settings={"lr": 1.0})]
    named = compare(found, labels={"fedavg": "FedAvg", "fedavg:lr=1": "fast"})
    lines = [(one.line, one.knob) for one in over(named, "world.radius_m")]
    assert sorted(lines) == [("FedAvg", 200.0), ("FedAvg", 1000.0), ("fast", 200.0)]


def test_the_ranking_is_by_cost_and_those_that_never_get_there_are_last(comparison):
    found = ranking(comparison)
    assert [one.label for one in found] == [
        "fedavg world.radius_m=200",
        "fedavg world.radius_m=1000",
        "fedprox world.radius_m=200",
        "fedavg world.radius_m=400",
    ]
    assert found[0].cost == {"time": 6.0, "energy": 9.0, "uplink": 30.0, "round": 2.0}
    assert found[-1].cost["time"] == inf
    assert [one.front for one in found] == [True, False, False, False]
    assert json.dumps(over_json(comparison, "world.radius_m"))
    with pytest.raises(BadInput, match="choose one of"):
        ranking(comparison, "money")


def test_a_setting_of_a_method_is_a_knob():
    found = [a_run("prox", 1, SLOW, settings={"mu": mu}, method=f"prox:mu={mu}") for mu in (1.0, 0.1)]
    assert [one.knob for one in over(compare(found), "prox.mu")] == [0.1, 1.0]


def test_ranges_are_ordered_by_their_width_behind_numbers():
    laws = ("2e7~1e9", 1e9, "5e8~1e9", "1e8..1e9")
    found = [a_run("fedavg", 1, SLOW, world={"cpu_hz": law}) for law in laws]
    assert [one.knob for one in over(compare(found), "world.cpu_hz")] == [1e9, "5e8~1e9", "1e8..1e9", "2e7~1e9"]


def test_a_line_has_each_setting_once_if_the_first_method_has_none_of_them():
    found = [*runs(200.0, FAST), *runs(400.0, FAST)]
    for mu in (1.0, 0.1):
        found += [
            a_run("prox", 1, SLOW, world={"radius_m": radius}, settings={"mu": mu}, method=f"prox:mu={mu}")
            for radius in (200.0, 400.0)
        ]
    lines = {one.line for one in over(compare(found), "world.radius_m")}
    assert lines == {"fedavg", "prox (mu=1)", "prox (mu=0.1)"}


def test_a_target_of_zero_is_a_target():
    found = [a_run("fedavg", 1, world={"radius_m": m}, task="regression") for m in (200.0, 400.0)]
    for record in found:
        record.columns["rmse"] = np.array([2.0, 1.0, 0.0])
    text = over_text(compare(found, targets=[0.0]), "world.radius_m")
    assert "to reach RMSE 0, over world.radius_m" in text
    assert "6.00 s" in text


def test_a_bound_is_over_the_seeds_of_which_something_is_known(comparison):
    """As a mean is: of the others, nothing is added or taken away."""
    nan = float("nan")
    values, least = np.array([nan, nan, 3.0]), np.array([5.0, nan, 3.0])
    one = comparison.groups[0].measures["s_to_0.8"]._replace(values=values, least=least)
    assert (one.censored, one.bound) == (1, 4.0)
    group = comparison.groups[0]._replace(measures={**comparison.groups[0].measures, "s_to_0.8": one})
    shown = comparison._replace(groups=(group, *comparison.groups[1:]))
    assert "> 4.00 s" in over_text(shown, "world.radius_m")
    assert "> 4.0" in comparison_text(shown)
    (line,) = [row for row in comparison_csv(shown).splitlines() if row.startswith(f"{group.label},s_to_0.8")]
    assert ",4.0," in line


@pytest.mark.parametrize(("key", "words"), [("world.radius", "did you mean"), ("world.n_devices", "in all runs")])
def test_what_is_no_knob_is_refused(comparison, key, words):
    with pytest.raises(BadInput, match=words):
        over(comparison, key)


def test_the_figure_has_a_panel_per_cost(comparison, tmp_path):
    path = save_over(comparison, "world.radius_m", tmp_path / "knob.svg", 7.0)
    text = path.read_text()
    assert all(words in text for words in ("time to 80 %", "energy to 80 %", "world.radius_m", "fedprox"))


def test_few_seeds_are_points_and_more_an_interval(comparison, monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr("fedcell.report.over.save_knobs", lambda key, panels, *rest: drawn.append(panels[1].points))
    save_over(comparison, "world.radius_m", tmp_path / "a.svg", 7.0)
    more = [
        a_run("fedavg", 3, accuracy, cost=3.0, world={"radius_m": m}) for m, accuracy in [(1e3, SLOW), (200.0, FAST)]
    ]
    save_over(compare([*runs(1000.0, SLOW), *runs(200.0, FAST), *more], targets=[0.8]), "world.radius_m", "a", 7.0)
    two, three = ({point.knob: point for point in points if point.label == "fedavg"} for points in drawn)
    assert sorted(two[200.0].single) == [4.0, 8.0]
    assert np.isnan(two[200.0].low)
    assert not two[400.0].single  # never gets there
    assert not three[200.0].single
    assert three[200.0].low < three[200.0].mean < three[200.0].high


@given(arrays(np.float64, st.tuples(st.integers(1, 12), st.just(3)), elements=st.integers(0, 4).map(float)))
def test_the_front_against_a_plain_loop(points):
    def beaten(mine):
        return any((other <= mine).all() and (other < mine).any() for other in points)

    assert front(points).tolist() == [not beaten(mine) for mine in points]


def test_the_command_prints_knob_and_ranking(capsys, tmp_path):
    small = ["--set", "model.name=logistic", "--set", "world.n_devices=4", "--rounds", "4", "--quiet"]
    grid = ["--grid", "world.bandwidth_hz=1e5", "1e6", "--seeds", "1..2"]
    assert main(["sweep", "fedavg", *grid, *small, "--workers", "1", "--out", str(tmp_path / "study")]) == 0
    capsys.readouterr()
    flags = ["compare", str(tmp_path / "study"), "--target", "0.2"]
    assert main([*flags, "--over", "world.bandwidth_hz", "--figure", str(tmp_path / "a.png")]) == 0
    out = capsys.readouterr().out
    assert "over world.bandwidth_hz" in out
    assert "ranking by time" in out
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert main([*flags, "--rank", "energy", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    joules = [one["cost"]["energy"] for one in values["ranking"]]
    assert joules == sorted(joules)
    assert main([*flags, "--over", "world.bandwith_hz"]) == 2
    assert main([*flags, "--rank", "energy", "--latex"]) == 2
    capsys.readouterr()
    assert main([*flags, "--rank", "money"]) == 2
    assert capsys.readouterr().out == ""


def test_lines_leave_out_settings_without_effect():
    found = []
    for access, rule in (("tdma", "analog"), ("air", "analog"), ("air", "obda")):
        world = {"access": access, "air_rule": rule}
        found += [
            a_run("fedavg", seed, FAST, world=world | {"radius_m": radius_m})
            for seed in (1, 2)
            for radius_m in (1.0, 2.0)
        ]
    lines = {one.line for one in over(compare(found), "world.radius_m")}
    assert lines == {
        "fedavg world.access=tdma",
        "fedavg world.access=air world.air_rule=analog",
        "fedavg world.access=air world.air_rule=obda",
    }


@pytest.mark.parametrize(("means", "scale"), [((1.0, 30.0), "log"), ((1.0, 3.0), "linear"), ((0.0, 30.0), "linear")])
def test_costs_far_apart_get_a_logarithmic_axis(means, scale):
    points = [KnobPoint("fedavg", float(n), mean, mean - 2.0, mean + 1.0) for n, mean in enumerate(means)]
    figure = draw_knobs("world.radius_m", [KnobPanel("time", ((1.0, "s"),), points)])
    assert figure.axes[0].get_yscale() == scale
