"""Typed, documented, validated settings: one dataclass is the command line, the record and the docs.

A settings class is a frozen dataclass whose fields are made with `option(...)`. Nested classes form
sections, so a key is a dotted path such as `world.radius_m`.
"""

import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, field, fields, is_dataclass, replace
from difflib import get_close_matches
from math import inf, isfinite, nan
from operator import index
from typing import Any, cast

from .errors import BadInput, choose_one
from .laws import Law as Law
from .laws import short
from .tables import File, Line, number

FEW = 12  # keys that an error message may list
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


def option(
    default: Any,
    help: str,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    infinite: bool = False,
    choices: tuple[str, ...] = (),
    needs: str = "",
    before: Any = None,
) -> Any:
    """A documented dataclass field. `above` is an exclusive lower limit, `least` and `most` inclusive ones.

    Limits hold for every number of a list or law. Numbers are finite unless `infinite` allows `inf` within the limits,
    and no larger than float32 can hold.
    `needs` says when the option counts, by another one of its class: `access=block|own_band`, or `scheduler!=all`;
    several conditions stand apart by blanks.
    `before` is what records from before the option meant, if that is not the default.
    """
    limits = {"above": above, "least": least, "most": most, "infinite": infinite}
    metadata = {"help": help, "choices": choices, "needs": needs, "before": before, **limits}
    return field(default=default, metadata=metadata)


def keys(settings: Any, prefix: str = "") -> Iterator[tuple[str, Field[Any], Any]]:
    """Every (dotted key, field, value) of a settings object, sections opened."""
    for entry in fields(settings):
        value = getattr(settings, entry.name)
        if is_dataclass(value) and not isinstance(value, Law):
            yield from keys(value, f"{prefix}{entry.name}.")
        else:
            yield prefix + entry.name, entry, value


def override(settings: Any, changes: Mapping[str, Any], where: str = "") -> Any:
    """A copy of `settings` with dotted keys replaced; texts are read by the field's type.

    Raises BadInput on unknown keys (with a suggestion), unreadable values and values out of range.
    """
    known = [key for key, _, _ in keys(settings)]
    for key in changes:
        if key not in known:
            raise BadInput(f"unknown key {where + key!r}{_hint(key, known, where)}")
    return _apply(settings, changes, where)


def _hint(key: str, known: list[str], where: str) -> str:
    """The nearest known key, or all of them when they are few."""
    near = get_close_matches(key, known, n=1, cutoff=0.5)
    if near:
        return f": did you mean {where + near[0]!r}?"
    return f": known are {', '.join(known)}" if len(known) <= FEW else " (fedcell list keys shows all)"


def check(settings: Any, where: str = "") -> None:
    """Raise BadInput for the first value that breaks its option's type or limits."""
    for key, entry, value in keys(settings):
        _check_value(entry, value, where + key)


class Checked:
    """Base of the settings of a piece, such as those of a method: read and checked however it is made.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Config(Checked):
    ...     rate: float = option(0.1, "step size", above=0)
    >>> Config(rate="fast")
    Traceback (most recent call last):
    fedcell.errors.BadInput: options.rate = 'fast' is not a number: write a number such as 0.1 (step size)
    """

    def __post_init__(self) -> None:
        """Raise BadInput for the first value of another type or out of range; its key begins with the file's name."""
        piece = type(self).__module__.rpartition(".")[2]
        for entry in fields(cast(Any, self)):
            if entry.metadata:
                key = f"{piece}.{entry.name}"
                value = _parse(entry, getattr(self, entry.name), key)
                _check_value(entry, value, key)
                object.__setattr__(self, entry.name, value)  # as from the command line: 1.0 for 1 if it is a float


def mapping(value: Any, name: str, example: str) -> Mapping[str, Any]:
    """A dict that a caller gave, or an empty one for None; raises BadInput for anything else."""
    if value is None or isinstance(value, Mapping):
        return value or {}
    raise BadInput(f"{name} is a {type(value).__name__}, not a dict: write it as {example}")


