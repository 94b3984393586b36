"""Detect settings that have no effect given the others, and warn about each in one sentence."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import Field
from typing import Any

from .options import keys, written


def unused_settings(settings: Any, given: Collection[str], where: str = "") -> dict[str, str]:
    """For each given key, why it has no effect, according to `needs` of its option; an empty text if it has one."""
    found = {key: (entry, value) for key, entry, value in keys(settings)}
    return {where + key: _why(found, key, where) for key in given}


def _why(found: Mapping[str, tuple[Field[Any], Any]], key: str, where: str) -> str:
    entry, value = found[key]
    for needs in entry.metadata.get("needs", "").split():
        name, equals, listed = re.split("(!?=)", needs)
        other, words = key.removesuffix(entry.name) + name, listed.split("|")
        switch, now = found[other]
        if (written(now) in words) == (equals == "="):
            continue
        fits = words if equals == "=" else [one for one in switch.metadata["choices"] if one not in words]
        fix = f"set {where}{other}={' or '.join(fits)}" if any(fits) else f"change {where}{other}"
        fix = f"leave {where}{other} empty" if fits == [""] else fix
        return f"{where}{key} = {written(value)} changes nothing while {where}{other} = {written(now)}: {fix}"
    return ""


def notices(found: Iterable[Mapping[str, str]]) -> list[str]:
    """The sentences about keys that have no effect in any run, given the result of `unused_settings` for each run."""
    every: dict[str, str] = {}
    for said in found:
        every |= {key: every.get(key, text) and text for key, text in said.items()}
    return [text for text in every.values() if text]
