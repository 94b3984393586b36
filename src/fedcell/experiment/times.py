"""How long runs take on a CPU and on a GPU, estimated from the seconds of runs on file.

The estimate of a run is the first of these that is known:

1. the mean time of runs of the same case on that kind of device;
2. the time per round of runs like it in its store (trained or computed, the same data set and network);
3. its time on the other kind of device, times the ratio of both for rounds with this data set and kind of network.

What is computed without training takes as long on both kinds. Runs without any estimate are counted apart.
"""

import json
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
COMPUTED = "computed"  # the likeness of runs without training
NETWORK = ("name", "hidden", "channels", "width", "layers")  # what of `model` makes one train longer than another


class Run(NamedTuple):
    """A run, with what tells how long it may take."""

    store: Path
    same: str  # what it depends on
    case: str
    like: str  # equal for runs whose rounds take about equally long
    rounds: int

    @property
    def seed(self) -> int:
        _, seed, _ = json.loads(self.same)
        return int(seed)


class Clock(NamedTuple):
    """Seconds on average: of a run by (device, store, case), of a round by (device, store, like); CPU over GPU."""

    of_case: Mapping[tuple[str, Path, str], float]
    of_round: Mapping[tuple[str, Path, str], float]
    ratios: Mapping[str, float]  # by what `kind` says of a run

    def expected_s(self, device: str, run: Run) -> float | None:
        """What a run takes, None if nothing is known."""
        here = self._known_s(device, run)
        other, ratio = self._known_s(GPU if device == CPU else CPU, run), self.ratios.get(kind(run.like))
        if here is not None or other is None or ratio is None:
            return here
        return other * ratio if device == CPU else other / ratio

    def _known_s(self, device: str, run: Run) -> float | None:
        per_round_s = self.of_round.get((device, run.store, run.like))
        comparable_s = None if per_round_s is None else per_round_s * run.rounds
        return self.of_case.get((device, run.store, run.case), comparable_s)


class Workload(NamedTuple):
    """Runs of some experiments, and those of them that are not on file; what is shared counts for the first."""

    wanted: dict[Run, ExperimentFile]
    missing: dict[Run, ExperimentFile]
    clock: Clock

    def seconds(self, device: str, runs: Iterable[Run] | None = None) -> tuple[float, int]:
        """(seconds of the runs that something is known of, runs of which nothing is); of all wanted ones if None."""
        every = [self.clock.expected_s(device, run) for run in (self.wanted if runs is None else runs)]
        return sum(one for one in every if one is not None), every.count(None)

    def lacking(self) -> dict[ExperimentFile, list[Run]]:
        """The missing runs by experiment."""
        found: dict[ExperimentFile, list[Run]] = defaultdict(list)
        for run, entry in self.missing.items():
            found[entry].append(run)
        return found


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
                every = {
                    Run(store, stores.lasting(key), case.key, *likeness(key, not case.measure)): key
                    for key, (case, _) in runs.items()
                }
                wanted |= {run: entry for run in every if run not in wanted}
                missing |= {run: entry for run, key in every.items() if key in lacking and run not in missing}
                if store not in read:
                    read.add(store)
                    timed += [(store, line) for line in stores.lines(store).values() if "machine_s" in line]
    return Workload(wanted, missing, clock(timed))


def likeness(key: str, trained: bool) -> tuple[str, int]:
    """(a text that is equal for runs whose rounds take about equally long, rounds) by what a run depends on.

    Args:
        key: as in a store.
        trained: or computed at once, which counts as one round.
    """
    if not trained:
        return COMPUTED, 1
    _, _, settings = json.loads(key)
    config = settings["config"]
    network = [config["model"].get(name) for name in NETWORK]
    return json.dumps([config["data"]["name"], *network]), config["rounds"]


def kind(like: str) -> str:
    """Of what `likeness` says, what makes one device quicker than another: the data set and the kind of network."""
    return like if like == COMPUTED else json.dumps(json.loads(like)[:2])


def clock(timed: Iterable[tuple[Path, dict[str, Any]]]) -> Clock:
    """Averages over lines of stores."""
    cases: dict[tuple[str, Path, str], list[float]] = defaultdict(list)
    of_round: dict[tuple[str, Path, str], list[float]] = defaultdict(list)
    for store, line in timed:
        row = line["row"]
        device = CPU if row["made_by"]["device"] == CPU else GPU
        like, rounds = likeness(line["key"], trained="accuracy" in row)
        cases[device, store, row["case"]].append(line["machine_s"])
        of_round[device, store, like].append(line["machine_s"] / rounds)
    per_round = {key: fmean(values) for key, values in of_round.items()}
    both: dict[str, list[float]] = defaultdict(list)
    for (device, store, like), seconds in per_round.items():
        if device == CPU and per_round.get((GPU, store, like)):
            both[kind(like)].append(seconds / per_round[GPU, store, like])
    ratios = {name: median(values) for name, values in both.items()} | {COMPUTED: 1.0}
    return Clock({key: fmean(values) for key, values in cases.items()}, per_round, ratios)


def about(seconds: float, unknown: int) -> str:
    """A time of some runs, and how many of them it leaves out.

    >>> about(90.0, 0), about(90.0, 2), about(0.0, 3), about(0.0, 0)
    ('1.50 min', '1.50 min + 2 ?', '3 ?', '0')
    """
    left_out = f"{unknown} ?" if unknown else ""
    return " + ".join(text for text in (human(seconds, TIMES) if seconds or not unknown else "", left_out) if text)


def told(whole: Workload) -> str:
    """How many runs there are, how many are not on file, and how long all of them take one after the other."""
    n, lacking = len(whole.wanted), len(whole.missing)
    words = []
    for device, name in ((CPU, "a CPU"), (GPU, "a GPU")):
        seconds, unknown = whole.seconds(device)
        if unknown < n:
            words.append(f"about {human(seconds, TIMES)} on {name}{and_untimed(unknown)}")
    took = f"; all of them, one by one: {'; '.join(words)}" if words else "; none of them was timed yet"
    return f"{n} runs in all full grids, {lacking} not on file{took}."


def and_untimed(n: int) -> str:
    """What to add to a time if there are runs that it leaves out.

    >>> and_untimed(0), and_untimed(1), and_untimed(2)
    ('', ' and 1 run of unknown length', ' and 2 runs of unknown length')
    """
    return f" and {n} run{'s' * (n > 1)} of unknown length" if n else ""
