"""Records with made-up numbers, for tests of comparisons."""

from pathlib import Path

import numpy as np

from fedcell.record import Record, Status

WORLD = {"n_devices": 4, "radius_m": 400.0}


def a_run(label="fedavg", seed=1, accuracy=(0.2, 0.5, 0.8), *, cost=1.0, state="finished", world=None, **changes):
    """A run with one round per accuracy (None: not evaluated), of 2 s, 3 J and 10 bit each, times `cost`."""
    n = len(accuracy)
    scores = np.array([np.nan if value is None else value for value in accuracy], np.float64)
    step = cost * np.ones(n)
    columns = {
        "round": np.arange(n),
        "clock_s": np.cumsum(2.0 * step),
        "n_selected": np.full(n, 4),
        "n_delivered": np.full(n, 3),
        "compute_joule": 2.0 * step,
        "radio_joule": step,
        "uplink_bit": 10.0 * step,
        "accuracy": scores,
        "loss": 1.0 - scores,
    }
    config = {
        "scenario": "cell",
        "seed": seed,
        "rounds": n,
        "eval_every": 1,
        "world": {**WORLD, **(world or {})},
        "data": {"name": "digits"},
    }
    settings = changes.pop("settings", {"steps": 5, "text": label})
    config |= changes.pop("config", {})
    record = Record(Path(f"{label}-{seed}"), label, label, settings, config, Status(state, n, n), columns)
    return record._replace(**changes)
