"""Find and load pieces, such as methods: every file in a folder of the package, or a file of the user.

A piece is a module with a docstring whose first line says what it is, a frozen dataclass `Config` made of `option(...)`
fields, and `build(config)`.
"""

import ast
import importlib
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import get_type_hints

from .errors import BadInput, did_you_mean


def names(package: str, folder: Iterable[str]) -> list[str]:
    """Names of all pieces in the folder of a package; files without `build` are helpers."""
    return [name for name in _files(folder) if hasattr(importlib.import_module(f"{package}.{name}"), "build")]


def load(kind: str, package: str, folder: Iterable[str], name: str) -> ModuleType:
    """The module of a piece by name, or of a file by its path (`./mine.py`); `kind` is what messages call it."""
    if name.endswith(".py"):
        module = from_file(kind, Path(name))
    else:
        known = name in _files(folder)
        found = importlib.import_module(f"{package}.{name}") if known else None  # only this one, which is faster
        if found is None or not hasattr(found, "build"):
            every = names(package, folder)
            parts = [part.strip() for part in name.split(",")]
            if len(parts) > 1 and all(part.partition("+")[0] in every for part in parts):
                raise BadInput(f"{name!r} is no {kind}: put a space between them, {' '.join(parts)}")
            near = did_you_mean(name, every)
            raise BadInput(f"unknown {kind} {name!r}{near} (fedcell list shows all)")
        module = found
    for part in ("Config", "build"):
        if not hasattr(module, part):
            raise BadInput(f"{kind} {name!r} has no {part}: a {kind} file defines Config and build(config)")
    return module


def from_file(kind: str, path: Path) -> ModuleType:
    """Load a Python file as a fresh module, which is in `sys.modules` only while it is loaded."""
    if not path.is_file():
        raise BadInput(
            f"{kind} file {str(path)!r} does not exist: give the path of a .py file or a name of fedcell list"
        )
    spec = importlib.util.spec_from_file_location(f"file.{path.stem}", path)  # a name that no other module has
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where a dataclass looks up the types that it has as texts
    try:
        spec.loader.exec_module(module)
        _resolve(getattr(module, "Config", None))
    except Exception as error:
        what = f"{kind} file {str(path)!r} cannot be loaded ({type(error).__name__}: {error})"
        raise BadInput(f"{what}: correct it (`python {path}` shows the line)") from error
    finally:
        sys.modules.pop(spec.name, None)
    return module


def _resolve(config: object) -> None:
    """Put types in place of the texts that a dataclass has after `from __future__ import annotations`."""
    if isinstance(config, type) and is_dataclass(config) and any(isinstance(one.type, str) for one in fields(config)):
        hints = get_type_hints(config)
        for entry in fields(config):
            entry.type = hints[entry.name]


def summary(module: ModuleType) -> str:
    """The first line of a piece's docstring."""
    return (module.__doc__ or "").strip().split("\n")[0]


def outline(package: str) -> list[tuple[str, str, bool]]:
    """(name, first line of its docstring, whether it has `build`) of every file of a package, without importing it.

    Importing all methods takes seconds, and a list only needs their first lines.
    """
    spec = importlib.util.find_spec(package)
    found = []
    for folder in (spec and spec.submodule_search_locations) or ():
        for name in _files([folder]):
            path = Path(folder, f"{name}.py")
            tree = source(path if path.is_file() else Path(folder, name, "__init__.py"))
            found.append((name, first_line(tree), "build" in _bound(tree)))
    return found


def source(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def first_line(node: ast.Module | ast.FunctionDef) -> str:
    """The first line of a docstring; empty without one."""
    return (ast.get_docstring(node) or "").partition("\n")[0]


def _bound(tree: ast.Module) -> set[str]:
    """The names that the top level of a file defines, imports or assigns."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def _files(folder: Iterable[str]) -> tuple[str, ...]:
    return _files_in(tuple(folder))


@cache
def _files_in(folder: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(entry.name for entry in iter_modules(folder)))
