"""Values of options: convert a text or a value of a similar type, check it against the limits, write it as a text."""

import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import Field
from math import inf, nan
from operator import index
from typing import Any

from .errors import BadInput, choose_one
from .laws import Law, short
from .tables import File, Line, number

LARGE, TINY = 1e38, 1e-38  # no setting is larger, or nearer to 0 without being 0: learning is in float32
UNIT = re.compile(r"\d\s*(?![eE][-+]?\d)[A-Za-zµ]")  # a letter behind a number that is no exponent
MEASURE = re.compile(r"(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*([A-Za-zµ]+)")
BASES = {
    "hz": "Hz",
    "s": "s",
    "m": "m",
    "watt": "W",
    "joule": "J",
    "bit": "bit",
    "bps": "bps",
    "dbm": "dBm",
    "db": "dB",
}
PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "m": 1e-3, "u": 1e-6, "µ": 1e-6}
SIZES = {"min": ("s", 60.0), "h": ("s", 3600.0)}  # by unit: the suffix of its keys, and its size
SIZES |= {mark + unit: (end, size) for end, unit in BASES.items() for mark, size in PREFIXES.items()}


def members_of(hint: Any) -> tuple[Any, ...]:
    """The types that a hint allows: the members of a union, or the hint alone."""
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def parse(entry: Field[Any], value: Any, key: str) -> Any:
    """Convert a text or a value of a similar type to the field's type; raises BadInput if it does not fit."""
    members = members_of(entry.type)
    if type(None) in members and (value is None or value == "none"):
        return None
    hint = next(member for member in members if member is not type(None))
    try:
        return _convert(hint, value)
    except (ValueError, TypeError, OverflowError) as error:
        if hint is not bool and isinstance(value, str) and UNIT.search(value):
            fix = _without_unit(key, value) or "write plain SI numbers such as 1e6"
        else:
            shown = not isinstance(entry.default, bool | None) and entry.default not in ("", ())
            fix = f"write {type_name(entry.type)}" + f" such as {written(entry.default)}" * shown
        reason = f" ({error})" if hint is Law else ""
        what = f"{key} = {value!r} is not {type_name(hint)}{reason}"
        raise BadInput(f"{what}: {fix} ({entry.metadata['help']})") from None


def _without_unit(key: str, text: str) -> str:
    """How to write a value with units in the unit of its key; empty if they do not fit it.

    >>> _without_unit("world.bandwidth_hz", "10 MHz"), _without_unit("world.cpu_hz", "1GHz..1.5 GHz")
    ('write it in Hz without the unit, 10000000', 'write it in Hz without the unit, 1000000000..1500000000')
    >>> _without_unit("world.deadline_s", "10 MHz")
    ''
    """
    end = key.rpartition("_")[2]
    found = [(number, *SIZES.get(unit, ("", 0.0))) for number, unit in MEASURE.findall(text)]
    if not found or any(of != end for _, of, _ in found):
        return ""
    numbers = iter([short(float(number) * size) for number, _, size in found])
    return f"write it in {BASES[end]} without the unit, {MEASURE.sub(lambda _: next(numbers), text)}"


def _convert(hint: Any, value: Any) -> Any:
    text = isinstance(value, str)
    if hint is Law:
        return value if isinstance(value, Law) else Law.parse(value if text else repr(float(value)))
    if hint is bool:
        if isinstance(value, bool):
            return value
        return {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}[
            _known(str(value).lower(), "true", "yes", "on", "false", "no", "off")
        ]
    if hint is int:
        return _whole(value)
    if hint is float:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    if hint is File:
        return File.of(value)
    if typing.get_origin(hint) is tuple:
        parts = value.split(",") if text else value
        return tuple(_convert(typing.get_args(hint)[0], part) for part in parts if part != "")
    if not text:
        raise ValueError
    return value


def _whole(value: Any) -> int:
    """Read a whole number without losing digits; `1e3` and `1000.0` are whole, too."""
    if isinstance(value, bool):
        raise ValueError
    try:
        return int(value) if isinstance(value, str) else index(value)
    except (ValueError, TypeError):
        number = float(value)
    if number != int(number):
        raise ValueError
    return int(number)


def _known(word: str, *words: str) -> str:
    if word not in words:
        raise ValueError
    return word


def check_value(entry: Field[Any], value: Any, key: str) -> None:
    """Raise BadInput if a value is none of the choices of its option, or out of its range."""
    rule = entry.metadata
    if value is None or not rule:
        return
    if rule["choices"] and value not in rule["choices"]:
        raise BadInput(f"{key} = {value!r} is unknown{choose_one(str(value), list(rule['choices']))}")
    numbers = value.values if isinstance(value, Law) else value if isinstance(value, tuple) else (value,)
    for place, one in enumerate(numbers):
        if isinstance(one, bool) or not isinstance(one, int | float):
            continue
        low_open, low, high = (nan if rule[name] is None else rule[name] for name in ("above", "least", "most"))
        endless = abs(one) == inf and not rule["infinite"]
        extreme = isinstance(one, float) and (LARGE < abs(one) < inf or 0 < abs(one) < TINY)
        if one <= low_open or one < low or one > high or one != one or endless or extreme:
            words = (
                "finite" if endless else f"0 or between {TINY:g} and {LARGE:g} in size" if extreme else _limits(rule)
            )
            must = f"{'each' if isinstance(value, tuple) else 'it'} must be {words}"
            what = f"{key} = {written(value)}"
            if isinstance(value, Law) and value.kind == "table":
                what += f": line {value.line(place)} has {short(one)}, which"
            raise BadInput(f"{what} is out of range: {must} ({rule['help']})")


def checked_column(file: File, lines: Sequence[Line], name: str, entry: Field[Any]) -> list[float]:
    """Read the column of a file that stands for an option; check every number against the option's limits."""
    values = [number(file, line, name) for line in lines]
    for line, value in zip(lines, values, strict=True):
        check_value(entry, value, f"{file.path!r} line {line.number}: {name}")
    return values


def _limits(rule: Mapping[str, Any]) -> str:
    words = {"above": "above", "least": "at least", "most": "at most"}
    parts = [f"{word} {rule[name]:g}" for name, word in words.items() if rule[name] is not None]
    return " and ".join(parts) or "a number"


def type_name(hint: Any) -> str:
    """A type in words."""
    members = members_of(hint)
    names = {
        int: "a whole number",
        float: "a number",
        str: "a text",
        bool: "true or false",
        Law: "a number or range",
        File: "a file",
    }
    known = [names.get(m, "a list") for m in members if m is not type(None)]
    return known[0] + (" or none" if type(None) in members else "")


def written(value: Any) -> str:
    """A value as it is written in a setting; it reads back to the same.

    >>> written(1234567.0), written((64, 32)), written(True), written(None)
    ('1234567', '64,32', 'true', 'none')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return short(value)
    if isinstance(value, tuple | list):
        return ",".join(written(part) for part in value)
    return "none" if value is None else str(value)
