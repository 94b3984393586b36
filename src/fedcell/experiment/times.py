"""How long runs take: from the seconds of runs on file, on a CPU and on a GPU.

A run is expected to take what runs of the same case took on that kind of device, else what others of its store took,
else what it took on the other kind, times the ratio of cases that were timed on both. Runs of which none of this is
known are counted apart.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from ..effort import Effort
from ..report.table import TIMES, human
from . import stores
from .catalogue import ExperimentFile, load, opened
from .frame import store_of
from .runs import missing_runs, wanted_runs

CPU, GPU = "cpu", "cuda"
Run = tuple[Path, str, str]  # store, what it depends on, case


class Clock(NamedTuple):
    """Seconds that a run took on average: by (device, store, case), by (device, store), and CPU over GPU."""

    of_case: Mapping[tuple[str, Path, str], float]
    of_store: Mapping[tuple[str, Path], float]
    ratio: float | None

    def expected_s(self, device: str, run: Run) -> float | None:
        """What a run takes, None if nothing is known."""
        here = self._known_s(device, run)
        other = self._known_s(GPU if device == CPU else CPU, run)
        if here is not None or other is None or self.ratio is None:
            return here
        return other * self.ratio if device == CPU else other / self.ratio

    def _known_s(self, device: str, run: Run) -> float | None:
        store, _, case = run
        return self.of_case.get((device, store, case), self.of_store.get((device, store)))


class Workload(NamedTuple):
    """Runs of some experiments, and those of them that are not on file; what is shared counts for the first."""

    wanted: dict[Run, ExperimentFile]
    missing: dict[Run, ExperimentFile]
    clock: Clock

    def seconds(self, device: str) -> tuple[float, int]:
        """(seconds of all runs that something is known of, runs of which nothing is)."""
        every = [self.clock.expected_s(device, run) for run in self.wanted]
        return sum(one for one in every if one is not None), every.count(None)


def work(chosen: Sequence[ExperimentFile], effort: Effort, out: Path | None = None) -> Workload:
    """What the experiments need; one that does not load is left out here and reported when its turn comes."""
    wanted: dict[Run, ExperimentFile] = {}
    missing: dict[Run, ExperimentFile] = {}
    timed: list[tuple[Path, dict[str, Any]]] = []
    read: set[Path] = set()
    for _, group in groupby(chosen, lambda entry: entry.path.parent):
        entries = list(group)
        with opened(entries[0].path.parent):
            for entry in entries:
                try:
                    experiment = load(entry)
                    store = store_of(experiment, entry.name, out / entry.paper if out else entry.results, effort)
                    cases = experiment.cases(effort.quick)
                    runs = wanted_runs(cases, effort.numbers, effort.only)
                    lacking = missing_runs(cases, effort.numbers, store, effort.only)
                except Exception:
                    continue
                every = {(store, stores.lasting(key), case.key): key for key, (case, _) in runs.items()}
                wanted |= {run: entry for run in every if run not in wanted}
                missing |= {run: entry for run, key in every.items() if key in lacking and run not in missing}
                if store not in read:
                    read.add(store)
                    timed += [(store, line) for line in stores.lines(store).values() if "machine_s" in line]
    return Workload(wanted, missing, clock(timed))


def clock(timed: Iterable[tuple[Path, dict[str, Any]]]) -> Clock:
    """Averages over lines of stores."""
    cases: dict[tuple[str, Path, str], list[float]] = defaultdict(list)
    of: dict[tuple[str, Path], list[float]] = defaultdict(list)
    for store, line in timed:
        row = line["row"]
        device = CPU if row["made_by"]["device"] == CPU else GPU
        cases[device, store, row["case"]].append(line["machine_s"])
        of[device, store].append(line["machine_s"])
    of_case = {key: fmean(values) for key, values in cases.items()}
    both = [
        seconds / of_case[GPU, store, case]
        for (device, store, case), seconds in of_case.items()
        if device == CPU and of_case.get((GPU, store, case))
    ]
    return Clock(of_case, {key: fmean(values) for key, values in of.items()}, median(both) if both else None)


def told(whole: Workload) -> str:
    """How many runs there are, how many are not on file, and how long all of them take one after the other."""
    n, lacking = len(whole.wanted), len(whole.missing)
    words = []
    for device, name in ((CPU, "a CPU"), (GPU, "a GPU")):
        seconds, unknown = whole.seconds(device)
        if unknown < n:
            rest = f" and {unknown} runs that nobody timed" if unknown else ""
            words.append(f"about {human(seconds, TIMES)} on {name}{rest}")
    took = f"; all of them, one by one: {'; '.join(words)}" if words else "; none of them was timed yet"
    return f"{n} runs in all full grids, {lacking} not on file{took}."
