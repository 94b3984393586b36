"""What the tests of a paper's experiments share: its files as modules, and verdicts on made-up runs."""

from importlib import import_module
from pathlib import Path

import pytest

from fedcell.experiment import catalogue, judge

EXPERIMENTS = Path(__file__).parents[1] / "experiments"


def opened(paper):
    """A fixture under which the files of a paper can be imported: `_opened = opened("osafl")`.

    They stay until the last test of the file, with what they keep: ceilings of data and data sets.
    """

    @pytest.fixture(autouse=True, scope="module")
    def fixture():
        with catalogue.opened(EXPERIMENTS / paper):
            yield

    return fixture


def experiment(name):
    return import_module(name).EXPERIMENT


def verdicts(name, rows):
    return {finding.claim: finding.verdict for finding in judge(experiment(name), rows)}


def check_without_runs(name):
    """Cases have names of their own; with no runs nothing is judged, and the figure is empty."""
    one = experiment(name)
    for quick in (True, False):
        keys = [case.key for case in one.cases(quick)]
        assert len(set(keys)) == len(keys)
    assert keys
    assert set(verdicts(name, []).values()) == {"not run"}
    one.plot([])
