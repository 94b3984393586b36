"""Where runs are kept: a store while they are made, one packed file per paper in the repository.

A store is `results/<store>.runs.jsonl`, one line of JSON per run, to which several processes may add. `packed` makes
`results/runs.jsonl.gz` of all stores of a paper. A run counts if either has it, whatever the version that made it: a
setting that came later counts as its default. Curves are read with `DIGITS` significant digits from both, so that a
verdict is the same with the stores and with the packed file alone.
"""

import gzip
import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from .. import methods
from ..errors import BadInput
from ..options import earlier, flat, override, to_dict
from ..scenarios import Config

Row = dict[str, Any]
DEFAULTS = flat({"config": to_dict(Config())})
PACKED, FORMAT, VERSION = "runs.jsonl.gz", "fedcell runs", 1
ENDING = ".runs.jsonl"
DIGITS = 5  # significant ones
HOW = tuple(f"config.train.{name}" for name in ("engine", "device", "workers", "shards", "gpu_gib"))  # rounding at most
UNKNOWN = ("accuracy", "loss", "seconds", "final_accuracy", "best_accuracy")  # NaN after a run diverged; null on file


def done(store: Path) -> dict[str, Row]:
    """The rows on file by what they depend on: those of the packed file beside the store, then its own."""
    return {same: line["row"] for same, line in lines(store).items()}


def lines(store: Path) -> dict[str, dict[str, Any]]:
    """The same with all that a line has: `key`, `row`, and `machine_s` if the run was timed."""
    packed = of_store(read_packed(store.parent / PACKED), name_of(store))
    return {lasting(line["key"]): {**line, "row": rounded(line["row"])} for line in (*packed, *lines_of(store))}


def name_of(store: Path) -> str:
    """The name of a store by its file; a copy may have more behind it: `tables.part2.runs.jsonl`."""
    return store.name.partition(".")[0]


def of_store(every: Iterator[dict[str, Any]] | tuple[dict[str, Any], ...], name: str) -> list[dict[str, Any]]:
    """The packed lines of a store."""
    return [line for line in every if line["store"] == name]


# ---------------------------------------------------------------- the file of a store


def lines_of(store: Path) -> list[Row]:
    """The finished runs in the file of a store; a line that a kill left half-written is passed over."""
    texts = store.read_text().splitlines() if store.exists() else []
    return [line for line in map(_line, texts) if line]


def _line(text: str) -> Row:
    try:
        return dict(json.loads(text))
    except ValueError:
        return {}


def append(store: Path, line: Row) -> None:
    """Add a run in one write, so that processes can share the file, on a line of its own even after a kill."""
    broken = store.exists() and not store.read_bytes().endswith(b"\n")
    with store.open("ab", buffering=0) as file:
        file.write(b"\n" * broken + json.dumps(line).encode() + b"\n")


# ---------------------------------------------------------------- what a run depends on


def lasting(key: str) -> str:
    """A key without the settings that have their defaults, or that only say how a machine trains.

    A setting that did not exist when a run was stored had the effect of its default, so the run still counts; if it
    had another one (`option(before=...)`), the run counts for that.
    """
    case, seed, settings = json.loads(key)
    own, before = method_defaults(settings["method"])
    defaults = DEFAULTS | own
    given = flat(before | settings)
    counts = {key: value for key, value in given.items() if key not in HOW}
    changed = {key: value for key, value in counts.items() if key not in defaults or value != defaults[key]}
    return json.dumps([case, seed, changed], sort_keys=True)


def method_config(method: str, settings: Mapping[str, Any]) -> Any:
    return override(methods.load(method).Config(), settings, where=f"{method}.")


@cache
def method_defaults(method: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Defaults by key, and what settings meant before they existed; none of a method that is gone, as its runs are."""
    try:
        config = method_config(method, {})
        return flat(to_dict(config)), earlier(config)
    except BadInput:
        return {}, {}


# ---------------------------------------------------------------- the packed file


def read_packed(path: Path) -> tuple[dict[str, Any], ...]:
    """The lines of a packed file, `key` as a text as in a store; none if it is not there."""
    return _read_packed(path, path.stat().st_mtime_ns) if path.is_file() else ()


@cache
def _read_packed(path: Path, changed_ns: int) -> tuple[dict[str, Any], ...]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            head = json.loads(next(file, "null"))
            if not isinstance(head, dict) or (head.get("format"), head.get("version")) != (FORMAT, VERSION):
                raise BadInput(f"{path} is not a packed file of version {VERSION}: pack again with this version")
            return tuple(_unpacked(json.loads(text)) for text in file)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path} is damaged ({error}): check it out again") from None


def _unpacked(line: dict[str, Any]) -> dict[str, Any]:
    row = line["row"]
    row |= {name: _with_nan(row[name]) for name in UNKNOWN if name in row}
    return {**line, "key": json.dumps(line["key"], sort_keys=True), "row": row}


def _with_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [math.nan if one is None else one for one in value]
    return math.nan if value is None else value


def write_packed(path: Path, every: list[dict[str, Any]]) -> None:
    """Write lines, sorted, so that the same runs make the same bytes."""
    packed = [{**line, "key": json.loads(line["key"]), "row": _without_nan(rounded(line["row"]))} for line in every]
    ordered = sorted(json.dumps(line, sort_keys=True, allow_nan=False) for line in packed)
    head = json.dumps({"format": FORMAT, "version": VERSION, "runs": len(ordered)})
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write("\n".join([head, *ordered, ""]).encode())


def rounded(row: Row) -> Row:
    """A row whose curves have `DIGITS` significant digits; single numbers stay as they are.

    >>> rounded({"curve": [0.123456789, None, 3, True], "total": 0.123456789})
    {'curve': [0.12346, None, 3, True], 'total': 0.123456789}
    """
    return {name: _rounded(value) if isinstance(value, list | dict) else value for name, value in row.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return {name: _rounded(one) for name, one in value.items()} if isinstance(value, dict) else value


def _without_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nan(one) for one in value]
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
