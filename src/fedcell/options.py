"""Typed, documented, validated settings: one dataclass is the command line, the record and the docs.

A settings class is a frozen dataclass whose fields are made with `option(...)`. Nested classes form
sections, so a key is a dotted path such as `world.radius_m`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import Field, field, fields, is_dataclass, replace
from difflib import get_close_matches
from math import isfinite
from typing import Any, cast

from .arguments import kind_of
from .errors import BadInput
from .laws import Law as Law
from .option_values import check_value, parse, type_name
from .option_values import written as written

FEW = 12  # keys that an error message may list


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
    `needs` is the condition on another option of the class without which this one has no effect:
    `access=block|own_band`, or `scheduler!=all`; separate several conditions by blanks.
    `before` is the value that a record without this option stands for, if that is not the default.
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
        check_value(entry, value, where + key)


class Checked:
    """Base class for the settings of a piece, such as a method: values are converted and checked on creation.

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
                value = parse(entry, getattr(self, entry.name), key)
                check_value(entry, value, key)
                object.__setattr__(self, entry.name, value)  # as from the command line: 1.0 for 1 if it is a float


def mapping(value: Any, name: str, example: str) -> Mapping[str, Any]:
    """Return a dict that a caller gave, or an empty one for None; raises BadInput for anything else."""
    if not isinstance(value, Mapping | None):
        raise BadInput(f"{name} is {kind_of(value)}, not a dict: write it as {example}")
    for key in value or {}:
        if not isinstance(key, str):
            raise BadInput(f"{name} has the key {key!r}, {kind_of(key)}: write texts as keys, as in {example}")
    return value or {}


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
    """Return `settings` with every value of a nested dict applied, as written by `to_dict`.

    A key that the dict lacks is newer than the dict: it keeps its value in `settings`, or gets `option(before=...)`.
    """
    return override(settings, earlier(settings) | flat(values))


def earlier(settings: Any) -> dict[str, Any]:
    """Values that stand for keys which older records lack, for options with `before`.

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
        kind = "|".join(limits) if limits else type_name(entry.type)
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
            new[entry.name] = parse(entry, changes[entry.name], where + entry.name)
            check_value(entry, new[entry.name], where + entry.name)
    return replace(settings, **new)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not isfinite(value) else value
