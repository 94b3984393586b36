"""What a comparison looks like: text, JSON, CSV and figures."""

import csv
import io
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from comparison_runs import a_run

from fedcell import report
from fedcell.errors import BadInput
from fedcell.report import figure, side_by_side

pytestmark = pytest.mark.rendered

RISE = (0.2, 0.5, 0.7, 0.8)


def three(seeds=(1, 2, 3)):
    """Two methods that pay and one that does not, on several seeds."""
    runs = []
    for seed in seeds:
        runs.append(a_run("fedavg", seed, np.array(RISE) - 0.01 * seed))
        runs.append(a_run("fedprox:mu=0.5", seed, np.array(RISE) + 0.02 * seed, cost=1.0 + 0.1 * seed))
        runs.append(a_run("central", seed, [0.9] * 4, cost=0.0))
    return runs


@pytest.fixture(scope="module")
def found():
    return report.compare(three(), targets=[0.75, 0.83])


def test_text_has_aligned_tables_and_says_how_to_read_them(found):
    text = report.comparison_text(found)
    tables = text.split("\n\n")
    assert [table.splitlines()[0] for table in tables[:-1]] == [
        "mean over seeds",
        "mean over seeds: difference to fedavg",
        "to reach 75 % accuracy",
        "to reach 75 % accuracy: difference to fedavg",
        "to reach 83 % accuracy",  # which the reference never does
    ]
    for table in tables[:-1]:
        assert len({len(line) for line in table.splitlines()[1:]}) == 1
    assert "seeds: 1-3 (n = 3)" in tables[-1]
    assert "95 % Student t" in tables[-1]
    assert "some runs never reach the target" in tables[-1]
    rows = {line.split()[0]: line for line in tables[4].splitlines()[3:]}
    assert re.search(r"fedavg +0/3 +> 4\.00 +> 8\.00 +> 12\.0 +> 40", rows["fedavg"])
    assert "2/3" in rows["fedprox:mu=0.5"]


@pytest.mark.parametrize(
    ("gaps", "text"),
    [((0.01, 0.02, 0.03), "+2.0 ±2.5"), ((0.01, 0.011, 0.012), "+1.10 ±0.25 **"), ((0.02, 0.03, 0.04), "+3.0 ±2.5 *")],
)
def test_stars_follow_the_p_value(gaps, text):
    runs = [a_run("a", seed, [0.5 + 0.1 * seed]) for seed in (1, 2, 3)]
    runs += [a_run("b", seed, [0.5 + 0.1 * seed + gap]) for seed, gap in enumerate(gaps, 1)]
    header, row = side_by_side.sections(report.compare(runs))[1].cells
    assert dict(zip(header, row, strict=True))["final"] == text


def test_one_seed_and_one_group_are_shown_without_differences():
    text = report.comparison_text(report.compare([a_run()]))
    assert "difference" not in text
    assert "±" not in text
    assert "note: one seed" in text


@pytest.mark.parametrize(
    ("value", "half", "sign", "text"),
    [
        (93.172, 0.4412, False, "93.2 ±0.4"),
        (0.0, 0.0, True, "+0 ±0"),
        (0.0, 1.234, True, "+0.0 ±1.2"),
        (float("nan"), float("nan"), False, "-"),
        (-0.01234, float("nan"), True, "-0.0123"),
        (0.002, 5.0, False, "0.0 ±5.0"),
        (1234.5, 20.0, False, "1234 ±20"),
    ],
)
def test_numbers(value, half, sign, text):
    assert side_by_side.number(value, half, sign) == text


def test_json_is_strict_and_whole(found):
    back = json.loads(json.dumps(report.comparison_json(found), allow_nan=False))
    assert (back["seeds"], back["reference"], back["targets"]) == ([1, 2, 3], "fedavg", [0.75, 0.83])
    keys = [one["key"] for one in back["quantities"]]
    assert [group["label"] for group in back["groups"]] == ["fedavg", "fedprox:mu=0.5", "central"]
    for group in back["groups"]:
        assert list(group["measures"]) == keys
    missed = back["groups"][0]["measures"]["s_to_0.83"]
    assert missed["values"] == [None] * 3
    assert missed["at_least"] == [8.0] * 3
    assert (missed["never_reached"], missed["n"], missed["mean"], missed["difference"]) == (3, 0, None, None)
    paid = back["groups"][1]["measures"]["energy_joule"]
    assert paid["difference"]["mean"] == pytest.approx(2.4)
    assert paid["difference"]["n"] == 3


def test_csv_has_a_line_per_group_and_quantity(found):
    rows = list(csv.DictReader(io.StringIO(report.comparison_csv(found))))
    assert len(rows) == 3 * len(found.quantities)
    by_key = {(row["group"], row["quantity"]): row for row in rows}
    row = by_key["fedprox:mu=0.5", "energy_joule"]
    one = found.groups[1].measures["energy_joule"]
    assert float(row["mean"]) == one.estimate.mean
    assert float(row["p"]) == one.difference.p
    assert (row["unit"], row["target"], row["seeds"], row["pairs"]) == ("J", "", "1-3", "3")
    missed = by_key["fedavg", "s_to_0.83"]
    assert (missed["mean"], missed["at_least"], missed["never_reached"]) == ("", "8.0", "3")


