"""Networks from files of a user's own: `net.py:function` names the function, or the class, that builds one.

The function gets those of `n_classes`, `input_shape` (or `in_shape`) that it has arguments for, and `model.args`.
A run keeps the checksum of the file, so that records tell two files apart and no run resumes with a changed file.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..arguments import kind_of
from ..errors import BadInput, FedcellError, did_you_mean
from ..pieces import from_file
from .settings import ModelConfig, in_file

if TYPE_CHECKING:  # comparing records needs no PyTorch
    from torch import nn

SHORT = 8  # characters of a checksum that people see
KINDS: tuple[Callable[[str], Any], ...] = (int, float)


def split(name: str) -> tuple[Path, str]:
    """(file, function) of a name.

    >>> split("nets/small.py:wide")[1]
    'wide'
    """
    path, _, function = name.rpartition(":")
    if not path.endswith(".py") or not function.isidentifier():
        raise BadInput(f"model.name = {name!r} names no function of its file: write it as net.py:function")
    return Path(path).expanduser(), function


def checksum(path: Path) -> str:
    """The SHA-256 of a file; raises BadInput if it cannot be read."""
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise BadInput(
            f"model file {str(path)!r} cannot be read ({error.strerror}): give the path of a .py file"
        ) from None


def pinned(settings: ModelConfig) -> ModelConfig:
    """Settings with the absolute path and the checksum of the model file; unchanged for a built-in model."""
    if not in_file(settings.name):
        return settings
    path, function = split(settings.name)
    return replace(settings, name=f"{path.resolve()}:{function}", sha256=settings.sha256 or checksum(path))


def placeless(settings: ModelConfig) -> ModelConfig:
    """Settings without the folder of the model file, so that equal files give equal settings."""
    if not settings.sha256:
        return settings
    path, function = split(settings.name)
    return replace(settings, name=f"{path.name}:{function}")


def shown(model: Mapping[str, Any]) -> dict[str, Any]:
    """The `model` section of a record as people see it: a model file without its folder, and a short checksum.

    >>> shown({"name": "/home/ada/net.py:wide", "sha256": "0123456789abcdef"})
    {'name': 'net.py:wide', 'sha256': '01234567'}
    """
    if not model.get("sha256"):
        return dict(model)
    return {**model, "name": Path(str(model["name"])).name, "sha256": str(model["sha256"])[:SHORT]}


def build(settings: ModelConfig, input_shape: tuple[int, ...], n_classes: int) -> "nn.Module":
    """Call the function of a model file; raises BadInput if it makes no network."""
    from torch import nn

    path, name = split(settings.name)
    if settings.sha256 and checksum(path) != settings.sha256:
        raise FedcellError(f"{path} changed since this run began: restore it, or start a new run with it")
    function = getattr(from_file("model", path), name, None)
    if not callable(function):
        raise BadInput(f"model file {str(path)!r} has no function {name!r}: define it, or name another one")
    arguments = _arguments(function, settings, input_shape, n_classes)
    try:
        network = function(**arguments)
    except Exception as error:
        what = f"{name}() of {str(path)!r} fails with {_written(arguments)} ({type(error).__name__}: {error})"
        raise BadInput(f"{what}: correct it") from error
    if not isinstance(network, nn.Module):
        raise BadInput(f"{name}() of {str(path)!r} returns {kind_of(network)}: return a torch.nn.Module")
    return network


def read_args(text: str) -> dict[str, Any]:
    """Parse `model.args`, written `key=value,key=value`; a comma without a key behind it separates items of a list.

    >>> read_args("width=32,hidden=64,32,rate=0.5,bias=false,norm=group")
    {'width': 32, 'hidden': (64, 32), 'rate': 0.5, 'bias': False, 'norm': 'group'}
    """
    found: dict[str, Any] = {}
    for part in filter(None, re.split(r",(?=[^,=]+=)", text)):
        key, equals, value = (one.strip() for one in part.partition("="))
        if not equals or not key.isidentifier() or not value:
            raise BadInput(f"model.args = {text!r} has {part!r} in it: write key=value,key=value")
        if key in found:
            raise BadInput(f"model.args = {text!r} gives {key} twice: drop one of them")
        items = value.split(",")
        if not all(map(str.strip, items)):
            raise BadInput(f"model.args = {text!r} has an empty item in {part!r}: drop the comma that nothing follows")
        found[key] = tuple(map(_value, items)) if len(items) > 1 else _value(value)
    return found


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in KINDS:
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip()


def _arguments(
    function: Callable[..., Any], settings: ModelConfig, input_shape: tuple[int, ...], n_classes: int
) -> dict[str, Any]:
    """The arguments for a function: those facts of the data that it has names for, and `model.args`."""
    facts = {"n_classes": n_classes, "input_shape": tuple(input_shape), "in_shape": tuple(input_shape)}
    given = read_args(settings.args)
    takes = inspect.signature(function).parameters
    named = [one.name for one in takes.values() if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
    if len(named) == len(takes):  # it takes no others
        for key in given:
            if key not in named:
                raise BadInput(f"model.args gives {key}, which {settings.name} does not take{_near(key, named)}")
    for name in named:
        if takes[name].default is inspect.Parameter.empty and name not in {**facts, **given}:
            fix = f"set model.args={name}=..., or give it a default"
            raise BadInput(f"{settings.name} needs {name}, which is none of {', '.join(facts)}: {fix}")
    return {name: value for name, value in facts.items() if name in named} | given


def _near(key: str, named: list[str]) -> str:
    return did_you_mean(key, named) or f": it takes {', '.join(named) or 'nothing'}"


def _written(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items()) or "no arguments"
