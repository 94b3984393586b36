"""The JSON schema of a study, for editors: every key with its type, limits, default and meaning.

It is made from the options themselves by `docs/generate.py` and lies beside this file, so that the command line prints
it, and completes keys by it, without importing every method.
"""

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from pathlib import Path
from typing import Any

from ..options import Law, written
from ..tables import File
from .file import FIGURE, KEYS

FILE = Path(__file__).with_name("study.schema.json")
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
KINDS: dict[Any, list[dict[str, Any]]] = {
    int: [{"type": "integer"}],
    float: [{"type": "number"}],
    bool: [{"type": "boolean"}],
    str: [TEXT],
    Law: [{"type": "number"}, TEXT],
    File: [TEXT],
}


def stored() -> dict[str, Any]:
    """The schema on file."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def keys(schema: Mapping[str, Any]) -> list[str]:
    """Every dotted key of the settings of a schema."""
    return _keys(schema["properties"]["settings"], "")


def _keys(table: Mapping[str, Any], prefix: str) -> list[str]:
    found: list[str] = []
    for name, value in table["properties"].items():
        found += _keys(value, f"{prefix}{name}.") if "properties" in value else [prefix + name]
    return found


def made(config: Any, sections: Mapping[str, Any]) -> dict[str, Any]:
    """The schema, from the settings of a run and those of every method and coding by name."""
    settings = _table(config, sections)
    properties: dict[str, Any] = {
        "methods": {"anyOf": [TEXT, TEXTS]},
        "scenario": {"anyOf": [TEXT, TEXTS]},
        "seeds": {"anyOf": [TEXT, {"type": "integer"}, {"type": "array", "items": {"type": ["integer", "string"]}}]},
        "settings": settings,
        "grid": _several(settings, "#/properties/settings"),
        "targets": {"anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "number"}}]},
        "labels": {"type": "object", "additionalProperties": TEXT},
        "figures": {"anyOf": [TEXT, _figure(), {"type": "array", "items": {"anyOf": [TEXT, _figure()]}}]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A fedcell study",
        "type": "object",
        "additionalProperties": False,
        "properties": {key: {"description": help, **properties.get(key, TEXT)} for key, help in KEYS.items()},
    }


def _figure() -> dict[str, Any]:
    kinds: dict[str, Any] = {"width": {"type": ["string", "number"]}, "by": {"anyOf": [TEXT, TEXTS]}}
    properties = {key: {"description": help, **kinds.get(key, TEXT)} for key, help in FIGURE.items()}
    return {"type": "object", "additionalProperties": False, "required": ["file"], "properties": properties}


def _table(config: Any, sections: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by section; a method of the user's own file, or with a coding, has a section that is not known here."""
    run = _section(config)
    run["properties"] = {name: _section(own) for name, own in sections.items()} | run["properties"]
    del run["properties"]["scenario"], run["properties"]["seed"]  # have keys of their own
    return run | {"additionalProperties": {"type": "object"}}


def _section(settings: Any) -> dict[str, Any]:
    properties = {}
    for entry in fields(settings):
        value = getattr(settings, entry.name)
        if is_dataclass(value) and not isinstance(value, Law):
            properties[entry.name] = _section(value)
        else:
            about = f"{entry.metadata.get('help', '')} (default: {written(value)})"
            properties[entry.name] = {"description": about, **_kind(entry)}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _several(table: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The same table with a list of values for every key."""
    found = {}
    for name, value in table["properties"].items():
        path = f"{place}/properties/{name}"
        if "properties" in value:
            found[name] = _several(value, path)
        else:
            found[name] = {"type": "array", "minItems": 1, "items": {"$ref": path}}
    return {**table, "properties": found}


def _kind(entry: Field[Any]) -> dict[str, Any]:
    rule = entry.metadata
    if choices := rule.get("choices"):
        return {"enum": list(choices)}
    members = typing.get_args(entry.type) if isinstance(entry.type, types.UnionType) else (entry.type,)
    found: list[dict[str, Any]] = []
    for member in members:
        if member is type(None):
            found.append({"const": "none"})
        elif typing.get_origin(member) is tuple:
            found += [{"type": "array", "items": _limited(KINDS[typing.get_args(member)[0]][0], rule)}, TEXT]
        else:
            found += [_limited(one, rule) for one in KINDS[member]]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _limited(kind: Mapping[str, Any], rule: Mapping[str, Any]) -> dict[str, Any]:
    if kind["type"] not in ("integer", "number"):
        return dict(kind)
    limits = {"exclusiveMinimum": rule.get("above"), "minimum": rule.get("least"), "maximum": rule.get("most")}
    return {**kind, **{name: limit for name, limit in limits.items() if limit is not None}}
