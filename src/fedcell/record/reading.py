"""Read recorded runs back from their folders."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from warnings import warn

from ..arguments import FOLDER, expect
from ..errors import BadInput, FedcellError, Notice, did_you_mean
from ..metrics import CLASSIFICATION, SCORES, Metric, leading
from .files import present
from .folder import (
    COMPARISON,
    RUN,
    Spec,
    Status,
    begun,
    check_folder,
    clock_of,
    no_run,
    read_status,
    shortage,
    spec_of,
    specs,
    versioned,
)
from .html import runs
from .index import RunInfo, find
from .served import COLUMNS as SERVED
from .served import served
from .totals import LATER, total

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray


class Record(NamedTuple):
    """One run as read back from its folder."""

    folder: Path
    label: str
    method: str
    settings: Mapping[str, Any]
    config: Mapping[str, Any]
    status: Status
    columns: "Mapping[str, NDArray[Any]]"  # one array per column of `Row` and per metric, NaN if not measured
    own: tuple[str, ...] = ()  # which of "model", "dataset", "method" were the caller's own objects
    sha256: str = ""  # of the method's file; empty for a built-in method
    made_by: Mapping[str, str] = {}  # versions and machine; empty before the run began
    scaling: Mapping[str, Any] = {}  # kind, shift and scale of all inputs; empty: as they were loaded
    task: str = CLASSIFICATION  # what was learned
    chance: float | None = None  # the leading metric of the best constant answer; None: not known

    @property
    def metric(self) -> Metric:
        """The metric that stands for the run."""
        return leading(self.task)

    @property
    def clock(self) -> str:
        """Whether seconds are simulated, or measured on real devices."""
        return clock_of(self.own)

    def __repr__(self) -> str:
        """One line: which run, how far, and how good.

        >>> Record(Path("runs/a"), "fedavg", "fedavg", {}, {"seed": 1}, Status("finished", 2, 2), {})
        <Record fedavg, seed 1: finished, 2 of 2 rounds, in runs/a>
        """
        status, metric = self.status, self.metric
        known = [score for score in self.columns.get(metric.name, ()) if score == score]
        good = f", {metric.title} {known[-1]:.4g}" if known else ""
        far = f"{status.state}, {status.rounds} of {status.total} rounds"
        return f"<Record {self.label}, seed {self.config.get('seed')}: {far}{good}, in {self.folder}>"

    def frame(self) -> "pandas.DataFrame":
        """The columns as a pandas table, one row per round, indexed by the round."""
        try:
            import pandas
        except ImportError:
            fix = "python3 -m pip install pandas, or use record.columns"
            raise BadInput(f"a frame needs pandas, which is not installed: {fix}") from None
        return pandas.DataFrame(dict(self.columns)).set_index("round")

    def _repr_html_(self) -> str:
        """What Jupyter shows."""
        return Records([self])._repr_html_()


class Records(list[Record]):
    """Several runs; Jupyter shows them as a table."""

    def _repr_html_(self) -> str:
        return runs([summarise(one) for one in self])


def summarise(record: Record) -> RunInfo:
    """The `RunInfo` of a run whose rows were read."""
    status, config = record.status, record.config
    return RunInfo(
        folder=record.folder,
        label=record.label,
        method=record.method,
        scenario=str(config["scenario"]),
        seed=int(config["seed"]),
        state=status.state,
        message=status.message,
        rounds=status.rounds,
        total_rounds=status.total,
        totals=total(record.columns, record.metric).of(record.clock),
        settings=record.settings,
        config=config,
        clock=record.clock,
        served=served(record.columns),
        task=record.task,
        chance=record.chance,
    )


def read(folder: str | Path, wanted: Collection[str] | None = None) -> Record:
    """Read the run in a folder; works on running, killed and finished runs alike.

    Args:
        folder: of one run.
        wanted: columns to read, which is faster than all of them; None: all.
    """
    expect(FOLDER, folder=folder)
    folder = Path(folder)
    if not begun(folder):
        raise no_run(folder)
    values = versioned(folder / RUN)
    record = _record(folder, spec_of(values, folder / RUN), wanted)
    unknown = [name for name in wanted or () if name not in (*record.columns, *SCORES, *SERVED, *LATER)]
    if unknown and record.status.rounds:
        raise _no_column(folder, unknown[0])
    return record._replace(made_by=values.get("made_by", {}))


def read_all(folder: str | Path, left_out: Callable[[str], None] | None = None) -> list[Record]:
    """Read every run of a comparison in its order, the single run in a folder, or all that began below one.

    Args:
        folder: of a run, a comparison, or above them.
        left_out: called with the reason for each damaged run that is left out; None: raise if a run of a comparison
            cannot be read, and warn of those below another folder.
    """
    folder = check_folder(folder)
    if not begun(folder) and not present(folder / COMPARISON):
        infos = [info for info in find(folder) if info.state != "waiting"]
        if not infos:
            raise no_run(folder)
        damage = [info.message for info in infos if info.state == "damaged"]
        if len(damage) == len(infos) and not left_out:
            raise FedcellError(damage[0])
        for message in damage:
            if left_out:
                left_out(message)
            else:
                warn(f"{message}; it is left out", Notice, stacklevel=2)
        paths: list[tuple[Path, Spec | None]] = [(info.folder, None) for info in infos if info.state != "damaged"]
    else:
        paths = list(specs(folder))
    return Records(one for path, spec in paths if (one := _read_or_leave(path, spec, left_out)))


def _record(folder: Path, spec: Spec, wanted: Collection[str] | None = None) -> Record:
    from . import rows  # with NumPy, which a status needs not

    columns, n_rounds = rows.load(folder, wanted)
    status = read_status(folder, int(spec.config["rounds"]))
    if short := shortage(folder, status, n_rounds):
        status = status._replace(state="damaged", message=short)
    status = status._replace(rounds=n_rounds)
    return Record(
        folder=folder,
        label=spec.label,
        method=spec.method,
        settings=spec.settings,
        config=spec.config,
        status=status,
        columns=columns,
        own=spec.own,
        sha256=spec.sha256,
        scaling=spec.scaling,
        task=spec.task,
        chance=spec.chance,
    )


def _read_or_leave(path: Path, spec: Spec | None, left_out: Callable[[str], None] | None) -> Record | None:
    """Read a run, begun or not; if it is damaged, tell `left_out` why and return None."""
    try:
        record = _record(path, spec) if spec and not begun(path) else read(path)
    except FedcellError as error:
        if not left_out:
            raise
        left_out(str(error))
        return None
    if left_out and record.status.state == "damaged":
        left_out(record.status.message)
        return None
    return record


def _no_column(folder: Path, name: str) -> BadInput:
    known = list(read(folder).columns)
    return BadInput(f"{folder} has no column {name!r}{did_you_mean(name, known)} (it has {', '.join(known)})")
