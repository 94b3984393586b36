"""Long runs: their rows and newest state lie beside the store until they end.

A run that was killed, or that stopped because its time was up, resumes from there if it is asked for again with the
same versions on the same kind of device, and ends as if nothing had happened.
"""

import hashlib
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import FedcellError
from ..record import checkpoint
from ..record.files import explained, read_json, write_atomic, write_json
from ..record.folder import ROWS
from ..record.recorder import THRIFT
from ..record.rows import decode, encode, read
from ..simulate import begin, simulate
from ..types import Method, Problem, Row, Snapshot

EVERY_S = 30.0  # between two states on file; a run that takes less leaves nothing
SPENT = "spent.json"


class TimeIsUp(FedcellError):
    """The time for runs is up, and the state of this one is on file."""


class Way(NamedTuple):
    """Where a run leaves its state, and when it has to stop."""

    folder: Path
    until_s: float = inf  # as `time.time()` counts

    @property
    def time_is_up(self) -> bool:
        return time.time() >= self.until_s

    @property
    def spent_s(self) -> float:
        """Seconds that earlier tries took up to the state they left."""
        file = self.folder / SPENT
        return float(read_json(file)["seconds"]) if file.exists() else 0.0

    def forget(self) -> None:
        """Remove what a run left, once its result is in the store."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):  # others may be under way
            self.folder.parent.rmdir()


def folder_of(store: Path, key: str, made_by: Any) -> Path:
    """Where a run of a store leaves its state: another place for other settings, versions and kinds of device."""
    name = hashlib.sha256(f"{key} {made_by}".encode()).hexdigest()[:16]
    return store.with_name(f"{store.name.partition('.')[0]}.under_way") / name


def played(problem: Problem, method: Method, way: Way) -> Iterator[Row]:
    """All rows of a run, those of earlier tries first.

    Raises TimeIsUp when the time is up, after the state was written, and what `simulate` raises.
    """
    began_s, spent_s = time.monotonic(), way.spent_s
    rows, state = _resumed(way.folder, begin(problem, method))
    template = checkpoint.Template.of(state)
    yield from rows
    due_s = began_s + EVERY_S
    for row, after in simulate(problem, method, state):
        rows.append(row)
        stops = way.time_is_up and after.round < problem.n_rounds
        if stops or time.monotonic() >= due_s:
            now_s = time.monotonic()
            _save(way.folder, rows, after, template, spent_s + now_s - began_s)
            ended_s = time.monotonic()
            due_s = ended_s + max(EVERY_S, THRIFT * (ended_s - now_s))
        if stops:
            raise TimeIsUp(f"stopped after round {after.round} of {problem.n_rounds}: the same command continues it")
        yield row


def _resumed(folder: Path, first: Snapshot) -> tuple[list[Row], Snapshot]:
    """The rows and the state that earlier tries left, or none and the start."""
    lines = read(folder)[0]
    state = checkpoint.newest(folder, checkpoint.Template.of(first), len(lines), lambda note: None) or first
    return [decode(line) for line in lines[: state.round]], state


def _save(folder: Path, rows: list[Row], after: Snapshot, template: checkpoint.Template, seconds: float) -> None:
    """Rows first, so that no state is ahead of them."""
    with explained(folder, "then give the same command again"):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / ROWS, *map(encode, rows))
        checkpoint.save(folder, after, template)
        write_json(folder / SPENT, {"seconds": seconds})