def test_tables_for_a_terminal(found):
    from rich.console import Console

    out = io.StringIO()
    for table in report.comparison_tables(found):
        Console(file=out, width=120).print(table)
    assert "fedprox:mu=0.5" in out.getvalue()
    assert "to reach 83 % accuracy" in out.getvalue()


# ---------------------------------------------------------------- figures


@pytest.mark.parametrize(("kind", "begin"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_figures_are_written_in_all_formats(tmp_path, found, kind, begin):
    one, again = (
        report.save_comparison(found, tmp_path / f"{name}.{kind}", axes=["time"]).read_bytes() for name in "ab"
    )
    assert one.startswith(begin)
    assert one == again  # no dates, no random names
    if kind == "pdf":
        assert b"/Type3" not in one
        assert b"/FontFile2" in one  # TrueType, embedded


def test_svg_texts_are_texts(tmp_path, found):
    path = report.save_comparison(found, tmp_path / "figure.svg")
    texts = ["".join(node.itertext()).strip() for node in ElementTree.parse(path).iter() if node.tag.endswith("}text")]
    for text in (
        *("fedavg", "fedprox:mu=0.5", "central", "central (at no cost)", "round", "simulated time (s)"),
        *("energy of all devices (J)", "uplink traffic (bit)", "mean and 95 % interval over 3 seeds"),
    ):
        assert text in texts


@pytest.mark.parametrize(
    ("width", "axes", "panels"),
    [(3.5, (), 4), (7.16, (), 4), (7.16, ("time", "energy", "uplink"), 3), (3.5, ("energy",), 1)],
)
def test_width_and_axes_are_those_asked_for(found, width, axes, panels):
    drawn = report.draw_comparison(found, width, axes)
    assert drawn.get_figwidth() == width
    shown = [ax for ax in drawn.axes if ax.get_visible()]
    assert len(shown) == panels
    drawn.savefig(io.BytesIO())
    legend = drawn.legends[0].get_window_extent()
    assert not any(legend.overlaps(ax.get_window_extent()) for ax in shown)
    assert legend.x0 >= 0
    assert legend.x1 <= drawn.bbox.x1


def test_curves_are_told_apart_in_grey_and_are_never_staircases(found):
    drawn = report.draw_comparison(found)
    by_round, by_time = (ax.get_lines() for ax in drawn.axes[:2])
    assert len({line.get_marker() for line in by_round}) == 3
    assert len({str(line._dash_pattern) for line in by_round}) == 3
    assert {line.get_drawstyle() for line in (*by_round, *by_time)} == {"default"}
    assert by_time[0].get_xdata() == pytest.approx([2, 4, 6, 8])
    assert by_time[0].get_ydata() == pytest.approx([18, 48, 68, 78])
    assert len(drawn.axes[1].collections) == 2  # bands; the free method has a level one
    assert all(0 <= limit <= 100 for ax in drawn.axes for limit in ax.get_ylim())


@pytest.mark.parametrize("seeds", [[1], [1, 2], [1, 2, 3]])
def test_few_seeds_are_drawn_as_single_runs_and_not_as_a_band_that_covers_the_panel(seeds):
    drawn = report.draw_comparison(report.compare(three(seeds=seeds)))
    band = len(seeds) > 2
    for ax in drawn.axes:
        assert bool(ax.collections or ax.patches) == band
    lines = drawn.axes[0].get_lines()
    assert len(lines) == 3 * (1 if band else len(seeds))
    assert len(drawn.legends[0].get_texts()) == 3
    title = drawn.legends[0].get_title().get_text()
    assert title == ["one seed", "2 seeds, a line each", "mean and 95 % interval over 3 seeds"][len(seeds) - 1]


def test_runs_of_other_lengths_and_loss_alone_are_drawn():
    runs = [a_run("a", seed, RISE[: 2 + seed]) for seed in (1, 2)]
    for run in runs:
        run.config["rounds"] = 4
        del run.columns["accuracy"]
    drawn = report.draw_comparison(report.compare(runs))
    assert drawn.axes[0].get_ylabel() == "test loss"
    assert drawn.axes[0].get_lines()[0].get_xdata() == pytest.approx([1, 2, 3])  # where both seeds are


def test_unknown_formats_and_axes_are_refused(tmp_path, found):
    with pytest.raises(BadInput, match=r"end its name in .png, .pdf or .svg"):
        report.check_figure([tmp_path / "figure.jpg"])
    with pytest.raises(BadInput, match=r"unknown axis 'energie': did you mean 'energy'\?"):
        figure.check_figure([], ["energie"])
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(BadInput, match=r"folder\.png is a folder: give a file"):
        figure.check_figure([tmp_path / "folder.png"])


def test_a_figure_makes_its_folder(tmp_path, found):
    assert report.save_comparison(found, tmp_path / "new" / "figure.svg").is_file()
