"""How seconds and memory of a round grow with clients, parameters, local steps, rounds, cells and shards.

    python benchmarks/scaling.py [--only clients] [--write]

Every point is a process of its own on made-up data: one method (FedAvg, all devices in every round), the best of up to
three rounds after a first one. Core-seconds are processor time of the process, of local training (`train`) and of all
else in a round (`rest`): world, decision, radio, aggregation, row. Memory is the peak over what the process had after a
tiny problem, data included. `--write` stores the numbers in benchmarks/results/scaling.json and rewrites the tables and
the figure of docs/scaling.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

RESULTS = Path(__file__).parent / "results" / "scaling.json"
ROUNDS = 4  # at most; the first one warms up
ENOUGH_S = 10.0  # of rounds of one point


class Axis(NamedTuple):
    """One quantity that is varied."""

    title: str
    key: str  # of the point
    values: tuple[int, ...]
    fixed: dict[str, Any]


AXES = {
    "clients": Axis("clients, logistic", "clients", (100, 1_000, 10_000, 100_000), {}),
    "clients-lenet": Axis("clients, LeNet", "clients", (100, 300, 1_000, 2_000), {"model": "lenet"}),
    "width": Axis("hidden units (mlp)", "width", (16, 64, 256, 1024, 4096), {"model": "mlp", "clients": 100}),
    "steps": Axis("local steps", "steps", (1, 2, 5, 10, 20), {}),
    "cells": Axis("cells with edge models", "cells", (1, 4, 16, 64), {"edge_rounds": 2}),
    "rounds": Axis("rounds, recorded", "rounds", (10, 30, 100, 300), {"clients": 100}),
    "shards": Axis("Ray workers, logistic", "shards", (0, 1, 2), {"clients": 20_000}),
    "shards-lenet": Axis("Ray workers, LeNet", "shards", (0, 1, 2), {"model": "lenet", "clients": 500}),
}
POINT = {"clients": 1_000, "model": "logistic", "width": 64, "steps": 5, "cells": 1, "edge_rounds": 0, "rounds": 0}
POINT |= {"shards": 0}
PER_CLIENT, BATCH = 10, 10  # samples of a client, of a step


def settings(point: dict[str, Any]) -> dict[str, Any]:
    """The point as settings of a run."""
    lenet = {"model.name": "cnn", "model.channels": "10,20", "model.hidden": "50"}
    return {
        "world.n_devices": point["clients"],
        "world.access": "own_band",
        "world.topology": "cells",
        "world.n_cells": point["cells"],
        "world.edge_rounds": point["edge_rounds"],
        "data.partition": "iid",
        "train.steps": point["steps"],
        "train.batch_size": BATCH,
        "train.shards": point["shards"],
        "train.device": "cpu",
        "eval_every": 1_000_000,
        "rounds": point["rounds"] or ROUNDS,
        **(lenet if point["model"] == "lenet" else {"model.name": point["model"], "model.hidden": str(point["width"])}),
    }


def measure(point: dict[str, Any]) -> dict[str, float]:
    """One point, in this process."""
    from engine import resident

    from fedcell import methods
    from fedcell.learn.learner import Learner
    from fedcell.scenarios import build_problem

    train, spent = Learner._train, {"train_core_s": 0.0}  # of a cohort, or of a block of a large one

    def timed(self: Learner, *args: Any) -> Any:
        begun_s = time.process_time()
        found = train(self, *args)
        spent["train_core_s"] += time.process_time() - begun_s
        return found

    patch.object(Learner, "_train", timed).start()  # this process ends with the point
    method = methods.parse("fedavg").build()
    play(build_problem(*prepare(point | {"clients": 10, "cells": 1, "rounds": 0})), method, spent)
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
    before = resident("VmRSS")
    if point["rounds"]:
        return recorded(point, method) | {"peak_byte": resident("VmHWM") - before}
    problem = build_problem(*prepare(point))
    best = play(problem, method, spent)
    return best | {"peak_byte": resident("VmHWM") - before, "n_params": problem.learner.n_params}


def prepare(point: dict[str, Any]) -> tuple[Any, Any]:
    """Settings and data of a point."""
    import numpy as np

    from fedcell import from_arrays
    from fedcell.options import override
    from fedcell.scenarios import Config

    shape = (1, 28, 28) if point["model"] == "lenet" else (1, 8, 8)
    x = np.random.default_rng(1).standard_normal((point["clients"] * PER_CLIENT, *shape), dtype=np.float32)
    y = np.arange(len(x)) % 10
    return override(Config(), settings(point)), from_arrays(x, y, x[:100], y[:100])


def play(problem: Any, method: Any, spent: dict[str, float]) -> dict[str, float]:
    """Seconds of the best round after the first, and core-seconds of the cheapest: a busy machine moves them less."""
    from fedcell.simulate import simulate

    found: list[dict[str, float]] = []
    marks = time.perf_counter(), time.process_time()
    for _ in simulate(problem, method):
        seconds, core_s = time.perf_counter() - marks[0], time.process_time() - marks[1]
        found.append({"seconds": seconds, "rest_core_s": core_s - spent["train_core_s"], **spent})
        if len(found) > 1 and sum(one["seconds"] for one in found) > ENOUGH_S:
            break
        marks, spent["train_core_s"] = (time.perf_counter(), time.process_time()), 0.0
    spent["train_core_s"] = 0.0
    return {key: min(one[key] for one in found[1:]) for key in found[0]}


def recorded(point: dict[str, Any], method: Any) -> dict[str, float]:
    """Seconds and bytes of a whole recorded run."""
    from fedcell.record import execute

    config, dataset = prepare(point)
    with tempfile.TemporaryDirectory() as place:
        begun_s, begun_core_s = time.perf_counter(), time.process_time()
        (made,) = execute(config, [("fedavg", method)], Path(place) / "run", dataset=dataset)
        taken_s, core_s = time.perf_counter() - begun_s, time.process_time() - begun_core_s
        size = sum(path.stat().st_size for path in made.folder.rglob("*") if path.is_file())
    return {"seconds": taken_s, "run_core_s": core_s, "record_byte": float(size)}


def run_axis(name: str) -> list[dict[str, Any]]:
    """All points of an axis, each in a fresh process."""
    axis, found = AXES[name], []
    for value in axis.values:
        point = POINT | axis.fixed | {axis.key: value}
        command = [sys.executable, __file__, "--point", json.dumps(point)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        result = json.loads(done.stdout.splitlines()[-1])
        parts = (
            f"core-s: train {result['train_core_s']:8.3f}  rest {result['rest_core_s']:8.4f}"
            if "rest_core_s" in result
            else ""
        )
        peak = result["peak_byte"] / 2**20
        print(f"{axis.title:24s} {value:7d}  {result['seconds']:9.3f} s  {peak:8.0f} MiB  {parts}", flush=True)
        found.append({"value": value, **result})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(AXES), action="append", help="some axes; repeatable")
    parser.add_argument("--write", action="store_true", help="store the numbers and rewrite docs/scaling.md")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.point:
        print(json.dumps(measure(json.loads(options.point))))
        return
    begun_s = time.perf_counter()
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() and options.only else {"axes": {}}
    stored["load_before"] = max(os.getloadavg()[0], stored.get("load_before", 0.0))
    stored["cores"] = len(os.sched_getaffinity(0))
    for name in options.only or AXES:
        stored["axes"][name] = run_axis(name)
        if options.write:  # axis by axis: a long run that is stopped loses one
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
    print(f"{time.perf_counter() - begun_s:.0f} s in all, load {stored['load_before']:.1f} before")
    if options.write and set(stored["axes"]) == set(AXES):
        from scaling_page import write

        write(stored)


if __name__ == "__main__":
    main()
