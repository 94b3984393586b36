"""What edge servers brought: in the table of a run, in lists, comparisons, figures and pages, else nowhere."""

import json
import math

import numpy as np
import pytest

from fedcell import api, cli, report
from fedcell.record import find, read
from fedcell.record.served import COLUMNS, NAMES, result, served, weighed
from fedcell.report.served_curves import curve
from fedcell.web.follow import Follower

pytestmark = pytest.mark.rendered

ROUNDS = 40
SETTINGS = {
    "eval_every": 10,
    "data.name": "video",
    "world.n_devices": 6,
    "world.topology": "cells",
    "world.n_cells": 2,
    "video.n_genres": 3,
    "video.files_per_genre": 4,
    "video.slots": 2,
    "video.explore": "top",
    "model.name": "mlp",
    "model.hidden": "4",
}
SET = [text for key, value in SETTINGS.items() for text in ("--set", f"{key}={value}")]
EDGE = [*SET, "--rounds", "12", "--set", "video.edge_files=3"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of runs with and without servers, on two seeds."""
    root = tmp_path_factory.mktemp("runs")
    for rule in ("genie", "popular", "none"):
        for seed in (1, 2):
            own = {"seed": seed, "rounds": ROUNDS, "video.edge_files": 2, "video.edge_placement": rule}
            api.run("top_popular", settings={**SETTINGS, **own}, out=root / rule / str(seed))
    return root


def plain(record):
    """The totals by hand."""
    rows = [{name: record.columns[name][at] for name in COLUMNS} for at in range(ROUNDS)]
    some = [row for row in rows if row["requests"]]
    n, asked = sum(row["requests"] for row in rows), sum(row["request_bit"] for row in rows)
    carried = sum(row["video_backhaul_bit"] for row in rows)
    return {
        "hit_ratio": sum(row["requests"] * row["hit_ratio"] for row in some) / n,
        "saved_share": (asked - carried) / asked,
        "video_backhaul_bit": carried,
        "fetch_bit": sum(row["fetch_bit"] for row in rows),
        "delivery_s": sum(row["requests"] * row["delivery_s"] for row in some) / n,
    }


def test_totals_equal_those_by_hand_everywhere(runs):
    for folder in (runs / "genie").rglob("run.json"):
        record, (info,) = read(folder.parent), find(folder.parent)
        expected = pytest.approx(plain(record))
        assert served(record.columns) == expected
        assert info.served == expected
        assert json.loads((folder.parent / "status.json").read_text())["served"] == expected
        follower = Follower(folder.parent, ROUNDS, 10, 6)
        follower.read()
        assert {name: follower.totals()[name] for name in NAMES} == pytest.approx(plain(record), rel=1e-5)


def test_a_status_without_them_is_made_up_from_the_rows(runs, tmp_path):
    (info,) = find(runs / "genie" / "1")
    status = info.folder / "status.json"
    kept = status.read_bytes()
    try:
        values = json.loads(kept)
        values["totals"]["rows_byte"] += 1
        del values["served"]
        status.write_text(json.dumps(values))
        assert find(runs / "genie" / "1")[0].served == pytest.approx(info.served)
    finally:
        status.write_bytes(kept)


def test_runs_without_servers_know_nothing_of_them(runs):
    (info,) = find(runs / "none" / "1")
    record = read(info.folder)
    assert info.served == {}
    assert "served" not in json.loads((info.folder / "status.json").read_text())
    assert not set(COLUMNS) & set(record.columns)
    assert "hits" not in report.text([record])
    assert "hit_ratio" not in report.as_json(report.summarise(record))
    alone = report.compare([info.folder])
    assert "hit_ratio" not in [one.key for one in alone.quantities]


def test_tables_and_lists_show_them(runs, capsys):
    record = read(find(runs / "genie" / "1")[0].folder)
    whole = plain(record)
    line = next(line for line in report.text([record]).splitlines() if line.startswith("top_popular"))
    assert line.split()[-4] == f"{100 * whole['hit_ratio']:.1f}"
    assert line.split()[-1] == f"{100 * whole['saved_share']:.1f}"
    assert report.as_json(report.summarise(record))["hit_ratio"] == pytest.approx(whole["hit_ratio"])
    assert cli.main(["show", str(runs)]) == 0
    shown = capsys.readouterr().out
    assert "hits" in shown
    assert f"{100 * whole['hit_ratio']:.1f}" in shown
    assert cli.main(["show", str(runs), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["runs"]
    assert [("hit_ratio" in one) for one in listed] == [True, True, False, False, True, True]


def test_a_comparison_holds_runs_with_servers_against_runs_without(runs):
    found = report.compare(runs, against="top_popular video.edge_placement=genie")
    by_label = {group.label.rpartition("=")[2]: group for group in found.groups}
    assert set(by_label) == {"genie", "none", "popular"}
    genie = [plain(record)["hit_ratio"] for record in by_label["genie"].records]
    popular = [plain(record)["hit_ratio"] for record in by_label["popular"].records]
    measure = by_label["popular"].measures["hit_ratio"]
    assert measure.estimate.mean == pytest.approx(np.mean(popular))
    assert measure.difference.mean == pytest.approx(np.mean(popular) - np.mean(genie))
    assert math.isnan(by_label["none"].measures["hit_ratio"].estimate.mean)
    text = report.comparison_text(found)
    assert "hits" in text
    assert "delivered, hits, saved in %" in text
    assert "saved_share" in report.comparison_csv(found)
    assert "left out" not in text


def test_figures_have_two_more_panels(runs):
    records = [read(info.folder) for info in find(runs / "genie")]
    figure = report.draw(records)
    assert [ax.get_ylabel() for ax in figure.axes][4:] == ["hits of edge servers (%)", "backhaul spared (%)"]
    assert len(report.draw([read(find(runs / "none" / "1")[0].folder)]).axes) == 4
    compared = report.compare(runs / "genie")
    assert len(report.draw_comparison(compared).axes) == 6
    assert len(report.draw_comparison(compared, axes=["round"]).axes) == 1


def test_curves_are_means_over_the_rounds_before(runs):
    record = read(find(runs / "genie" / "1")[0].folder)
    rounds, values = curve(record, "hit_ratio")
    n = np.nan_to_num(record.columns["requests"])
    hits = n * np.nan_to_num(record.columns["hit_ratio"])
    for at, value in zip(rounds, values, strict=True):
        assert value == pytest.approx(hits[max(at - 1, 0) : at + 1].sum() / n[max(at - 1, 0) : at + 1].sum())
    assert not len(curve(read(find(runs / "none" / "1")[0].folder), "hit_ratio")[1])


def test_a_run_prints_hit_ratio_and_backhaul(tmp_path, capsys):
    out = tmp_path / "run"
    assert cli.main(["run", "top_popular", *EDGE, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "hits" in printed
    assert "backhaul" in printed
    assert cli.main(["sweep", "top_popular", *EDGE, "--out", str(tmp_path / "sweep")]) == 0
    assert "hits" in capsys.readouterr().out
    assert cli.main(["report", str(out)]) == 0
    assert "hit_ratio" in (out / "report.html").read_text()


def test_a_setting_without_servers_is_noticed(tmp_path, capsys):
    assert (
        cli.main(
            ["run", "top_popular", *SET, "--rounds", "2", "--set", "video.file_bit=1e6", "--out", str(tmp_path / "run")]
        )
        == 0
    )
    assert "video.file_bit = 1000000 changes nothing while video.edge_files = 0" in capsys.readouterr().err


def test_sums_of_no_requests():
    empty = result(*weighed({"video_backhaul_bit": 5.0, "fetch_bit": 5.0, "requests": 0.0, "request_bit": 0.0}))
    assert empty["video_backhaul_bit"] == 5
    assert math.isnan(empty["hit_ratio"])
    assert served({}) == {}
