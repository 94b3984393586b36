"""Do the missing runs of several experiments in one pool of processes, in the order in which the experiments are named.

Papers have helper modules of the same names, so that a process finds a run by the name of its experiment, case and
seed, with that paper alone opened.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from ..effort import Effort
from ..machine import cores
from .catalogue import ExperimentFile, load, opened
from .frame import store_of
from .pool import Job, Timed, outcomes
from .runs import keep, missing_runs, timed, told, way_of
from .under_way import Way

Key = tuple[ExperimentFile, str]  # an experiment, and what the run depends on


def run_together(
    chosen: Sequence[ExperimentFile],
    effort: Effort,
    results_of: Callable[[ExperimentFile], Path],
    say: Callable[[ExperimentFile, str], None],
) -> None:
    """Do what runs are missing and keep them. What fails, or does not load, is left to whoever asks for it next.

    Args:
        chosen: experiments, in the order of their runs.
        effort: how much of each.
        results_of: the folder of the results of an experiment.
        say: gets a line for every finished run.
    """
    jobs: dict[Key, Job] = {}
    stores: dict[Key, Path] = {}
    seen: set[tuple[Path, str]] = set()
    for folder, entries in groupby(chosen, lambda entry: entry.path.parent):
        with opened(folder):
            for entry in entries:
                try:
                    experiment = load(entry)
                    store = store_of(experiment, entry.name, results_of(entry), effort)
                    missing = missing_runs(experiment.cases(effort.quick), effort.numbers, store, effort.only)
                except Exception:  # its own turn says why
                    continue
                for key, (case, seed) in missing.items():
                    if (store, key) not in seen:  # another experiment may be decided by the same run
                        seen.add((store, key))
                        jobs[entry, key] = partial(run_named, entry, effort.quick, case.key, seed)
                        stores[entry, key] = store
    ways = {one: way_of(stores[one], one[1], effort.until_s) for one in jobs}
    numbers = {entry: sum(one[0] == entry for one in jobs) for entry, _ in jobs}
    done = dict.fromkeys(numbers, 0)
    for (entry, key), result in outcomes(jobs, ways, effort.workers or cores()):
        if isinstance(result, Exception):  # it fails again in the turn of its experiment, which says why
            continue
        keep(stores[entry, key], key, result, ways[entry, key])
        done[entry] += 1
        say(entry, told(result.row, done[entry], numbers[entry]))


def run_named(entry: ExperimentFile, quick: bool, key: str, seed: int, way: Way, side_by_side: int) -> Timed:
    """A run of an experiment by the name of its case."""
    with opened(entry.path.parent):
        case = next(case for case in load(entry).cases(quick) if case.key == key)
        return timed(case, seed, way, side_by_side)
