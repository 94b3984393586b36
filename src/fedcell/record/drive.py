"""Recorded runs: start them, and resume them after any interruption."""

from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import Any

from .. import methods as library
from ..arguments import FOLDER, FUNCTION, expect
from ..errors import BadInput
from ..methods import Choice
from ..scenarios import Config, build_problem
from ..types import Method, Problem
from ..until import written_goals
from . import checkpoint, rows
from .files import explained, locked, occupied, refuse_file, write_json
from .folder import (
    ENDED,
    FEDERATION,
    STATUS,
    Spec,
    Status,
    begun,
    how_to_resume,
    read_status,
    shortage,
    specs,
    write_comparison,
)
from .playing import Failed, Play, Progress, Watch, run_all, run_alone, silent
from .prepare import MethodRequest, PreparedRun, check_own, check_same, own_methods, prepare, rebuild, reconfigure
from .reading import Record, read_all
from .recorder import PERIOD, Period
from .rows import Journal
from .target import retarget, until_of


def execute(
    config: Config,
    methods: Sequence[MethodRequest],
    out: str | Path | None = None,
    *,
    dataset: Any = None,
    model: Any = None,
    watch: Watch = silent,
    period: Period = PERIOD,
    failed: Failed | None = None,
) -> list[Record]:
    """Run methods one after the other in the same world and record each in a folder of its own.

    Args:
        config: world, data, model, training, seed and rounds.
        methods: texts `NAME[:key=value,...]`, which start from the settings of the scenario that `config` names, such
            texts already read, or pairs of a label and a `Method` of your own.
        out: folder to make; None: the next free `runs/<scenario>-seed<seed>-<n>`.
        dataset: your own data instead of `config.data.name`.
        model: your own network instead of `config.model.name`.
        watch: told after every round.
        period: how often to write a checkpoint.
        failed: called for every run that an exception ended; None: the first such exception is raised, once the
            other methods have run.

    Returns:
        One record per method, also for a run that diverged or failed (see `record.status`).

    Raises BadInput before anything is written; after an interruption or a full disk, call `resume`.
    """
    problem, jobs = prepare(config, methods, dataset, model)
    folder = claim(out, f"{config.scenario}-seed{config.seed}")
    with locked(folder):
        _refuse_used(folder)
        with explained(folder, "then start again (nothing was simulated yet)"):
            write_comparison(folder, [job.spec for job in jobs])
        jobs = [_in(folder, job) for job in jobs]
        run_all(jobs, problem, folder, watch, period, failed)
    return read_all(folder)


def resume(
    folder: str | Path,
    *,
    methods: Sequence[tuple[str, Method]] = (),
    dataset: Any = None,
    model: Any = None,
    until: str | Mapping[str, Any] | None = None,
    watch: Watch = silent,
    period: Period = PERIOD,
    failed: Failed | None = None,
) -> list[Record]:
    """Resume a comparison or a single run; give `methods`, `dataset` and `model` again if they were your own objects.

    The result is bit-identical to that of a run that was never interrupted. All settings but `until` come from the
    record: a run that stopped at `accuracy=0.8` resumes to `accuracy=0.9`, or to its last round with `none`. Runs that
    ended are left as they are, unless some of their rows are missing. For `failed`, see `execute`.
    """
    expect(FUNCTION, watch=watch)
    expect(FUNCTION.or_none, failed=failed)
    expect(FOLDER, folder=folder)
    folder, own = Path(folder), own_methods(methods)
    if until is not None:
        retarget(folder, written_goals(until))
    jobs = []
    for path, spec in specs(folder):
        if _ended(path, spec, watch):
            continue
        check_own(folder, spec, dataset, model, own)
        jobs.append(PreparedRun(path, spec, rebuild(spec, own)))
    if jobs:
        problem = build_problem(reconfigure(jobs[0].spec), dataset, model)  # runs of one folder share it
        with locked(folder) if folder != jobs[0].folder else nullcontext():
            run_all(jobs, problem, folder, watch, period, failed)
    return read_all(folder)


def run_one(
    config: Config,
    method: str,
    folder: str | Path,
    *,
    label: str = "",
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
    watch: Watch = silent,
    period: Period = PERIOD,
) -> None:
    """Run one method in a run folder of its own; if the run began before, resume it.

    Args:
        config: world, data, model, training, seed and rounds; those of the record if the run began before.
        method: text `NAME[:key=value,...]`.
        folder: of this run; made with its parents if it is not there.
        label: name of the run; empty: the method's text.
        defaults: settings by method name.
        watch: told after every round.
        period: how often to write a checkpoint.
    """
    folder = Path(folder)
    if begun(folder):
        resume(folder, until=config.until, watch=watch, period=period)
        return
    problem, jobs = prepare(config, [library.parse(method, defaults)])
    claim(folder, "")
    run_alone(_at(folder, jobs.pop(), label), problem, folder, watch, period)


