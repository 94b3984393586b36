"""`fedcell compare`: from run folders to a table, files and figures."""

import csv
import json
import sys
from pathlib import Path

import pytest

import fedcell
from fedcell.cli import main

SMALL = {"rounds": 3, "world.n_devices": 4, "model.name": "logistic", "train.steps": 1, "train.device": "cpu"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder of two comparisons on two seeds and a run on a third."""
    folder = tmp_path_factory.mktemp("compare") / "all"
    for seed, methods in ((1, ["fedavg", "central"]), (2, ["fedavg", "central"]), (3, ["fedavg"])):
        fedcell.run(methods, settings={**SMALL, "seed": seed}, out=folder / f"seed{seed}")
    return folder


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.rendered
def test_a_folder_of_folders_is_compared_and_drawn(place, capsys):
    files = ["--figure", "f.svg", "--figure", "f.png", "--csv", "f.csv", "--width", "column", "--by", "time,energy"]
    assert main(["compare", str(place), "--target", "0.1", *files]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for text in ("to reach 10 % accuracy", "difference to fedavg", "common seeds 1-2 alone (fedavg also has 3)"):
        assert text in out
    assert "written: f.svg\nwritten: f.png\nwritten: f.csv\n" in out
    assert all(text in Path("f.svg").read_text() for text in ("simulated time", "central"))
    assert len(list(csv.reader(Path("f.csv").read_text().splitlines()))) == 1 + 2 * 11


def test_json_is_all_there_is_on_stdout_and_equals_the_api(place, capsys):
    assert (
        main(["compare", f"{place}/seed1", f"{place}/seed2/fedavg", f"{place}/seed2", "--json", "--against", "c"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert (found["reference"], found["seeds"]) == ("central", [1, 2])
    same = fedcell.compare([place / "seed1", place / "seed2"], against="central")
    assert json.loads(json.dumps(fedcell.report.comparison_json(same))) == found
    records = [*fedcell.record.read_all(place / "seed1"), *fedcell.record.read_all(place / "seed2")]
    assert fedcell.report.comparison_json(fedcell.compare(records, against="central")) == found


def test_latex_is_all_there_is_on_stdout_with_labels_as_asked_for(place, capsys):
    assert main(["compare", str(place), "--latex", "--label", "fedavg=FedAvg", "--figure", "f.pdf"]) == 0
    out, _ = capsys.readouterr()
    assert out.startswith("% \\usepackage{booktabs}")
    assert out.rstrip().endswith("\\end{table}")
    assert "FedAvg" in out
    assert main(["compare", str(place), "--latex", "--json"]) == 2
    assert main(["compare", str(place), "--label", "nobody=x"]) == 2


def test_a_terminal_gets_tables(place, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["compare", str(place)]) == 0
    out = capsys.readouterr().out
    assert "─" in out
    assert "note: compared on the common seeds" in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--figure", "f.jpg"], "end its name in .png, .pdf or .svg"),
        (["--by", "tim"], "unknown axis 'tim': did you mean 'time'?"),
        (["--width", "wide"], "--width wide is no width of a figure"),
        (["--target", "90"], "target 90 is no accuracy"),
        (["--against", "fedprox"], "cannot compare against 'fedprox'"),
        (["--only", "osafl"], "no group holds 'osafl'"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(place, capsys, arguments, text):
    assert main(["compare", str(place), "--csv", "f.csv", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert text in err
    assert not list(Path().iterdir())


def test_a_folder_that_is_not_there_is_said(capsys):
    assert main(["compare", "gone"]) == 2
    assert "gone is no folder" in capsys.readouterr().err
