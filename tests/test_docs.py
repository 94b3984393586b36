"""What the documents show is true: commands run, code is that of the examples, links resolve, tables are fresh.

A block marked `sh run` has its `fedcell` lines executed, one marked `python run` is executed as a script.
"""

import re
import runpy
import shlex
from pathlib import Path
from pkgutil import resolve_name

import pytest

from fedcell import methods, scenarios
from fedcell.cli import main
from fedcell.report.table import HEADER

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?:\]\(|src=\")([^)\s\"]+)")
EQUATIONS = re.compile(r"^## Where each equation lives\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([a-z_]\w*(?:\.\w+)+)`((?:, `\w+`)*)")  # a path into the package, and names beside it
FEW_ROUNDS = ["--rounds", "2"]
QUICK = {  # settings of a smaller network, by the scenario of a command
    "rawhfl": ("model.hidden=16,16", "video.test_samples=20"),
    "osafl": ("model.hidden=16", "video.test_samples=20"),
    "video": ("video.test_samples=20",),
    "knowledge": ("model.hidden=16,16,16",),
    "knowledge_equal": ("model.hidden=16,16,16",),
    "recycling": ("model.channels=4,4", "model.hidden=16,16"),
    "pruning": ("model.hidden=16",),
}


def name(path):
    return str(path.relative_to(ROOT))


def blocks(path, mark):
    """The texts of the fenced blocks with this info string."""
    return [body for info, body in FENCE.findall(path.read_text()) if info.strip() == mark]


def commands(path):
    """The arguments of every `fedcell` line that is marked to be run."""
    for block in blocks(path, "sh run"):
        for line in block.splitlines():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "fedcell", f"{name(path)}: a block `sh run` holds fedcell commands alone, not {line!r}"
            yield arguments


def smaller(arguments):
    """Settings that make a command quick, as far as it does not set them itself."""
    scenario = arguments[arguments.index("--scenario") + 1] if "--scenario" in arguments else ""
    own = [text for text in QUICK.get(scenario, ()) if text.partition("=")[0] not in " ".join(arguments)]
    return [part for text in own for part in ("--set", text)]


def anchors(path):
    """The anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path / "here")


# ---------------------------------------------------------------- commands and code


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if blocks(path, "sh run")], ids=name)
def test_commands_run(path, capsys):
    for arguments in commands(path):
        few = FEW_ROUNDS + smaller(arguments) if arguments[0] == "run" and "--resume" not in arguments else []
        if arguments[0] == "plan" and arguments[1] != "cafe":
            few = FEW_ROUNDS
        code = main([*arguments, *few])
        out, err = capsys.readouterr()
        assert code == 0, f"fedcell {shlex.join(arguments)}: {err}"
        assert out, f"fedcell {shlex.join(arguments)} prints nothing"


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if blocks(path, "python run")], ids=name)
def test_scripts_run(path, capsys, monkeypatch):
    for number, code in enumerate(blocks(path, "python run")):
        script = Path(f"script{number}.py")
        script.write_text(code)
        monkeypatch.setattr("sys.argv", [str(script), "--quick", "--seeds", "1"])
        runpy.run_path(str(script), run_name="__main__")
        out = capsys.readouterr().out
        assert out, f"{name(path)}: script {number} prints nothing"
        assert "round-robin ends more accurate" in out or path.name != "CONTRIBUTING.md"


def test_the_start_page_shows_the_example():
    (shown,) = blocks(ROOT / "docs" / "start.md", "python")
    assert (ROOT / "examples" / "own_everything.py").read_text().endswith("\n" + shown)


def test_contributing_shows_the_method_files():
    method, scheduler = blocks(ROOT / "CONTRIBUTING.md", "python")
    assert (ROOT / "examples" / "server_momentum.py").read_text() == method
    assert scheduler in (ROOT / "examples" / "taking_turns.py").read_text()


# ---------------------------------------------------------------- links and tables


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_resolve(path):
    for link in LINK.findall(FENCE.sub("", path.read_text())):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), f"{name(path)} links to {link}, which is not there"
        assert not anchor or anchor in anchors(file), f"{name(path)} links to {link}, which has no such heading"


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/methods/*.md")), ids=name)
def test_equations_live_where_the_page_says(path):
    rows = [row for part in EQUATIONS.findall(path.read_text()) for row in part.splitlines() if row.startswith("|")]
    for whole, beside in (found for row in rows for found in NAMED.findall(row.split("|")[2])):
        room = whole.rpartition(".")[0]
        for place in [whole, *(f"{room}.{own}" for own in re.findall(r"\w+", beside))]:
            assert resolve_name(f"fedcell.{place}") is not None, f"{name(path)} names {place}"


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text()
    pages = [str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/**/*.md") if path.name != "index.md"]
    assert [page for page in pages if f"]({page})" not in index] == []


def test_generated_pages_are_fresh():
    pages = runpy.run_path(str(ROOT / "docs" / "generate.py"))["PAGES"]
    stale = [page for page, write in pages.items() if write() != (ROOT / "docs" / page).read_text(encoding="utf-8")]
    assert stale == [], "run `python docs/generate.py`"


def test_readme_names_methods_that_exist():
    table = (ROOT / "README.md").read_text().partition("| method | what it is |")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| [")]
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert named - set(methods.names()) == set()
    assert len(named) > 30  # a new method may wait for its line; the generated pages have it


def test_generated_settings_have_every_method():
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert [name for name in methods.names() if f"### method {name}\n" not in page] == []


def test_the_python_of_the_readme_runs(monkeypatch, tmp_path, capsys):
    (shown,) = blocks(ROOT / "README.md", "python")
    monkeypatch.chdir(tmp_path)
    exec(compile(shown.replace('"rounds": 20', '"rounds": 2'), "README.md", "exec"), {})
    assert "median" in capsys.readouterr().out


def test_readme_table_is_that_of_the_demo():
    """The numbers are measured by `make demo`; here its rows and columns are held to the code."""
    header, _, *rows = next(
        block.splitlines() for block in blocks(ROOT / "README.md", "") if block.startswith(HEADER[0])
    )
    assert tuple(header.split()) == HEADER
    assert tuple(row.split()[0] for row in rows) == scenarios.get("video").compare
