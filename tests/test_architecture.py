"""Rooms import one way only, and their graph has no cycle."""

import ast
import runpy
from collections import Counter
from graphlib import CycleError
from pathlib import Path

import pytest

ROOMS = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "rooms.py"))
SOURCE = ROOMS["SOURCE"]
FLOORS = [  # a room may import from its own floor and the floors below
    {
        "types",
        "units",
        "version",
        "errors",
        "arguments",
        "metrics",
        "options",
        "option_values",
        "labels",
        "laws",
        "rng",
        "tables",
    },
    {"human", "machine", "threads", "until", "unused_settings", "effort", "pieces", "sealing"},
    {"solve"},
    {"world", "radio", "learn"},
    {"data", "tiers", "coding", "air"},
    {"methods"},
    {"scenarios"},
    {"resolve", "study"},
    {"attacking", "foretelling", "lifting", "screening", "simulate"},
    {
        "record",
        "report",
        "loggers",
        "notebook",
        "sweeps",
        "plan",
        "tuning",
        "experiment",
        "web",
        "api",
        "deploy",
        "cli",
        "__main__",
        "__init__",
    },
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


@pytest.fixture(scope="module")
def graph():
    """The rooms as they are; reading them takes a second."""
    return ROOMS["graph"]()


def test_every_room_has_a_floor(graph):
    assert set(graph) == set(FLOOR_OF)


def test_imports_go_down_only(graph):
    wrong = [
        f"{room} imports {other}"
        for room, others in graph.items()
        for other in others
        if FLOOR_OF[other] > FLOOR_OF[room]
    ]
    assert not wrong


def test_rooms_have_no_cycle(graph):
    ROOMS["floors"](graph)


def test_no_import_inside_a_function_hides_a_cycle_of_modules():
    ROOMS["floors"](ROOMS["modules"]())


def test_a_cycle_inside_a_room_is_found(tmp_path):
    for name, text in {"one": "def late():\n    from .two import b", "two": "from . import one"}.items():
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / f"{name}.py").write_text(text)
    with pytest.raises(CycleError):
        ROOMS["floors"](ROOMS["modules"](tmp_path))


@pytest.mark.parametrize(
    "line",
    [
        "from ..world import observe",
        "from .. import world",
        "import fedcell.world.build",
        "def late():\n    from ..world import observe",
        "def late():\n    import_module('fedcell.world')",
    ],
)
def test_a_cycle_is_found_however_it_is_imported(tmp_path, line):
    for room, text in {"data": line, "world": "from ..data import load", "types": ""}.items():
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text(text)
    assert ROOMS["graph"](tmp_path) == {"data": {"world"}, "world": {"data"}, "types": set()}
    with pytest.raises(CycleError):
        ROOMS["floors"](ROOMS["graph"](tmp_path))


def test_annotations_alone_make_no_import(tmp_path):
    (tmp_path / "data.py").write_text("if TYPE_CHECKING:\n    from .world import observe")
    (tmp_path / "world.py").write_text("from .data import load")
    assert ROOMS["floors"](ROOMS["graph"](tmp_path)) == [["data"], ["world"]]


def test_one_class_per_name():
    """Each method has a Config and a State, and the theorem of each paper its constants; else a name is one thing."""
    found = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    )
    one_each = {"Config", "State", "Memory", "Sink"}  # of methods and codings, as checkpoints have them; of loggers
    one_each |= {"Constants", "Bound"}  # of the theorems of OSAFL and RawHFL
    assert {name for name, count in found.items() if count > 1} <= one_each


def test_loop_stays_on_one_page():
    assert len((SOURCE / "simulate.py").read_text().splitlines()) < 100


FAMILIES = (  # of methods, a file each: docs/families
    *("air/*.py", "coding/*.py", "methods/parts/robust/*.py", "world/attack.py", "attacking.py"),
    *(f"methods/{name}.py" for name in ("fedasync", "fedbuff", "semi_async", "robust", "scaffold", "fedopt")),
    *(f"methods/{name}.py" for name in ("feddyn", "moon", "ditto", "qfedavg", "power_of_choice", "oort", "signsgd")),
    *(f"methods/parts/{name}.py" for name in ("coded", "encoding", "summed", "over_time", "flights", "parcels")),
    *(f"methods/parts/{name}.py" for name in ("starting", "staleness", "by_lot", "in_time")),
)


@pytest.mark.parametrize("pattern", FAMILIES)
def test_files_of_the_families_are_short(pattern):
    found = {path.name: len(path.read_text().splitlines()) for path in Path(SOURCE).glob(pattern)}
    assert found
    assert all(length < 150 for length in found.values()), found
