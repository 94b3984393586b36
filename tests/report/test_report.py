"""Tables and figures from records."""

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from fedcell import report
from fedcell.errors import BadInput, FedcellError
from fedcell.record import Record, Status
from fedcell.report import figure, table

pytestmark = pytest.mark.rendered


def a_record(label: str = "fedavg", rounds: int = 6, cost: float = 1.0, state: str = "finished") -> Record:
    ones = np.ones(rounds)
    accuracy = np.linspace(0.1, 0.9, rounds)
    accuracy[::2] = math.nan
    columns = {
        "round": np.arange(rounds),
        "clock_s": np.cumsum(90.0 * cost * ones),
        "round_s": 90.0 * cost * ones,
        "n_selected": np.full(rounds, 4),
        "n_delivered": np.arange(rounds) % 2 + 2,
        "compute_joule": 2.0 * cost * ones,
        "radio_joule": 0.5 * cost * ones,
        "uplink_bit": 1e6 * cost * ones,
        "outcome": ["D"] * rounds,
        "accuracy": accuracy,
    }
    config = {"scenario": "cell", "seed": 1}
    return Record(Path("x") / label, label, label, {}, config, Status(state, rounds, 6), columns)


def test_summary_adds_up_and_takes_measured_accuracy_alone():
    found = report.summarise(a_record()).totals
    assert found.accuracy_best == found.accuracy_final == 0.9
    assert (found.simulated_s, found.compute_joule, found.radio_joule, found.uplink_bit) == (540.0, 12.0, 3.0, 6e6)
    assert (found.delivered_per_round, found.selected_per_round) == (2.5, 4.0)


def test_best_is_not_final():
    one = a_record()
    one.columns["accuracy"][:] = [0.1, 0.8, 0.3, 0.7, 0.6, math.nan]
    found = report.summarise(one).totals
    assert (found.accuracy_best, found.accuracy_final) == (0.8, 0.6)


def test_a_run_without_rounds_has_a_summary():
    found = report.summarise(a_record(rounds=0, state="waiting"))
    assert report.as_json(found)["accuracy_best"] is None
    assert found.totals.simulated_s == 0.0
    assert "fedavg: waiting after 0 of 6 rounds" in report.text([found])


def test_text_table_is_aligned():
    lines = table.text([report.summarise(a_record()), report.summarise(a_record("a much longer name", cost=1e3))])
    rows = lines.splitlines()[:4]
    assert len({len(row) for row in rows}) == 1
    assert rows[2].split() == [
        "fedavg",
        "90.0",
        "90.0",
        "9.00",
        "min",
        "12.0",
        "J",
        "3.00",
        "J",
        "6.00",
        "Mbit",
        "2.5/4",
    ]


@pytest.mark.parametrize(
    ("value", "units", "text"),
    [
        (0.0, table.TIMES, "0"),
        (59.96, table.TIMES, "60.0 s"),
        (99.94, table.JOULES, "99.9 J"),
        (99.96, table.JOULES, "100 J"),
        (3600.0, table.TIMES, "1.00 h"),
        (0.0125, table.JOULES, "12.5 mJ"),
        (999.7e3, table.BITS, "1000 kbit"),
        (2.5e-9, table.JOULES, "0.00250 uJ"),
        (math.inf, table.TIMES, "inf"),
    ],
)
def test_human_units(value, units, text):
    assert table.human(value, units) == text


def test_figure_has_a_panel_per_cost_with_units_and_distinct_curves():
    names = ["a", "b", "c", "d", "e"]
    drawn = figure.draw([a_record(name) for name in names])
    assert [ax.get_xlabel() for ax in drawn.axes] == [
        "round",
        "simulated time (min)",
        "energy of all devices (J)",
        "uplink traffic (Mbit)",
    ]
    for ax in drawn.axes:
        curves = ax.get_lines()
        assert [curve.get_label() for curve in curves] == names
        assert len({curve.get_marker() for curve in curves}) == 5
        assert len({str(curve._dash_pattern) for curve in curves}) == 5
        assert curves[0].get_ydata() == pytest.approx([26, 58, 90])
        assert all(_luminance(curve.get_color()) < 0.65 for curve in curves)
    assert drawn.axes[1].get_lines()[0].get_xdata() == pytest.approx([3, 6, 9])
    assert drawn.axes[2].get_lines()[0].get_xdata() == pytest.approx([5, 10, 15])


def _luminance(colour: str) -> float:
    return float(np.dot(to_rgb(colour), (0.2126, 0.7152, 0.0722)))


def test_a_free_method_is_a_level_line_and_unlike_costs_get_a_log_axis():
    drawn = figure.draw([a_record("fedavg"), a_record("dear", cost=50.0), a_record("central", cost=0.0)])
    assert [ax.get_xscale() for ax in drawn.axes] == ["linear", "log", "log", "log"]
    level = drawn.axes[3].get_lines()[2]
    assert list(level.get_ydata()) == pytest.approx([90.0, 90.0])
    assert drawn.axes[3].texts[0].get_text() == "central (at no cost)"


def test_figure_of_nothing_measured_is_drawn(tmp_path):
    path = report.save([a_record(rounds=0)], tmp_path / "figure.png")
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("length", [3, 20, 44, 200])
def test_the_legend_covers_no_curve(tmp_path, length):
    drawn = figure.draw([a_record(name * length) for name in "abcdefg"])
    drawn.savefig(tmp_path / "figure.png")
    legend = drawn.legends[0].get_window_extent()
    assert not any(legend.overlaps(ax.get_window_extent()) for ax in drawn.axes)
    assert legend.x0 >= 0
    assert legend.x1 <= drawn.bbox.x1


def test_a_figure_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("fedcell.record.files.os.fsync", full_disk)
    with pytest.raises(FedcellError, match="the record is whole"):
        report.save([a_record()], tmp_path / "figure.png")


def full_disk(handle):
    raise OSError(28, "No space left on device")


def test_a_figure_needs_records_and_not_their_summaries(tmp_path):
    info = report.summarise(a_record())
    assert report.text([info])
    with pytest.raises(BadInput, match=r"records is .*: give a list of records, as fedcell.run"):
        report.save([info], tmp_path / "a.png")
