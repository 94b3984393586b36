"""Runs that decide claims: cases over seeds, kept in stores.

Experiments that are decided by the same runs name the same store and share them; a run that is on file with the same
settings is not repeated, and one that was interrupted resumes (`under_way`).
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import torch

from .. import methods
from ..data import Dataset, load, scaled
from ..data.generated import GENERATORS
from ..errors import Diverged
from ..machine import cores
from ..options import to_dict
from ..record import made_by
from ..scenarios import Config, build_problem
from ..simulate import simulate
from ..types import Problem
from .pool import Job, Timed, play
from .stores import Row, append, done, lasting, method_config
from .under_way import Way, folder_of, played

GPU_SHARE = 0.8  # of a GPU's memory for the cohorts of runs side by side; the rest is for CUDA and what methods keep


class Case(NamedTuple):
    """One run to do for every seed. `config.seed` is replaced by the harness."""

    key: str
    config: Config
    method: str
    settings: Mapping[str, Any] = {}
    build: Callable[[Config], Problem] | None = None  # for a problem beyond settings; importable, for other processes
    most_seeds: int | None = None  # a costly case runs on the first so many seeds alone
    seeds: Sequence[int] = ()  # its own instead of 1..N, such as fresh ones for a setting that was chosen after results
    measure: Callable[[Config], Mapping[str, Any]] | None = None  # columns, computed without training; on all its seeds


def run_case(case: Case, seed: int, way: Way | None = None) -> Row:
    """Simulate one case on one seed: curves at the evaluated rounds, totals, and the method's own columns.

    A run that diverges is a result: `diverged` says how, and its curves continue as NaN, its columns as None. With a
    `way` it resumes what an earlier try left there, and leaves its state there.
    """
    config = replace(case.config, seed=seed)
    if case.measure:
        return {"case": case.key, "seed": seed, "made_by": maker("cpu"), **case.measure(config)}
    problem = (case.build or build)(config)
    method = methods.load(case.method).build(method_config(case.method, case.settings))
    rows, how = [], {}
    try:
        for row in played(problem, method, way) if way else (row for row, _ in simulate(problem, method)):
            rows.append(row)
    except Diverged as error:
        how = {"diverged": str(error)}
    judged = [row for row in rows if "accuracy" in row.metrics]
    own = {name for row in rows for name in row.metrics} - {"accuracy", "loss"}
    lost = [n for n in range(len(rows) + 1, config.rounds + 1) if n % config.eval_every == 0 or n == config.rounds]
    nothing, unplayed = [math.nan] * len(lost), [None] * (config.rounds - len(rows))
    return {
        "case": case.key,
        "seed": seed,
        **how,
        "rounds": [row.round + 1 for row in judged] + lost,
        "accuracy": [row.metrics["accuracy"] for row in judged] + nothing,
        "loss": [row.metrics["loss"] for row in judged] + nothing,
        "final_accuracy": math.nan if how else judged[-1].metrics["accuracy"],
        "best_accuracy": max((row.metrics["accuracy"] for row in judged), default=math.nan),
        "seconds": [row.clock_s for row in judged] + nothing,
        "clock_s": rows[-1].clock_s if rows else 0.0,
        "joules": sum(row.joule for row in rows),
        "uplink_bit": sum(row.uplink_bit for row in rows),
        "made_by": maker(problem.learner.device.type),
        **{name: [row.metrics.get(name) for row in rows] + unplayed for name in sorted(own)},
    }


def build(config: Config) -> Problem:
    """The problem of the settings; a data set is read once for all runs of a process."""
    return build_problem(config, None if config.data.name in GENERATORS else data_of(config))


def data_of(config: Config) -> Dataset:
    """The data set of the settings, scaled as they say, kept."""
    return read_once(config.data.name, config.data.scaling)


@cache
def read_once(name: str, scaling: str) -> Dataset:
    """A data set by its name or path, kept."""
    return scaled(load(name), scaling, reuse=True)


def run_cases(
    cases: Sequence[Case],
    seeds: Sequence[int],
    store: Path,
    say: Callable[[str], None],
    workers: int = 1,
    only: str = "",
    until_s: float = inf,
) -> list[Row]:
    """Every case on every seed; runs already in `store` with the same settings are not repeated.

    Args:
        cases: what to run.
        seeds: seeds of every case, as far as the case allows; a case with seeds of its own runs on as many of those.
        store: file that runs are read from and added to.
        say: gets a line for every finished run.
        workers: processes side by side; 0: as many as there are cores.
        only: run nothing but cases with this text in their key.
        until_s: when to stop, as `time.time()` counts; runs under way then leave their state.

    Returns: the rows of all cases, as far as they have been run by now.
    """
    todo = missing_runs(cases, seeds, store, only)
    jobs: dict[str, Job] = {key: partial(timed, *pair) for key, pair in todo.items()}
    ways = {key: way_of(store, key, until_s) for key in todo}
    for number, (key, found) in enumerate(play(jobs, ways, workers or cores()), 1):
        keep(store, key, found, ways[key])
        say(told(found.row, number, len(todo)))
    return _on_file(done(store), _wanted(cases, seeds, len(seeds)))  # other processes may have added runs meanwhile


def way_of(store: Path, key: str, until_s: float) -> Way:
    """Where a run of a store leaves its state, with the versions and the kind of device at hand."""
    return Way(folder_of(store, key, maker("cuda" if torch.cuda.is_available() else "cpu")), until_s)


def keep(store: Path, key: str, found: Timed, way: Way) -> None:
    """Put a finished run on file."""
    store.parent.mkdir(parents=True, exist_ok=True)
    append(store, {"key": key, "row": found.row, "machine_s": found.machine_s})
    way.forget()


def told(row: Row, number: int, of: int) -> str:
    """A finished run in one line."""
    how = row.get("diverged") or (f"accuracy {row['final_accuracy']:.3f}" if "accuracy" in row else "computed")
    return f"[{number}/{of}] {row['case']}, seed {row['seed']}: {how}"


def stored_rows(cases: Sequence[Case], store: Path) -> list[Row]:
    """The rows of all cases that `store` has, with the same settings, on any seed that the case allows."""
    found = done(store)
    return [found[same] for same in ids_of(cases, list(found.values())) if same in found]


def ids_of(cases: Sequence[Case], rows: Sequence[Row]) -> list[str]:
    """What the runs of all cases depend on, lastingly, on all seeds that rows have and the case allows."""
    seeds = sorted({row["seed"] for row in rows})
    return [lasting(key) for key in _wanted(cases, seeds, n_own=None)]


def _on_file(found: Mapping[str, Row], wanted: Mapping[str, tuple[Case, int]]) -> list[Row]:
    return [found[same] for same in map(lasting, wanted) if same in found]


def missing_runs(
    cases: Sequence[Case], seeds: Sequence[int], store: Path, only: str = ""
) -> dict[str, tuple[Case, int]]:
    """The runs that `store` lacks, by what they depend on; `only` as for `run_cases`."""
    found = done(store)
    return {key: pair for key, pair in wanted_runs(cases, seeds, only).items() if lasting(key) not in found}


def wanted_runs(cases: Sequence[Case], seeds: Sequence[int], only: str = "") -> dict[str, tuple[Case, int]]:
    """All runs of the cases, by what they depend on; `only` as for `run_cases`."""
    return _wanted([case for case in cases if only in case.key], seeds, len(seeds))


def _wanted(cases: Sequence[Case], seeds: Sequence[int], n_own: int | None) -> dict[str, tuple[Case, int]]:
    """Every case with its seeds, of its own ones the first `n_own` (None: all)."""
    found = {}
    for case in cases:
        own = _seeds(case, seeds, n_own)
        found.update({key: (case, seed) for key, seed in zip(_keys(case, own), own, strict=True)})
    return found


def _seeds(case: Case, seeds: Sequence[int], n_own: int | None) -> Sequence[int]:
    if case.seeds:
        return case.seeds if case.measure else case.seeds[:n_own]
    return [seed for seed in seeds if seed <= (case.most_seeds or seed)]


def _keys(case: Case, seeds: Sequence[int]) -> Iterator[str]:
    """What the run on every seed depends on, as a text: all settings of world and method, also those not given."""
    own = to_dict(method_config(case.method, case.settings))
    config = to_dict(case.config)
    for seed in seeds:
        settings = {"config": {**config, "seed": seed}, "method": case.method, **own}
        yield json.dumps([case.key, seed, settings], sort_keys=True)


def timed(case: Case, seed: int, way: Way, side_by_side: int = 1) -> Timed:
    """`run_case` with its time; runs that share a GPU have as much of its memory each."""
    began_s, spent_s = perf_counter(), way.spent_s
    if side_by_side > 1 and torch.cuda.is_available() and not case.config.train.gpu_gib:
        gib = GPU_SHARE * torch.cuda.mem_get_info()[1] / 2**30 / side_by_side
        case = case._replace(config=replace(case.config, train=replace(case.config.train, gpu_gib=gib)))
    try:
        row = run_case(case, seed, way)
    except Exception as error:
        error.add_note(f"in the run {case.key}, seed {seed}")
        raise
    return Timed(row, (spent_s + perf_counter() - began_s) / side_by_side)


def seeds_of(rows: Sequence[Row]) -> list[int]:
    """The seeds that have runs."""
    return sorted({row["seed"] for row in rows})


def maker(device: str) -> dict[str, str]:
    """The versions and the kind of device behind a result."""
    return {name: value for name, value in made_by(device).items() if name != "platform"}
