"""Hashes of what every scenario and every method records, to hold one commit against another byte by byte.

    python tests/byte_equal.py --write before.json      # at the old commit
    python tests/byte_equal.py --compare before.json    # at the new one

A case is two rounds of a method in a scenario, or in a world of `WORLDS`, shrunk to a few devices and steps. Scenarios
whose data set may be absent get a drawn one of the same shape. A case is known by the hashes of its rows, of its model
and of its whole checkpoint, read from the run folder; a pairing that is refused is known by its kind of error. Hashes
are those of one machine and one PyTorch: compare nothing else. `--only TEXT` limits the cases to those with this text.
"""

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

import fedcell
from fedcell import methods, scenarios
from fedcell.errors import FedcellError

MEMORY = "/dev/shm"  # where there is one, no disk is waited for
DRAWN = {  # shapes of data sets that may be absent, by the beginning of their names
    "mnist": (1, 28, 28),
    "fashion-mnist": (1, 28, 28),
    "cifar10": (3, 32, 32),
    "ntc": (1, 28, 28),
}
SMALL: dict[str, Any] = {"rounds": 2, "eval_every": 1, "world.n_devices": 6, "train.steps": 2, "train.batch_size": 4}
VIDEO = {"video.test_samples": 5, "video.capacity": "40..60"}
DEVICES = {"cafe": 45, "pruning_vgg": 2, "recycling_vgg": 2, "recycling_vgg_printed": 2}  # of others 6, or 8 in cells
WORLDS = {  # changes of the scenario `cell`, for every method
    "blocks": {
        "world.access": "block",
        "world.n_blocks": 3,
        "world.interference_over_noise": "1e2..1e5",
        "world.outage_threshold_db": 20,
        "world.pathloss": "power_law",
    },
    "edges": {
        "world.topology": "cells",
        "world.n_cells": 3,
        "world.n_devices": 7,
        "world.devices_per_cell": "4,0,3",
        "world.edge_rounds": 2,
        "world.availability": 0.8,
    },
    "answers": {"world.response": "exponential", "world.deadline_s": 0.8, "world.clock": "deadline"},
    "batteries": {"world.battery_joule": "1e-4..1e-2", "world.cycles_per_sample": 1e6, "world.availability": 0.7},
    "debug": {"train.engine": "debug"},
}


def cases() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(method, scenario, settings) of every case: each method of a scenario, and every method in every small world."""
    names = methods.names()
    for scenario in scenarios.names():
        preset = scenarios.get(scenario)
        wanted = preset.compare[:1] if preset.config.model.name == "vgg11" else [*preset.compare, *preset.methods]
        for method in dict.fromkeys([*wanted, *names[: 0 if heavy(scenario) else None]]):
            yield method, scenario, shrunk(scenario)
    for world in WORLDS.values():
        for method in names:
            yield method, "cell", SMALL | world


def heavy(scenario: str) -> bool:
    """Whether the network of a scenario is so large that it is tried with its own methods alone."""
    config = scenarios.get(scenario).config
    return config.model.name in ("vgg11", "squeezenet", "lstm") or max(config.model.channels, default=0) > 30


def shrunk(scenario: str) -> dict[str, Any]:
    """The changes that make a scenario take a fraction of a second."""
    config = scenarios.get(scenario).config
    changes = SMALL | {"world.n_devices": DEVICES.get(scenario, 8 if config.world.n_cells > 1 else 6)}
    if not config.train.batch_size:
        del changes["train.batch_size"]
    if config.world.edge_rounds:
        changes["world.edge_rounds"] = 2
    if config.stream.kind != "static":
        changes |= {"stream.capacity": 30, "stream.batch": 15}
    return changes | (VIDEO if config.data.name == "video" else {})


def dataset_of(scenario: str) -> Any:
    """A drawn data set of the scenario's shape; None where its own is at hand."""
    name = scenarios.get(scenario).config.data.name
    shape = next((shape for start, shape in DRAWN.items() if name.startswith(start)), None)
    if shape is None:
        return None
    rng = np.random.default_rng(7)
    centre = rng.random((10, *shape), dtype=np.float32)
    parts: list[Any] = []
    for n in (400, 60):
        y = np.arange(n) % 10
        parts += [0.6 * centre[y] + 0.4 * rng.random((n, *shape), dtype=np.float32), y]
    return fedcell.from_arrays(*parts, name="drawn")


def outcome(case: tuple[str, str, dict[str, Any]]) -> dict[str, str]:
    """The hashes of one case."""
    method, scenario, settings = case
    with (
        tempfile.TemporaryDirectory(dir=MEMORY if Path(MEMORY).is_dir() else None) as folder,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # settings without effect
        try:
            (record,) = fedcell.run(method, scenario, settings, dataset=dataset_of(scenario), out=f"{folder}/out")
        except FedcellError as error:
            return {"refused": type(error).__name__}
        rows = next(Path(folder).rglob("rounds.jsonl")).read_bytes()
        *_, path = sorted(Path(folder).rglob("checkpoint-*.safetensors"))
        model = load_file(path)["state.params"]
        return {"state": record.status.state} | {
            name: sha256(data).hexdigest()[:16]
            for name, data in (("rows", rows), ("params", model.tobytes()), ("checkpoint", path.read_bytes()))
        }


def key(case: tuple[str, str, dict[str, Any]]) -> str:
    """The name of a case: its scenario or small world, and its method."""
    method, scenario, settings = case
    world = next((name for name, changes in WORLDS.items() if settings == SMALL | changes), "")
    return f"{scenario}{f'/{world}' if world else ''} {method}"


def found(only: str) -> dict[str, dict[str, str]]:
    """The hashes of all cases with this text, in two processes."""
    asked = [case for case in cases() if only in key(case)]
    os.environ |= {"OMP_NUM_THREADS": "1", "FEDCELL_CORES": "1"}  # sums of several threads may differ between machines
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        return {key(case): hashes for case, hashes in zip(asked, pool.map(outcome, asked, chunksize=4), strict=True)}


def differences(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> list[str]:
    """A line for every case that is no longer what it was."""
    lines = [f"{case}: new" for case in after if case not in before]
    for case, hashes in before.items():
        now = after.get(case, {})
        parts = [part for part in dict.fromkeys([*hashes, *now]) if hashes.get(part) != now.get(part)]
        lines += [f"{case}: gone" if not now else f"{case}: {', '.join(parts)} changed"] * bool(parts)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--write", metavar="FILE", type=Path, help="write the hashes of this commit")
    which.add_argument("--compare", metavar="FILE", type=Path, help="compare with those of another commit")
    parser.add_argument("--only", metavar="TEXT", default="", help="cases with this text, such as 'cell fedavg'")
    args = parser.parse_args()
    now = found(args.only)
    if args.write:
        args.write.write_text(json.dumps(now, indent=1) + "\n")
        print(f"{len(now)} cases, {sum('refused' in one for one in now.values())} of them refused: {args.write}")
        return 0
    before = {case: one for case, one in json.loads(args.compare.read_text()).items() if args.only in case}
    lines = differences(before, now)
    print(*lines, f"{len(now)} cases, {len(lines)} differ from {args.compare}", sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
