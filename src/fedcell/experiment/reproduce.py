"""Several experiments one after the other: what is on file is not repeated, and one that fails stops no other."""

import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch

from ..effort import Effort
from ..errors import FedcellError
from ..report.table import TIMES, human
from .catalogue import ExperimentFile, load, opened
from .frame import Experiment, judge, refuse_unmatched, rows_of, text, write
from .ledger import present, read_result
from .runs import seeds_of
from .stores import Row
from .times import CPU, GPU, Run, Workload, and_untimed, clock, work
from .together import run_together
from .verdicts import RULES, Claim, Finding, Part

Say = Callable[[str], None]


class Reproduction(NamedTuple):
    """How it went with one experiment."""

    entry: ExperimentFile
    text: str = ""  # claims and verdicts for a person
    claims: Sequence[Claim] = ()
    findings: Sequence[Finding] = ()
    seeds: Sequence[int] = ()
    on_file: Mapping[str, str] = {}  # verdict by claim of the clone's result, as it was before
    note: str = ""  # why nothing was written
    failed: bool = False

    @property
    def changed(self) -> dict[str, tuple[str, str]]:
        """Verdicts that differ from those on file: claim -> (on file, now)."""
        now = {finding.claim: finding.verdict for finding in self.findings}
        return {key: (old, now[key]) for key, old in self.on_file.items() if now.get(key, old) != old}


def reproduce(chosen: Sequence[ExperimentFile], effort: Effort, out: Path | None, say: Say) -> Iterator[Reproduction]:
    """Run, judge and write experiments; outcomes come as they end.

    Args:
        chosen: what to run, the experiments of a paper side by side.
        effort: how much.
        out: write to `out/<paper>`; None: to the results of the clone, where a result of more seeds or runs stays.
        say: gets a line for every run that ends.
    """
    groups = [list(group) for _, group in groupby(chosen, lambda entry: entry.path.parent)]
    if effort.only:
        refuse_unmatched([key for group in groups for key in _keys(group, effort)], effort)
    tell = _Counted(Workload({}, {}, clock(())) if effort.stored else work(chosen, effort, out), say)
    if effort.workers != 1 and not effort.stored:
        run_together(chosen, effort, lambda entry: results_of(entry, out), tell.run)
    for group in groups:
        with opened(group[0].path.parent):
            yield from (_one(entry, effort, out, tell) for entry in group)
    if time.time() >= effort.until_s:
        say(f"time is up with {tell.total - tell.done} runs to do: the same command continues")


def results_of(entry: ExperimentFile, out: Path | None) -> Path:
    """The folder that the results of an experiment go to."""
    return out / entry.paper if out else entry.results


class _Counted:
    """Reports every finished run with its number among all of them and the time that is left.

    A run is expected to take as long per round as runs like it that ended here. Without any, times on file count, at
    the pace of the runs that ended here. Runs of which nothing is known are counted, not guessed.
    """

    def __init__(self, todo: Workload, say: Say) -> None:
        device = GPU if torch.cuda.is_available() else CPU
        self.expected_s = {run: todo.clock.expected_s(device, run) for run in todo.missing}
        self.open: dict[ExperimentFile, list[Run]] = defaultdict(list)
        for run, entry in todo.missing.items():
            self.open[entry].append(run)
        self.per_round_s: dict[tuple[Path, str], list[float]] = defaultdict(list)  # of runs that ended here
        self.known: list[tuple[float, float]] = []  # seconds that runs took and were expected to take
        self.total, self.done, self.say, self.last_s = len(todo.missing), 0, say, time.monotonic()
        seconds, untimed = self._left()
        if untimed < self.total:
            about = f"about {human(seconds, TIMES)} one by one on this kind of device"
            say(f"{self.total} run{'s' * (self.total > 1)} to do, {about}{and_untimed(untimed)}")

    def run(self, entry: ExperimentFile, line: str) -> None:
        now_s = time.monotonic()
        took_s, self.last_s, self.done = now_s - self.last_s, now_s, self.done + 1
        if ended := self._ended(entry, line):
            self.per_round_s[ended.store, ended.like].append(took_s / ended.rounds)
            if expected_s := self.expected_s[ended]:
                self.known.append((took_s, expected_s))
        rest = ""
        if self.total > self.done:
            seconds, untimed = self._left()
            known = f"about {human(seconds, TIMES)}{and_untimed(untimed)}"
            rest = f", {known} left" if seconds else f", {untimed} of unknown length left"
        self.say(f"{entry} {line} (run {self.done} of {max(self.total, self.done)}{rest})")

    def _ended(self, entry: ExperimentFile, line: str) -> Run | None:
        """The run that a line tells of; None if it was not among those to do."""
        for run in self.open[entry]:
            if f"] {run.case}, seed {run.seed}:" in line:
                self.open[entry].remove(run)
                return run
        return None

    def _left(self) -> tuple[float, int]:
        """(seconds of all runs to do that something is known of, runs of which nothing is)."""
        took_s, expected_s = (sum(part) for part in zip(*self.known, strict=True)) if self.known else (1.0, 1.0)
        seconds, untimed = 0.0, 0
        for run in (run for runs in self.open.values() for run in runs):
            here_s, on_file_s = self.per_round_s.get((run.store, run.like)), self.expected_s[run]
            if here_s:
                seconds += fmean(here_s) * run.rounds
            elif on_file_s is not None:
                seconds += on_file_s * took_s / expected_s
            else:
                untimed += 1
        return seconds, untimed


