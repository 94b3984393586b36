"""A sweep on two local Ray workers against the engine `local` with two processes, alternated.

    python benchmarks/ray_sweep.py [--runs 64] [--rounds 20] [--times 2] [--workers 2]

Every sweep does the same short runs in a folder of its own. `work` leaves out the start and the end of the local
cluster, `start` and `end` are those, `total` is all of it; both are held against the bar.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import fedcell
from fedcell.machine import connect
from fedcell.sweeps import on_ray

BAR = 1.2  # times the local sweep
SETTINGS = {"world.n_devices": 8, "model.name": "logistic", "eval_every": 10}


def sweep(engine: str, n_runs: int, n_rounds: int, workers: int) -> float:
    """Seconds of one sweep."""
    with tempfile.TemporaryDirectory() as place:
        begun_s = time.perf_counter()
        infos = fedcell.sweep(
            "fedavg",
            seeds=range(1, n_runs + 1),
            settings=SETTINGS | {"rounds": n_rounds},
            out=Path(place) / "sweep",
            workers=workers,
            engine=engine,
        )
        taken_s = time.perf_counter() - begun_s
    unfinished = [info.folder.name for info in infos if info.state != "finished"]
    if unfinished:
        raise SystemExit(f"{engine}: {len(unfinished)} of {n_runs} runs did not finish")
    return taken_s


class Watched:
    """`on_ray.connect` with a stopwatch around connecting and leaving."""

    def __init__(self) -> None:
        self.start_s = self.end_s = 0.0

    def __call__(self, address: str | None, cpus: int, store_bytes: int | None = None) -> Callable[[], None]:
        begun_s = time.perf_counter()
        leave = connect(address, cpus, store_bytes)
        self.start_s = time.perf_counter() - begun_s

        def leave_watched() -> None:
            ended_s = time.perf_counter()
            leave()
            self.end_s = time.perf_counter() - ended_s

        return leave_watched


def measure(n_runs: int, n_rounds: int, times: int, workers: int) -> None:
    """Alternate both engines and print every pair and the ratio of the best."""
    watched = Watched()
    patch.object(on_ray, "connect", watched).start()
    best = {"local": float("inf"), "total": float("inf"), "work": float("inf")}
    print(f"{n_runs} runs of {n_rounds} rounds on {workers} workers, in seconds")
    for _ in range(times):
        local_s = sweep("local", n_runs, n_rounds, workers)
        total_s = sweep("ray", n_runs, n_rounds, workers)
        work_s = total_s - watched.start_s - watched.end_s
        print(
            f"local {local_s:7.2f}   ray: start {watched.start_s:5.2f}  work {work_s:7.2f}  end {watched.end_s:5.2f}  "
            f"total {total_s:7.2f}   ratio {total_s / local_s:5.2f} (work alone {work_s / local_s:5.2f})",
            flush=True,
        )
        for key, value in (("local", local_s), ("total", total_s), ("work", work_s)):
            best[key] = min(best[key], value)
    for word in ("work", "total"):
        ratio = best[word] / best["local"]
        print(
            f"best of {times}, {word:5s}: {ratio:.2f} times local (bar {BAR}: {'holds' if ratio <= BAR else 'MISSED'})"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    measure(options.runs, options.rounds, options.times, options.workers)
