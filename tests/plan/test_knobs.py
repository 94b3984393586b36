"""Figures over a knob."""

import pytest

from fedcell.report.knobs import SHARE, KnobPanel, KnobPoint, draw_knobs, save_knobs
from fedcell.report.table import TIMES

pytestmark = pytest.mark.rendered

NAN = float("nan")


def panel(*points):
    return KnobPanel("time", TIMES, [KnobPoint(label, knob, mean, NAN, NAN) for label, knob, mean in points])


def test_numbers_are_drawn_in_their_order_and_widely_spread_ones_on_a_logarithmic_axis():
    figure = draw_knobs("world.bandwidth_hz", [panel(("a", 1e6, 7200.0), ("a", 1e4, 3600.0), ("b", 1e5, 1800.0))])
    (ax,) = figure.axes
    assert ax.get_xscale() == "log"
    assert ax.lines[0].get_xdata().tolist() == [1e4, 1e6]
    assert ax.lines[0].get_ydata().tolist() == [1.0, 2.0]  # hours
    assert ax.get_ylabel() == "time (h)"


def test_words_are_drawn_as_they_came():
    figure = draw_knobs("fedavg.scheduler", [panel(("a", "random", 1.0), ("a", "all", 2.0))] * 3)
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["random", "all"]
    assert not figure.axes[3].get_visible()


def test_ranges_are_named_in_few_digits():
    ax = draw_knobs("world.cpu_hz", [panel(("a", 1e9, 1.0), ("a", "123456789~1e9", 30.0))]).axes[0]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1e9", "1.23e8~1e9"]


def test_a_value_that_is_not_there_leaves_a_gap():
    figure = draw_knobs("x", [panel(("a", 1, 1.0), ("a", 2, NAN), ("a", 3, 2.0))])
    assert len(figure.axes[0].lines[0].get_xdata()) == 3


def test_few_runs_are_drawn_one_by_one_and_shares_on_a_plain_axis():
    points = [KnobPoint("a", 1, 0.1, NAN, NAN, [0.05, 0.15]), KnobPoint("a", 2, 0.9, NAN, NAN, [0.85, 0.95])]
    share, time = draw_knobs("x", [KnobPanel("delivered", SHARE, points), KnobPanel("time", TIMES, points)]).axes
    assert (share.get_yscale(), time.get_yscale()) == ("linear", "log")
    drawn = sorted(round(float(y)) for line in share.lines for y in line.get_ydata())
    assert drawn == [5, 10, 15, 85, 90, 95]


@pytest.mark.parametrize("end", ["png", "pdf", "svg"])
def test_all_formats(end, tmp_path):
    path = save_knobs("x", [panel(("a", 1, 1.0), ("a", 2, 2.0))], tmp_path / f"knob.{end}")
    assert path.stat().st_size > 1000
