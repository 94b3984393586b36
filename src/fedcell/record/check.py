"""Check whether the files of recorded runs are intact, and repair what can be repaired.

Rows are checked against the checksum in `status.json`, checkpoints against their own. Rows of a simulation can be
simulated again, from the last checkpoint before the damage or from the start; those of real devices cannot.
"""

import json
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from ..errors import FedcellError
from . import checkpoint, rows, tree
from .files import explained, in_use, locked, present, read_bytes, reason, write_json
from .folder import FEDERATION, ROWS, RUN, STATUS, Spec, Status, how_to_resume, read_status, shortage, specs
from .index import find
from .rows import Journal

ASIDE = ".damaged"  # behind the name of a file that was put aside


class Damage(NamedTuple):
    """A file that is not what was written."""

    path: Path
    what: str
    fix: str = ""  # what `repair` does about it; empty: it cannot be repaired


class RunCheck(NamedTuple):
    """One run, and what is wrong with it."""

    folder: Path
    state: str
    rounds: int
    damage: tuple[Damage, ...]
    again: str  # the command that resumes it


def check(folder: str | Path) -> list[RunCheck]:
    """Check every run that has begun in a folder or below it."""
    return [examine(info.folder) for info in find(folder) if info.state != "waiting"]


def examine(folder: Path) -> RunCheck:
    """Check one run without changing anything."""
    try:
        ((_, spec),) = specs(folder)
    except FedcellError as error:
        return RunCheck(folder, "damaged", 0, (Damage(folder / RUN, str(error)),), "")
    try:
        n_whole = _n_whole(folder)
    except FedcellError as error:  # its rows cannot be opened
        return RunCheck(folder, "damaged", 0, (Damage(folder / ROWS, str(error)),), how_to_resume(folder, spec.own))
    damage = [*_status_damage(folder, spec), *_row_damage(folder, spec), *_checkpoint_damage(folder, spec)]
    state = "damaged"
    if not any(one.path.name == STATUS for one in damage):
        state = read_status(folder, int(spec.config["rounds"])).state
    return RunCheck(folder, state, n_whole, tuple(damage), how_to_resume(folder, spec.own))


def repair(found: RunCheck) -> list[str]:
    """Do what `Damage.fix` says; returns what was done. Files with damaged content are put aside, never deleted."""
    done = []
    with locked(found.folder), explained(found.folder, "then repair again"):
        for one in found.damage:
            if not one.fix:
                continue
            if one.path.name == ROWS:
                _repair_rows(found.folder)
            else:
                _aside(one.path)
            done.append(f"{one.path}: {one.fix}")
        if done:
            _write_status(found.folder)
    return done


# ---------------------------------------------------------------- what is wrong


def _status_damage(folder: Path, spec: Spec) -> list[Damage]:
    try:
        status = read_status(folder, int(spec.config["rounds"]))
    except FedcellError as error:
        return [Damage(folder / STATUS, str(error), "put aside and written anew, as interrupted")]
    short = shortage(folder, status, _n_whole(folder))
    return [Damage(folder / ROWS, short)] if short else []


def _row_damage(folder: Path, spec: Spec) -> list[Damage]:
    try:
        rows.read(folder)
    except FedcellError as error:
        n_left = _repairable(folder, spec)
        if n_left is None:
            lost = f"{error}; devices cannot train these rounds again, so begin a federation in a new folder"
            return [Damage(folder / ROWS, lost)]
        some = f"put aside but for its first {n_left} rows; resuming makes the others anew"
        return [Damage(folder / ROWS, str(error), some if n_left else "put aside; resuming makes all rows anew")]
    return []


def _repairable(folder: Path, spec: Spec) -> int | None:
    """How many rows of a damaged journal can be kept: those up to the last intact checkpoint before the first bad line.

    If every line is readable and only the checksum is wrong, no row can be trusted. None: no row can be kept, and real
    devices cannot train the rounds again.
    """
    n_whole = _n_whole(folder)
    n_lines = read_bytes(folder / ROWS).count(b"\n")
    sound = [checkpoint.round_of(path) for path in sorted(folder.glob(checkpoint.PATTERN)) if not _broken(path)]
    kept = max((one for one in sound if one <= n_whole), default=0) if n_whole < n_lines else 0
    return None if FEDERATION in spec.own and not kept else kept


def _checkpoint_damage(folder: Path, spec: Spec) -> list[Damage]:
    paths = [] if in_use(folder) else sorted(folder.glob(checkpoint.PATTERN))  # a running one replaces them
    broken = {path: why for path in paths if (why := _broken(path))}
    some = "put aside; resuming goes back to the checkpoint before it"
    none = "" if FEDERATION in spec.own else "put aside; resuming begins anew and compares rows"
    fix = some if len(broken) < len(paths) else none
    return [Damage(path, f"{path} is damaged ({why})", fix) for path, why in broken.items()]


def _broken(path: Path) -> str:
    """Why a checkpoint is not whole; empty for one that is."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})[checkpoint.META])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        return "" if tree.digest(about["tree"], tensors) == about["crc32"] else "its checksum is wrong"
    except (ValueError, KeyError, TypeError, OSError, SafetensorError, RecursionError) as error:
        return reason(error) if isinstance(error, OSError) else str(error)


def _n_whole(folder: Path) -> int:
    """How many lines are intact before the first damaged one."""
    data = read_bytes(folder / ROWS)
    lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
    return next((number for number, line in enumerate(lines) if not rows.sound(line, number)), len(lines))


# ---------------------------------------------------------------- repairing


def _repair_rows(folder: Path) -> None:
    ((_, spec),) = specs(folder)
    kept, path = _repairable(folder, spec) or 0, folder / ROWS
    lines = read_bytes(path).splitlines(keepends=True)[:kept]
    _aside(path)
    path.write_bytes(b"".join(lines))
    for one in folder.glob(checkpoint.PATTERN):
        if checkpoint.round_of(one) > kept:
            _aside(one)
    _aside(folder / STATUS)  # its checksum is of the rows before


def _write_status(folder: Path) -> None:
    """Write the status of a repaired run, which must be resumed."""
    ((_, spec),) = specs(folder)
    journal = Journal(folder, lambda note: None)
    journal.close()
    status = Status("interrupted", len(journal.lines), int(spec.config["rounds"]), "repaired")
    write_json(folder / STATUS, status._asdict() | {"rows": journal.sum._asdict()})


def _aside(path: Path) -> None:
    """Rename a file to `NAME.damaged` (then `NAME.damaged1`, and so on), so that nothing reads it."""
    if not present(path):
        return
    number = 0
    while present(other := path.with_name(f"{path.name}{ASIDE}{number or ''}")):
        number += 1
    path.rename(other)
