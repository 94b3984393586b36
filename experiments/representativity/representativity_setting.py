"""What the experiments on representativity and latency share: cases, measures and how they are judged.

Rounds and seeds are not stated by the source. MNIST runs for 200 rounds, CIFAR-10 for 300.

Deviation: `H` is a sum over 100 devices in the source, beside seconds. With gradients of the published training (8
steps with momentum 0.9) that sum outweighs the seconds on MNIST, and nearly all devices are scheduled. The claims are
judged with `H / K`, which is also what the bound behind it has; claims that end in `sum` are the same with `H` as
printed.

Final accuracy is the mean over the last tenth of the rounds. A target is reached when the mean of three evaluations in
a row reaches it: with two classes per device single evaluations swing.
"""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fedcell.experiment import Case, Row
from fedcell.experiment.judging import Measure
from fedcell.options import override
from fedcell.scenarios import Config, get
from fedcell.types import Floats

SCENARIOS = {"mnist": "representativity_mnist", "cifar": "representativity"}
TITLES = {"mnist": "MNIST", "cifar": "CIFAR-10"}
CLASSES = (2, 3)  # m, shards of one class that a device gets
FULL = {"mnist": {}, "cifar": {"rounds": 300}}
QUICK = {
    "mnist": {"rounds": 6, "eval_every": 2, "train.steps": 2},
    "cifar": {"rounds": 2, "eval_every": 2, "train.steps": 1, "train.batch_size": 16},
}
STORE = "policies"  # of all files of this folder
SMOOTH = 3  # evaluations that make one


def config(data: str, m: int, quick: bool, **changes: Any) -> Config:
    """The scenario of a data set with `m` classes per device."""
    short = QUICK[data] if quick else FULL[data]
    return override(get(SCENARIOS[data]).config, {"data.shards_per_device": m, **short, **changes})


def name(data: str, m: int, label: str) -> str:
    return f"{data} m={m}/{label}"


def case(key: str, config: Config, most_seeds: int | None = None, **settings: Any) -> Case:
    """One run of a policy per seed."""
    return Case(key, config, "representativity", settings, most_seeds=most_seeds)


def central(data: str, quick: bool) -> Case:
    """SGD on all data at once, as many steps per round as a device does, of one mini-batch each."""
    settings = config(data, 2, quick)
    return Case(f"{data}/Centralised", settings, "central", {"batch_size": settings.train.batch_size})


# ---------------------------------------------------------------- measures


def smooth(values: Any) -> Floats:
    """Means of the last evaluations at every evaluation, of fewer at the beginning."""
    numbers = np.array(values, dtype=np.float64)
    begin = [numbers[:n].mean() for n in range(1, min(SMOOTH, len(numbers) + 1))]
    rest = sliding_window_view(numbers, SMOOTH).mean(axis=1) if len(numbers) >= SMOOTH else []
    return np.array([*begin, *rest])


def seconds_to(target: float) -> Measure:
    """Simulated seconds to an accuracy; infinite if it is never reached."""

    def measure(row: Row) -> float:
        reached = np.flatnonzero(smooth(row["accuracy"]) >= target)
        return float(row["seconds"][reached[0]]) if len(reached) else np.inf

    return measure


def seconds(row: Row) -> float:
    """How long the run went."""
    return float(row["seconds"][-1])


def n_scheduled(row: Row) -> float:
    """Devices per round."""
    return float(np.mean(row["n_scheduled"]))
