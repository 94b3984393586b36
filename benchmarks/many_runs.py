"""Folders of many recorded runs, written by the product's own writers with made-up numbers.

    make_runs("folder", n_runs=1000, n_rounds=200)

Tests load it with `runpy.run_path("benchmarks/many_runs.py")["make_runs"]`.
"""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from fedcell import methods, options, scenarios
from fedcell.record.checkpoint import Template
from fedcell.record.folder import Spec, write_run
from fedcell.record.recorder import PERIOD, Recorder
from fedcell.record.rows import Journal
from fedcell.types import Row

METHODS = ("fedavg", "fedprox:mu=0.1", "fednova", "central")
N_DEVICES = 20


def make_runs(
    folder: str | Path, n_runs: int, n_rounds: int, texts: tuple[str, ...] = METHODS, eval_every: int = 1
) -> list[Path]:
    """Finished runs `<folder>/cell-seed<k>/<method>` in the layout of a sweep, methods first, then seeds.

    Args:
        folder: where they go; made if need be.
        n_runs: how many.
        n_rounds: rows of each.
        texts: methods, as they are written on the command line.
        eval_every: rounds between two measured accuracies.

    Returns: the run folders.
    """
    made = []
    with patch("os.fsync"):  # a made-up record need not survive a power cut
        for number in range(n_runs):
            seed, text = number // len(texts) + 1, texts[number % len(texts)]
            path = Path(folder) / f"cell-seed{seed}" / text.replace(":", "-").replace("=", "-")
            path.mkdir(parents=True)
            _write(path, text, seed, n_rounds, eval_every)
            made.append(path)
    return made


def _write(path: Path, text: str, seed: int, n_rounds: int, eval_every: int) -> None:
    preset = scenarios.get("cell")
    config = replace(preset.config, seed=seed, rounds=n_rounds, eval_every=eval_every)
    settings = options.to_dict(methods.parse(text).config)
    source = text.partition(":")[0]
    spec = Spec(path.name, text, text, source, "", settings, options.to_dict(config), (), "00000000")
    write_run(path, spec, "cpu")
    with closing(Journal(path, print)) as journal:
        recorder = Recorder(path, journal, Template({}, torch.device("cpu")), PERIOD, n_rounds, "")
        for row in made_up(n_rounds, eval_every, seed, METHODS.index(text) if text in METHODS else 9):
            journal.put(row)
        recorder.status("finished")


def made_up(n_rounds: int, eval_every: int, *key: int) -> list[Row]:
    """Rows of a run that learns: accuracy and loss saturate, every round costs time and energy."""
    rng = np.random.default_rng(key)
    top, pace, clock_s, rows = rng.uniform(0.85, 0.95), rng.uniform(10, 40), 0.0, []
    seconds = rng.uniform(1.0, 2.0, n_rounds)
    heard = rng.integers(8, N_DEVICES + 1, n_rounds)
    energy = rng.uniform(1.0, 5.0, (n_rounds, 2))
    noise = rng.normal(0.0, 0.01, n_rounds)
    for n in range(n_rounds):
        clock_s += float(seconds[n])
        rise = 1 - np.exp(-(n + 1) / pace)
        accuracy = float(np.clip(0.1 + (top - 0.1) * rise + noise[n], 0.0, 1.0))
        judged = (n + 1) % eval_every == 0 or n + 1 == n_rounds
        rows.append(
            Row(
                round=n,
                clock_s=clock_s,
                round_s=float(seconds[n]),
                n_selected=N_DEVICES,
                n_delivered=int(heard[n]),
                compute_joule=float(energy[n, 0]),
                radio_joule=float(energy[n, 1]),
                uplink_bit=1.5e5 * N_DEVICES,
                outcome="D" * int(heard[n]) + "T" * (N_DEVICES - int(heard[n])),
                metrics={"accuracy": accuracy, "loss": 2.3 * (1 - accuracy)} if judged else {},
            )
        )
    return rows
