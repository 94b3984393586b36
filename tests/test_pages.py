"""The pages of the papers and the one in front of them, on rows made up and on those of the clone."""

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.experiment import VERDICTS, beside, catalogue, front, pages
from fedcell.experiment.ledger import FAILING, LedgerRow, Paper, ledger, read_paper
from fedcell.experiment.verdicts import Part

ROOT = Path(__file__).parents[1] / "experiments"
PAPER = Paper(
    *("cafe", "The paper", "A. Author", "It claims much.", "Half of it holds. The rest does not."),
    readings=("a reading",),
    changed=("a threshold: so, because",),
)


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
    part = Part("a > b", "reproduced", 5, 0.1, 0.05, 0.15, "points")
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
    assert "- **not run**: claim half. It is so." in page
    assert "| claim x | printed | a > b: +10.0 points [+5.0, +15.0] | 5 | **reproduced** |" in page
    assert "| claim y | printed | ours \\| theirs | 3 | **not reproduced** |" in page
    assert "- **not reproduced**: claim y. It is so." in page
    assert "| claim z | printed |  | - | **not run** |" in page
    assert "- **partly**, fig1 (question of ours): claim own." in page
    assert "| claim own" not in page
    for words in (
        "It claims much.",
        "Half of it holds. The rest does not.",
        "- a reading",
        "- a threshold: so, because",
        "(../claims.md#cafe)",
    ):
        assert words in page


def test_a_figure_without_runs_lists_its_claims():
    rows = [row("x", "not run"), row("y", "not run"), row("z", "partly", experiment="fig2")]
    page = pages.paper_page(PAPER, rows, "..")
    assert "**Not run**: it is so. What it claims:\n\n- claim x (printed)\n- claim y (printed)" in page
    assert "| claim x" not in page


def test_questions_of_ours_come_behind_the_figures_of_the_paper():
    rows = [row("x", "reproduced", "beyond", experiment="ablation"), row("y", "reproduced", experiment="fig2")]
    result = ROOT / "cafe" / "results" / "fig3.json"
    page = pages.paper_page(PAPER, [one._replace(result=result) for one in rows], "..")
    assert page.index("### Figure of fig2") < page.index(
        "### Figure of ablation\n\nQuestions of ours, which do not count."
    )
    assert "| claim x | printed |" in page
    assert "## Beyond the paper" not in page, "they stand with their figure"


def test_many_comparisons_are_counted():
    parts = [Part(f"a > {place}", "partly" if place else "reproduced", 3, 0.1, 0.05, 0.15) for place in range(5)]
    told = row("x", "partly", parts=parts)
    assert pages.short(told) == "1 of 5 comparisons hold; ours | theirs"
    assert pages.short(told, beside=True) == "1 of 5 comparisons hold"
    alone = told._replace(ours="; ".join(map(str, parts)))
    assert pages.short(alone).startswith("1 of 5 comparisons hold; a > 0: 0.1 [0.05, 0.15]; a > 1:")


def test_a_table_of_the_paper_has_ours_beside_it(tmp_path):
    path = tmp_path / "fig1.json"
    table = beside("method", {"accuracy": {"FedAvg": ("62.8 %", "63.9±2.3 %"), "new": ("", "1 %")}})
    path.write_text(json.dumps({"quick": False, "table": table._asdict()}))
    long = "1, " * 50
    rows = [row("x", "reproduced")._replace(result=path, printed=long), row("y", "reproduced")._replace(result=path)]
    page = pages.paper_page(PAPER, rows, "..")
    assert "| method | accuracy, paper | accuracy, here |\n|---|---|---|\n| FedAvg | 62.8 % | 63.9±2.3 % |" in page
    assert "| new | - | 1 % |" in page
    assert "| claim x | in the table |" in page
    assert "| claim y | printed |" in page


