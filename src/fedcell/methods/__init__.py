"""Federated-learning methods: one file each, and the file is the registration.

A method file has a docstring whose first line says what it is, a frozen dataclass `Config` made of
`option(...)` fields, and `build(config) -> Method`. Files without `build` are helpers.
"""

import importlib
import importlib.util
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, NamedTuple

from ..errors import BadInput, did_you_mean
from ..options import override
from ..types import Method
from ..unused_settings import unused_settings


class Choice(NamedTuple):
    """A method picked with its settings, as in `fedavg:scheduler=random,n_selected=5`."""

    label: str  # the text it was picked by
    module: ModuleType
    config: Any

    @property
    def source(self) -> str:
        """The name or the file of the method."""
        return self.label.partition(":")[0]

    def build(self) -> Method:
        method = self.module.build(self.config)
        if not isinstance(method, Method):
            raise BadInput(f"build() of {self.source!r} returned {str(method)[:50]!r}: return a fedcell.Method")
        return method


def names() -> list[str]:
    """Every method in this folder."""
    return [name for name in _files() if hasattr(importlib.import_module(f"{__name__}.{name}"), "build")]


def load(name: str) -> ModuleType:
    """The module of a method by name, or of a method file by path (`./mine.py`)."""
    module = _from_file(Path(name)) if name.endswith(".py") else _by_name(name)
    for part in ("Config", "build"):
        if not hasattr(module, part):
            raise BadInput(f"method {name!r} has no {part}: a method file defines Config and build(config)")
    return module


def parse(text: str, defaults: Mapping[str, Mapping[str, Any]] | None = None) -> Choice:
    """Read `NAME[:key=value[,key=value...]]`; `defaults` are a scenario's settings per method name."""
    name = text.partition(":")[0]
    module = load(name)
    given = {**(defaults or {}).get(name, {}), **dict(pairs(text))}
    return Choice(text, module, override(module.Config(), given, where=f"{word(name)}."))


def word(name: str) -> str:
    """What keys of a method begin with: its name, of a file without folder and ending."""
    return Path(name).stem if name.endswith(".py") else name


def pairs(text: str) -> list[tuple[str, str]]:
    """Keys and values behind the name; a comma that no key follows belongs to a list.

    >>> pairs("central:lr_cuts=10,20,lr=0.1")
    [('lr_cuts', '10,20'), ('lr', '0.1')]
    """
    found: dict[str, str] = {}
    for part in re.split(r",(?=[^,=]+=)", text.partition(":")[2]):
        key, equals, value = (one.strip() for one in part.strip(", ").partition("="))
        if key and not equals:
            raise BadInput(f"method setting {key!r} in {text!r} has no value: write key=value")
        if key in found:
            raise BadInput(f"{text!r} sets {key} twice: drop one of them")
        if key:
            found[key] = value
    if ":" in text and not found:
        raise BadInput(f"method {text!r} has no settings behind its colon: drop the colon, or write key=value")
    return list(found.items())


def without_effect(choice: Choice, given: Iterable[str] = ()) -> dict[str, str]:
    """`unused_settings` of the settings in a method's text, each text by itself, and of those given for the method."""
    where, own = f"{word(choice.source)}.", dict(pairs(choice.label))
    said = unused_settings(choice.config, [key for key in given if key not in own], where)
    return said | {f"{choice.label} {key}": text for key, text in unused_settings(choice.config, own, where).items()}


def summary(module: ModuleType) -> str:
    """The first line of a method's docstring."""
    return (module.__doc__ or "").strip().split("\n")[0]


def _files() -> list[str]:
    return sorted(entry.name for entry in iter_modules(__path__))


def _by_name(name: str) -> ModuleType:
    module = importlib.import_module(f"{__name__}.{name}") if name in _files() else None  # this one alone: it is faster
    if module is None or not hasattr(module, "build"):
        raise BadInput(f"unknown method {name!r}{did_you_mean(name, names())} (fedcell list shows all)")
    return module


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise BadInput(
            f"method file {str(path)!r} does not exist: give the path of a .py file or a name of fedcell list"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        what = f"method file {str(path)!r} cannot be loaded ({type(error).__name__}: {error})"
        raise BadInput(f"{what}: correct it (`python {path}` shows the line)") from error
    return module
