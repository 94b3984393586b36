"""`fedcell list` and `fedcell data list`: what there is to choose from.

Lists are read from the sources: importing every method, and PyTorch with it, takes seconds. Settings need the import.
"""

import ast
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ..data.fetch import available
from ..errors import BadInput
from ..pieces import first_line, outline, source
from ..report.table import columns

Rows = list[tuple[str, ...]]


def show(topic: str | None = None, chosen: Sequence[str] = (), scenario: str = "cell") -> str:
    """The text of one topic, or of all but the settings."""
    if chosen and topic != "keys":
        raise BadInput(f"`fedcell list {topic}` takes no method: `fedcell list keys {' '.join(chosen)}` shows settings")
    topics = [topic] if topic else ["methods", "codings", "scenarios", "models", "data"]
    parts = [_section(name, *SECTIONS[name]()) for name in topics if name != "keys"]
    return "\n\n".join(parts + (_keys(chosen, scenario) if topic == "keys" else []))


def _methods() -> tuple[tuple[str, ...], Rows]:
    return ("method", "what it is"), _built("fedcell.methods")


def _codings() -> tuple[tuple[str, ...], Rows]:
    return ("coding", "what it is, behind any method that sends updates: fedavg+topk"), _built("fedcell.coding")


def _built(package: str) -> Rows:
    return [(name, summary) for name, summary, builds in outline(package) if builds]


def _scenarios() -> tuple[tuple[str, ...], Rows]:
    return ("scenario", "what it is"), [(name, summary) for name, summary, _ in outline("fedcell.scenarios")]


def _models() -> tuple[tuple[str, ...], Rows]:
    """The functions that `BUILDERS` in `learn/models.py` names."""
    package = find_spec("fedcell.learn")
    assert package is not None
    assert package.origin is not None
    tree = source(Path(package.origin).with_name("models.py"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    (table,) = (
        node for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "BUILDERS"
    )
    assert table.value is not None
    named = [node for node in ast.walk(table.value) if isinstance(node, ast.Name)]
    bound = {node.id for node in named if isinstance(node.ctx, ast.Store)}  # by a loop inside the table
    models = [node.id for node in named if node.id in functions and node.id not in bound]
    return ("model", "what it is"), [(name, first_line(functions[name])) for name in models]


def _data() -> tuple[tuple[str, ...], Rows]:
    return ("data set", "where", "what it is"), list(available())


def _devices() -> tuple[tuple[str, ...], Rows]:
    from ..world.catalogue import BACKWARD, classes  # imports SciPy, which no other list needs

    header = ("device class", "clock", "step of a small network", "computing", "idle", "source")
    rows: Rows = []
    for one in classes().values():  # a step takes `a + b * batch` seconds
        each_s = 1e6 * (1 + BACKWARD) / (one.flops_per_cycle * one.cpu_hz)
        step = f"{one.step_s:g} s + {each_s:.2g} s * batch (1 MFLOP)"
        powers = f"{one.load_watt:g} W", f"{one.idle_watt:g} W"
        rows.append((one.name, f"{one.cpu_hz / 1e6:g} MHz", step, *powers, one.source))
    return header, rows


SECTIONS = {
    "methods": _methods,
    "codings": _codings,
    "scenarios": _scenarios,
    "models": _models,
    "data": _data,
    "devices": _devices,
}


def _keys(chosen: Sequence[str], scenario: str) -> list[str]:
    """Tables of settings: of the methods named, or of the scenario and every method."""
    from .. import coding, methods, scenarios

    header = ("key", "default", "type", "meaning")
    parts = []
    if not chosen:
        parts.append(_section(f"scenario {scenario}", header, _described(scenarios.get(scenario).config)))
    for name in chosen or methods.names():
        rows = _described(methods.load(name).Config(), f"{methods.word(name)}.")  # as --set takes them
        parts.append(_section(f"method {name}", header, rows))
    for name in [] if chosen else coding.names():
        parts.append(_section(f"coding {name}", header, _described(coding.load(name).Config(), f"{name}.")))
    return parts


def _described(settings: object, prefix: str = "") -> Rows:
    from .. import options

    return [(prefix + key, default, kind, help) for key, kind, default, help in options.describe(settings)]


def _section(title: str, header: tuple[str, ...], rows: Rows) -> str:
    """A heading and aligned columns; the last one is not padded."""
    lines = columns([header, *rows], "<" * len(header))
    return "\n".join([title.upper(), *(f"  {line}" for line in lines)])
