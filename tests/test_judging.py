"""The rules of verdicts: what one, two or more seeds decide, printed margins, parts, chance, and measures of a run."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedcell.experiment import Experiment, Finding, judge, judging, measures, verdicts
from fedcell.experiment.judging import (
    above,
    ahead,
    below,
    exact,
    first_hit,
    gain,
    inside,
    level,
    near,
    not_behind,
    printed_margin,
    sooner,
    told,
    under,
)
from fedcell.experiment.measures import column, window
from fedcell.experiment.verdicts import Claim, Part, combine, finding
from fedcell.report.paired import difference

DECIDED = {"reproduced", "far larger", "partly", "not reproduced"}
values = st.lists(st.floats(-1, 1).map(lambda x: round(x, 3)), min_size=1, max_size=8).map(np.array)
many = st.lists(st.floats(-1, 1).map(lambda x: round(x, 3)), min_size=3, max_size=8).map(np.array)
part_verdicts = st.sampled_from(["reproduced", "far larger", "partly", "not reproduced", "cannot decide", "not run"])


def run(case, seed, *accuracy, **columns):
    rounds = list(range(1, len(accuracy) + 1))
    seconds = [float(2 * n) for n in rounds]
    return {"case": case, "seed": seed, "rounds": rounds, "accuracy": list(accuracy), "seconds": seconds, **columns}


def cases(**numbers):
    """Runs of one evaluation: a=[.5, .6] are two seeds of case a."""
    return [run(case, seed, value) for case, of in numbers.items() for seed, value in enumerate(of, 1)]


def part(verdict, n=5):
    return Part("x", verdict, n)


# ---------------------------------------------------------------- seeds


@given(values, st.floats(0.01, 1))
def test_fewer_than_three_seeds_never_decide(numbers, printed):
    for one in (inside("x", numbers, low=0.0), printed_margin("x", numbers, printed)):
        found = finding("claim", one)
        assert found.n == len(numbers)
        assert (found.verdict == "indicated") == (len(numbers) < 3)
        assert found.verdict == "indicated" or found.verdict in DECIDED


@given(many)
def test_ahead_is_the_paired_interval(numbers):
    found = inside("x", numbers, low=0.0)
    wanted = difference(numbers, np.zeros(len(numbers)))
    assert (found.mean, found.low, found.high, found.n) == (wanted.mean, wanted.low, wanted.high, wanted.n)
    assert bool(found) == (wanted.low > 0)


@given(values.filter(lambda v: (v > 0).all() or (v < 0).all()))
def test_one_or_two_seeds_say_which_way(numbers):
    assume(len(numbers) < 3)
    reason = finding("claim", inside("x", numbers, low=0.0)).reason
    assert ("does not hold" if (numbers < 0).all() else ": holds") in reason


def test_two_seeds_that_disagree_do_not_indicate_that_it_holds():
    assert "does not hold" in finding("claim", inside("x", np.array([0.1, -0.01]), low=0.0)).reason


@given(many, st.floats(0.05, 0.9))
def test_a_seed_like_the_mean_never_takes_a_verdict_back(numbers, printed):
    """One more seed at the mean narrows the interval: what holds stays, and it never becomes undecided."""
    more = np.append(numbers, numbers.mean())
    before, after = inside("x", numbers, low=0.0), inside("x", more, low=0.0)
    assert after.verdict in DECIDED
    assert after or not before
    if printed_margin("x", numbers, printed).verdict == "reproduced":
        assert printed_margin("x", more, printed).verdict == "reproduced"


@given(many, st.floats(0.01, 0.5), st.floats(0.5, 100))
def test_units_change_no_verdict(numbers, printed, scale):
    scale = 2.0 ** round(math.log2(scale))  # exact in floating point
    assert (
        printed_margin("x", numbers, printed).verdict == printed_margin("x", scale * numbers, scale * printed).verdict
    )
    assert bool(inside("x", numbers, low=0.0)) == bool(inside("x", scale * numbers, low=0.0))


@given(many)
def test_both_ways_never_hold_at_once(numbers):
    assert not (inside("x", numbers, low=0.0) and inside("x", -numbers, low=0.0))


def test_the_claim_has_the_seeds_of_its_thinnest_comparison():
    rows = cases(a=[0.5, 0.6, 0.7, 0.8], b=[0.3, 0.4, 0.5], c=[0.1, 0.2])
    parts = [ahead(rows, "a", "b"), ahead(rows, "a", "c")]
    assert [one.n for one in parts] == [3, 2]
    found = finding("claim", parts)
    assert (found.n, found.verdict) == (2, "indicated")
    assert finding("claim", parts[0]).verdict == "reproduced"


def test_pairs_are_by_seed():
    rows = cases(a=[0.5, 0.9, 0.7], b=[0.4, 0.8, 0.6])
    found = ahead(rows, "a", "b")
    assert (found.mean, found.n) == (pytest.approx(0.1), 3)
    assert found, "the spread between seeds is not that of the difference"
    assert str(found) == "a > b: +10.0 points [+10.0, +10.0], n = 3"


def test_accuracies_are_written_in_percent_and_other_numbers_as_they_are():
    rows = [{**one, "loss": [0.25]} for one in cases(a=[0.5, 0.9, 0.7], b=[0.4, 0.8, 0.6])]
    cost = column("loss")
    assert told(rows, "a") == "70.0±20.0 %"
    assert told(rows, "a", window(1, 1)) == "70.0±20.0 %"
    assert told(rows, "a", cost) == "0.250±0.000"
    assert above(rows, "a", 0.4).unit == near(rows, "a", 0.7, 0.1).unit == "%"
    assert above(rows, "a", 0.4, cost).unit == ""
    assert gain(rows, "a", "b", 0.1).unit == level(rows, "a", "b", 0.2).unit == "points"
    assert below(rows, "a", "b", cost).unit == "difference"
    assert sooner(rows, "a", "b", first_hit(0.6)).unit == "% saved"
    assert inside("mine", np.array([0.1, 0.2, 0.3])).measured == "0.2 [-0.0484, 0.448]"


# ---------------------------------------------------------------- printed margins


@pytest.mark.parametrize(
    ("mean", "spread", "verdict"),
    [
        (0.04, 0.001, "reproduced"),
        (0.021, 0.001, "reproduced"),
        (0.019, 0.001, "partly"),
        (0.079, 0.001, "reproduced"),
        (0.55, 0.01, "far larger"),
        (0.09, 0.02, "partly"),  # above twice the margin, but not beyond the interval
        (0.04, 0.1, "not reproduced"),
        (-0.04, 0.001, "not reproduced"),
    ],
)
def test_a_printed_margin_is_two_sided(mean, spread, verdict):
    numbers = mean + spread * np.array([-1.0, 0.0, 1.0, 0.5, -0.5])
    assert printed_margin("x", numbers, 0.04).verdict == verdict
    assert finding("claim", printed_margin("x", numbers, 0.04)).verdict == verdict


def test_a_margin_without_sign_is_refused():
    with pytest.raises(ValueError, match="swap the sides"):
        printed_margin("x", np.ones(3), -0.1)


def test_no_improvement_is_not_a_small_one():
    rows = cases(a=[0.500, 0.501, 0.499, 0.500], b=[0.500, 0.500, 0.500, 0.501], c=[0.3, 0.7, 0.5, 0.2])
    assert level(rows, "a", "b", 0.01)
    assert not ahead(rows, "a", "b")
    assert not level(rows, "a", "c", 0.01), "an interval that is wide shows nothing"
    assert not_behind(rows, "a", "b", 0.01)
    assert not not_behind(rows, "b", "c", 0.01)


def test_bounds_of_one_case():
    rows = cases(a=[0.50, 0.51, 0.52])
    assert above(rows, "a", 0.4)
    assert not above(rows, "a", 0.505), "the interval, not the mean"
    assert under(rows, "a", 0.6)


def test_so_many_times_as_much_as_nothing():
    rows = cases(much=[0.7, 0.8, 0.75], little=[0.3, 0.35, 0.31], none=[0.0, 0.0, 0.0])
    for low, factor, verdict in (
        ("little", 2, "reproduced"),
        ("little", 3, "not reproduced"),
        ("none", 9, "reproduced"),
    ):
        assert judging.times(rows, "much", low, factor, measures.final).verdict == verdict
    assert judging.times(rows, "none", "none", 2, measures.final).verdict == "not reproduced"


def test_every_seed_or_their_mean():
    numbers = np.array([0.5, 0.6, 0.7])
    assert judging.on_every_seed("x", numbers, low=0.45)
    assert not inside("x", numbers, low=0.45), "the interval of the mean is wider than the values"
    assert not judging.on_every_seed("x", np.array([0.5, 0.9, 0.4, 0.9]), low=0.45)
    assert judging.on_every_seed("x", np.empty(0), low=0.45).verdict == "not run"


# ---------------------------------------------------------------- parts


@given(st.lists(part_verdicts, min_size=1, max_size=8))
def test_parts_make_a_verdict(words):
    verdict = combine([part(word) for word in words])
    held = sum(word in ("reproduced", "far larger") for word in words)
    assert (verdict in ("reproduced", "far larger")) == (held == len(words))
    if verdict == "partly":
        assert held + words.count("partly") / 2 >= len(words) / 2
    if verdict == "not reproduced":
        assert held + words.count("partly") / 2 < len(words) / 2
    if verdict in ("cannot decide", "not run"):
        assert verdict in words


@given(st.lists(part_verdicts, max_size=7))
def test_a_part_that_turns_out_well_never_makes_it_worse(others):
    order = ["not reproduced", "partly", "far larger", "reproduced"]
    before, after = (combine([part(word) for word in (one, *others)]) for one in ("not reproduced", "reproduced"))
    if before in order and after in order:
        assert order.index(after) >= order.index(before)
    assert not (before == "partly" and after not in order)


def test_parts_left_open_do_not_decide():
    assert combine([part("reproduced"), part("cannot decide")]) == "partly"
    assert combine([part("not reproduced"), part("cannot decide"), part("cannot decide")]) == "cannot decide"
    assert combine([part("not reproduced"), part("not reproduced"), part("cannot decide")]) == "not reproduced"
    assert combine([part("not reproduced"), part("not run")]) == "not run"
    assert finding("claim", [part("not run", 0)]).verdict == "not run"
    assert finding("claim", []) == Finding("claim", "", "not run", verdicts.UNDECIDED)


def test_one_of_twelve_is_not_partly():
    assert combine([part("reproduced"), *[part("not reproduced")] * 11]) == "not reproduced"
    assert combine([*[part("reproduced")] * 6, *[part("not reproduced")] * 6]) == "partly"


def test_the_reason_names_what_failed():
    found = finding("claim", [exact("x", holds=True), exact("y", holds=False)], "1", "as asked")
    assert found.reason == "as asked; 1 of 2 hold; not: y"
    assert (found.ours, found.n, found.verdict) == ("1", None, "partly")


def test_a_check_that_decides_on_two_seeds_is_caught():
    claims = (Claim("a", "it holds", "-"),)
    lax = Experiment("x", claims, lambda quick: [], None, lambda rows: [Finding("a", "1", "reproduced", "", n=2)])
    with pytest.raises(ValueError, match="fewer than 3 seeds"):
        judge(lax, [])


# ---------------------------------------------------------------- chance


def test_runs_at_chance_decide_nothing():
    rows = cases(dead=[0.10, 0.11, 0.12], gone=[0.09, 0.10, 0.11], alive=[0.5, 0.5, 0.5])
    assert ahead(rows, "dead", "gone").verdict == "cannot decide"
    assert gain(rows, "dead", "gone", 0.01).verdict == "cannot decide"
    assert level(rows, "dead", "gone", 0.05).verdict == "cannot decide"
    assert ahead(rows, "alive", "gone"), "one that learned is ahead of one that did not"
    assert ahead(rows, "dead", "gone", chance=0.01), "among a hundred classes this is learning"
    assert ahead(rows, "alive", "dead", chance=lambda row: 0.53).verdict == "cannot decide"
    assert judging.more(rows, "dead", "gone", measures.final), "chance is of accuracies"


def test_dead_at_chance_is_not_steady():
    still, calm, wild = [0.1] * 9, [0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.81, 0.8], [0.5, 0.9, 0.2] * 3
    rows = [
        run(case, seed, *(value + seed / 1000 for value in curve))
        for case, curve in (("dead", still), ("calm", calm), ("wild", wild))
        for seed in (1, 2, 3)
    ]
    assert judging.steadier(rows, "calm", "wild")
    assert judging.steadier(rows, "wild", "calm").verdict == "not reproduced"
    assert judging.steadier(rows, "dead", "wild").verdict == "cannot decide"


# ---------------------------------------------------------------- measures


def test_hits_and_stays():
    row = run("a", 1, 0.2, 0.9, 0.3, 0.8, 0.85)
    assert measures.first_hit(0.8)(row) == 2
    assert measures.stays(0.8)(row) == 4
    assert measures.first_hit(0.8, "seconds")(row) == 4.0
    assert measures.first_hit(0.8, smooth=2)(row) == 5
    assert math.isinf(measures.first_hit(0.95)(row))
    assert math.isinf(measures.stays(0.87)(row))
    assert measures.stays(0.1)(row) == 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0, 1))
def test_nobody_stays_before_the_first_hit(accuracy, target):
    row = run("a", 1, *accuracy)
    hit, stay = measures.first_hit(target)(row), measures.stays(target)(row)
    assert hit <= stay
    if math.isfinite(stay):
        assert min(accuracy[int(stay) - 1 :]) >= target


def test_windows_and_area():
    row = run("a", 1, 0.1, 0.2, 0.3, 0.4)
    assert measures.window(2, 3)(row) == pytest.approx(0.25)
    assert math.isnan(measures.window(7, 9)(row))
    assert measures.at_round(4)(row) == 0.4
    assert measures.area(row) == pytest.approx(0.25)
    assert measures.at_seconds(6.5, 2)(row) == pytest.approx(0.25)
    short = [run("a", seed, 0.5) for seed in (1, 2, 3)] + [run("b", seed, 0.4) for seed in (1, 2, 3)]
    assert ahead(short, "a", "b", measures.window(7, 9)).verdict == "not run"


def test_who_never_arrives_is_not_sooner():
    hit = measures.first_hit(0.5)
    rows = [run("soon", s, 0.1, 0.6, 0.6, 0.6) for s in (1, 2, 3)]
    rows += [run("late", s, 0.1, 0.1, 0.1, 0.6) for s in (1, 2, 3)]
    rows += [run("never", s, 0.1, 0.1) for s in (1, 2, 3)]
    rows += [run("nobody", s, 0.1, 0.1) for s in (1, 2, 3)]
    assert judging.sooner(rows, "soon", "late", hit).mean == pytest.approx(0.5)
    assert judging.sooner(rows, "soon", "late", hit, printed_share=0.4)
    assert not judging.sooner(rows, "never", "late", hit), "its run is shorter than the other needs"
    assert judging.sooner(rows, "soon", "never", hit).mean == 0, "that run ended too early to tell"
    neither = judging.sooner(rows, "never", "nobody", hit)
    assert neither.verdict == "cannot decide"
    assert "never before nobody (neither gets there)" in str(neither)
    assert "chance" not in str(neither), "both may have learned, just not that much"


def test_a_lead_that_grows():
    rows = cases(a=[0.9, 0.8, 0.85], b=[0.5, 0.4, 0.44], c=[0.6, 0.5, 0.55], d=[0.5, 0.41, 0.45])
    assert judging.wider(rows, ("a", "b"), ("c", "d"))
    assert not judging.wider(rows, ("c", "d"), ("a", "b"))
    assert [bool(one) for one in judging.rising(rows, ["d", "c", "a"])] == [True, True]


def test_a_claim_always_has_a_reason():
    part = Part("a > b", "reproduced", 3, 0.1, 0.05, 0.15)
    assert finding("order", part).reason == "a > b"
    assert finding("order", part, why="ahead").reason == "ahead"