def to_dict(settings: Any) -> dict[str, Any]:
    """Nested plain values for standard JSON (`inf` as a text); `from_dict` reads it back to an equal object."""
    out: dict[str, Any] = {}
    for entry in fields(settings):
        value = getattr(settings, entry.name)
        if isinstance(value, Law):
            out[entry.name] = str(value)
        elif is_dataclass(value):
            out[entry.name] = to_dict(value)
        else:
            out[entry.name] = [_plain(part) for part in value] if isinstance(value, tuple) else _plain(value)
    return out


def from_dict(settings: Any, values: Mapping[str, Any]) -> Any:
    """`settings` with every key of a nested dict applied, as written by `to_dict`.

    A key that is missing came later: it is as in `settings`, or what `option(before=...)` says.
    """
    return override(settings, earlier(settings) | flat(values))


def earlier(settings: Any) -> dict[str, Any]:
    """What the keys of a settings object meant before they existed, for those whose default is something else.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Own:
    ...     rate: float = option(1.0, "as ever")
    ...     scale: str = option("mean", "came later", before="sum")
    >>> earlier(Own())
    {'scale': 'sum'}
    """
    found = {key: entry.metadata.get("before") for key, entry, _ in keys(settings)}
    return {key: value for key, value in found.items() if value is not None}


def describe(settings: Any) -> list[tuple[str, str, str, str]]:
    """(key, type, default, help) for every option: the source of `--help` and of the docs tables."""
    rows = []
    for key, entry, value in keys(settings):
        limits = entry.metadata.get("choices") or ()
        kind = "|".join(limits) if limits else _type_name(entry.type)
        kind += " or inf" * entry.metadata.get("infinite", False)
        rows.append((key, kind, written(value), entry.metadata.get("help", "")))
    return rows


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted key.

    >>> flat({"rounds": 3, "world": {"radius_m": 400.0}})
    {'rounds': 3, 'world.radius_m': 400.0}
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def differences(was: Any, now: Any, where: str = "") -> list[tuple[str, Any, Any]]:
    """Key, old and new value of every setting in which two objects of one class differ."""
    pairs = zip(keys(was), keys(now), strict=True)
    return [(where + key, before, after) for (key, _, before), (_, _, after) in pairs if before != after]


def _apply(settings: Any, changes: Mapping[str, Any], where: str) -> Any:
    """Replace all values of a section at once, since the section checks them together."""
    new: dict[str, Any] = {}
    for entry in fields(settings):
        section = entry.name + "."
        inside = {key.removeprefix(section): value for key, value in changes.items() if key.startswith(section)}
        if inside:
            new[entry.name] = _apply(getattr(settings, entry.name), inside, where + section)
        elif entry.name in changes:
            new[entry.name] = _parse(entry, changes[entry.name], where + entry.name)
            _check_value(entry, new[entry.name], where + entry.name)
    return replace(settings, **new)


def _members(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _parse(entry: Field[Any], value: Any, key: str) -> Any:
    """The value as the field's type, from a text or from a value of a near type."""
    members = _members(entry.type)
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
            fix = f"write {_type_name(entry.type)}" + f" such as {written(entry.default)}" * shown
        reason = f" ({error})" if hint is Law else ""
        what = f"{key} = {value!r} is not {_type_name(hint)}{reason}"
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
    """A whole number with all its digits, also if it is written `1e3` or `1000.0`."""
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


def _check_value(entry: Field[Any], value: Any, key: str) -> None:
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
    """The numbers of a column that stands for an option, held to its limits line by line."""
    values = [number(file, line, name) for line in lines]
    for line, value in zip(lines, values, strict=True):
        _check_value(entry, value, f"{file.path!r} line {line.number}: {name}")
    return values


def _limits(rule: Mapping[str, Any]) -> str:
    words = {"above": "above", "least": "at least", "most": "at most"}
    parts = [f"{word} {rule[name]:g}" for name, word in words.items() if rule[name] is not None]
    return " and ".join(parts) or "a number"


def _type_name(hint: Any) -> str:
    members = _members(hint)
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


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not isfinite(value) else value
