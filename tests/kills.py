"""Kill runs at random instants, resume them, and compare what they leave behind with runs that nobody killed.

    python tests/kills.py [--n 200] [--seed 0]

Every kill is SIGKILL to a process of its own, forked from this one, that runs or resumes a method; a run is killed
again and again until it ends by itself. Rows and the last checkpoint must then have the bytes of an uninterrupted run.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from small_config import SMALL

from fedcell import methods, record
from fedcell.options import override
from fedcell.record.recorder import Period

CHANGES = {"rounds": 30, "world.n_devices": 4}
CELLS = {"world.topology": "cells", "world.n_cells": 2, "world.edge_rounds": 2, "world.access": "own_band"}
VIDEO = {"data.name": "video", "video.n_genres": 2, "video.files_per_genre": 5, "data.partition": "dirichlet"}
PLACES = {
    **{name: {"world.access": "block", "world.n_blocks": 3} for name in ("pruning", "recycling")},
    "rawhfl": CELLS,
    "h_fedavg": CELLS,
    "top_popular": VIDEO,
    "streaming": {"stream.kind": "markov", "data.partition": "dirichlet"},
}
PERIOD = Period(seconds=0.0, rounds=3)


def play(method, folder):
    """Run or continue, in this process."""
    config = override(SMALL, CHANGES | PLACES.get(method, {}))
    if (folder / "comparison.json").exists():
        record.resume(folder, period=PERIOD)
    else:
        shutil.rmtree(folder, ignore_errors=True)  # killed before it said what to run
        record.execute(config, [method], folder, period=PERIOD)


def forked(method, folder):
    """The id of a process that plays."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        play(method, folder)
        code = 0
    finally:
        os._exit(code)


def left(folder):
    """What a run leaves behind, by name."""
    run = next(path.parent for path in folder.rglob("rounds.jsonl"))
    newest = max(run.glob("checkpoint-*.safetensors"))  # the one before it depends on when the process was killed
    return {path.name: path.read_bytes() for path in (run / "rounds.jsonl", newest)}


def killed(method, folder, longest_s, rng):
    """Kill until it ends by itself; returns the number of kills."""
    count = 0
    while True:
        child, delay_s = forked(method, folder), rng.uniform(0, longest_s) if count < 12 else 1e9
        end_s, status = time.monotonic() + delay_s, None
        while status is None and time.monotonic() < end_s:
            found, code = os.waitpid(child, os.WNOHANG)
            status = code if found else None
            time.sleep(0.001)
        if status is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            count += 1
        elif status == 0:
            return count
        else:
            raise SystemExit(f"{method}: a resumed run failed with status {status}; see {folder}")


def main():
    parser = argparse.ArgumentParser(description="Kill runs, resume them, compare bytes.")
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng, top = random.Random(args.seed), Path(tempfile.mkdtemp(prefix="kills"))
    names = methods.names()
    whole, took_s, count, differing, turns = {}, {}, 0, 0, 0
    while count < args.n:
        method = names[turns % len(names)]
        if method not in whole:
            begun_s = time.monotonic()
            os.waitpid(forked(method, top / method), 0)
            took_s[method], whole[method] = time.monotonic() - begun_s, left(top / method)
        folder = top / f"{method}-{turns}"
        count += killed(method, folder, took_s[method], rng)
        turns += 1
        if left(folder) != whole[method]:
            differing += 1
            print(f"{method}: other bytes after kills, see {folder}", flush=True)
        else:
            shutil.rmtree(folder)
    print(f"{count} kills in {turns} runs of {len(names)} methods: {differing} with other bytes")
    if not differing:
        shutil.rmtree(top)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
