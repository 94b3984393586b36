"""The page of the Python API, written from the signatures and docstrings of public names."""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOMS = {  # module -> what it is for
    "fedcell": "What most scripts need: `import fedcell` costs nothing, names are loaded on first use.",
    "fedcell.record": "Recorded runs: read them, find them, resume them.",
    "fedcell.report": "Tables, comparisons and figures from records.",
    "fedcell.plan.cell": "What rounds cost and who takes part: [plan.md](plan.md).",
    "fedcell.plan.show": "Plans as a table, as plain values, and as a figure over a knob.",
    "fedcell.plan.forecast": "What a target will cost a run that has begun.",
    "fedcell.plan.cafe": "Quorum and deadline of CAFe.",
}
NAMES = {  # of modules without a list of what is public
    "fedcell.plan.cell": ["plan", "CellPlan", "Spread", "TrainingProgress"],
    "fedcell.plan.show": ["text", "as_json", "save"],
    "fedcell.plan.forecast": ["forecast", "Forecast", "Expected"],
    "fedcell.plan.cafe": ["plan", "CafePlan"],
}
HEAD = """\
# Python

This page is written by `docs/generate.py` from the docstrings. Do not edit it; run the script.
[method-api.md](method-api.md) has the functions that a method is made of, [configuration.md](configuration.md) every
setting.
"""


def page() -> str:
    """The whole page."""
    parts, seen = [HEAD], set[int]()
    for room, about in ROOMS.items():
        module = importlib.import_module(room)
        parts.append(f"## {room}\n\n{about}\n")
        for name in NAMES.get(room) or sorted(module.__all__, key=str.lower):
            value = getattr(module, name)
            if id(value) not in seen and (inspect.isfunction(value) or inspect.isclass(value)):
                seen.add(id(value))
                parts.append(entry(f"{room}.{name}", value))
    return "\n".join(parts)


def entry(name: str, value: Any) -> str:
    """Heading, signature or fields, and the docstring of one name."""
    lines = Path(inspect.getsourcefile(value) or "").read_text(encoding="utf-8").splitlines()
    nodes = ast.parse("\n".join(lines)).body
    (node,) = (one for one in nodes if isinstance(one, ast.FunctionDef | ast.ClassDef) and one.name == value.__name__)
    shown = signature(name, node) if isinstance(node, ast.FunctionDef) else fields(name, node, lines)
    return f"### {name}\n\n```python\n{shown}\n```\n\n{markdown(ast.get_docstring(node) or '')}\n"


def signature(name: str, node: ast.FunctionDef) -> str:
    """`name(arguments) -> result`, an argument per line if it is long."""
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{name}({ast.unparse(node.args)}){result}"
    if len(line) <= 100:
        return line
    parts = [ast.unparse(_alone(one)) for one in _arguments(node.args)]
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"


def _arguments(args: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None] | None]:
    """Arguments with their defaults; None is the star before those that are given by name."""
    plain = [*args.posonlyargs, *args.args]
    yield from zip(plain, [*[None] * (len(plain) - len(args.defaults)), *args.defaults], strict=True)
    if args.kwonlyargs:
        yield None
        yield from zip(args.kwonlyargs, args.kw_defaults, strict=True)


def _alone(one: tuple[ast.arg, ast.expr | None] | None) -> ast.arguments | ast.expr:
    """One argument as a list of its own."""
    if one is None:
        return ast.Name("*")
    arg, default = one
    return ast.arguments([], [arg], None, [], [], None, [default] if default else [])


def fields(name: str, node: ast.ClassDef, lines: list[str]) -> str:
    """The class with its fields and the comments behind them, and its public methods."""
    own = [one for one in node.body if isinstance(one, ast.AnnAssign)]
    body = [lines[one.lineno - 1].strip() if one.lineno == one.end_lineno else ast.unparse(one) for one in own]
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"):
            body.append(f"def {signature(one.name, one)}: ...")
    return "\n".join([f"class {name}:", *(f"    {line}" for line in body or ["..."])])


def markdown(text: str) -> str:
    """A docstring in Markdown: arguments as a list, doctests as code."""
    parts = []
    for block in re.split(r"\n\s*\n", text):
        head, _, rest = block.partition("\n")
        if block.lstrip().startswith(">>>"):
            parts.append(f"```python\n{textwrap.dedent(block)}\n```")
        elif head.rstrip() in ("Args:", "Returns:", "Attributes:"):
            parts += [f"**{head.rstrip(':')}**", _list(textwrap.dedent(rest))]
        else:
            parts.append(block)
    return "\n\n".join(parts)


def _list(text: str) -> str:
    """`name: meaning` lines, with what is indented below them, as a list; other text as it is."""
    found = [" ".join(part.split()) for part in re.split(r"\n(?=\S)", text)]
    named = [re.fullmatch(r"(\w+): (.*)", part) for part in found]
    return "\n".join(f"- `{one[1]}`: {one[2]}" if one else part for one, part in zip(named, found, strict=True))
