"""The pages of the papers, on rows made up and on those of the clone."""

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.experiment import VERDICTS, catalogue, pages
from fedcell.experiment.ledger import FAILING, LedgerRow, Paper, ledger, read_paper
from fedcell.experiment.verdicts import Part

ROOT = Path(__file__).parents[1] / "experiments"
PAPER = Paper("cafe", "The paper", "A. Author", "It claims much.", ("a reading",), ("a threshold: so, because",))


def row(key, verdict, kind="claim", parts=(), n=3, ours="ours | theirs", experiment="fig1"):
    nothing = verdict == "not run"
    return LedgerRow(
        *("cafe", experiment, f"Figure of {experiment}", key, f"claim {key}", "printed"),
        ours="" if nothing else ours,
        seeds=(),
        verdict=verdict,
        reason="it is so",
        kind=kind,
        n=None if nothing else n,
        parts=tuple(parts),
        made_by=(),
        result=None,
    )


def test_a_page_has_what_a_reader_wants():
    part = Part("a > b", "reproduced", 5, 0.1, 0.05, 0.15)
    rows = [
        row("x", "reproduced", parts=[part], n=5),
        row("y", "not reproduced"),
        row("z", "not run"),
        row("half", "not run")._replace(ours="a third of it", n=5),
        row("own", "partly", "beyond"),
        row("w", "reproduced", "check"),
    ]
    page = pages.paper_page(PAPER, rows, "..")
    assert "4 claims: 1 reproduced, 1 not reproduced, 2 not run." in page
    assert "| claim half | printed | a third of it | 5 | **not run** |" in page
    assert "- **not run** in full, fig1: claim half. it is so." in page
    assert "| claim x | printed | a > b: +0.1 [+0.05, +0.15], n = 5 | 5 | **reproduced** |" in page
    assert "| claim y | printed | ours \\| theirs | 3 | **not reproduced** |" in page
    assert "- **not reproduced**, fig1: claim y. It is so." in page
    assert "- **not run**, 1 claim: it is so." in page
    assert "- **partly**, fig1 (question of ours): claim own." in page
    assert "| claim own" not in page
    for words in ("It claims much.", "- a reading", "- a threshold: so, because", "(../claims.md#cafe)"):
        assert words in page


def test_a_failing_claim_says_why_and_then_what_was_asked():
    told = row("x", "not reproduced")._replace(why="The lead is an early one.")
    page = pages.paper_page(PAPER, [told, row("y", "partly")], "..")
    assert "- **not reproduced**, fig1: claim x. The lead is an early one. *Asked: it is so.*" in page
    assert "- **partly**, fig1: claim y. It is so." in page
    assert "The lead is an early one." in pages.as_csv([told])


@pytest.mark.parametrize("name", ["representativity", "knowledge", "recycling", "pruning"])
def test_every_failing_claim_of_the_thesis_says_why(name):
    rows = [one for one in ledger(ROOT) if one.paper == name]
    why = read_paper(ROOT / name).why
    assert set(why) <= {f"{one.experiment}/{one.key}" for one in rows}, "a sentence for a claim that is not there"
    assert all(text.endswith(".") for text in why.values())
    mute = [f"{one.experiment}/{one.key}" for one in rows if one.counted and one.verdict in FAILING and not one.why]
    assert not mute, f"write under [why] in experiments/{name}/paper.toml why these fail"
    assert not any(one.why for one in rows if one.verdict not in FAILING), "a claim that holds needs no excuse"


def test_the_front_page_names_what_got_worse():
    earlier = {"cafe": {"fig1/x": "reproduced", "fig1/y": "partly", "fig1/z": "reproduced", "fig1/gone": "reproduced"}}
    rows = [row("x", "partly"), row("y", "reproduced"), row("z", "not run")]
    page = pages.front_page([PAPER], rows, earlier)
    assert "- cafe/fig1, claim x: reproduced before, **partly** now. It is so." in page
    assert "claim y" not in page
    assert "- 1 claims that had a verdict have none yet" in page
    assert "| cafe | 4 | 3 | 1 | 0 | 0 | 3 | 1 |" in page
    assert "got worse" not in pages.front_page([PAPER], [row("x", "reproduced")], earlier)
    assert "Before" not in pages.front_page([PAPER], rows, {})


@given(st.lists(st.sampled_from(VERDICTS), max_size=30))
def test_bars_are_as_long_as_there_are_claims(verdicts):
    rows = [row(str(place), verdict) for place, verdict in enumerate(verdicts)]
    figure = ElementTree.fromstring(pages.bars([PAPER], rows))
    boxes = [box for box in figure.iter() if box.tag.endswith("rect")][1 : -len(VERDICTS)]
    assert len(boxes) == len(set(verdicts))
    assert sum(float(box.get("width")) for box in boxes) == pytest.approx(560 if verdicts else 0, abs=1)


def test_lists_for_programs_have_every_row():
    rows = ledger(ROOT)
    table = list(csv.DictReader(io.StringIO(pages.as_csv(rows))))
    listed = json.loads(pages.as_json(rows))
    assert len(table) == len(listed) == len(rows)
    assert [one["verdict"] for one in table] == [one["verdict"] for one in listed] == [one.verdict for one in rows]
    assert all("/" not in (one["result"] or "x/results/y.json").split("/results/")[0] for one in listed), (
        "no path of ours"
    )


@pytest.mark.parametrize("folder", catalogue.papers(ROOT), ids=lambda path: path.name)
def test_every_paper_says_what_it_claims(folder):
    paper = read_paper(folder)
    sentences = paper.summary.count(". ") + paper.summary.count(".\n")
    assert 4 <= sentences <= 7, "five sentences or so"
    own = [one for one in ledger(ROOT) if one.paper == folder.name]
    page = pages.paper_page(paper, own, "../../experiments")
    assert all(one.claim.replace("|", "\\|") in page for one in own if one.counted)


def test_long_texts_end_at_a_comma():
    assert pages.cut("a, b", 10) == "a, b"
    assert pages.cut("x" * 300) == "x" * pages.SHOWN + " ..."
