"""Many runs at a glance: every run below a folder with its state and totals, without decoding its rows.

A run that ended has its totals in `status.json`, together with size and checksum of the `rounds.jsonl` they were
made from. If the size differs, or a run was killed or is still running, they are made from the rows.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import FedcellError
from ..metrics import CLASSIFICATION, Metric, leading
from . import served
from .files import in_use, natural, nulled, read_bytes, read_json
from .folder import (
    COMPARISON,
    ROWS,
    RUN,
    STATUS,
    SWEEP,
    TRACEBACK,
    Status,
    begun,
    check_folder,
    clock_of,
    run_name,
    shortage,
    versioned,
)
from .rows_sum import rows_sum
from .totals import COLUMNS, Totals, total


class RunInfo(NamedTuple):
    """One run: its settings, how far it is, and its totals."""

    folder: Path
    label: str
    method: str  # as it was written
    scenario: str
    seed: int
    state: str  # waiting, running, finished, diverged, interrupted or failed; damaged: see the message
    message: str
    rounds: int
    total_rounds: int
    totals: Totals
    settings: Mapping[str, Any]  # every option of the method
    config: Mapping[str, Any]  # every option of world, data, model and training
    clock: str = "simulated"  # or measured, on real devices
    served: Mapping[str, float] = {}  # what edge servers brought, if there are any
    task: str = CLASSIFICATION  # what was learned
    chance: float | None = None  # the leading metric of the best constant answer; None: not known

    @property
    def metric(self) -> Metric:
        """The metric that stands for the run."""
        return leading(self.task)


def find(folder: str | Path) -> list[RunInfo]:
    """Every run in a folder and below it, in the order of names and, within a comparison, of its methods.

    Runs of a comparison or a sweep whose turn did not come yet are listed as `waiting`, those of a sweep last. A run
    that cannot be read is listed as `damaged` with the reason. Links to folders are not followed.
    """
    return list(_walk(str(check_folder(folder))))


def look(folder: str | Path, asked: Mapping[str, Any] | None = None) -> RunInfo:
    """Describe the run in one folder; `asked` is its entry in a comparison or a sweep, for a run that did not begin."""
    folder = Path(folder)
    try:
        return _look(folder, asked if not begun(folder) and asked else versioned(folder / RUN))
    except FedcellError as error:
        return _damaged(folder, str(error))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        return _damaged(folder, f"{folder} is damaged ({type(error).__name__}: {error})")


def _walk(folder: str) -> Iterator[RunInfo]:
    """Every run in a folder and below it; the folder of a run is not searched further."""
    try:
        with os.scandir(folder) as found:
            entries = {entry.name: entry for entry in found}
    except OSError:
        return  # what may not be opened holds no run of ours
    if RUN in entries:
        yield look(folder)
        return
    below = sorted((name for name in entries if entries[name].is_dir(follow_symlinks=False)), key=natural)
    asked, damage = _asked(Path(folder, COMPARISON), "folder") if COMPARISON in entries else ({}, "")
    later, worse = _asked(Path(folder, SWEEP), "name") if SWEEP in entries else ({}, "")
    if damage or worse:
        yield _damaged(Path(folder), damage or worse)
    for name, values in asked.items():
        yield look(Path(folder, name), values)
    for name in below:
        if name not in asked:
            yield from _walk(os.path.join(folder, name))
    for name, values in later.items():
        if not _has(folder, name, RUN):
            yield look(Path(folder, name), values)


def _asked(path: Path, key: str) -> tuple[dict[str, Mapping[str, Any]], str]:
    """The entries of a comparison or a sweep by the folder of each run, and why they cannot be read (else empty)."""
    try:
        return {run_name(path, values[key]): values for values in versioned(path)["runs"]}, ""
    except FedcellError as error:
        return {}, str(error)
    except (KeyError, TypeError) as error:
        return {}, f"{path} is damaged ({type(error).__name__}: {error})"


def _look(folder: Path, spec: Mapping[str, Any]) -> RunInfo:
    config = spec["config"]
    status: Mapping[str, Any] = read_json(folder / STATUS) if _has(str(folder), STATUS) else {}
    why = "" if status else reason(folder)
    state = str(status.get("state", "failed" if why else "waiting"))
    if state == "running" and not in_use(folder):
        state = "interrupted"
    task = str(spec.get("task", CLASSIFICATION))
    rounds, totals, brought = _totals(folder, status, leading(task))
    n_rounds = int(config["rounds"])
    if short := shortage(folder, Status(state, int(status.get("rounds", 0)), n_rounds), rounds):
        raise FedcellError(short)
    clock = clock_of(spec.get("own", ()))
    return RunInfo(
        folder=folder,
        label=str(spec["label"]),
        method=str(spec["method"]),
        scenario=str(config["scenario"]),
        seed=int(config["seed"]),
        state=state,
        message=str(status.get("message", why)),
        rounds=rounds,
        total_rounds=n_rounds,
        totals=totals.of(clock),
        settings=spec["settings"],
        config=config,
        clock=clock,
        served=brought,
        task=task,
        chance=spec.get("chance"),
    )


def as_json(info: RunInfo) -> dict[str, Any]:
    """A run as plain values, with its totals and without its settings; NaN and infinity become None."""
    values = info._asdict() | {"folder": str(info.folder)} | info.totals.by_name(info.metric) | dict(info.served)
    dropped = ("totals", "settings", "config", "served")
    found: dict[str, Any] = nulled({key: values[key] for key in values if key not in dropped})
    return found


def _totals(folder: Path, status: Mapping[str, Any], metric: Metric) -> tuple[int, Totals, Mapping[str, float]]:
    """Rounds, totals, and totals of edge servers: from the status if it belongs to these rows, else from the rows."""
    size = _size(folder / ROWS)
    kept = status.get("totals")
    if kept is not None and kept["rows_byte"] == size and _unchanged(folder, status):
        brought = {name: float(value) for name, value in status.get("served", {}).items()}
        return int(status["rounds"]), Totals.read(kept, metric), brought
    if not size:
        return 0, Totals(), {}
    from . import rows  # with NumPy

    columns, rounds = rows.load(folder, (*COLUMNS, metric.name, *served.COLUMNS))
    return rounds, total(columns, metric), served.served(columns)


def reason(folder: Path) -> str:
    """The last line of the traceback that an exception left; empty without one.

    A method can fail before its run has rows or a status.
    """
    lines = told(folder).strip().splitlines()
    return lines[-1] if lines else ""


def told(folder: Path, most: int = 8000) -> str:
    """The last `most` characters of the traceback in the folder of a run; empty without one."""
    try:
        return (folder / TRACEBACK).read_text(encoding="utf-8", errors="replace")[-most:]
    except OSError:
        return ""


def _unchanged(folder: Path, status: Mapping[str, Any]) -> bool:
    """Whether the rows match the checksum in the status; a status without a checksum counts as a match."""
    made = rows_sum(folder, status)
    return made is None or not made.byte or made.of(read_bytes(folder / ROWS)) == made.crc32


def _damaged(folder: Path, message: str) -> RunInfo:
    return RunInfo(folder, folder.name, "", "", 0, "damaged", message, 0, 0, Totals(), {}, {})


def _has(*parts: str) -> bool:
    return os.path.exists(os.path.join(*parts))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
