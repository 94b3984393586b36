"""Very many devices of whom few train: seconds and memory of recorded rounds, part by part.

    python benchmarks/population.py [--only fedavg-1000000] [--rounds 8] [--write]

Logistic regression on made-up images of 8 x 8 pixels, 10 on every device; 1,000 devices are asked at random in every
round, for 5 steps of 10 samples. A case is a process of its own that records its run in a folder. Parts are
core-seconds of the median round: the world (`observe`, `settle`), the decision, training, radio, aggregation, and the
row with its journal; encoding and what stands between the parts is in the core-seconds of a round alone. `checkpoint`
is one of them; a run spends at most a twentieth of its time on them. Methods other
than FedAvg keep a vector of every device. The bar is 1 s a round and 24 GiB at 1,000,000 devices. `--write` stores the
numbers in benchmarks/results/population.json and rewrites the table of docs/scaling.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "population.json"
ASKED, PER_CLIENT = 1000, 10
BAR_S, BAR_BYTE = 1.0, 24 << 30
SIZES = (10_000, 100_000, 1_000_000)
PARTS = ("observe", "decide", "train", "transmit", "aggregate", "settle", "measure", "journal", "checkpoint")
METHODS = ("fedavg", "scaffold", "feddyn", "ditto", "fedavg+topk")
CASES = {f"fedavg-{n}": ("fedavg", n) for n in SIZES} | {f"{name}-{SIZES[-1]}": (name, SIZES[-1]) for name in METHODS}


def measure(name: str, clients: int, rounds: int) -> dict[str, Any]:
    """One case, in this process."""
    import numpy as np
    from engine import resident

    from fedcell import from_arrays, methods, radio, record, simulate, world
    from fedcell.learn.learner import Learner
    from fedcell.options import override
    from fedcell.record import checkpoint, rows
    from fedcell.scenarios import Config

    spent: dict[str, list[float]] = defaultdict(list)
    x = np.random.default_rng(1).random((clients * PER_CLIENT, 1, 8, 8), dtype=np.float32)
    y = np.arange(len(x)) % 10
    data = from_arrays(x, y, x[:1000], y[:1000])
    config = override(Config(), settings(clients, rounds))
    method = methods.parse(f"{name}:scheduler=random,n_selected={ASKED}").build()
    method = method._replace(decide=timed(spent["decide"], method.decide))
    places: Any = ((world, "observe"), (world, "settle"), (radio, "transmit"), (simulate, "measure"))
    places += ((simulate, "aggregate"), (Learner, "_train"), (rows.Journal, "put"), (checkpoint, "save"))
    names = {"_train": "train", "put": "journal", "save": "checkpoint"}
    for place, part in places:  # this process ends with the case
        setattr(place, part, timed(spent[names.get(part, part)], getattr(place, part)))
    ends: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        watch = lambda progress: ends.append(clocks()) if progress.row else None  # noqa: E731
        (made,) = record.execute(config, [(name, method)], Path(folder) / "run", dataset=data, watch=watch)
        size = (made.folder / "rounds.jsonl").stat().st_size / rounds
        saved = max(path.stat().st_size for path in made.folder.glob("checkpoint-*"))
    found = {part: float(np.median(spent[part])) for part in PARTS if spent[part]}
    seconds, core_s = np.median(np.diff(ends, axis=0), axis=0).tolist()
    bytes_ = {"row_byte": size, "checkpoint_byte": saved, "peak_byte": resident("VmHWM")}
    return {"seconds": seconds, "core_s": core_s, "load": os.getloadavg()[0], **bytes_, "parts": found}


def clocks() -> tuple[float, float]:
    """Seconds on the wall, and of all cores."""
    return time.perf_counter(), time.process_time()


def settings(clients: int, rounds: int) -> dict[str, Any]:
    """The settings of a case."""
    return {
        "world.n_devices": clients,
        "model.name": "logistic",
        "data.partition": "iid",
        "train.steps": 5,
        "train.batch_size": 10,
        "train.device": "cpu",
        "eval_every": 10**6,
        "rounds": rounds,
    }


def timed(spent: list[float], work: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; its core-seconds are noted."""

    def watched(*given: Any, **named: Any) -> Any:
        begun_s = time.process_time()
        try:
            return work(*given, **named)
        finally:
            spent.append(time.process_time() - begun_s)

    return watched


def page(stored: dict[str, Any]) -> str:
    """The table of the stored cases, and the exponents of every part."""
    from scaling_page import fit, table

    shown = [part for part in PARTS if any(part in found["parts"] for found in stored.values())]
    lines = []
    for name, found in stored.items():
        method, clients = CASES[name]
        whole = [f"{found[key]:.2f}" for key in ("seconds", "core_s", "load")]
        parts = [f"{1e3 * found['parts'].get(part, 0.0):.1f}" for part in shown]
        mib = [f"{found[key] / 2**20:,.0f}" for key in ("checkpoint_byte", "peak_byte")]
        lines.append([f"{clients:,}", method, *whole, *parts, f"{found['row_byte'] / 1e3:.1f}", *mib])
    head = ["devices", "method", "seconds per round", "core-seconds", "load", *(f"{part} (ms)" for part in shown)]
    text = table([*head, "row (kB)", "checkpoint (MiB)", "peak (MiB)"], lines)
    points = [
        {"value": CASES[name][1], **found["parts"]} for name, found in stored.items() if CASES[name][0] == "fedavg"
    ]
    if len(points) < len(SIZES):
        return text
    words = [f"{part} {fit(points, part)[1]:.2f}" for part in shown if all(part in one for one in points)]
    return f"{text}\n\nExponents of FedAvg's parts in the number of devices: {', '.join(words)}."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(CASES), action="append", help="some cases; repeatable")
    parser.add_argument("--rounds", type=int, default=8, help="of every case")
    parser.add_argument("--write", action="store_true", help="store the numbers and rewrite docs/scaling.md")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case:
        print(json.dumps(measure(*CASES[asked.case], asked.rounds)))
        return 0
    stored: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    held = True
    for name in asked.only or CASES:
        command = [sys.executable, __file__, "--case", name, "--rounds", str(asked.rounds)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        stored[name] = found = json.loads(done.stdout.splitlines()[-1])
        fine = found["seconds"] < BAR_S and found["peak_byte"] < BAR_BYTE
        held &= fine
        peak = f"peak {found['peak_byte'] / 2**20:,.0f} MiB"
        times = f"{found['seconds']:.3f} s, {found['core_s']:.3f} core-s a round, load {found['load']:.1f}"
        print(f"{name:20s} {times}, {peak}: the bar {'holds' if fine else 'IS MISSED'}")
        print("   ms: " + ", ".join(f"{part} {1e3 * value:.1f}" for part, value in found["parts"].items()), flush=True)
    if asked.write:
        from scaling_page import PAGE, between

        stored = {name: stored[name] for name in CASES if name in stored}
        RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
        PAGE.write_text(between(PAGE.read_text(), "<!-- population: {} -->", page(stored)))
    return int(not held)


if __name__ == "__main__":
    raise SystemExit(main())
