"""Read and write the file of a study."""

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import BadInput, did_you_mean
from ..options import flat, written

BARE = re.compile(r"[A-Za-z0-9_-]+")  # keys that need no quotes
NUMBER = re.compile(
    r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?|-?inf|true|false"
)  # the same in TOML and in a setting
SETTINGS = ("rounds", "seed", "eval_every", "world", "train", "stream", "video")  # that people write at the top


class FigureRequest(NamedTuple):
    """A figure of a study."""

    file: str
    width: str = "page"  # column, page or inches
    by: tuple[str, ...] = ()  # horizontal axes; none: all
    over: str = ""  # a setting that the costs of the first target are drawn over, in place of curves
    runs: str = ""  # a pattern of the folders of the runs that it is drawn from; empty: all


class Study(NamedTuple):
    """The contents of a study; paths start at the working directory."""

    methods: tuple[str, ...] = ()
    scenario: tuple[str, ...] = ()
    seeds: tuple[str, ...] = ()  # numbers and ranges, such as 1..5
    model: str = ""
    data: str = ""
    out: str = ""
    settings: Mapping[str, Any] = {}  # by dotted key
    grid: Mapping[str, tuple[Any, ...]] = {}
    against: str = ""
    targets: tuple[float, ...] = ()
    labels: Mapping[str, str] = {}
    latex: str = ""
    figures: tuple[FigureRequest, ...] = ()


KEYS = {  # every key of the file, and what it is for
    "methods": "methods as on the command line, NAME[:key=value,...] or the path of a .py file",
    "scenario": "the preset to start from; a sweep takes several",
    "seeds": "seeds such as [1, 2, 7] or '1..5'",
    "model": "model.name: a built-in model, or net.py:function",
    "data": "data.name: a data set, or the path of an .npz file",
    "out": "folder of the results",
    "settings": "one value for all runs, by key",
    "grid": "several values by key: a sweep runs all combinations",
    "against": "label of the group that others are held against",
    "targets": "accuracies to say the cost of, such as [0.9]",
    "labels": "new labels by old ones, for figures and tables",
    "latex": "file for the tables in LaTeX",
    "figures": "figures to draw when the runs are done",
}
FIGURE = {
    "file": "a .png, .pdf or .svg file",
    "width": "column, page or inches",
    "by": "horizontal axes: round, time, energy, uplink",
    "over": "a setting of the grid: what the first target costs over its values, in place of curves",
    "runs": "which runs it is drawn from, by the names of their folders, such as '*sign_flip*'; none: all",
}


def read(path: str | Path) -> Study:
    """Read the study in a file; raises BadInput for unknown keys, values of a wrong kind, and what is no study."""
    path = Path(path)
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}): give the path of a study in TOML") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is no TOML ({error}): correct that line") from None
    _refuse_unknown(path, found, KEYS, "")
    place = path.parent
    readers: dict[str, Callable[[Any, str], Any]] = {
        "methods": lambda value, where: tuple(placed(one, place) for one in _texts(value, where)),
        "scenario": _texts,
        "seeds": lambda value, where: tuple(map(str, _listed(value, where, (int, str)))),
        "model": lambda value, where: placed(_text(value, where), place),
        "data": lambda value, where: _found(_text(value, where), place),
        "out": lambda value, where: str(place / _text(value, where)),
        "settings": lambda value, where: _settings(value, where, place),
        "grid": lambda value, where: _grid(value, where, place),
        "against": _text,
        "targets": lambda value, where: tuple(map(float, _listed(value, where, (int, float)))),
        "labels": _labels,
        "latex": lambda value, where: str(place / _text(value, where)),
        "figures": lambda value, where: _figures(path, value, where),
    }
    study = Study(**{key: readers[key](value, f"{path}: {key}") for key, value in found.items()})
    for key, setting in (("model", "model.name"), ("data", "data.name")):
        if key in found and setting in study.settings:
            raise BadInput(f"{path} sets {key} and settings.{setting}: drop one of them")
    if both := sorted(set(study.grid) & set(study.settings)):
        raise BadInput(f"{path} sets {both[0]} to one value and to a grid: drop one of them")
    return study


def write(study: Study, path: str | Path) -> str:
    """The text of a study for a file at `path`: what is not as in an empty one, with paths that start at its folder."""
    place = Path(path).parent
    values = study._asdict() | {
        "methods": [placed(one, place, back=True) for one in study.methods],
        "scenario": study.scenario[0] if len(study.scenario) == 1 else list(study.scenario),
        "seeds": [int(seed) if seed.isdecimal() else seed for seed in study.seeds],
        "model": placed(study.model, place, back=True),
        "data": _found(study.data, place, back=True),
        "out": _relative(study.out, place) if study.out else "",
        "latex": _relative(study.latex, place) if study.latex else "",
        "figures": [_relative_figure(one, place) for one in study.figures],
        "settings": {key: _moved(key, value, place, back=True) for key, value in study.settings.items()},
        "grid": {key: [_moved(key, one, place, back=True) for one in some] for key, some in study.grid.items()},
    }
    lines = [f"{key} = {_toml(values[key])}" for key in KEYS if values[key] and not isinstance(values[key], Mapping)]
    for key in ("settings", "grid", "labels"):
        if values[key]:
            free = key == "labels"  # texts as they are; settings may be numbers
            inner = [f"{_key(name, not free)} = {_toml(value, not free)}" for name, value in values[key].items()]
            lines += ["", f"[{key}]", *inner]
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- values of a kind


def _refuse_unknown(path: Path, found: Mapping[str, Any], known: Mapping[str, str], where: str) -> None:
    for key in found:
        if key not in known:
            hint = did_you_mean(key, list(known)) or f": known are {', '.join(known)}"
            if not where and key in SETTINGS:
                hint = ": it is a setting, which goes below [settings]"
            raise BadInput(f"{path} has an unknown key {where + key!r}{hint}")


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise BadInput(f"{where} = {value!r} is no text: write it in quotes")
    return value


