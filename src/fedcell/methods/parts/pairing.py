"""A method with a coding, as one: `fedavg+topk` has the settings of both and builds the coded method.

Not a method itself: it has no `build`.
"""

from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ... import coding as codings
from ...errors import BadInput
from ...pieces import summary
from ...types import Method
from .coded import coded


def split(name: str) -> tuple[str, str]:
    """(method, coding) of a name; the coding is empty if there is none.

    >>> split("fedavg+topk"), split("fedavg"), split("./a+b/mine.py+topk"), split("./a+b/mine.py")
    (('fedavg', 'topk'), ('fedavg', ''), ('./a+b/mine.py', 'topk'), ('./a+b/mine.py', ''))
    """
    file, ending, coding = name.partition(".py+")
    if ending:
        return f"{file}.py", coding
    method, _, coding = name.partition("+")
    if coding and (not method.isidentifier() or (name.endswith(".py") and Path(name).is_file())):
        return name, ""  # a path with a plus in it
    return method, coding


def absolute(name: str) -> str:
    """The name with absolute paths of its files."""
    return "+".join(str(Path(part).resolve()) if part.endswith(".py") else part for part in split(name) if part)


def files(name: str) -> list[str]:
    """The method file and the coding file in a name, as far as it has them."""
    return [part for part in split(name) if part.endswith(".py")]


@lru_cache
def paired(method: ModuleType, name: str, coding: str) -> ModuleType:
    """Make a module that has the settings of a method and of a coding, and builds the coded method."""
    if "+" in coding and not coding.endswith(".py"):
        raise BadInput(f"{name}+{coding} has two codings: name one")
    other = codings.load(coding)
    module = ModuleType(f"{name}+{coding}", f"{summary(method).rstrip('.')}; coded by {summary(other)}")
    both = {entry.name for entry in fields(method.Config)} & {entry.name for entry in fields(other.Config)}
    if both:
        raise BadInput(f"{name} and {coding} both have a setting {sorted(both)[0]!r}: rename that of the coding")

    def check(self: Any) -> None:
        for part in (method.Config, other.Config):
            getattr(part, "__post_init__", lambda _: None)(self)

    def build(config: Any) -> Method:
        return coded(method.build(config), other.build(config), name)

    body = {"__doc__": f"Settings of {name} and of {coding}.", "__post_init__": check, "__module__": __name__}
    bases = (other.Config, method.Config)  # in this order, fields of the method come first
    config: Any = dataclass(frozen=True)(type("Config", bases, body))
    vars(module).update(Config=config, build=build, method=method, coding=other)
    return module
