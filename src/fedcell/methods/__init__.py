"""Federated-learning methods: one file each, and the file is the registration.

A method file has a docstring whose first line says what it is, a frozen dataclass `Config` made of
`option(...)` fields, and `build(config) -> Method`. Files without `build` are helpers.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from .. import coding as codings
from .. import pieces
from ..errors import BadInput
from ..options import override
from ..pieces import summary
from ..types import Method
from ..unused_settings import unused_settings
from .parts import pairing

__all__ = ["Choice", "load", "names", "owns", "pairs", "parse", "summary", "without_effect", "word"]


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
        return method._replace(name=word(self.source))


def names() -> list[str]:
    """Every method in this folder."""
    return pieces.names(__name__, __path__)


def load(name: str) -> ModuleType:
    """The module of a method by name, or of a method file by path (`./mine.py`), either with a coding behind a `+`."""
    method, coding = pairing.split(name)
    module = pieces.load("method", __name__, __path__, method)
    return pairing.paired(module, method, coding) if coding else module


def parse(text: str, defaults: Mapping[str, Mapping[str, Any]] | None = None) -> Choice:
    """Read `NAME[+CODING][:key=value[,key=value...]]`; `defaults` are a scenario's settings per method name."""
    name, known = text.partition(":")[0], defaults or {}
    module = load(name)
    given = {**known.get(pairing.split(name)[0], {}), **known.get(name, {}), **dict(pairs(text))}
    return Choice(text, module, override(module.Config(), given, where=f"{word(name)}."))


def word(name: str) -> str:
    """Return the prefix of a method's keys: its name; for a file, the file name without folder and ending.

    >>> word("fedavg+topk"), word("./mine.py"), word("./mine.py+topk")
    ('fedavg+topk', 'mine', 'mine+topk')
    """
    return "+".join(Path(part).stem if part.endswith(".py") else part for part in pairing.split(name) if part)


def owns(name: str, section: str, key: str) -> bool:
    """Whether `section.key` belongs to a method: by its whole name, or by one part of a pair, as `topk.fraction` does.

    A key with the whole name counts without a look at the settings; parsing refuses it if there is no such setting.
    """
    if word(name) == section:
        return True
    method, coding = pairing.split(name)
    if not coding or section not in (word(method), word(coding)):
        return False
    part = load(method) if section == word(method) else codings.load(coding)
    return key in (entry.name for entry in fields(part.Config))


def pairs(text: str) -> list[tuple[str, str]]:
    """Read the keys and values behind the name; a comma that no key follows belongs to a list.

    >>> pairs("central:lr_cuts=10,20,lr=0.1")
    [('lr_cuts', '10,20'), ('lr', '0.1')]
    """
    found: dict[str, str] = {}
    name, _, settings = text.partition(":")
    if late := re.search(r"(.*)\+(\w+)(:.*|$)", settings):
        before, coding, behind = late.groups()
        if coding in codings.names():
            fix = ",".join(filter(None, [before, behind.strip(":")]))
            raise BadInput(f"{text!r} names its coding behind a setting: write '{name}+{coding}:{fix}'")
    for part in re.split(r",(?=[^,=]+=)", settings):
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
    """Apply `unused_settings` to the settings in a method's text, which are keyed by text, and to those in `given`."""
    where, own = f"{word(choice.source)}.", dict(pairs(choice.label))
    said = unused_settings(choice.config, [key for key in given if key not in own], where)
    return said | {f"{choice.label} {key}": text for key, text in unused_settings(choice.config, own, where).items()}
