"""The record of a strategy: rows as Flower's loop yields them, in a run folder that all readers of fedcell know.

A row is whole only when its round has been evaluated, so it is written when the next one begins, or at the end.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

from ..errors import BadInput, Diverged
from ..methods import Choice
from ..record.checkpoint import Template
from ..record.files import explained, locked, occupied
from ..record.folder import write_run
from ..record.prepare import prepare
from ..record.recorder import PERIOD, Recorder
from ..record.rows import Journal
from ..scenarios import Config
from ..types import Problem, Row, Snapshot, Uplink
from .measuring import columns
from .tasks import Answer


class StrategyRecord:
    """Writes the rows of a running strategy; the last row waits for the metrics of its evaluation."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._waiting: tuple[Row, Snapshot] | None = None

    def put(self, row: Row, after: Snapshot) -> None:
        """Take the row of a round that was trained, and write the one before it."""
        self.flush()
        self._waiting = row, after

    def add(self, metrics: Mapping[str, Any]) -> None:
        """Add finite metrics to the row that waits; columns that it already has stay."""
        if self._waiting is not None:
            row, after = self._waiting
            numbers = {
                name: float(one) for name, one in metrics.items() if isinstance(one, int | float) and isfinite(one)
            }
            self._waiting = row._replace(metrics={**numbers, **row.metrics}), after

    def flush(self) -> None:
        """Write the row that waits."""
        if self._waiting is not None:
            self.recorder.put(*self._waiting)
            self._waiting = None


def row_of(
    after: Snapshot, lasted_s: float, uplink: Uplink, answers: Sequence[Answer], there: Mapping[str, int]
) -> Row:
    """The row of a round with nodes of any ClientApp; columns that these do not report are missing."""
    unknown = ("compute_s", "transfer_s")
    told = {name: value for name, value in columns(answers).items() if name not in unknown}
    return Row(
        round=after.round - 1,
        clock_s=after.world.clock_s,
        round_s=lasted_s,
        n_selected=len(answers),
        n_delivered=int(uplink.delivered.sum()),
        compute_joule=0.0,
        radio_joule=0.0,
        uplink_bit=float(sum(one.up_bit for one in answers)),
        outcome=uplink.letters,
        metrics={**{name: float(one) for name, one in there.items()}, **told},
    )


@contextmanager
def recording(
    folder: Path, config: Config, choice: Choice, problem: Problem, first: Snapshot
) -> Iterator[StrategyRecord]:
    """Record a strategy while the context lasts; however it ends, rows, a checkpoint and a status remain.

    Args:
        folder: a new one.
        config: the settings, with the rounds that are to come.
        choice: the method.
        problem: of the same settings.
        first: the state before the first round.
    """
    if occupied(folder):
        raise BadInput(f"{folder} is not empty: a strategy begins anew every time, so name another folder")
    _, (job,) = prepare(config, [choice], problem=problem)
    again = "a new folder and the same strategy"
    with explained(folder, "or choose another folder (nothing was written)"):
        folder.mkdir(parents=True, exist_ok=True)
    spec, template = job.spec._replace(folder=folder.name), Template.of(first)
    with locked(folder):
        write_run(folder, spec, str(template.home))
        with closing(Journal(folder, lambda note: None)) as journal:
            recorder = Recorder(folder, journal, template, PERIOD, config.rounds, again)
            recorder.status("running")
            made, state, message = StrategyRecord(recorder), "finished", ""
            try:
                yield made
            except Diverged as error:
                state, message = "diverged", str(error)
                raise
            except BaseException as error:
                state = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
                message = f"{type(error).__name__}: {error}"
                raise
            finally:
                made.flush()
                recorder.save()
                recorder.status(state, message)
