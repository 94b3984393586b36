"""Play the rounds of recorded runs, and leave a status and a checkpoint however they end."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import NamedTuple

from ..errors import Diverged, FedcellError, OutOfMemory
from ..learn.memory import gpu_is_full
from ..metrics import CLASSIFICATION
from ..simulate import begin, simulate
from ..types import Method, Problem, Row, Snapshot
from . import checkpoint, rows
from .files import DiskError, explained, locked, present
from .folder import FEDERATION, RUN, TRACEBACK, changes, how_to_resume, write_run
from .prepare import PreparedRun, fingerprint
from .recorder import Period, Recorder
from .rows import Journal
from .stop import StopRequests
from .target import until_of


class Progress(NamedTuple):
    """What a watcher gets after every round, at every change of state, and with every notice."""

    label: str
    done: int  # rounds
    total: int
    state: str = "running"
    row: Row | None = None
    note: str = ""
    again: str = ""  # the command that resumes the run after an interruption
    folder: Path | None = None  # of the run
    task: str = CLASSIFICATION  # what is learned


Watch = Callable[[Progress], None]
Failed = Callable[[str, Exception], None]  # called with the label of a run and the exception that ended it
Play = Callable[[Problem, Method, Snapshot], Iterator[tuple[Row, Snapshot]]]  # as `simulate`


def silent(progress: Progress) -> None:
    """The watcher that does nothing."""


def run_all(
    jobs: list[PreparedRun], problem: Problem, top: Path, watch: Watch, period: Period, failed: Failed | None
) -> None:
    """Run methods one after the other; an exception in one stops no other."""
    ended: list[tuple[str, Exception]] = []
    while jobs:  # and let go of each, since states can be large
        label = jobs[0].spec.label
        try:
            run_alone(jobs.pop(0), problem, top, watch, period)
        except DiskError:
            raise
        except Exception as error:
            ended.append((label, error))
    for label, why in ended:
        if failed is None:
            raise why
        failed(label, why)


def run_alone(
    job: PreparedRun, problem: Problem, top: Path, watch: Watch, period: Period, play: Play = simulate
) -> None:
    """Run one method to its end, from the newest checkpoint in its folder or from the start."""
    spec, total, again = job.spec, problem.n_rounds, how_to_resume(top, job.spec.own)
    fix = f"then resume with `{again}`"

    def say(note: str) -> None:
        watch(Progress(spec.label, 0, total, note=note, again=again, folder=job.folder))

    with explained(job.folder, fix):
        job.folder.mkdir(exist_ok=True)
    with locked(job.folder), ExitStack() as ended:
        with explained(job.folder, fix):
            requests = ended.enter_context(closing(StopRequests(job.folder)))  # at once: from here on they are accepted
        first, job = job.first or begin(problem, job.method), job._replace(first=None)
        if fingerprint(problem, first) != spec.start:
            raise FedcellError(
                f"{job.folder} would not begin from the state it began from: the code, a library or your own objects "
                "changed, so start a new run"
            )
        template = checkpoint.Template.of(first)
        with explained(job.folder, fix):
            _tidy(job, str(template.home), say)
            journal = Journal(job.folder, say)
        with closing(journal):
            recorder = Recorder(job.folder, journal, template, period, total, again, spec.scaling, spec.task)
            start = checkpoint.newest(job.folder, template, len(journal.lines), say) or first
            if FEDERATION in spec.own and (dropped := journal.cut(start.round)):
                say(f"{dropped} rows of {job.folder} had no state any more: their rounds are played again")
            recorder.saved_round, rounds = start.round, play(problem, job.method, start)
            del first, start  # a method's state can be large
            _play(recorder, job, rounds, watch, requests)


def _tidy(job: PreparedRun, device: str, say: Callable[[str], None]) -> None:
    """Remove half-written files, write `run.json` if it is missing, and report if the machine or a version changed."""
    for left in (*job.folder.glob("*.tmp"), job.folder / TRACEBACK):
        left.unlink(missing_ok=True)
    if not present(job.folder / RUN):
        write_run(job.folder, job.spec, device)
    for change in changes(job.folder, device):
        say(f"{job.folder} resumes elsewhere than it began ({change}): results may differ")


def _play(
    recorder: Recorder, job: PreparedRun, rounds: Iterator[tuple[Row, Snapshot]], watch: Watch, requests: StopRequests
) -> None:
    """Play and record; leave a status and a checkpoint however it ends."""
    label, total = job.spec.label, recorder.total
    recorder.status("running")
    watch(Progress(label, recorder.saved_round, total, again=recorder.resume, folder=job.folder))
    until = until_of(job.spec)
    state, message = "finished", until.after_all(map(rows.decode, recorder.journal.lines[: recorder.saved_round]))
    try:
        for row, after in rounds if not message else ():
            recorder.put(row, after)
            told = Progress(label, after.round, total, row=row, again=recorder.resume, folder=job.folder)
            watch(told._replace(task=job.spec.task))
            if message := until.after(row):
                break
            if after.round < total:
                requests.check()
    except Diverged as error:
        state, message = "diverged", str(error)
    except KeyboardInterrupt:
        recorder.save()
        recorder.status("interrupted", "stopped by the user")
        raise
    except DiskError as error:
        with suppress(DiskError):  # the disk may still be full; without a status the run counts as interrupted
            recorder.status("interrupted", str(error))
        raise
    except Exception as error:
        if isinstance(error, OutOfMemory) or gpu_is_full(error):
            message = f"{_in_one_sentence(error)}; then resume with `{recorder.resume}`"
            recorder.save()
            recorder.status("interrupted", message)
            raise OutOfMemory(message) from error
        write_traceback(job.folder, error)
        recorder.status("failed", f"{type(error).__name__}: {error}")
        raise
    recorder.save()
    recorder.status(state, message)
    watch(Progress(label, len(recorder.journal.lines), total, state, note=message, folder=job.folder))


def _in_one_sentence(error: Exception) -> str:
    """One sentence that says what ran out of memory and what to do."""
    if isinstance(error, OutOfMemory):
        return str(error)
    what = str(error).splitlines()[0].rstrip(".") or "no more was given"
    fix = "let fewer runs share it, lower train.gpu_gib, train.batch_size or the devices of a round"
    return f"the GPU ran out of memory ({what}): {fix}"


def write_traceback(folder: Path, error: Exception) -> None:
    """Write the traceback of an exception to the folder of its run."""
    with explained(folder, "then start again"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / TRACEBACK).write_text("".join(traceback.format_exception(error)), encoding="utf-8")
