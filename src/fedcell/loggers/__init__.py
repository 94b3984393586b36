"""TensorBoard and MLflow: rows of running and recorded runs in other people's tools.

A logger only watches. The record stays the source: whatever a logger lacks of a run, because it was killed, was
away or was asked for late, is added from the record when the run resumes, and no point is written twice.
"""

import importlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from ..errors import BadInput, choose_one
from ..record import Progress, Watch, silent
from ..record.files import read_json
from ..record.folder import ENDED, RUN
from ..record.rows import decode, read
from ..types import Row

KINDS = {"tensorboard": "tensorboard", "mlflow": "mlflow"}  # name of a logger -> package it needs
STOPPED = (*ENDED, "failed", "interrupted")


class LogPoint(NamedTuple):
    """What is logged of one round."""

    step: int  # rounds done, from 1
    clock_s: float  # simulated
    values: dict[str, float]


class Sink(Protocol):
    """An open log of one run."""

    def put(self, point: LogPoint) -> None:
        """Log a round; rounds come in order, and those that the log has already are passed over."""

    def close(self, ended: bool) -> None:
        """Write what is left; `ended` when no more rounds will follow."""


class _Open(NamedTuple):
    """The logs of one run and its running totals."""

    sinks: dict[str, Sink]  # by text of the logger
    totals: dict[str, float]


class LogWatcher:
    """A watcher that passes everything on to another one and to loggers.

    Args:
        texts: `tensorboard=DIR` or `mlflow=URI_OR_DIR`.
        watch: called first, with everything.
        base: folder that names of runs begin with; None: the folder of the comparison.
    """

    def __init__(self, texts: Sequence[str], watch: Watch = silent, base: Path | None = None) -> None:
        self.texts, self.watch, self.base = tuple(texts), watch, base
        self.runs: dict[Path, _Open] = {}
        self.check(self.texts)

    @staticmethod
    def check(texts: Sequence[str]) -> None:
        """Refuse unknown loggers, loggers without a place and loggers that are not installed."""
        for text in texts:
            kind, _, target = text.partition("=")
            if kind not in KINDS:
                raise BadInput(f"unknown logger {kind!r}{choose_one(kind, list(KINDS))}")
            if not target:
                raise BadInput(f"--log {text} has no place: write {kind}=DIR")
            if kind == "mlflow":
                os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it would report its use over the network
            try:
                importlib.import_module(KINDS[kind])
            except ImportError:
                raise BadInput(f"--log {kind} needs a package: pip install 'fedcell[{kind}]'") from None

    def __call__(self, progress: Progress) -> None:
        self.watch(progress)
        if not self.texts or progress.folder is None or (progress.note and progress.state == "running"):
            return
        if progress.folder not in self.runs:
            self._open(progress, progress.folder)
        if progress.row:
            self._put(progress.folder, progress.row)
        if progress.state in STOPPED:
            self._close(progress.folder, progress.state in ENDED)

    def __enter__(self) -> "LogWatcher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for folder in list(self.runs):
            self._close(folder, ended=False)

    def _open(self, progress: Progress, folder: Path) -> None:
        """Open the logs of a run and log the rows that it has already."""
        done = progress.done - bool(progress.row)
        run = self.runs[folder] = _Open({}, {})
        for text in self.texts:
            kind, _, target = text.partition("=")
            with _Told(self, progress, text):
                module = importlib.import_module(f"{__name__}.{kind}")
                run.sinks[text] = module.Sink(target, self._name(folder), folder, read_json(folder / RUN))
        for line in read(folder)[0][:done]:
            self._put(folder, decode(line), progress)

    def _put(self, folder: Path, row: Row, progress: Progress | None = None) -> None:
        run = self.runs[folder]
        point = LogPoint(row.round + 1, row.clock_s, values(row, run.totals))
        for text, sink in list(run.sinks.items()):
            with _Told(self, progress or Progress("", 0, 0, folder=folder), text):
                sink.put(point)

    def _close(self, folder: Path, ended: bool) -> None:
        for text, sink in self.runs.pop(folder).sinks.items():
            with _Told(self, Progress(folder.name, 0, 0, folder=folder), text):
                sink.close(ended)

    def _name(self, folder: Path) -> str:
        """Names such as `cell-seed1-1/fedavg`, or `sweep-1/cell-seed1/fedavg` in a sweep."""
        base = (self.base or folder.parent).resolve()
        return folder.resolve().relative_to(base.parent).as_posix()


class _Told:
    """If a logger fails, warn once and continue without it."""

    def __init__(self, log: LogWatcher, progress: Progress, text: str) -> None:
        self.log, self.progress, self.text = log, progress, text

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if not isinstance(error, Exception):
            return False
        words = (str(error).strip() or type(error).__name__).splitlines()[0]
        note = f"{self.text} failed ({words}): the run continues without it, and `--resume` with --log brings the rest"
        self.log.watch(self.progress._replace(note=note, state="running", row=None))
        if self.progress.folder in self.log.runs:
            with suppress(KeyError):
                del self.log.runs[self.progress.folder].sinks[self.text]
        return True


def values(row: Row, totals: dict[str, float]) -> dict[str, float]:
    """The values to log for a row: its metrics, its costs, and running totals, which are updated in `totals`."""
    for name in ("compute_joule", "radio_joule", "uplink_bit"):
        totals[name] = totals.get(name, 0.0) + getattr(row, name)
    totals["energy_joule"] = totals.get("energy_joule", 0.0) + row.joule
    return {
        **row.metrics,
        "round/seconds": row.round_s,
        "round/selected": float(row.n_selected),
        "round/delivered": float(row.n_delivered),
        **{f"total/{name}": value for name, value in totals.items()},
        "total/simulated_s": row.clock_s,
    }
