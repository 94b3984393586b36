"""What the experiments on representativity and latency share: cases, seeds, and windows of rounds.

Rounds and seeds are not stated by the source. MNIST runs for 200 rounds, CIFAR-10 for 1,000. Inputs, the plain mean of
the scheduled devices (`weights=mean`) and the error weight that numbers are compared at were chosen after runs on other
seeds had been seen, so all claims are judged on seeds of their own.

A lead is judged as a curve: the paired difference in windows of rounds, and the area under it. Final accuracy is the
mean over the last tenth of the rounds.
"""

from typing import Any

import numpy as np

from fedcell.experiment import Case, Row
from fedcell.experiment.judging import accuracies, final
from fedcell.experiment.measures import smoothed
from fedcell.options import override
from fedcell.scenarios import Config, get

SCENARIOS = {"mnist": "representativity_mnist", "cifar": "representativity"}
TITLES = {"mnist": "MNIST", "cifar": "CIFAR-10"}
CLASSES = (2, 3)  # m, shards of one class that a device gets
FRESH = {"mnist": (31, 32, 33, 34, 35), "cifar": (31, 32, 33)}
QUICK = {
    "mnist": {"rounds": 6, "eval_every": 2, "train.steps": 2},
    "cifar": {"rounds": 2, "eval_every": 2, "train.steps": 1, "train.batch_size": 16},
}
WINDOWS = {  # rounds, first and last
    "mnist": ((20, 30), (40, 50), (90, 100), (180, 200)),
    "cifar": ((50, 100), (200, 250), (450, 500), (900, 1000)),
}
STORE = "policies"  # of all files of this folder
COLLAPSE, SMOOTH = 0.1, 5  # a fall of the accuracy, from a mean over so many evaluations
PLAIN = " no momentum"  # ends the names of runs without momentum


def config(data: str, m: int, quick: bool, **changes: Any) -> Config:
    """The scenario of a data set with `m` classes per device."""
    fixed = {"data.shards_per_device": m, "train.tf32": data == "cifar"}  # tf32 counts on a GPU alone
    return override(get(SCENARIOS[data]).config, {**fixed, **changes, **(QUICK[data] if quick else {})})


def name(data: str, m: int, label: str) -> str:
    return f"{data} m={m}/{label}"


def case(key: str, config: Config, method: str = "representativity", **settings: Any) -> Case:
    """One run of a policy per seed; runs named so have no momentum."""
    if key.endswith(PLAIN):
        settings["momentum"] = 0.0
    return Case(key, config, method, settings, seeds=FRESH[key.partition("/")[0].partition(" ")[0]])


def central(data: str, quick: bool) -> Case:
    """SGD on all data at once, as many steps per round as a device does, of one mini-batch each."""
    settings = config(data, 2, quick)
    return case(f"{data}/Centralised", settings, "central", batch_size=settings.train.batch_size)


def fall(row: Row) -> float:
    """How far a run ends below the best that it had reached."""
    return float(np.max(smoothed(accuracies(row), SMOOTH))) - final(row)
