"""Forecasts: curves whose end is known, and the costs of the very run that is continued."""

import json
from math import inf

import numpy as np
import pytest

from fedcell import run
from fedcell.cli import main
from fedcell.errors import BadInput
from fedcell.plan.curves import crossing
from fedcell.plan.forecast import forecast
from fedcell.record import read, resume
from fedcell.until import Goal

SMALL = {
    "model.name": "logistic",
    "world.n_devices": 6,
    "data.partition": "iid",
    "train.lr": 0.05,
    "train.steps": 4,
    "world.idle_watt": 0.1,
}


def quantiles(found, *shares):
    ordered = np.sort(found.rounds)
    return [ordered[int(share * len(ordered))] for share in shares]


@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize("tau", [0.5, 10.0, 200.0])
def test_curves_of_the_family_end_where_they_say(tau, falling):
    r = np.arange(1, 200)
    z = -1.5 + 3.0 * np.log1p(r / tau) / np.log1p(60 / tau) + 0.03 * np.random.default_rng(1).standard_normal(199)
    y = np.exp(-z) if falling else 1 / (1 + np.exp(-z))
    target = np.exp(-1.5) if falling else 1 / (1 + np.exp(-1.5))  # reached after about 60 rounds
    real = int(r[(y <= target) if falling else (y >= target)][0])
    found = crossing(r[:25], y[:25], target, falling, r[25:], np.random.default_rng(2))
    low, middle, high = quantiles(found, 0.05, 0.5, 0.95)
    assert low <= real <= high
    assert middle == pytest.approx(real, rel=0.35)


def test_what_does_not_learn_is_not_expected_to_arrive():
    flat = 0.3 + 0.01 * np.random.default_rng(3).standard_normal(30)
    found = crossing(np.arange(1, 31), flat, 0.9, False, np.arange(31, 200), np.random.default_rng(4))
    assert np.isfinite(found.rounds).mean() < 0.2


@pytest.fixture(scope="module")
def pilot(tmp_path_factory):
    place = tmp_path_factory.mktemp("pilot")
    return run("fedavg:scheduler=random,n_selected=3", "cell", {**SMALL, "rounds": 12}, out=place / "run")[0]


def test_costs_are_those_of_the_rounds_that_follow(pilot, tmp_path):
    """Whatever number of rounds is foretold, its seconds and joules are those of the run itself."""
    goal = Goal("accuracy", float(pilot.columns["accuracy"].max()) + 0.1)
    found = forecast(pilot.folder, goal, horizon=60)
    whole = run("fedavg:scheduler=random,n_selected=3", "cell", {**SMALL, "rounds": 60}, out=tmp_path / "whole")[0]
    rounds = found.costs["rounds"]
    assert rounds.low <= rounds.median <= rounds.high
    joules = np.cumsum(sum(whole.columns[f"{part}_joule"] for part in ("compute", "radio", "idle")))
    bits = np.cumsum(whole.columns["uplink_bit"])
    for n, *costs in zip(*(found.costs[name] for name in ("rounds", "seconds", "joules", "bits")), strict=True):
        if n < inf:
            real = [whole.columns["clock_s"][int(n) - 1], joules[int(n) - 1], bits[int(n) - 1]]
            assert costs == pytest.approx(real, rel=1e-9)
        else:
            assert costs == [inf] * 3
    assert forecast(pilot.folder, goal, horizon=60) == found  # seeded


def test_a_target_that_the_pilot_reached_is_no_forecast(pilot):
    accuracy = pilot.columns["accuracy"]
    found = forecast(pilot.folder, Goal("accuracy", float(accuracy[3])))
    first = int(np.argmax(accuracy >= accuracy[3]))
    assert found.costs["rounds"] == (first + 1,) * 3
    assert found.costs["seconds"].median == pilot.columns["clock_s"][first]
    assert found.chance == 1


@pytest.mark.parametrize(
    ("goal", "changes", "words"),
    [
        (Goal("acuracy", 0.9), {}, "no metric"),
        (Goal("seconds", 9.0), {}, "no metric"),
        (Goal("accuracy", 0.99), {"confidence": 2.0}, "between 0 and 1"),
        (Goal("accuracy", 0.99), {"horizon": 12}, "look further"),
        (Goal("accuracy", 0.99), {"horizon": 0}, "a horizon of 0 rounds is empty: give 1 or more"),
    ],
)
def test_what_cannot_be_foretold_is_explained(pilot, goal, changes, words):
    with pytest.raises(BadInput, match=words):
        forecast(pilot.folder, goal, **changes)


def test_a_short_pilot_is_refused(tmp_path):
    one = run("fedavg", "cell", {**SMALL, "rounds": 3}, out=tmp_path / "run")[0]
    with pytest.raises(BadInput, match="run it longer"):
        forecast(one.folder, Goal("accuracy", 0.99))


def test_the_command_prints_a_line_per_run(pilot, capsys):
    assert main(["forecast", str(pilot.folder.parent), "--until", "accuracy=0.9", "--rounds", "80"]) == 0
    assert "interval" in capsys.readouterr().out
    assert main(["forecast", str(pilot.folder), "--until", "accuracy=0.9", "--rounds", "80", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert main(["forecast", *[str(pilot.folder)] * 2, "--until", "accuracy=0.9", "--rounds", "80"]) == 0
    assert capsys.readouterr().out.count(str(pilot.folder)) == 2  # equal labels would tell nothing apart
    assert set(one["costs"]) == {"rounds", "seconds", "joules", "bits"}
    assert main(["forecast", str(pilot.folder), "--until", "accuracy=0.9,joules=3"]) == 2


def test_a_pilot_that_stopped_at_a_target_is_continued_to_a_higher_one(tmp_path):
    one = run("fedavg", "cell", {**SMALL, "rounds": 60}, until={"accuracy": 0.35}, out=tmp_path / "run")[0]
    assert 5 <= one.status.rounds < 60
    found = forecast(one.folder, Goal("accuracy", 0.5))
    assert found.pilot_rounds == one.status.rounds
    whole = read(resume(tmp_path / "run", until="accuracy=0.5")[0].folder)
    assert found.costs["rounds"].low <= whole.status.rounds <= found.costs["rounds"].high


@pytest.mark.parametrize(("values", "target"), [([-0.5, -0.2, 0.1, 0.2, 0.3], 0.9), ([1, 2, 3, 4, 5], 9)])
def test_a_metric_that_rises_and_is_no_share_is_refused(pilot, monkeypatch, values, target):
    columns = {**pilot.columns, "queue": np.resize(np.array(values, float), len(pilot.columns["round"]))}
    monkeypatch.setattr("fedcell.plan.forecast.read", lambda folder: pilot._replace(columns=columns))
    words = rf"queue={target} of .* since queue rises and is no share \(it was {values[0]} to {values[-1]}\): give"
    with pytest.raises(BadInput, match=words):
        forecast(pilot.folder, Goal("queue", target))
    assert forecast(pilot.folder, Goal("queue", values[0])).chance == 1  # it is there