TABLES = {
    "osafl": ("table2", "table3", "table4", "table5"),
    "rawhfl": ("table2", "table3", "table4"),
    "cafe": ("table1", "table2"),
    "knowledge": ("table4b",),
    "recycling": ("table5c",),
}


@pytest.mark.parametrize("name", [f"{paper}/{one}" for paper, some in TABLES.items() for one in some])
def test_tables_of_papers_stand_on_their_pages(name):
    paper, _, experiment = name.partition("/")
    stored = json.loads((ROOT / paper / "results" / f"{experiment}.json").read_text())["table"]
    page = (ROOT.parent / "docs" / "papers" / f"{paper}.md").read_text(encoding="utf-8")
    assert all(pages.line(*cells) in page for cells in stored["rows"])
    assert all(any(cell not in ("", "-") for cell in cells[1:]) for cells in stored["rows"])


def test_a_failing_claim_says_why():
    told = row("x", "not reproduced")._replace(why="The lead is an early one.")
    page = pages.paper_page(PAPER, [told, row("y", "partly")], "..")
    assert "- **not reproduced**: claim x. The lead is an early one.\n" in page
    assert "- **partly**: claim y. It is so." in page
    assert "The lead is an early one." in pages.as_csv([told])


@pytest.mark.parametrize("name", [path.name for path in catalogue.papers(ROOT)])
def test_every_failing_claim_says_why(name):
    rows = [one for one in ledger(ROOT) if one.paper == name]
    why = read_paper(ROOT / name).why
    assert set(why) <= {f"{one.experiment}/{one.key}" for one in rows}, "a sentence for a claim that is not there"
    assert all(text.endswith(".") for text in why.values())
    mute = [f"{one.experiment}/{one.key}" for one in rows if one.counted and one.verdict in FAILING and not one.why]
    assert not mute, f"write under [why] in experiments/{name}/paper.toml why these fail"
    assert not any(one.why for one in rows if one.verdict not in FAILING), "a claim that holds needs no excuse"


def test_the_front_page_has_an_answer_per_paper():
    page = front.front_page([PAPER], [row("x", "partly"), row("y", "reproduced")])
    assert "- [The paper](cafe.md): Half of it holds.\n" in page
    assert "| [cafe](cafe.md) | 2 | 1 | . | 1 |" in page
    assert f"({front.CHANGES})" in page


def test_the_page_of_changes_names_what_got_worse():
    earlier = {"cafe": {"fig1/x": "reproduced", "fig1/y": "partly", "fig1/z": "reproduced", "fig1/gone": "reproduced"}}
    rows = [row("x", "partly"), row("y", "reproduced"), row("z", "not run")]
    page = front.changes_page([PAPER], rows, earlier)
    assert "- cafe/fig1, claim x: reproduced before, **partly** now. It is so." in page
    assert "claim y" not in page
    assert "- 1 claims that had a verdict have none yet" in page
    assert "| cafe | 4 | 3 | 1 | 0 | 0 | 3 | 1 |" in page
    assert "got worse" not in front.changes_page([PAPER], [row("x", "reproduced")], earlier)
    assert "No earlier verdicts are on file." in front.changes_page([PAPER], rows, {})


@given(st.lists(st.sampled_from(VERDICTS), max_size=30))
def test_bars_are_as_long_as_there_are_claims(verdicts):
    rows = [row(str(place), verdict) for place, verdict in enumerate(verdicts)]
    figure = ElementTree.fromstring(front.bars([PAPER], rows))
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
    assert paper.found.strip().endswith("."), "say what was found, the answer first"
    own = [one for one in ledger(ROOT) if one.paper == folder.name]
    page = pages.paper_page(paper, own, "../../experiments")
    assert all(one.claim.replace("|", "\\|") in page for one in own if one.counted)


def test_long_texts_end_at_a_comma():
    assert pages.cut("a, b", 10) == "a, b"
    assert pages.cut("x" * 300) == "x" * pages.SHOWN + " ..."