def run_real(
    config: Config,
    method: Choice,
    folder: str | Path,
    problem: Problem,
    play: Play,
    *,
    watch: Watch = silent,
) -> None:
    """Record the rounds of real devices, which cannot be repeated; if the run began before, resume it.

    A checkpoint is written after every round. A row without one is dropped, and its round is played again.

    Args:
        config: world, model, training, seed and rounds.
        method: one of fedcell's own.
        folder: of this run; made with its parents if it is not there.
        problem: of the same settings, without the data of devices.
        play: plays the rounds that are left.
        watch: told after every round.
    """
    folder = Path(folder)
    _, jobs = prepare(config, [method], problem=problem)
    if begun(folder):
        retarget(folder, config.until)
        ((_, spec),) = specs(folder)
        check_same(folder, spec, config, method)
        if _ended(folder, spec, watch):
            return
        jobs[0] = jobs[0]._replace(spec=spec)
    else:
        claim(folder, "")
    run_alone(_at(folder, jobs.pop()), problem, folder, watch, Period(rounds=1), play)


def go_back(folder: str | Path) -> int:
    """Drop the newest checkpoint of a federation and the rows after the one before it; return the rounds that are left.

    Raises BadInput for several runs, for a simulation, and if there is no checkpoint before the newest.
    """
    folder = Path(folder)
    (path, spec), *others = specs(folder)
    if others:
        raise BadInput(f"{folder} holds {1 + len(others)} runs: name the folder of one federation")
    if FEDERATION not in spec.own:
        raise BadInput(f"{folder} is a simulation, which repeats itself: only a federation goes back")
    with locked(path), explained(path, "then go back again"):
        left = checkpoint.drop_newest(path)
        if left is None:
            raise BadInput(f"{folder} has no checkpoint before its last: there is nothing to go back to")
        journal = Journal(path, lambda note: None)
        with closing(journal):
            journal.cut(left)
            total = int(spec.config["rounds"])
            values = Status("interrupted", left, total, "taken back one checkpoint")._asdict()
            write_json(path / STATUS, values | {"rows": journal.sum._asdict()})
    return left


def _in(folder: Path, job: PreparedRun) -> PreparedRun:
    """The job, with the path of its folder in the folder of a comparison."""
    return job._replace(folder=folder / job.spec.folder)


def _at(folder: Path, job: PreparedRun, label: str = "") -> PreparedRun:
    """The job, set to run in `folder` itself; `label` replaces its label if given."""
    return job._replace(folder=folder, spec=job.spec._replace(folder=folder.name, label=label or job.spec.label))


def claim(out: str | Path | None, name: str) -> Path:
    """Make the folder `out` for new runs; None: the next free `runs/<name>-<n>`."""
    if out is not None:
        folder = Path(out)
        _refuse_used(folder)
        with explained(folder, "or choose another folder (nothing was written)"):
            folder.mkdir(parents=True, exist_ok=True)
        return folder
    with explained(Path("runs"), "or choose another folder with --out (nothing was written)"):
        Path("runs").mkdir(exist_ok=True)
        for number in range(1, 1_000_000):
            with suppress(FileExistsError):
                folder = Path("runs") / f"{name}-{number}"
                folder.mkdir()
                return folder
    raise BadInput(f"runs/{name}-* are all taken: choose a folder with --out")


def _refuse_used(folder: Path) -> None:
    """Raise BadInput if the folder of a new run is a file or not empty."""
    refuse_file(folder)
    with explained(folder, "or choose another folder (nothing was written)"):
        used = occupied(folder)
    if used:
        raise BadInput(f"{folder} is not empty: choose another folder, or resume with `{how_to_resume(folder, ())}`")


def _ended(folder: Path, spec: Spec, watch: Watch) -> bool:
    """Whether a run has nothing left to do, reported to `watch`; False for one that ended but lost rows."""
    begun(folder)
    status = read_status(folder, int(spec.config["rounds"]))
    if status.state not in ENDED:
        return False
    if FEDERATION in spec.own and status.state == "diverged":
        note = f"{folder} diverged ({status.message}): resuming from its last checkpoint"
        watch(Progress(spec.label, status.rounds, status.total, note=note, folder=folder))
        return False
    lines = rows.read(folder)[0]
    note = shortage(folder, status, len(lines))
    if note:
        watch(Progress(spec.label, len(lines), status.total, note=note, folder=folder))
        return False
    if (
        status.state == "finished"
        and len(lines) < status.total
        and not until_of(spec).after_all(map(rows.decode, lines))
    ):
        return False
    note = f"{folder} has {status.state} already: nothing to do"
    watch(Progress(spec.label, status.rounds, status.total, status.state, note=note, folder=folder))
    return True
