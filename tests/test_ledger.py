"""The ledger of the clone: every figure and table of the papers is in it, and stored results fit their files."""

import json
from contextlib import ExitStack
from fnmatch import filter as filter_names
from functools import cache
from pathlib import Path

import pytest

from fedcell.experiment import VERDICTS, catalogue, judge, stores
from fedcell.experiment.frame import as_values
from fedcell.experiment.ledger import ledger, read_paper, read_result
from fedcell.experiment.runs import ids_of

ROOT = Path(__file__).parents[1] / "experiments"
PAPERS = {  # figures and tables with results; drawings of a system are none
    "cafe": "fig3 fig4 fig5 fig6 fig7 fig8 table1 table2",
    "streaming": "fig3 fig4 fig5 fig6 fig7",
    "osafl": "fig1 fig2 fig3 fig4 fig5 fig6 table2 table3 table4 table5",
    "rawhfl": "fig4 fig5 fig6 fig7 fig8 fig9 fig10 table2 table3 table4",
    "representativity": "fig2 fig3 fig4 fig5 fig6",
    "knowledge": "fig2 fig3 fig4 table4b",
    "recycling": "fig2 fig3 fig4 fig5 fig6 table5c contrast",
    "pruning": "fig2 fig3 fig4 fig5 fig6 fig7 fig8",
    "video": "ceilings",
    "sionna": "pathloss link correlation",
    "fedl": "slots",
    "joint": "assignment accuracy",
}


@pytest.fixture(scope="module")
def rows():
    return ledger(ROOT)


@pytest.fixture(scope="module")
def loaded():
    """Load an experiment. Its paper stays open, with what its files keep, until one of another paper is loaded."""
    with ExitStack() as papers:
        last = None

        def load(entry):
            nonlocal last
            if entry.paper != last:
                papers.close()
                papers.enter_context(catalogue.opened(entry.path.parent))
                last = entry.paper
            return catalogue.load(entry)

        yield load


def test_every_figure_and_table_has_claims(rows):
    found = {(row.paper, row.experiment) for row in rows}
    missing = {(paper, name) for paper, names in PAPERS.items() for name in names.split()} - found
    assert not missing, "list its claims in experiments/<paper>/paper.toml until its experiment is written"
    assert {row.paper for row in rows} == set(PAPERS), "a new paper has its figures and tables listed here, too"


def test_a_claim_is_one_row_with_all_that_a_reader_needs(rows):
    assert len({(row.name, row.key) for row in rows}) == len(rows)
    for row in rows:
        assert row.claim, row
        assert row.printed, row
        assert row.reason, row
        assert row.verdict in VERDICTS, row
        assert row.verdict == "not run" or row.ours, row


def test_papers_say_what_they_are(rows):
    for folder in catalogue.papers(ROOT):
        paper = read_paper(folder)
        assert paper.title != paper.name, f"{folder} has no paper.toml"
        assert paper.reference
        own = [row for row in rows if row.paper == paper.name]
        names = {row.experiment for row in own} | {f"{row.experiment}/{row.key}" for row in own}
        unknown = [pattern for pattern in paper.beyond if not filter_names(names, pattern)]
        assert not unknown, f"{folder}/paper.toml: beyond names {unknown}, which is nothing"


@pytest.mark.parametrize("entry", catalogue.entries(ROOT), ids=str)
def test_stored_results_fit_their_files(entry, loaded):
    result = read_result(entry.results / f"{entry.name}.json")
    if result is None:
        pytest.skip("not run yet")
    claims = loaded(entry).claims
    stored = [(claim["key"], claim["text"], claim["printed"]) for claim in result["claims"]]
    assert stored == [claim[:3] for claim in claims], f"the claims changed: fedcell reproduce {entry} --stored"


@cache
def packed_rows(store):
    """The rows of a store, which several files may share, from the packed file alone."""
    packed = stores.of_store(stores.read_packed(store.parent / stores.PACKED), stores.name_of(store))
    return {stores.lasting(line["key"]): stores.rounded(line["row"]) for line in packed}


@pytest.mark.parametrize("entry", catalogue.entries(ROOT), ids=str)
def test_results_are_what_the_runs_in_the_repository_say(entry, loaded):
    """Judged again from the packed file, with nothing else: the same verdicts, seeds and numbers."""
    path = entry.results / f"{entry.name}.json"
    result = read_result(path)
    experiment = loaded(entry)
    cases = experiment.cases(False)
    found = packed_rows(entry.results / f"{experiment.store or entry.name}.runs.jsonl")
    rows = [found[one] for one in ids_of(cases, list(found.values())) if one in found]
    if not rows and cases:
        assert result is None, f"{path} has no runs behind it: pack them, or remove it"
        return
    findings = as_values(experiment.claims, judge(experiment, rows))
    assert result is not None, f"fedcell reproduce {entry} --stored"
    for had, has in zip(result["claims"], findings, strict=True):
        for name in ("key", "verdict", "n", "ours", "reason"):
            assert had[name] == has[name], f"stale: fedcell reproduce {entry} --stored, then python docs/generate.py"
    table = json.loads(json.dumps(experiment.table(rows)._asdict())) if experiment.table else None
    assert result.get("table") == table, f"stale: fedcell reproduce {entry} --stored, then python docs/generate.py"
    assert (entry.results / f"{entry.name}.png").is_file()


def test_nothing_is_decided_below_three_seeds(rows):
    decided = {"reproduced", "far larger", "partly", "not reproduced"}
    assert [row for row in rows if row.verdict in decided and row.n is not None and row.n < 3] == []
    assert [row for row in rows if row.verdict == "indicated" and (row.n is None or row.n > 2)] == []
