"""The planner of CAFe: reference minima, brute force, measured times, explanations, and its command."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fedcell.cli import main
from fedcell.errors import BadInput
from fedcell.methods.cafe import theory
from fedcell.plan import cafe
from fedcell.plan.figure import draw

STATIONARY = {  # N, rate, alpha_w, alpha_b: minima (x, J), best first
    (50, 1, 20, 100): [(8.520988, 114.480923), (0.0432958, 160.845897)],
    (50, 1, 0, 100): [(0.1697945, 101.192757)],
    (50, 1, 0.1, 100): [(0.1392513, 101.841947)],
    (50, 1, 1, 100): [(0.0966003, 106.323014), (4.883414, 109.211022)],
    (100, 1, 1, 100): [(0.0474325, 106.489568), (5.772619, 110.473153)],
    (100, 1, 0.05, 10): [(0.0523287, 11.355862)],
}


def objective(x, n, rate, waste, comm):
    """J in closed form for M = 1."""
    down = -np.expm1(-n * x)
    return waste * n * x * np.exp(-x) / (rate * down) + comm / down + x / rate * (0.5 + 1 / -np.expm1(-x))


def planned(case, **more):
    n, rate, waste, comm = case
    return cafe.plan(n, rate=rate, waste_weight=waste, comm_weight=comm, **more)


@pytest.mark.parametrize("case", STATIONARY)
def test_reference_minima(case):
    got = planned(case)
    flat = [number for one in got.minima for number in (one.deadline_s, one.objective)]
    assert flat == pytest.approx([number for pair in STATIONARY[case] for number in pair], rel=1e-6)
    assert [one.best for one in got.minima] == [True] + [False] * (len(got.minima) - 1)
    assert (got.quorum, got.deadline_s, got.objective) == (1, got.minima[0].deadline_s, got.minima[0].objective)


def test_curve_and_box_of_figure_3():
    got = planned((50, 1, 20, 100))
    assert got.curve.deadline_s[[0, -1]] == pytest.approx([0.0246267, 94.1491], rel=1e-5)
    for x, value in {0.1: 192.876751, 1: 469.961418, 5: 141.223653, 10: 115.454453}.items():
        assert np.interp(x, *got.curve) == pytest.approx(value, rel=1e-6)
        assert objective(x, 50, 1, 20, 100) == pytest.approx(value)
    assert objective(got.curve.deadline_s, 50, 1, 20, 100) == pytest.approx(got.curve.objective, rel=1e-9)


@hypothesis_settings(max_examples=25)
@given(st.integers(1, 300), st.floats(0.01, 100), st.floats(0, 1000), st.floats(0.01, 1e4), st.data())
def test_nothing_beats_the_plan(n, rate, waste, comm, data):
    quorum = data.draw(st.sampled_from([None, 1, (n + 1) // 2, n]))
    got = planned((n, rate, waste, comm), quorum=quorum)
    times = np.geomspace(1e-6, 1e6, 3001) / rate
    cost = theory.metrics(n, quorum or 1, times, theory.answer_probability(times, rate))
    with np.errstate(over="ignore", invalid="ignore"):
        everywhere = waste * cost.wastage_s + comm * cost.communication + cost.age_s
    assert got.objective <= np.nanmin(everywhere) * (1 + 1e-9)
    value = waste * got.wastage_s + comm * got.communication + got.age_s
    assert value == pytest.approx(got.objective, rel=1e-9)
    best_of_all = planned((n, rate, waste, comm))
    assert best_of_all.objective <= got.objective * (1 + 1e-9), "no quorum beats one"


def test_table_and_noise_quorum():
    got = planned((100, 1, 0, 2), quorum=33)
    table = got.table
    assert {1, 33, got.noise_quorum, 10, 100} <= set(table.quorum)
    assert got.deadline_s in table.deadline_s
    here = table.objective[table.quorum == 33, table.deadline_s == got.deadline_s]
    assert here == pytest.approx([got.objective])
    assert (np.diff(table.objective, axis=0) >= -1e-9 * table.objective[:-1]).all()
    assert (np.diff(table.success, axis=1) >= 0).all()
    gains = theory.noise_gain(100, np.arange(1, 101), theory.answer_probability(got.deadline_s, 1.0))
    assert got.noise_quorum == 1 + gains.argmax()


# ---------------------------------------------------------------- measured times


@given(st.lists(st.floats(0.01, 50), min_size=1, max_size=30), st.integers(1, 12), st.data())
def test_measured_times_against_brute_force(times, n, data):
    quorum = data.draw(st.integers(1, n))
    got = cafe.plan(n, response_s=times, waste_weight=1.5, comm_weight=3, quorum=quorum)
    between = np.unique(np.concatenate([times, np.linspace(0.005, 60, 400)]))
    share = np.array([np.mean(np.array(times) <= t) for t in between])
    cost = theory.metrics(n, quorum, between, share)
    with np.errstate(invalid="ignore", over="ignore"):
        everywhere = 1.5 * cost.wastage_s + 3 * cost.communication + cost.age_s
    assert got.deadline_s in times
    assert got.objective == pytest.approx(np.nanmin(everywhere), rel=1e-9)


def test_many_measured_times_come_close_to_their_law():
    times = np.random.default_rng(2).exponential(2.0, 40_000)
    measured = cafe.plan(50, response_s=times, waste_weight=1, comm_weight=100)
    law = cafe.plan(50, rate=0.5, waste_weight=1, comm_weight=100)
    assert measured.objective == pytest.approx(law.objective, rel=0.02)
    assert measured.deadline_s == pytest.approx(law.deadline_s, rel=0.15)


def test_one_measured_time():
    got = cafe.plan(4, response_s=[2.5, 2.5], waste_weight=0, comm_weight=1, quorum=4)
    assert (got.deadline_s, got.success, got.wastage_s, got.age_s) == (2.5, 1.0, 0.0, 3.75)


# ---------------------------------------------------------------- what cannot be planned, and the command


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clients": 0}, "clients = 0 is out of range"),
        ({"quorum": 0}, "quorum = 0 of 10 clients can never be met: give 1 to 10"),
        ({"quorum": 11}, "quorum = 11 of 10 clients"),
        ({"comm_weight": 0}, "no best one"),
        ({"comm_weight": -1}, "comm_weight = -1"),
        ({"comm_weight": float("nan")}, "comm_weight = nan"),
        ({"waste_weight": -1}, "waste_weight = -1"),
        ({"waste_weight": float("inf")}, "waste_weight = inf"),
        ({"rate": 0}, "rate = 0 is out of range"),
        ({"rate": -2}, "rate = -2"),
        ({"rate": None}, "either a rate or measured"),
        ({"response_s": [1.0]}, "either a rate or measured"),
        ({"rate": None, "response_s": []}, "no response times"),
        ({"rate": None, "response_s": [1, -2]}, "response time -2 s"),
        ({"rate": None, "response_s": [1, 0]}, "response time 0 s"),
        ({"rate": None, "response_s": [float("nan")]}, "response time nan s"),
        ({"rate": None, "response_s": ["soon"]}, "not all numbers"),
    ],
)
def test_degenerate_input_is_explained(changes, words):
    arguments = {"clients": 10, "rate": 1.0, "waste_weight": 1.0, "comm_weight": 1.0} | changes
    with pytest.raises(BadInput, match=words):
        cafe.plan(**arguments)


FLAGS = ["plan", "cafe", "--clients", "50", "--waste-weight", "20", "--comm-weight", "100"]


@pytest.mark.rendered
def test_command_prints_the_plan(capsys, tmp_path):
    figure = tmp_path / "j.png"
    assert main([*FLAGS, "--rate", "1", "--figure", str(figure)]) == 0
    out = capsys.readouterr().out
    for words in ("8.52099 s       114.481  best", "0.0432958 s       160.846  local", "quorum M", "M = 50", "(100%)"):
        assert words in out
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_command_as_json(capsys, tmp_path):
    assert main([*FLAGS, "--rate", "1", "--quorum", "50", "--json"]) == 0
    got = json.loads(capsys.readouterr().out)
    assert got["quorum"] == 50
    assert got["deadline_s"] == pytest.approx(planned((50, 1, 20, 100), quorum=50).deadline_s)
    assert len(got["curve"]["deadline_s"]) == len(got["curve"]["objective"]) == 201
    assert len(got["table"]["objective"]) == len(got["table"]["quorum"])
    times = tmp_path / "times.csv"
    times.write_text("seconds\n1\n2\n4\n")
    assert main([*FLAGS, "--response-times", str(times), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["deadline_s"] == 4
    assert main([*FLAGS, "--rate", "1", "--figure", str(tmp_path / "j.svg")]) == 0
    assert "<svg" in (tmp_path / "j.svg").read_text()


def test_command_explains_bad_input(capsys, tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    for flags, words in {
        ("--rate", "1", "--quorum", "51"): "quorum = 51 of 50",
        ("--rate", "-1"): "rate = -1",
        ("--response-times", str(empty)): "holds no seconds",
        ("--response-times", "gone.csv"): "--response-times = 'gone.csv' cannot be read",
        ("--rate", "1", "--figure", "j.gif"): "end its name in .png, .pdf or .svg",
        ("--rate", "1", "--figure", str(empty / "j.png")): "is a file: choose another folder",
    }.items():
        assert main([*FLAGS, *flags]) != 0
        out, err = capsys.readouterr()
        assert out == ""
        assert words in err
        assert err.count("\n") == 1


def test_figure_marks_every_minimum():
    ax = draw(planned((50, 1, 1, 100)), "title").axes[0]
    marked = sorted(float(line.get_xdata()[0]) for line in ax.lines if line.get_marker() == "o")
    assert marked == pytest.approx([0.0966003, 4.883414], rel=1e-5)
