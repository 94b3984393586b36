"""Runs of a sweep beside each other on one GPU against one after the other: rounds per second.

    python benchmarks/side_by_side.py [--runs 10] [--rounds 300] [--alone 3] [--only lenet] [--quick]

Both ways are `fedcell.sweep` on seeds: with a worker for each run, which share the GPU as its memory has room, and with
one worker. Start-up (processes, PyTorch, CUDA, the first `WARM` rounds of every run) is told apart: the rates beside
each other count from the moment that the last run is warm until the first one ends, those of a run by itself from its
own. One after the other, `--alone` runs are enough to know the rate. `whole` compares the seconds of ten runs with all
start-up, those of one after the other from as many runs as were made. `--quick` is a try of the script, on any machine.
"""

import argparse
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch

import fedcell
from fedcell.data import Dataset
from fedcell.record import Progress

WARM = 10  # rounds of a run until its graphs are recorded and its kernels are built
BAR = 5.0  # times the rate of one after the other, ten runs on one H200
SAMPLES, TESTED, CLASSES = 12_000, 2_000, 10


class Load(NamedTuple):
    """What every run does."""

    title: str
    scenario: str
    method: str
    settings: dict[str, Any]
    small: dict[str, Any]  # what `--quick` changes
    made_up: bool = False  # whether its samples are, in the shape of MNIST


LOADS = {
    "lenet": Load(
        "LeNet, 10 of 100 devices, 5 steps of 32",
        *("mnist", "fedavg:scheduler=random,n_selected=10"),
        {"model.channels": (10, 20), "model.hidden": (50,), "eval_every": 10},
        {"world.n_devices": 20},
        made_up=True,
    ),
    "cnn": Load(
        "CNN of osafl_cnn, 100 devices, up to 5 steps of 32",
        *("osafl_cnn", "osafl"),
        {"eval_every": 10},
        {"world.n_devices": 3, "train.batch_size": 4, "osafl.lr": 0.001},
    ),
}


class Stopwatch:
    """A watcher that notes when every run had done how many rounds."""

    def __init__(self) -> None:
        self.begun_s = perf_counter()
        self.seen: dict[str, list[tuple[float, int]]] = {}

    def __call__(self, progress: Progress) -> None:
        if progress.row is not None:
            self.seen.setdefault(progress.label, []).append((perf_counter() - self.begun_s, progress.done))

    def when(self, label: str, rounds: int) -> float:
        """Seconds from the start of the sweep until a run had done so many rounds."""
        at_s, done = zip(*self.seen[label], strict=True)
        return float(np.interp(rounds, done, at_s))

    def done(self, label: str, at_s: float) -> float:
        """Rounds that a run had done then."""
        times, done = zip(*self.seen[label], strict=True)
        return float(np.interp(at_s, times, done))


class Way(NamedTuple):
    """One sweep."""

    rate: float  # rounds per second, of all runs together, once they are warm
    ready_s: float  # until all that run together are warm
    whole_s: float  # of a run: of the sweep over their number


def sweep(load: Load, seeds: range, rounds: int, workers: int, data: Dataset | None, quick: bool) -> Way:
    """Do the runs in a folder of their own."""
    settings = {**load.settings, **(load.small if quick else {}), "rounds": rounds}
    with tempfile.TemporaryDirectory() as place:
        watch = Stopwatch()
        infos = fedcell.sweep(
            load.method,
            load.scenario,
            seeds=seeds,
            settings=settings,
            dataset=data,
            out=Path(place) / "sweep",
            workers=workers,
            watch=watch,
        )
        whole_s = perf_counter() - watch.begun_s
    for info in infos:
        if info.state != "finished":
            raise SystemExit(f"{info.folder.name}: {info.state}, {info.message}")
    warm = min(WARM, rounds // 2)
    labels = list(watch.seen)
    warm_s, end_s = ([watch.when(label, count) for label in labels] for count in (warm, rounds))
    if workers == 1:
        spent_s = sum(end - begin for begin, end in zip(warm_s, end_s, strict=True))
        return Way(len(labels) * (rounds - warm) / spent_s, warm_s[0], whole_s / len(labels))
    begin, end = max(warm_s), min(end_s)
    if end <= begin:
        raise SystemExit("the first run ended before the last one was warm: give more --rounds")
    moved = sum(watch.done(label, end) - watch.done(label, begin) for label in labels)
    return Way(moved / (end - begin), begin, whole_s / len(labels))


def made_up() -> Dataset:
    """Samples of ten classes in the shape of MNIST."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, SAMPLES + TESTED)
    x = rng.normal(size=(CLASSES, 1, 28, 28))[y] + rng.normal(size=(len(y), 1, 28, 28))
    shown = x.astype(np.float32)
    return fedcell.from_arrays(shown[:SAMPLES], y[:SAMPLES], shown[SAMPLES:], y[SAMPLES:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=300, help="of every run; enough for all to be warm together")
    parser.add_argument("--alone", type=int, default=3, help="runs one after the other")
    parser.add_argument("--only", choices=list(LOADS), action="append")
    parser.add_argument("--quick", action="store_true", help="two small runs")
    asked = parser.parse_args()
    runs, rounds, alone = (2, 40, 1) if asked.quick else (asked.runs, asked.rounds, asked.alone)
    if runs < 2 or alone < 1 or rounds < 2 * WARM:
        raise SystemExit(f"give 2 --runs, 1 --alone and {2 * WARM} --rounds at least")
    judged = runs == 10 and torch.cuda.is_available()
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"torch {torch.__version__}, {where}, {runs} runs of {rounds} rounds, {alone} one after the other")
    for name in asked.only or LOADS:
        load = LOADS[name]
        data = made_up() if load.made_up else None
        together = sweep(load, range(1, runs + 1), rounds, runs, data, asked.quick)
        single = sweep(load, range(1, alone + 1), rounds, 1, data, asked.quick)
        ratio = together.rate / single.rate
        verdict = f" (bar {BAR:g}: {'holds' if ratio >= BAR else 'MISSED'})" if judged else ""
        print(
            f"{load.title}: {together.rate:.1f} rounds/s beside each other, {single.rate:.1f} one after the other, "
            f"{ratio:.2f} times{verdict}\n"
            f"  warm after {together.ready_s:.1f} s and {single.ready_s:.1f} s; whole, of {runs} runs: "
            f"{runs * together.whole_s:.1f} s and {runs * single.whole_s:.1f} s, "
            f"{single.whole_s / together.whole_s:.2f} times",
            flush=True,
        )


if __name__ == "__main__":
    main()
