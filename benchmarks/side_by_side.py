"""Runs of a sweep beside each other on one GPU against one run by itself: rounds per second.

    python benchmarks/side_by_side.py [--runs 10] [--window 6] [--only lenet] [--mps both] [--out FILE] [--quick]

Both ways are `fedcell.sweep` on seeds: with a worker for each run, which share the GPU as its memory has room, and with
one worker, which does one run at a time. Rounds are counted for `--window` seconds, which begin when the last run is
warm (`WARM` rounds), and then the sweep is stopped; start-up (processes, PyTorch, CUDA, the warm rounds) is told apart.
With `--mps` the workers share the GPU by NVIDIA's multi-process service (`FEDCELL_MPS=1`); `both` measures with and
without. `busy` is the share of the time in which a kernel ran, as `nvidia-smi` samples it: without the service, runs
beside each other can be `1 / busy` times one by itself at most. Numbers are stored in `--out`, by default in the folder
that the variable OUT names, if it is set. `--quick` is a try of the script, on any machine.
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch

import fedcell
from fedcell.data import Dataset
from fedcell.errors import FedcellError
from fedcell.record import Progress
from fedcell.sweeps import mps

WARM = 10  # rounds of a run until its graphs are recorded and its kernels are built
MANY = 100_000  # rounds of a run, so that none ends by itself
PATIENCE_S = 60.0  # until all runs are warm
BAR = 5.0  # times the rate of one by itself, ten runs on one H200
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
    """A watcher that counts rounds once all runs are warm, and stops the sweep when the window is over."""

    def __init__(self, runs: int, window_s: float) -> None:
        self.runs, self.window_s = runs, window_s
        self.begun_s = perf_counter()
        self.seen: dict[str, list[tuple[float, int]]] = {}
        self.warm_s: float | None = None  # since the start, of the last run
        self.gpu = Busy()

    def __call__(self, progress: Progress) -> None:
        now_s = perf_counter() - self.begun_s
        if progress.row is not None:
            self.seen.setdefault(progress.label, []).append((now_s, progress.done))
            if self.warm_s is None and sum(told[-1][1] >= WARM for told in self.seen.values()) == self.runs:
                self.warm_s = now_s
                self.gpu.begin()
        if now_s > (PATIENCE_S if self.warm_s is None else self.warm_s + self.window_s):
            raise KeyboardInterrupt

    def rate(self) -> float:
        """Rounds per second of all runs together, in the window."""
        if self.warm_s is None:
            raise SystemExit(
                f"{len(self.seen)} of {self.runs} runs told of rounds in {PATIENCE_S:g} s: too slow to time"
            )
        moved = 0.0
        end_s = min(told[-1][0] for told in self.seen.values())
        for told in self.seen.values():
            at_s, done = zip(*told, strict=True)
            moved += float(np.interp(end_s, at_s, done) - np.interp(self.warm_s, at_s, done))
        return moved / (end_s - self.warm_s)


class Busy:
    """Samples of how busy the GPU is; none without `nvidia-smi`."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def begin(self) -> None:
        program = shutil.which("nvidia-smi", path=os.pathsep.join([os.environ.get("PATH", ""), mps.MORE_PATHS]))
        if program and torch.cuda.is_available():
            query = [program, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "500"]
            self.process = subprocess.Popen(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def end(self) -> float | None:
        """The mean share."""
        if self.process is None:
            return None
        self.process.terminate()
        found = [float(line) for line in self.process.communicate()[0].split() if line.isdecimal()]
        return sum(found[1:]) / len(found[1:]) / 100 if found[1:] else None


class Way(NamedTuple):
    """One sweep."""

    rate: float  # rounds per second, of all runs together, once they are warm
    ready_s: float  # until all that run together are warm
    busy: float | None  # share of the time in which the GPU had work


def sweep(load: Load, runs: int, window_s: float, data: Dataset | None, quick: bool, service: bool = False) -> Way:
    """Do the runs in a folder of their own, one worker for each, until the window is over."""
    settings = {**load.settings, **(load.small if quick else {}), "rounds": MANY}
    os.environ[mps.ASKED] = str(int(service))
    with tempfile.TemporaryDirectory() as place:
        watch = Stopwatch(runs, window_s)
        try:
            infos = fedcell.sweep(
                load.method,
                load.scenario,
                seeds=range(1, runs + 1),
                settings=settings,
                dataset=data,
                out=Path(place) / "sweep",
                workers=runs,
                watch=watch,
            )
        except KeyboardInterrupt:
            infos = []
        finally:
            busy = watch.gpu.end()
    for info in infos:  # all that ended by themselves
        raise SystemExit(f"{info.folder.name}: {info.state}, {info.message}")
    rate = watch.rate()
    assert watch.warm_s is not None
    return Way(rate, watch.warm_s, busy)


def made_up() -> Dataset:
    """Samples of ten classes in the shape of MNIST."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, SAMPLES + TESTED)
    x = rng.normal(size=(CLASSES, 1, 28, 28))[y] + rng.normal(size=(len(y), 1, 28, 28))
    shown = x.astype(np.float32)
    return fedcell.from_arrays(shown[:SAMPLES], y[:SAMPLES], shown[SAMPLES:], y[SAMPLES:])


def line(title: str, way: Way, alone: Way, bar: bool) -> list[str]:
    """A way as a row of the table."""
    ratio = way.rate / alone.rate
    verdict = f" ({'holds' if ratio >= BAR else 'MISSED'})" if bar else ""
    busy = "-" if way.busy is None else f"{way.busy:.0%}"
    return [title, f"{way.rate:.1f}", f"{ratio:.2f}{verdict}", f"{way.ready_s:.1f}", busy]


def measure(load: Load, asked: argparse.Namespace, runs: int, judged: bool) -> Iterator[tuple[str, Way]]:
    """One run by itself, then all beside each other, printed and told as they are found."""
    data = made_up() if load.made_up else None
    print(f"\n{load.title}\n| | rounds/s | times | warm after (s) | busy |\n|---|---|---|---|---|", flush=True)
    alone = sweep(load, 1, asked.window, data, asked.quick)
    print("| " + " | ".join(line("one run", alone, alone, False)) + " |", flush=True)
    yield "one run", alone
    for service in {"no": [False], "yes": [True], "both": [False, True]}[asked.mps]:
        title = f"{runs} runs, FEDCELL_MPS=1" if service else f"{runs} runs"
        try:
            way = sweep(load, runs, asked.window, data, asked.quick, service)
        except (FedcellError, SystemExit) as error:
            print(f"{title}: {error}", flush=True)
            continue
        print("| " + " | ".join(line(title, way, alone, judged)) + " |", flush=True)
        yield title, way


def place(asked: Path | None) -> Path | None:
    """The file to store numbers in."""
    folder = os.environ.get("OUT")
    return asked or (Path(folder) / "side-by-side.json" if folder else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--window", type=float, default=6.0, help="seconds in which rounds are counted")
    parser.add_argument("--only", choices=list(LOADS), action="append")
    parser.add_argument("--mps", choices=("no", "yes", "both"), default="no", help="NVIDIA's multi-process service")
    parser.add_argument("--out", type=Path, help="JSON file for the numbers")
    parser.add_argument("--quick", action="store_true", help="two small runs")
    asked = parser.parse_args()
    runs = 2 if asked.quick else asked.runs
    if runs < 2 or asked.window < 1:
        raise SystemExit("give 2 --runs and a --window of 1 at least")
    judged = runs == 10 and torch.cuda.is_available()
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"torch {torch.__version__}, {where}, {runs} runs, rounds of {asked.window:g} s, bar {BAR:g} times")
    stored: dict[str, Any] = {"gpu": where, "torch": torch.__version__, "runs": runs, "window_s": asked.window}
    for name in asked.only or LOADS:
        for title, way in measure(LOADS[name], asked, runs, judged):
            stored.setdefault(name, {})[title] = way._asdict()
            if file := place(asked.out):
                file.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
