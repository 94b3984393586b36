"""Write the record of a run that is under way: rows as they come, checkpoints when due, and its status."""

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from ..metrics import CLASSIFICATION, leading
from ..types import Row, Snapshot
from . import checkpoint
from .files import explained, write_json
from .folder import STATUS, Status
from .rows import Journal, numbers
from .served import served
from .totals import total

THRIFT = 20.0  # writing checkpoints takes at most a twentieth of the time


class Period(NamedTuple):
    """A checkpoint is written after this many seconds of wall time or rounds, whichever is first."""

    seconds: float = 10.0
    rounds: int = 1000


PERIOD = Period()


class Recorder:
    """Write what a run yields; turn every OSError into a DiskError that says how to resume."""

    def __init__(
        self,
        folder: Path,
        journal: Journal,
        template: checkpoint.Template,
        period: Period,
        total: int,
        resume: str,
        scaling: Mapping[str, Any] | None = None,
        task: str = CLASSIFICATION,
    ) -> None:
        self.metric = leading(task)
        self.folder, self.journal, self.template = folder, journal, template
        self.period, self.total, self.resume, self.scaling = period, total, resume, scaling
        self.last: Snapshot | None = None
        self.saved_round = 0
        self.due_s = time.monotonic() + period.seconds

    def put(self, row: Row, snapshot: Snapshot) -> None:
        """Record one round and the state after it."""
        with self._explained():
            self.journal.put(row)
        self.last = snapshot
        if time.monotonic() >= self.due_s or snapshot.round - self.saved_round >= self.period.rounds:
            self.save()

    def save(self) -> None:
        """Write a checkpoint of the newest state, rows first, so that no checkpoint is ahead of its rows."""
        if self.last is None or self.last.round == self.saved_round:
            return
        begun_s = time.monotonic()
        with self._explained():
            self.journal.sync()
            checkpoint.save(self.folder, self.last, self.template, self.scaling)
        self.status("running")
        self.saved_round, ended_s = self.last.round, time.monotonic()
        self.due_s = ended_s + max(self.period.seconds, THRIFT * (ended_s - begun_s))

    def status(self, state: str, message: str = "") -> None:
        """Write how far the run is and, once it stops, its totals."""
        values: dict[str, Any] = Status(state, len(self.journal.lines), self.total, message)._asdict()
        values["rows"] = self.journal.sum._asdict()
        if state != "running":
            table = numbers(self.journal.lines)
            values["totals"] = {"rows_byte": self.journal.sum.byte, **total(table, self.metric).by_name(self.metric)}
            if found := served(table):
                values["served"] = found
        with self._explained():
            write_json(self.folder / STATUS, values)

    def _explained(self) -> AbstractContextManager[None]:
        kept = f"{len(self.journal.lines)} of {self.total} rounds are kept"
        return explained(self.folder, f"then resume with `{self.resume}` ({kept})")