def _keys(group: Sequence[ExperimentFile], effort: Effort) -> list[str]:
    """The names of all cases of a paper; what does not load is reported when its turn comes."""
    with opened(group[0].path.parent):
        try:
            return [case.key for entry in group for case in load(entry).cases(effort.quick)]
        except Exception:
            return [effort.only]


def _one(entry: ExperimentFile, effort: Effort, out: Path | None, tell: _Counted) -> Reproduction:
    try:
        return _carry_out(entry, effort, out, tell)
    except FedcellError as error:
        return Reproduction(entry, note=_why(error, str(error)), failed=True)
    except Exception as error:
        tell.say(traceback.format_exc().rstrip())
        return Reproduction(entry, note=_why(error, f"{type(error).__name__}: {error}"), failed=True)


def _carry_out(entry: ExperimentFile, effort: Effort, out: Path | None, tell: _Counted) -> Reproduction:
    experiment = load(entry)
    results = results_of(entry, out)
    rows = rows_of(experiment, entry.name, results, effort, lambda line: tell.run(entry, line))
    old = read_result(results / f"{entry.name}.json")
    note = "" if effort.quick or old is None or (effort.stored and rows) else _richer(old, rows)
    if effort.stored and not rows and experiment.cases(effort.quick):
        note = note or "nothing written: no run is on file"
    if old and note and not rows:  # a fresh clone has results, but not the runs behind them
        findings = _findings(experiment, old)
        seeds = old["seeds"]
        shown = f"{experiment.title}: verdicts on file, seeds {seeds}"
    else:
        findings = judge(experiment, rows)
        seeds = seeds_of(rows)
        shown = text(experiment, rows, findings, effort.quick)
    in_clone = read_result(entry.results / f"{entry.name}.json") or {"claims": ()}
    before = {claim["key"]: claim["verdict"] for claim in in_clone["claims"]}
    if not note:
        write(experiment, entry.name, rows, findings, results, effort)
    return Reproduction(entry, shown, experiment.claims, findings, seeds, {} if effort.quick else before, note)


def _richer(old: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Why the result on file stays; empty if it may be replaced, as one by older rules may."""
    if rows and old.get("rules") != RULES:
        return ""
    for word, had, has in (
        ("seeds", len(old["seeds"]), len(seeds_of(rows))),
        ("runs", old.get("runs", 0), len(rows)),
    ):
        if has < had:
            return f"the result on file stays: it is from {had} {word}, this one from {has} (--out DIR keeps both)"
    return ""


def _findings(experiment: Experiment, result: Mapping[str, Any]) -> list[Finding]:
    stored = {claim["key"]: _finding(present(claim, result)) for claim in result["claims"]}
    missing = Finding("", "", "not run", "not in the result on file")
    return [stored.get(claim.key, missing._replace(claim=claim.key)) for claim in experiment.claims]


def _finding(claim: Mapping[str, Any]) -> Finding:
    """A finding of a stored result; older ones have no parts."""
    parts = tuple(Part(**part) for part in claim.get("parts", ()))
    return Finding(claim["key"], claim["ours"], claim["verdict"], claim["reason"], claim.get("n"), parts)


def _why(error: Exception, words: str) -> str:
    return ", ".join([words, *getattr(error, "__notes__", ())])
