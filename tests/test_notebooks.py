"""The notebooks run from their first cell to their last, and show bars and tables on the way."""

import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from fedcell import notebook
from fedcell.record import Progress, Record, Status
from fedcell.record.reading import Records
from fedcell.record.totals import COLUMNS
from fedcell.types import Row

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["engineer", "planner", "researcher"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    source = str(FOLDER.parents[1] / "src")
    monkeypatch.setenv("PYTHONPATH", source)
    book = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells), "clear the outputs before saving"
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    pages = [
        output["data"]["text/html"]
        for cell in book.cells
        for output in cell.get("outputs", ())
        if "text/html" in output.get("data", {})
    ]
    assert any("<progress value=" in page for page in pages)
    if path.stem != "planner":
        assert any("<th>method</th>" in page for page in pages)


def a_row(round, accuracy):
    costs = {name: 0.0 for name in Row._fields if name not in ("round", "outcome", "metrics")}
    return Row(**costs | {"round": round, "outcome": "D", "metrics": {"accuracy": accuracy}, "clock_s": 90.0})


def test_bars_show_how_far_runs_are_and_escape_labels():
    bars = notebook.CellBars()
    bars.show = lambda: None
    bars(Progress("a<b", 0, 4))
    bars(Progress("a<b", 2, 4, row=a_row(1, 0.5)))
    bars(Progress("other", 4, 4, "finished"))
    bars(Progress("a<b", 0, 4, note="slow & steady"))
    text = bars.html()
    assert '<td>a&lt;b</td><td><progress value="2" max="4"></progress></td><td>2 of 4</td><td>50.0 %</td>' in text
    assert "1.50 min simulated" in text
    assert "<td>finished</td>" in text
    assert "<p>a&lt;b: slow &amp; steady</p>" in text


def test_records_are_tables_that_escape_what_is_in_them():
    columns = {name: np.zeros(2) for name in COLUMNS} | {"clock_s": np.array([60.0, 90.0])}
    config = {"scenario": "cell", "seed": 7, "rounds": 3}
    status = Status("failed", 2, 3, "<script>")
    one = Record(Path("a"), "a<b", "fedavg", {}, config, status, columns)
    assert one._repr_html_() == Records([one])._repr_html_()
    page = Records([one, one._replace(label="other")])._repr_html_()
    assert page.count("<tr>") == 3
    assert "a&lt;b</td>" in page
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
    for cell in ("1.50 min", "2/3", "failed", ">7<"):
        assert cell in page


def test_bars_are_for_jupyter_alone(monkeypatch):
    def own(progress):
        pass

    assert notebook.watcher(notebook.silent) is notebook.silent

    class Shell:
        kernel = object()

    monkeypatch.setitem(sys.modules, "IPython", type("IPython", (), {"get_ipython": staticmethod(lambda: Shell)}))
    assert isinstance(notebook.watcher(notebook.silent), notebook.CellBars)
    assert notebook.watcher(own) is own
