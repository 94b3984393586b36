"""Cohorts on one GPU: milliseconds per round against what memory and arithmetic allow, with and without graphs.

The workloads of `engine.py` with 100, 1,000 and 10,000 clients, every client with 3 steps of its batch. `graphs` is
the replay of a recorded step, `eager` launches its kernels one by one; both train the same clients, and their mean
updates are compared. The floor is the larger of two times: weights read and written once per step at the GPU's memory
rate, and the multiply-adds of forward and backward pass at its float32 rate.

    python benchmarks/gpu.py [--rounds 5] [--clients 100 1000 10000] [--only lenet] [--seconds 60] [--tf32] [--plain]

`--plain` leaves out the kernels of our own (`engines/gpu/kernels/`), as a PyTorch without Triton does; softmax
regression has no graphs with them, since one kernel does all steps.
Cohorts come by size, so that `--seconds`, after which no other one begins, leaves out the largest. Numbers are stored
in `--out`, by default in the folder that the variable OUT names, if it is set.
The rates of the floor are those of an H200 unless `--memory-tbps` and `--tflops` say otherwise.
"""

import argparse
import gc
import json
import os
from dataclasses import replace
from itertools import product
from math import inf
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from engine import LOADS, Load, setting
from scaling_page import fit

from fedcell.learn.engines.gpu import kernels
from fedcell.learn.engines.gpu.cuda_graphs import Cohort
from fedcell.learn.learner import Learner
from fedcell.learn.work import Work
from fedcell.types import Start, is_deferred

STEPS = 3
ENOUGH_S = 4.0  # of measured rounds: those of large cohorts take seconds each


def floor_s(learner: Learner, work: Work, memory_tbps: float, tflops: float) -> float:
    """Seconds that a round must take."""
    layout, n_steps = learner.architectures[0], float(work.steps.sum())
    sample = learner.train_samples.take(np.zeros(1, dtype=np.int64))[0][0].cpu()
    traffic = 2 * 4 * layout.n_params * n_steps / (memory_tbps * 1e12)
    return max(traffic, 3 * layout.flops_per_sample(sample) * work.batch_size * n_steps / (tflops * 1e12))


class Measured(NamedTuple):
    """One line of the table."""

    name: str
    n_clients: int
    graphs_s: float
    eager_s: float
    floor_s: float
    peak_gib: float
    apart: float  # mean updates of both ways, relative

    def line(self) -> str:
        seconds = (self.graphs_s, self.eager_s, self.floor_s)
        numbers = (*(1e3 * value for value in seconds), self.graphs_s / self.floor_s, self.peak_gib)
        shown = " | ".join(f"{value:,.0f}" if value >= 100 else f"{value:.2g}" for value in numbers)
        return f"| {self.name} | {self.n_clients:,} | {shown} | {self.apart:.0e} |"


HEAD = """
| workload | clients | graphs (ms) | eager (ms) | floor (ms) | graphs over floor | peak memory (GiB) | updates apart |
|---|---|---|---|---|---|---|---|"""


def played(learner: Learner, start: Start, work: Work) -> torch.Tensor:
    """The mean update of a round; large cohorts are added up as they are trained."""
    rows, n = learner.train(start, work).rows, len(work.steps)
    if is_deferred(rows):
        return rows.add_up(np.ones(n, dtype=np.bool_), np.full(n, 1 / n))
    return rows.mean(dim=0)


def timed(learner: Learner, start: Start, work: Work, rounds: int, graphs: bool) -> tuple[float, torch.Tensor]:
    """(median seconds of a round, its mean update); graphs come with the second round.

    Fewer than `rounds` are played if `ENOUGH_S` is over before.
    """
    warm = 2 if graphs else 1
    record = Cohort._record
    if not graphs:
        Cohort._record = lambda self, counts: None  # type: ignore[method-assign]
    try:
        seconds: list[float] = []
        while len(seconds) < warm + rounds and sum(seconds[warm:]) < ENOUGH_S:
            begin = perf_counter()
            mean = played(learner, start, work).cpu()  # which waits for it
            seconds.append(perf_counter() - begin)
    finally:
        Cohort._record = record  # type: ignore[method-assign]
    return float(np.median(seconds[warm:])), mean


def measure(name: str, load: Load, options: argparse.Namespace) -> Measured:
    learner, start, work = setting(load, torch.device("cuda"))
    learner.settings = replace(learner.settings, tf32=options.tf32)
    work = work._replace(steps=np.full(load.n_clients, STEPS))
    torch.cuda.reset_peak_memory_stats()
    eager_s, eager = timed(learner, start, work, options.rounds, graphs=False)
    graphs_s, graphs = timed(learner, start, work, options.rounds, graphs=True)
    apart = float((graphs - eager).norm() / eager.norm())
    least = floor_s(learner, work, options.memory_tbps, options.tflops)
    return Measured(name, load.n_clients, graphs_s, eager_s, least, torch.cuda.max_memory_allocated() / 2**30, apart)


def growth(found: list[Measured]) -> str:
    """Exponents of time by clients, over all points of a workload."""
    parts = []
    for name in dict.fromkeys(one.name for one in found):
        points = [{"value": one.n_clients, "s": one.graphs_s} for one in found if one.name == name]
        if len(points) > 1:
            parts.append(f"{name} {fit(points, 's')[1]:.2f}")
    return "Exponents of time by clients: " + ", ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--only", choices=list(LOADS), action="append")
    parser.add_argument("--seconds", type=float, default=inf, help="after which no other cohort begins")
    parser.add_argument("--out", type=Path, help="JSON file for the numbers")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--plain", action="store_true", help="PyTorch's kernels alone")
    parser.add_argument("--memory-tbps", type=float, default=4.8)
    parser.add_argument("--tflops", type=float, default=67.0)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this machine shows no CUDA GPU: benchmarks/engine.py measures CPUs")
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, median of {options.rounds}, tf32 {options.tf32}")
    if options.plain:
        kernels._loaded = lambda name: None  # type: ignore[assignment]
    print(HEAD)
    found, begun_s = list[Measured](), perf_counter()
    for n_clients, name in product(options.clients, options.only or LOADS):
        if perf_counter() - begun_s > options.seconds:
            print(f"no time was left for {name} with {n_clients:,} clients")
            continue
        found.append(measure(name, LOADS[name]._replace(n_clients=n_clients), options))
        print(found[-1].line(), flush=True)
        store(found, options)
        gc.collect()  # graphs and their memory
        torch.cuda.empty_cache()
    print(f"\n{growth(found)}")


def store(found: list[Measured], options: argparse.Namespace) -> None:
    """Write what was found so far to a file, if one is asked for."""
    folder = os.environ.get("OUT")
    if file := options.out or (Path(folder) / "gpu.json" if folder else None):
        about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "tf32": options.tf32}
        lines = [one._asdict() for one in found]
        file.write_text(json.dumps({**about, "rounds": options.rounds, "lines": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
