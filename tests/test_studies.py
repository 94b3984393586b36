"""The studies in examples/studies: each runs, for two rounds on one seed, and draws its figures."""

from pathlib import Path

import pytest

from fedcell.cli import main
from fedcell.options import written
from fedcell.record import find
from fedcell.study import read

FILES = sorted((Path(__file__).parents[1] / "examples" / "studies").glob("*.toml"))


def flags(study):
    """Two rounds on one seed, of every grid its first two values."""
    found = ["--rounds", "2", "--seeds", "1", "--workers", "1", "--quiet"]
    for key, (first, *rest) in study.grid.items():
        found += ["--grid", f"{key}={written(first)}", *map(written, rest[:1])]
    return found


def test_there_are_some():
    assert len(FILES) >= 2


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_study_runs_and_draws(file, tmp_path, capsys):
    place = tmp_path / "examples" / "studies" / file.name  # figures go to places seen from there
    place.parent.mkdir(parents=True)
    place.write_text(file.read_text())
    study = read(place)
    assert main(["sweep", str(place), *flags(study)]) == 0, capsys.readouterr().err
    infos = find(study.out)
    assert len(infos) > 1
    assert {info.method for info in infos} == set(study.methods)
    assert {info.state for info in infos} == {"finished"}
    for figure in study.figures:
        assert Path(figure.file).stat().st_size > 0, capsys.readouterr().err


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_study_says_what_it_asks_and_how_it_is_run(file):
    text = file.read_text()
    assert "?" in text.splitlines()[0]
    assert f"fedcell sweep examples/studies/{file.name}" in text
    seeds = read(file).seeds
    assert seeds
    assert read(file).figures
    for figure in read(file).figures:
        assert Path(figure.file).resolve().is_file(), "the figure of the page"
