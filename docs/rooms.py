"""The rooms of `src/fedcell` and what each imports, read from the code: the drawing in CONTRIBUTING.md.

A room is a folder or a file at the top. Imports inside functions count, because they can hide a cycle; imports that
only annotations need (`TYPE_CHECKING`) do not.
"""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "fedcell"
Graph = dict[str, set[str]]  # what each room imports
TOP = "__init__"  # the package itself, which loads public names on first use


def graph(source: Path = SOURCE) -> Graph:
    """Every room and the other rooms that it imports."""
    found: Graph = {}
    for path in sorted(source.rglob("*.py")):
        names = (name.split(".") for name in imported(path, source))
        rooms = (parts[1] if len(parts) > 1 else TOP for parts in names)
        found.setdefault(room_of(path, source), set()).update(rooms)
    return {room: {other for other in others if other in found and other != room} for room, others in found.items()}


def modules(source: Path = SOURCE) -> Graph:
    """Every module and the other modules that it imports, inside its room, too."""
    paths = {
        ".".join(("fedcell", *path.relative_to(source).with_suffix("").parts)): path for path in source.rglob("*.py")
    }
    known = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    found: Graph = {}
    for module, path in known.items():
        names = (name if name in known else name.rpartition(".")[0] for name in imported(path, source))
        found[module] = {name for name in names if name in known and name != module}
    return found


def room_of(path: Path, source: Path = SOURCE) -> str:
    """The room that a file belongs to."""
    return path.relative_to(source).parts[0].removesuffix(".py")


def imported(path: Path, source: Path = SOURCE) -> Iterator[str]:
    """Full names of what a file imports from fedcell, such as `fedcell.world.observe`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    package = ["fedcell", *path.relative_to(source).parts[:-1]]
    for node in ast.walk(tree):
        if node in skipped:
            continue
        yield from (name for name in _names(node, package) if name.split(".")[0] == "fedcell")


def _names(node: ast.AST, package: list[str]) -> Iterator[str]:
    """Full names that a statement, or a call of `import_module` with a plain text, imports."""
    match node:
        case ast.Import():
            yield from (alias.name for alias in node.names)
        case ast.ImportFrom():
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = base + node.module.split(".") if node.module else base
            yield from (".".join((*base, alias.name)) for alias in node.names)
        case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(name)), *_]):
            yield name


def floors(rooms: Graph) -> list[list[str]]:
    """Rooms from the ground up: each stands on rooms of lower floors alone. Raises CycleError if there is a cycle."""
    sorter, found = TopologicalSorter(rooms), []
    sorter.prepare()
    while ready := sorter.get_ready():
        found.append(sorted(ready))
        sorter.done(*ready)
    return found


def stands_on(rooms: Graph, room: str) -> set[str]:
    """What a room imports, without what these rooms stand on themselves."""
    return {one for one in rooms[room] if not any(one in _below(rooms, other) for other in rooms[room])}


def _below(rooms: Graph, room: str) -> set[str]:
    """All rooms that a room needs, directly or through others."""
    found: set[str] = set()
    waiting = [*rooms[room]]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += rooms[one]
    return found


def drawing() -> str:
    """One line per room, the ground floor last; behind the arrow, the rooms that it stands on."""
    rooms = {room: others for room, others in graph().items() if not room.startswith("__") and room != "version"}
    rooms = {room: others - {"version"} for room, others in rooms.items()}
    width, lines = max(map(len, rooms)), []
    for number, floor in reversed(list(enumerate(floors(rooms)))):
        for room in floor:
            below = ", ".join(sorted(stands_on(rooms, room)))
            lines.append(f"{number:2}  {room:{width}}  ->  {below}" if below else f"{number:2}  {room}")
    return "\n".join(lines) + "\n"
