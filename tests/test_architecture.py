"""Rooms import one way only."""

import ast
from pathlib import Path

import fedcell

SOURCE = Path(fedcell.__file__).parent
FLOORS = [  # a room may import from its own floor and the floors below
    {"types", "units", "version", "errors", "options", "idle", "rng", "effort", "pieces"},
    {"solve"},
    {"world", "radio", "data", "learn", "theory"},
    {"tiers", "coding"},
    {"methods", "plan"},
    {"scenarios"},
    {"screening", "simulate"},
    {"record", "report", "loggers", "sweeps", "experiment", "web", "api", "deploy", "cli", "__main__", "__init__"},
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path):
    """Rooms imported at run time; imports for annotations alone do not count."""
    tree = ast.parse(path.read_text())
    skipped = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    package = path.relative_to(SOURCE).parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in skipped:
            target = list(package[: len(package) - node.level + 1]) if node.level else []
            target += (node.module or "").split(".") if node.module else []
            if not node.level:
                if target[:1] != ["fedcell"]:
                    continue
                target = target[1:]
            yield from [target[0]] if target else [alias.name for alias in node.names]


def test_every_room_has_a_floor():
    assert {room_of(path) for path in SOURCE.rglob("*.py")} <= set(FLOOR_OF)


def test_imports_go_down_only():
    wrong = [
        f"{path.relative_to(SOURCE)} imports {room}"
        for path in SOURCE.rglob("*.py")
        for room in imported_rooms(path)
        if room in FLOOR_OF and FLOOR_OF[room] > FLOOR_OF[room_of(path)]
    ]
    assert not wrong


def test_loop_stays_on_one_page():
    assert len((SOURCE / "simulate.py").read_text().splitlines()) < 100
