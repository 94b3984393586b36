"""Large cohorts on one machine: seconds and memory of rounds in which every device trains.

    python benchmarks/scale.py [--only lenet-stream] [--rounds 2] [--write]

10,000 devices with LeNet (5 steps of 32) and 100,000 with logistic regression (5 steps of 10), on made-up images of
28 x 28 pixels, 10 on every device. FedAvg adds updates up as they are trained (`stream`), or holds all of them
(`matrix`) as methods do that need more than sums. OSAFL also keeps the last update of every device, in memory or in
mapped files (`files`), which the system may write out. Every case is a process of its own and the best round counts.
`peak` is the peak of its resident memory, libraries and samples included; `own` is the peak, looked at every 20 ms, of
what lies in memory alone and could not be written out. `--write` stores the numbers in benchmarks/results/scale.json
and rewrites the table of docs/scaling.md.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results" / "scale.json"
PER_CLIENT = 10
POLL_S = 0.02


class Case(NamedTuple):
    """Who trains what, and where updates lie."""

    clients: int
    model: str
    batch_size: int
    method: str
    form: str


CASES = {
    "lenet-stream": Case(10_000, "lenet", 32, "fedavg", "stream"),
    "lenet-matrix": Case(10_000, "lenet", 32, "fedavg", "matrix"),
    "logistic-stream": Case(100_000, "logistic", 10, "fedavg", "stream"),
    "logistic-matrix": Case(100_000, "logistic", 10, "fedavg", "matrix"),
    "logistic-osafl": Case(100_000, "logistic", 10, "osafl", "matrix"),
    "logistic-osafl-files": Case(100_000, "logistic", 10, "osafl", "files"),
}


class Own:
    """The peak of the memory of this process that no file stands behind."""

    def __init__(self) -> None:
        self.peak_byte = 0
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        from engine import resident

        while True:
            self.peak_byte = max(self.peak_byte, int(resident("RssAnon")))
            time.sleep(POLL_S)


def measure(case: Case, rounds: int) -> dict[str, float]:
    """One case, in this process."""
    from engine import resident
    from scaling import settings

    from fedcell import from_arrays, methods
    from fedcell.learn import deferred, memory
    from fedcell.options import override
    from fedcell.scenarios import Config, build_problem
    from fedcell.simulate import simulate

    if case.form != "stream":
        deferred.BLOCK_BYTES = 1 << 62
    if case.form == "files":
        memory.available_bytes = lambda: 0
    own = Own()
    point = {"clients": case.clients, "model": case.model, "width": 1, "steps": 5, "cells": 1, "edge_rounds": 0}
    changes = settings({**point, "shards": 0, "rounds": rounds}) | {"train.batch_size": case.batch_size}
    problem = build_problem(override(Config(), changes), from_arrays(*images(case.clients * PER_CLIENT)))
    found, marks = [], (time.perf_counter(), time.process_time())
    for _ in simulate(problem, methods.parse(case.method).build()):
        found.append((time.perf_counter() - marks[0], time.process_time() - marks[1]))
        marks = time.perf_counter(), time.process_time()
    seconds, core_s = (min(values) for values in zip(*found, strict=True))
    sizes = {"n_params": problem.learner.n_params, "sample_byte": 4 * 784 * PER_CLIENT * case.clients}
    peaks = {"peak_byte": resident("VmHWM"), "own_byte": own.peak_byte}
    return {"seconds": seconds, "core_s": core_s, "load": os.getloadavg()[0], **peaks, **sizes}


def images(n: int) -> tuple[Any, ...]:
    """So many made-up images and labels to train on, and some to test on."""
    import numpy as np

    x = np.random.default_rng(1).random((n, 1, 28, 28), dtype=np.float32)
    y = np.arange(n) % 10
    return x, y, x[:100], y[:100]


def page(stored: dict[str, Any]) -> str:
    """The table of the stored cases."""
    from scaling_page import table

    rows = []
    for name, found in stored.items():
        case, mib = CASES[name], 2**20
        updates = 4 * case.clients * found["n_params"]
        held = (updates, found["sample_byte"], found["peak_byte"], found["own_byte"])
        words = [f"{case.clients:,} x {case.model}", case.method, case.form]
        words += [f"{found[key]:.1f}" for key in ("seconds", "core_s", "load")]
        rows.append([*words, *(f"{value / mib:,.0f}" for value in held)])
    sizes = [f"{word} (MiB)" for word in ("all updates", "samples", "peak", "own")]
    return table(["devices x model", "method", "form", "seconds per round", "core-seconds", "load", *sizes], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(CASES), action="append", help="some cases; repeatable")
    parser.add_argument("--rounds", type=int, default=2, help="of every case")
    parser.add_argument("--write", action="store_true", help="store the numbers and rewrite docs/scaling.md")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case:
        print(json.dumps(measure(CASES[asked.case], asked.rounds)))
        return
    stored: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in asked.only or CASES:
        command = [sys.executable, __file__, "--case", name, "--rounds", str(asked.rounds)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        stored[name] = found = json.loads(done.stdout.splitlines()[-1])
        peak, own = (found[key] / 2**20 for key in ("peak_byte", "own_byte"))
        times = f"{found['seconds']:8.1f} s, {found['core_s']:8.1f} core-s a round, load {found['load']:.1f}"
        print(f"{name:22s} {times}   peak {peak:6.0f} MiB   own {own:6.0f} MiB", flush=True)
    if asked.write:
        from scaling_page import PAGE, between

        stored = {name: stored[name] for name in CASES if name in stored}
        RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
        PAGE.write_text(between(PAGE.read_text(), "<!-- large: {} -->", page(stored)))


if __name__ == "__main__":
    main()
