"""The report: one safe, self-contained file for whatever is in a folder."""

import json
import re
import shutil
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from fedcell import options, scenarios
from fedcell.cli import main
from fedcell.record import find, read
from fedcell.record.rows import encode
from fedcell.types import Row
from fedcell.web import claims, page
from fedcell.web.places import draw
from fedcell.web.report import collect, write
from fedcell.web.settings import config_table, method_table

MOST_BYTES = 6_000_000
ROOT = Path(__file__).parents[2]


def data_of(path):
    """What is embedded in a page."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', path.read_text())
    return json.loads(text)


# ---------------------------------------------------------------- what is in it


def test_a_comparison_over_seeds(recorded, tmp_path):
    data = data_of(write(recorded, tmp_path / "all.html", "Two <seeds>"))
    assert data["title"] == "Two <seeds>"
    assert [run["id"] for run in data["runs"]][:3] == ["seed1/fedavg", "seed2/fedavg", "seed1/fedprox-mu-0.5"]
    assert data["question"]["seeds"] == [1, 2]
    assert data["question"]["scenarios"][0]["summary"].startswith("One urban cell")
    assert len(data["maps"]) == 2  # one per seed
    record = read(recorded / "seed1" / "fedavg")
    first = data["runs"][0]
    assert first["rows"]["metrics"]["accuracy"] == pytest.approx(record.columns["accuracy"], rel=1e-5)
    assert first["rows"]["clock_s"] == pytest.approx(record.columns["clock_s"], rel=1e-5)
    assert first["totals"]["compute_joule"] == pytest.approx(record.columns["compute_joule"].sum(), rel=1e-5)
    assert [letters for _, letters in first["rows"]["letters"]] == record.columns["outcome"]
    assert data["notes"] == []


def test_grids_are_in_numeric_order(tmp_path):
    words = ["sweep", "fedavg", "--grid", "world.n_devices=10", "4", "--set", "model.name=logistic", "--rounds", "1"]
    assert main([*words, "--workers", "1", "--quiet", "--out", str(tmp_path / "study")]) == 0
    ids = [run["id"] for run in collect(tmp_path / "study")["runs"]]
    assert ["n_devices-4" in ids[0], "n_devices-10" in ids[1]] == [True, True]


def test_runs_are_held_against_each_other_with_the_cost_of_a_target(recorded, tmp_path):
    data = data_of(write(recorded, tmp_path / "all.html"))["comparison"]
    titles = [section["title"] for section in data["sections"]]
    assert titles[0] == "mean over seeds: difference to fedavg"
    assert re.fullmatch(r"to reach \d+(\.\d)? % accuracy", titles[1])
    assert titles[2] == f"{titles[1]}: difference to fedavg"
    assert data["sections"][1]["cells"][1][:2] == ["fedavg", "2/2"]
    alone = data_of(write(recorded / "seed1" / "fedavg", tmp_path / "one.html"))["comparison"]
    assert alone == {"sections": [], "lines": []}


def test_runs_that_cannot_be_compared_are_said(runs):
    for path in (runs / "seed1" / "fedavg", runs / "seed2" / "fedprox-mu-0.5"):  # no seed in common is left
        shutil.rmtree(path)
    data = collect(runs)["comparison"]
    assert data["sections"] == []
    assert "no seed in common" in data["lines"][0]


def test_one_run_and_the_default_place(runs, capsys):
    assert main(["report", str(runs / "seed1" / "fedavg")]) == 0
    path = runs / "seed1" / "fedavg" / "report.html"
    assert capsys.readouterr().out == f"report: {path}\n"
    assert [run["id"] for run in data_of(path)["runs"]] == ["."]


def test_killed_waiting_and_damaged_runs(runs):
    status = runs / "seed1" / "fedavg" / "status.json"
    status.write_text(json.dumps(json.loads(status.read_text()) | {"state": "running"}))  # as kill -9 leaves it
    shutil.rmtree(runs / "seed1" / "fedprox-mu-0.5")
    (runs / "seed2" / "fedavg" / "run.json").write_text("{")
    data = collect(runs)
    assert [run["state"] for run in data["runs"]] == ["interrupted", "waiting", "finished"]
    assert data["runs"][1]["rows"]["done"] == []
    assert "run.json is damaged" in data["notes"][0]


@pytest.mark.parametrize("same_size", [True, False])
def test_a_finished_run_that_lost_rows_is_left_out_and_said(runs, same_size):
    rows = runs / "seed1" / "fedavg" / "rounds.jsonl"
    first, *rest = rows.read_bytes().splitlines(keepends=True)
    rows.write_bytes(first + b"x" * len(b"".join(rest)) * same_size)
    data = collect(runs)
    assert [run["id"] for run in data["runs"]] == ["seed1/fedprox-mu-0.5", "seed2/fedprox-mu-0.5", "seed2/fedavg"]
    assert "seed1/fedavg is damaged (finished, but with 1 of 6 rows)" in data["notes"][0]


def test_what_is_no_folder_of_runs(tmp_path, capsys):
    assert main(["report", str(tmp_path / "gone")]) == 2
    assert "is no folder" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 2
    assert "there is no recorded run in" in capsys.readouterr().err


def test_settings_say_what_was_changed(recorded):
    infos = find(recorded)
    table = {row["key"]: row for row in config_table(infos)}
    assert table["seed"]["values"] == ["1", "2"]
    assert (table["world.n_devices"]["values"], table["world.n_devices"]["preset"]) == (["5"], "20")
    assert [table[key]["rank"] for key in ("seed", "world.n_devices", "world.bandwidth_hz", "world.side_m")] == [
        0,
        1,
        2,
        3,
    ]
    first = method_table(infos)[0]
    assert (first["method"], first["key"], first["values"], first["rank"]) == ("fedprox:mu=0.5", "mu", ["0.5"], 1)


@pytest.mark.parametrize("name", ["cell", "cells", "blocks", "pruning", "recycling"])
def test_every_kind_of_world_has_a_map(name):
    config = scenarios.get(name).config
    found = draw(options.to_dict(config))
    assert len(found["positions"]) == config.world.n_devices
    assert len(found["stations"]) == config.world.n_cells
    json.dumps(found, allow_nan=False)


def test_places_on_the_map_are_those_of_the_world(small):
    problem = small({"world.topology": "cells", "world.n_cells": 2, "seed": 7})
    config = {"seed": 7, "rounds": 4, "world": options.to_dict(problem.world.settings)}
    found = draw(config)
    assert np.allclose(found["positions"], problem.world.topology.position_m, atol=0.01)
    assert np.allclose(found["cpu_hz"], problem.world.devices.cpu_hz)
    assert "cannot be drawn" in draw(config | {"world": {"of_another_version": 1}})["note"]


def test_claims_of_the_paper_that_was_run(recorded, tmp_path):
    paper = tmp_path / "experiments" / "cell" / "results"
    paper.mkdir(parents=True)
    claim = {"text": "t", "printed": "p", "ours": "o", "verdict": "partly", "reason": "r", "key": "k", "n": 3}
    result = {"rules": 2, "title": "Figure 1", "quick": False, "seeds": [1, 2, 3, 4], "claims": [claim]}
    (paper / "fig1.json").write_text(json.dumps(result))
    (paper / "fig2.json").write_text(json.dumps(result | {"title": "Figure 2", "quick": True}))
    older = {name: value for name, value in result.items() if name != "rules"}
    (paper / "fig3.json").write_text(json.dumps(older | {"title": "Figure 3"}))
    (paper / "other.json").write_text("[]")
    found = claims.rows(find(recorded), tmp_path / "experiments")
    assert [(row["experiment"], row["verdict"], row["seeds"]) for row in found] == [("Figure 1", "partly", "3")]
    assert claims.rows(find(recorded), None) == []


# ---------------------------------------------------------------- its size


def test_a_long_run_of_many_devices_stays_small(runs):
    folder = runs / "seed1" / "fedavg"
    for name in ("run.json", "status.json"):
        values = json.loads((folder / name).read_text())
        if name == "run.json":
            values["config"]["rounds"] = 5000
            values["config"]["world"]["n_devices"] = 500
        else:
            del values["rows"]  # the checksum of others
        (folder / name).write_text(json.dumps(values))
    letters = np.random.default_rng(1).choice(list(".DTEO"), (50, 500))
    own = {f"column_{number}": 0.123456789 for number in range(12)}
    with (folder / "rounds.jsonl").open("wb") as file:
        for n in range(5000):
            file.write(
                encode(
                    Row(n, n + 1.0, 1.0, 9, 4, 0.1, 0.2, 1e6 / 3, "".join(letters[n % 50]), {"accuracy": 1 / 3, **own})
                )
            )
    path = write(folder)
    assert path.stat().st_size < MOST_BYTES
    data = data_of(path)
    assert data["runs"][0]["totals"]["rounds"] == 5000
    assert any("Curves show up to every" in note for note in data["notes"])
    assert any("Schedule maps show up to every" in note for note in data["notes"])


# ---------------------------------------------------------------- its safety

EVIL = '</script><script>window.hit=1</script><img src=x onerror="window.hit=1">&amp;\u2028'


def test_no_text_of_a_run_becomes_markup(runs):
    for name in ("run.json", "status.json"):
        path = runs / "seed1" / "fedavg" / name
        path.write_text(json.dumps(json.loads(path.read_text()) | {"label": EVIL, "message": EVIL}))
    path = write(runs, title=EVIL)
    html = path.read_text()
    assert "<img src=x" not in html
    assert html.count("<script") == html.count("</script>") == 2 + len(page.SHARED) + 1
    assert data_of(path)["runs"][0]["label"] == EVIL
    assert "<title>&lt;/script&gt;" in html


def test_scripts_are_ours_and_nothing_is_fetched(recorded, tmp_path):
    html = write(recorded, tmp_path / "all.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    for script in re.findall(r"<script>(.*?)</script>", html, re.DOTALL):
        assert b64encode(sha256(script.encode()).digest()).decode() in policy
    assert not re.search(r"<(?:link|iframe|img)|<script [^>]*src=|@import|url\(", html.partition("<script>")[0])


@pytest.mark.parametrize("name", [*page.SHARED, "report.js", "dashboard.js"])
def test_our_scripts_build_no_markup_from_text(name):
    code = page.asset(name).replace("http://www.w3.org/2000/svg", "")
    unsafe = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|https?:"
    assert not re.search(unsafe, code)


def test_assets_are_shipped_with_their_licence():
    assets = {path.name for path in (ROOT / "src/fedcell/web/assets").iterdir()}
    ours = {page.STYLE, *page.SHARED, "report.js", "dashboard.js"}
    assert assets - ours == {"echarts.min.js", "echarts.LICENSE", "echarts.LICENSE-d3", "echarts.NOTICE"}
    assert ours <= assets
    assert "</script" not in page.asset(page.CHARTS)
    assert '"web/assets/*"' in (ROOT / "pyproject.toml").read_text()