def _listed(value: Any, where: str, kinds: tuple[type, ...]) -> list[Any]:
    """The values of a list, or one value as a list, each of one of the kinds; raises BadInput for others."""
    parts = value if isinstance(value, list) else [value]
    for part in parts:
        if isinstance(part, bool) or not isinstance(part, kinds):
            words = " or ".join({int: "whole numbers", float: "numbers", str: "texts"}[kind] for kind in kinds)
            raise BadInput(f"{where} = {value!r} holds {part!r}: give {words}")
    return parts


def _texts(value: Any, where: str) -> tuple[str, ...]:
    return tuple(_text(one, where) for one in _listed(value, where, (str,)))


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadInput(f"{where} = {value!r} is no table: write keys below [{where.rpartition(': ')[2]}]")
    return flat(value)


def _settings(value: Any, where: str, place: Path) -> Mapping[str, Any]:
    return {key: _moved(key, one, place) for key, one in _mapping(value, where).items()}


def _grid(value: Any, where: str, place: Path) -> Mapping[str, tuple[Any, ...]]:
    found = _mapping(value, where)
    for key, values in found.items():
        if not isinstance(values, list) or not values:
            raise BadInput(f"{where}.{key} = {values!r} is no list: give one or more values in brackets")
    return {key: tuple(_moved(key, one, place) for one in values) for key, values in found.items()}


def _labels(value: Any, where: str) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise BadInput(f'{where} = {value!r} is no table: write OLD = "NEW" below [labels]')
    return {old: _text(new, f"{where}.{old}") for old, new in value.items()}


def _figures(path: Path, value: Any, where: str) -> tuple[FigureRequest, ...]:
    found = []
    for one in value if isinstance(value, list) else [value]:
        given = {"file": one} if isinstance(one, str) else one
        if not isinstance(given, Mapping) or "file" not in given:
            raise BadInput(f'{where} has {one!r}: write [[figures]] with file = "name.pdf" below it, or the name alone')
        _refuse_unknown(path, given, FIGURE, "figures.")
        width = given.get("width", "page")
        by = _texts(given["by"], f"{where}.by") if "by" in given else ()
        over = _text(given["over"], f"{where}.over") if "over" in given else ""
        if by and over:
            raise BadInput(f"{where} has by and over: curves and costs are two figures, so drop one of them")
        runs = _text(given["runs"], f"{where}.runs") if "runs" in given else ""
        file = str(path.parent / _text(given["file"], f"{where}.file"))
        found.append(FigureRequest(file, str(width), by, over, runs))
    return tuple(found)


# ---------------------------------------------------------------- paths


def placed(text: str, place: Path, back: bool = False) -> str:
    """Prefix the files in a text, such as `mine.py` in `mine.py:lr=1`, with a folder; `back`: make them relative to it.

    >>> placed("mine.py+topk:lr=1", Path("studies")), placed("fedavg", Path("studies"))
    ('studies/mine.py+topk:lr=1', 'fedavg')
    >>> placed("studies/mine.py:lr=1", Path("studies"), back=True)
    'mine.py:lr=1'
    """
    name, colon, rest = text.partition(":")
    move: Callable[[str], str] = (lambda part: _relative(part, place)) if back else (lambda part: str(place / part))
    parts = [move(part) if part.endswith((".py", ".npz")) else part for part in name.split("+")]
    return "+".join(parts) + colon + rest


def _moved(key: str, value: Any, place: Path, back: bool = False) -> Any:
    """The value of a setting with its file, if it names one, moved as `placed` moves it."""
    if not isinstance(value, str):
        return value
    return placed(value, place, back) if key == "model.name" else _found(value, place, back)


def _found(text: str, place: Path, back: bool = False) -> str:
    """Move the file in `wine.npz` or `@devices.csv:cpu_hz` if it lies beside the study; `back`: if it exists."""
    path, sign, rest = text.partition("#")  # a checksum
    at, rest = "", sign + rest
    if path.startswith("@"):
        path, colon, column = path[1:].rpartition(":")
        at, rest = "@", colon + column + rest
    if not Path(path).suffix or not os.path.isfile(path if back else place / path):
        return text
    return f"{at}{_relative(path, place) if back else place / path}{rest}"


def _relative(path: str, place: Path) -> str:
    return path if Path(path).is_absolute() else Path(os.path.relpath(path, place)).as_posix()


def _relative_figure(one: FigureRequest, place: Path) -> dict[str, Any]:
    usual = FigureRequest("")
    given = {name: value for name, value in one._asdict().items() if value != getattr(usual, name)}
    return given | {"file": _relative(one.file, place)}


# ---------------------------------------------------------------- TOML


def _toml(value: Any, numbers: bool = False) -> str:
    """A value in TOML; with `numbers`, a text that is a number there becomes that number.

    >>> _toml("1e6", True), _toml("1e9..2e9", True), _toml([1, "1"]), _toml(True), _toml({"file": "a.pdf"})
    ('1e6', '"1e9..2e9"', '[1, "1"]', 'true', '{ file = "a.pdf" }')
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(one, numbers) for one in value)}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(key)} = {_toml(one)}' for key, one in value.items())} }}"
    if isinstance(value, str):
        return value if numbers and NUMBER.fullmatch(value) else _quoted(value)
    return written(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str, dotted: bool = False) -> str:
    """A key, bare if TOML allows it; the parts of a dotted one each by themselves."""
    parts = name.split(".") if dotted else [name]
    return ".".join(part if BARE.fullmatch(part) else _quoted(part) for part in parts)
